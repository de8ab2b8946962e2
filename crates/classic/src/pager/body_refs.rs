//! Bodies that are named by page images only: references that nobody counts or gives back before
//! the image is read.

use super::Shared;
use crate::message_store::BodyStore;
use crate::storage::Storage;
use std::collections::VecDeque;
use std::sync::Arc;
use store::StoreError;
use store::backlog::{PageBitmap, stored_bodies};
use store::blob::BlobId;

/// Images read at a time.
const IMAGES_PER_PART: usize = 128;

/// Stored bodies that a page image names. Holds a reference of the image.
#[derive(Debug)]
pub struct BodyRefs {
    /// Where the bodies are.
    pub(crate) bodies: Arc<BodyStore>,
    /// The image.
    pub image: BlobId,
    pub(crate) is_durable: bool,
    /// Of the messages whose bodies are meant.
    pub(crate) positions: PageBitmap,
}

/// The act to be done to the bodies that are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Retain,
    Release,
}

/// Images that wait to be read.
#[derive(Debug, Default)]
pub(super) struct BodyRefCounter {
    /// Of an earlier life: what they name is not counted yet.
    uncounted: VecDeque<BodyRefs>,
    /// Of pages that are gone.
    owed: VecDeque<BodyRefs>,
    /// Everything of the earlier life is counted, and the stores were told.
    is_counted: bool,
}

impl BodyRefCounter {
    /// Whether [`work_off`] has something to do.
    pub(super) fn is_due(&self) -> bool {
        !self.is_counted || !self.owed.is_empty()
    }

    pub(super) fn count(&mut self, names: Vec<BodyRefs>) {
        self.uncounted.extend(names);
    }

    pub(super) fn release(&mut self, names: BodyRefs) {
        self.owed.push_back(names);
    }

    /// Nobody will work it off.
    pub(super) fn clear(&mut self) {
        *self = Self { is_counted: true, ..Self::default() };
    }

    /// Some of what is first to be done.
    fn next(&mut self) -> Vec<(Act, BodyRefs)> {
        let n = self.uncounted.len().min(IMAGES_PER_PART);
        let counted = self.uncounted.drain(..n).map(|names| (Act::Retain, names));
        let mut part: Vec<_> = counted.collect();
        let n = self.owed.len().min(IMAGES_PER_PART - part.len());
        part.extend(self.owed.drain(..n).map(|names| (Act::Release, names)));
        part
    }
}

/// Reads some of the images, and does what is to be done for the bodies they name.
pub(super) fn work_off(shared: &Shared, storage: &Storage) {
    let (part, is_last) = {
        let mut state = stdx::lock(&shared.state);
        let part = state.naming.next();
        (part, state.naming.uncounted.is_empty())
    };
    let mut scratch = Vec::new();
    for (act, names) in part {
        if let Err(reason) = read(storage, act, &names, &mut scratch) {
            // Their bodies stay until a start finds that nobody names them.
            tracing::error!("cannot tell which bodies image {:?} names: {reason}", names.image);
        }
        storage.release_image(names.image, names.is_durable);
    }
    if is_last && !std::mem::replace(&mut stdx::lock(&shared.state).naming.is_counted, true) {
        storage.bodies.start_reclaiming();
    }
}

fn read(
    storage: &Storage,
    act: Act,
    names: &BodyRefs,
    scratch: &mut Vec<u8>,
) -> Result<(), String> {
    let read = storage.images.store(names.is_durable).read(names.image, scratch);
    read.map_err(|error: StoreError| error.to_string())?;
    let found = stored_bodies(scratch, &names.positions).map_err(|error| error.to_string())?;
    match act {
        Act::Release => names.bodies.release(found),
        // One that is not there is told of when its message is wanted.
        Act::Retain => found.into_iter().for_each(|blob| {
            let _is_there = names.bodies.retain(blob);
        }),
    }
    Ok(())
}
