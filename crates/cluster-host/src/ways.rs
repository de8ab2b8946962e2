//! The ways out of this node's replica of the definitions.

use crate::clock::HostClock;
use cluster::{GroupRequest, ImageWrite, OutgoingMessage};
use control::{ControlPlane, DefinitionsLinks};
use definitions::{Ask, AskAnswer, DEFINITIONS_GROUP, Refusal};
use log::{CommitListener, Lsn, NodeNumber};
use member::{GroupTimers, Membership};
use peer::NodeMessage;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;

/// The links and timers that a replica of the definitions puts things into, under the definitions' lock; also
/// the listener to the log, for as long as something waits for it.
#[derive(Debug)]
pub(crate) struct DefinitionsWays {
    me: Weak<Self>,
    control: Weak<ControlPlane>,
    membership: Arc<Membership>,
    clock: HostClock,
    images: Sender<ImageWrite>,
    pub(crate) timers: GroupTimers,
    /// Tells the one that ticks that something is due sooner than was known.
    pub(crate) due: Waker,
    awaited: Mutex<AwaitedLog>,
}

/// The part of the log that the replica and its messages wait for.
#[derive(Debug, Default)]
struct AwaitedLog {
    upto: Lsn,
    /// Whether the log tells of its commits.
    is_watched: bool,
}

impl DefinitionsWays {
    pub(crate) fn new(
        membership: Arc<Membership>,
        control: &Arc<ControlPlane>,
        clock: HostClock,
        images: Sender<ImageWrite>,
        due: Waker,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            control: Arc::downgrade(control),
            membership,
            clock,
            images,
            timers: GroupTimers::default(),
            due,
            awaited: Mutex::default(),
        })
    }

    /// Has the log tell of its commits until one is at `upto`, unless that is durable.
    fn await_log(&self, upto: Lsn) {
        let (Some(me), Some(control)) = (self.me.upgrade(), self.control.upgrade()) else { return };
        let Some(replication) = control.replication() else { return };
        if upto <= replication.durable_upto() {
            return;
        }
        let mut awaited = stdx::lock(&self.awaited);
        awaited.upto = awaited.upto.max(upto);
        if !std::mem::replace(&mut awaited.is_watched, true) {
            replication.watch_log(me);
        }
    }

    /// Sends a node a message.
    pub(crate) fn tell(&self, node: u16, message: &NodeMessage) {
        if let Some(writer) = self.membership.send_node(NodeNumber(node), message) {
            writer.wake();
        }
    }
}

impl DefinitionsLinks for DefinitionsWays {
    fn send(&self, message: OutgoingMessage) {
        if let Some(after) = message.after {
            self.await_log(after);
        }
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
        self.due.wake_by_ref();
    }

    fn write_image(&self, write: ImageWrite) {
        // The host's writer is there as long as the node runs.
        self.images.send(write).ok();
    }

    fn durable_at(&self, upto: Lsn) {
        self.await_log(upto);
    }

    fn later(&self, request: GroupRequest) {
        let HostClock { now, random } = self.clock;
        if self.timers.request(DEFINITIONS_GROUP, request, now().monotonic_ms, random()) {
            self.due.wake_by_ref();
        }
    }

    fn now_ms(&self) -> u64 {
        (self.clock.now)().monotonic_ms.get()
    }

    fn tick_soon(&self) {
        self.due.wake_by_ref();
    }
}

/// Has messages that wait for the log leave, and the replica go on.
impl CommitListener for DefinitionsWays {
    fn durable(&self, upto: Lsn) -> bool {
        self.membership.durable(upto).into_iter().for_each(Waker::wake);
        let mut awaited = stdx::lock(&self.awaited);
        if awaited.upto > upto {
            return true;
        }
        awaited.is_watched = false;
        drop(awaited);
        if let Some(control) = self.control.upgrade()
            && let Some(replication) = control.replication()
        {
            replication.durable();
        }
        false
    }
}
