//! A queue's messages from one form into the other, in steps of bounded memory.
//! Knows positions, pages and [`V1Queue`]. Never when a queue is converted, nor what makes the new form count.
//!
//! From version 1 to 2: [`ToPages::step`] until it is done, then a sync of the store of pages; the
//! notes go into the log. From 2 to 1: [`Backlog::part_from`](crate::backlog::Backlog::part_from)
//! until there is none, each part's messages through [`pour`], [`V1Queue::make_room`] after each,
//! and a sync at the end. Both leave the old form as it was: what is half done is dropped by
//! removing the new one. Bodies in the body store stay where they are; a reference in the old form
//! stands for the one in the new.

use std::ops::Range;

use crate::backlog::{PageWriter, WrittenPage};
use crate::blob::BlobStore;
use crate::error::StoreError;
use crate::queued::Queued;
use crate::v1::V1Queue;

/// A conversion from version 1 to 2 under way.
#[derive(Debug)]
pub struct ToPages {
    left: Range<u64>,
    writer: PageWriter,
}

/// What a step has done.
#[derive(Debug, Default)]
pub struct Converted {
    /// Messages read.
    pub n_messages: u64,
    /// Pages written, in the order of their positions; durable after a sync of their store.
    pub pages: Vec<WrittenPage>,
    /// Messages that cannot be read, with the reason.
    pub lost: Vec<(u64, StoreError)>,
    /// There are no more.
    pub is_done: bool,
}

impl ToPages {
    /// Of the live messages at `positions`.
    #[must_use]
    pub fn new(positions: Range<u64>) -> Self {
        Self { left: positions, writer: PageWriter::new() }
    }

    /// Reads about `bytes_max` of messages and appends the pages they fill to `into`. Positions
    /// acknowledged before a step reads them are not converted.
    pub fn step(&mut self, from: &V1Queue, into: &BlobStore, bytes_max: u64) -> Converted {
        let mut converted = Converted::default();
        let Self { left, writer } = self;
        let next = from.read(left.clone(), bytes_max, &mut |position, queued| match queued {
            Ok(queued) => {
                if writer.is_full_for(&queued) {
                    converted.pages.extend(writer.finish(|parts| into.append(parts)));
                }
                writer.push(&queued);
                converted.n_messages += 1;
            }
            Err(error) => converted.lost.push((position, error)),
        });
        left.start = next;
        converted.is_done = left.is_empty();
        if converted.is_done {
            converted.pages.extend(writer.finish(|parts| into.append(parts)));
        }
        converted
    }

    /// Where the next step begins: how far it has come.
    #[must_use]
    pub const fn next_position(&self) -> u64 {
        self.left.start
    }
}

/// Publishes messages of a page to a queue in the older form; returns how many.
pub fn pour<'a>(
    messages: impl Iterator<Item = Queued<'a>>,
    is_delivered: impl Fn(u64) -> bool,
    into: &V1Queue,
) -> u64 {
    let mut n = 0;
    for queued in messages {
        into.publish(&Queued { is_delivered: is_delivered(queued.position), ..queued });
        n += 1;
    }
    n
}
