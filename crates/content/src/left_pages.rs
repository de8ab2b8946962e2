//! Page images of queues that no definitions name: a repair notes them in a file of the queue's directory,
//! and each start keeps them as long as the file is there.
//!
//! ```text
//! file "queues/<id>/pages", written once, with a stamp: (length u32, a note as in an entry `paged`) * n
//! ```

use crate::journal::journals_dir_of;
use crate::records::{paged_payload, read_paged};
use log::Stamp;
use segments::{Disk, FileError, IoContext as _};
use stdx::record::{Reader, RecordError, put_bytes};
use store::backlog::PageNote;

/// The file that notes the images of a queue.
#[must_use]
pub fn left_pages_file(queue: u64) -> String {
    format!("{}/pages", journals_dir_of(queue))
}

/// Writes the file of a queue.
///
/// # Errors
/// The disk's.
pub fn write_left_pages<'n>(
    disk: &dyn Disk,
    queue: u64,
    stamp: Stamp,
    notes: impl Iterator<Item = &'n PageNote>,
) -> segments::Result<()> {
    let mut bytes = Vec::new();
    notes.for_each(|note| put_bytes(&mut bytes, &paged_payload(note)));
    let (dir, file) = (journals_dir_of(queue), left_pages_file(queue));
    disk.create_dir(&dir).context("create", &dir)?;
    segments::write_stamped(disk, &file, stamp, &bytes)
}

/// Reads the file of a queue; no notes if it has none.
///
/// # Errors
/// The disk's, or the file is damaged.
pub fn read_left_pages(disk: &dyn Disk, queue: u64) -> segments::Result<Vec<PageNote>> {
    let file = left_pages_file(queue);
    let Some((_, bytes)) = segments::read_stamped(disk, &file)? else { return Ok(Vec::new()) };
    let (mut reader, mut notes) = (Reader::new(&bytes), Vec::new());
    while !reader.is_empty() {
        let note = reader.bytes().and_then(|it| read_paged(&mut Reader::new(it)));
        let corrupt = |_: RecordError| FileError::Corrupt {
            file: file.clone(),
            offset: 0,
            what: "a note cannot be read",
        };
        notes.push(note.map_err(corrupt)?);
    }
    Ok(notes)
}
