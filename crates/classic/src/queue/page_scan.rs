//! Reading of the page images of queues with rules after a start: see `recover_pages.rs`.

use super::Queue;
use super::recover_pages::{Filling, PageRead, ScanStep};
use content::{Fill, Storage};
use std::sync::Arc;
use store::StoreError;

/// A queue whose page images are being read.
#[derive(Debug)]
pub struct PageScan {
    queue: Arc<Queue>,
    next_position: u64,
    seen_below: u64,
    /// Position from which on pages are yet to be read.
    at: u64,
}

impl PageScan {
    /// The images of `queue`: positions from `next_position` on are free, those below `seen_below` may have
    /// been delivered.
    pub(super) const fn new(queue: Arc<Queue>, next_position: u64, seen_below: u64) -> Self {
        Self { queue, next_position, seen_below, at: 0 }
    }
}

impl Fill for PageScan {
    fn is_of_journal(&self) -> bool {
        false
    }

    fn step(&mut self, storage: &Storage, bytes_max: u64) -> Result<bool, StoreError> {
        let (mut bytes, mut read) = (0, None);
        loop {
            match Filling(&self.queue).tell_part(self.at, read.as_ref()) {
                ScanStep::Upto(next) => {
                    self.at = next;
                    if bytes >= bytes_max {
                        return Ok(false);
                    }
                }
                ScanStep::Read { blob, is_durable } => {
                    let mut image = Vec::new();
                    let is_read = match storage.images.store(is_durable).read(blob, &mut image) {
                        Ok(()) => true,
                        // An error of the disk may pass: no page is given up for it.
                        Err(error) if error.is_of_disk() => return Err(error),
                        Err(_) => false,
                    };
                    bytes += image.len() as u64;
                    read = Some(PageRead { blob, bytes: is_read.then_some(image) });
                }
                ScanStep::All => {
                    Filling(&self.queue).end(self.next_position, self.seen_below);
                    return Ok(true);
                }
            }
        }
    }
}
