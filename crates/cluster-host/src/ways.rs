//! The ways out of this node's replica of the definitions.

use crate::clock::HostClock;
use cluster::{GroupRequest, ImageWrite, OutgoingMessage};
use control::DefinitionsLinks;
use definitions::{Ask, AskAnswer, DEFINITIONS_GROUP, Refusal};
use log::{Lsn, NodeNumber};
use member::{GroupTimers, Membership};
use peer::NodeMessage;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

/// The links and timers that a replica of the definitions puts things into, under the definitions' lock.
#[derive(Debug)]
pub(crate) struct DefinitionsWays {
    membership: Arc<Membership>,
    clock: HostClock,
    images: Sender<ImageWrite>,
    pub(crate) timers: GroupTimers,
    /// The position of the log up to which the replica waits for it.
    awaited: AtomicU64,
}

impl DefinitionsWays {
    pub(crate) fn new(
        membership: Arc<Membership>,
        clock: HostClock,
        images: Sender<ImageWrite>,
    ) -> Self {
        let timers = GroupTimers::default();
        Self { membership, clock, images, timers, awaited: AtomicU64::new(0) }
    }

    /// Whether the replica waits for what has become durable now; it does so no longer then.
    pub(crate) fn is_awaited(&self, durable: Lsn) -> bool {
        let awaited = self.awaited.load(Ordering::Acquire);
        let is_due = awaited != 0 && awaited <= durable.0;
        is_due
            && self
                .awaited
                .compare_exchange(awaited, 0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    fn tell(&self, node: u16, message: &NodeMessage) {
        if let Some(writer) = self.membership.send_node(NodeNumber(node), message) {
            writer.wake();
        }
    }
}

impl DefinitionsLinks for DefinitionsWays {
    fn send(&self, message: OutgoingMessage) {
        if let Some(writer) = self.membership.send(DEFINITIONS_GROUP, message) {
            writer.wake();
        }
    }

    fn ask(&self, node: u16, ask: &Ask) -> Result<(), Refusal> {
        self.tell(node, &NodeMessage::Ask(ask.attempt, ask.encode()?.into()));
        Ok(())
    }

    fn answer(&self, node: u16, answer: AskAnswer) {
        self.tell(node, &NodeMessage::Answer(answer.attempt, answer.encode().into()));
    }

    fn applied(&self, index: u64) {
        for node in self.membership.peers() {
            self.tell(node.0, &NodeMessage::Applied(index));
        }
    }

    fn write_image(&self, write: ImageWrite) {
        // The host's writer is there as long as the node runs.
        self.images.send(write).ok();
    }

    fn durable_at(&self, upto: Lsn) {
        self.awaited.fetch_max(upto.0, Ordering::AcqRel);
    }

    fn later(&self, request: GroupRequest) {
        let HostClock { now, random } = self.clock;
        let _is_first =
            self.timers.request(DEFINITIONS_GROUP, request, now().monotonic_ms, random());
    }
}
