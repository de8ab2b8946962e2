//! Bodies that are named by page images only, or by journals that are yet to be read: references that nobody
//! counts or gives back before that.

use message_store::BodyStore;
use std::collections::VecDeque;
use std::sync::Arc;
use store::backlog::{PageBitmap, stored_bodies};
use store::blob::{BlobId, BlobStore};

/// Images read at a time.
const IMAGES_PER_PART: usize = 128;

/// Stored bodies that a page image names. Holds a reference of the image.
#[derive(Debug)]
pub(crate) struct BodyRefs {
    /// Store of the bodies.
    pub(crate) bodies: Arc<BodyStore>,
    /// The image.
    pub(crate) image: BlobId,
    pub(crate) is_durable: bool,
    /// Positions of the messages whose bodies are meant.
    pub(crate) positions: PageBitmap,
}

/// The act to be done to the bodies that are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Retain,
    Release,
}

impl BodyRefs {
    /// Reads the image in `images`, and does what is to be done for the bodies it names.
    ///
    /// # Errors
    /// The image cannot be read, and why.
    pub(crate) fn apply(
        &self,
        act: Act,
        images: &BlobStore,
        scratch: &mut Vec<u8>,
    ) -> Result<(), String> {
        images.read(self.image, scratch).map_err(|error| error.to_string())?;
        let found = stored_bodies(scratch, &self.positions).map_err(|error| error.to_string())?;
        match act {
            Act::Release => self.bodies.release(found),
            // A missing body is reported when its message is wanted.
            Act::Retain => found.into_iter().for_each(|blob| {
                let _is_there = self.bodies.retain(blob);
            }),
        }
        Ok(())
    }
}

/// Images that wait to be read.
#[derive(Debug, Default)]
pub(crate) struct BodyRefCounter {
    /// Images of an earlier life whose bodies are not counted yet.
    uncounted: VecDeque<BodyRefs>,
    /// Images of pages that are gone.
    owed: VecDeque<BodyRefs>,
    /// Journals that are not read to their end: the bodies they name are not counted yet either.
    n_unread_journals: usize,
    /// Whether all bodies of the earlier life are counted, and the stores were told.
    is_counted: bool,
}

impl BodyRefCounter {
    /// Whether there is something to be done.
    pub(crate) fn is_due(&self) -> bool {
        let is_last = !self.is_counted && self.n_unread_journals == 0;
        is_last || !self.uncounted.is_empty() || !self.owed.is_empty()
    }

    /// A journal is to be read.
    pub(crate) const fn await_journal(&mut self) {
        self.n_unread_journals += 1;
    }

    /// A journal was read: its queue has the references, or is gone.
    pub(crate) const fn journal_read(&mut self) {
        assert!(self.n_unread_journals > 0, "a journal that was read was awaited");
        self.n_unread_journals -= 1;
    }

    /// References of bodies that images of an earlier life name are to be counted.
    pub(crate) fn count(&mut self, names: Vec<BodyRefs>) {
        self.uncounted.extend(names);
    }

    /// References that an image names are to be given back.
    pub(crate) fn release(&mut self, names: BodyRefs) {
        self.owed.push_back(names);
    }

    /// Takes some of the images to be read next; true if no image of an earlier life is left.
    pub(crate) fn next(&mut self) -> (Vec<(Act, BodyRefs)>, bool) {
        let n = self.uncounted.len().min(IMAGES_PER_PART);
        let counted = self.uncounted.drain(..n).map(|names| (Act::Retain, names));
        let mut part: Vec<_> = counted.collect();
        let n = self.owed.len().min(IMAGES_PER_PART - part.len());
        part.extend(self.owed.drain(..n).map(|names| (Act::Release, names)));
        (part, self.uncounted.is_empty() && self.n_unread_journals == 0)
    }

    /// Everything of an earlier life is counted; false if that is known already.
    pub(crate) const fn end_counting(&mut self) -> bool {
        !std::mem::replace(&mut self.is_counted, true)
    }
}
