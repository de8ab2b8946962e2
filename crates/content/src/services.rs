//! The parts of a node that its queues share: storage, the pager's and the journals' inboxes, and the
//! node that calls them.

use crate::body_refs::BodyRefs;
use crate::journal_inbox::{Fill, JournalInbox, Task};
use crate::pager_inbox::PagerInbox;
use crate::storage::Storage;
use message_store::BodyStore;
use queue_type::{QueueHost, UsedQueues};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Poll, Waker};
use store::backlog::FreedPage;

/// The parts of a node that its queues share.
#[derive(Debug)]
pub struct Services {
    /// The storage.
    pub storage: Storage,
    /// The pager.
    pub pager: Arc<PagerInbox>,
    /// The journals of version 1.
    pub journals: Arc<JournalInbox>,
    /// The node.
    pub host: Arc<dyn QueueHost>,
    /// Queues of all types whose figures have changed.
    pub used: UsedQueues,
    /// The number in front of those that queues give to consumers, of this life of the node alone.
    pub number_base: u64,
    /// Messages settled with annotations that their queue has not kept, since the start.
    pub n_annotations_dropped: AtomicU64,
}

impl Services {
    /// Has a queue filled after a start, or its files made.
    pub fn fill(&self, fill: Box<dyn Fill>) {
        if fill.is_of_journal() {
            self.pager.await_journal();
        }
        self.journals.add(Task::Fill(fill));
    }

    /// Keeps all stored bodies in this life of the node: some are named where nobody can count them.
    pub fn keep_bodies(&self) {
        self.pager.await_journal();
    }

    /// Gives back what a page had; its stored bodies are among `bodies`. What replaced its note in
    /// the log was appended before.
    pub fn free_page(&self, freed: FreedPage, bodies: &Arc<BodyStore>) {
        let FreedPage { blob: image, is_durable, segment, owed } = freed;
        if let Some(segment) = segment {
            self.storage.wal.release(segment, 1);
        }
        match owed {
            None => self.storage.release_image(image, is_durable),
            Some(positions) => {
                let bodies = Arc::clone(bodies);
                let names = BodyRefs { bodies, image, is_durable, positions };
                self.pager.syncs.add(|syncs| syncs.body_refs.release(names));
            }
        }
    }

    /// Whether publishers may go on: none of the parts that they wait for has too much to do.
    pub fn has_capacity(&self) -> bool {
        self.storage.wal.has_capacity()
            && self.pager.jobs.has_capacity()
            && self.journals.inbox.has_capacity()
            && self.host.has_capacity()
    }

    /// Resolves when publishers may go on.
    pub async fn capacity(&self) {
        let poll = |waker: &Waker| {
            self.storage.wal.poll_capacity(waker)
                && self.pager.jobs.poll_capacity(waker)
                && self.journals.inbox.poll_capacity(waker)
                && self.host.poll_capacity(waker)
        };
        poll_fn(|context| if poll(context.waker()) { Poll::Ready(()) } else { Poll::Pending })
            .await;
    }
}
