//! One of the nodes of a run: its disk, its clocks, its options, and the node itself unless it has crashed.

use crate::node::{Node, NodeOptions, SingleClient};
use broker::{Clock, QueueRef};
use log::Durability;
use std::sync::Weak;
use stdx::Now;
use testing::run::{expect_ok, fail};
use testing::{CrashOutcome, MemoryDisk, NodeClock, Random};

/// A node and all that is its own.
pub(crate) struct NodeHost {
    pub(crate) disk: MemoryDisk,
    pub(crate) clock: NodeClock,
    pub(crate) options: NodeOptions,
    /// The running node; none after a crash.
    pub(crate) node: Option<Node>,
}

impl NodeHost {
    pub(crate) fn new(options: NodeOptions) -> Self {
        let (disk, clock) = (MemoryDisk::new(), NodeClock::default());
        Self { disk, clock, options, node: None }
    }

    /// The first start.
    pub(crate) fn begin(&mut self) {
        let mut node = expect_ok(Node::open(&self.disk, &self.options));
        node.add_first_user();
        self.node = Some(node);
    }

    pub(crate) fn running(&self) -> &Node {
        self.node.as_ref().expect("the node runs")
    }

    /// Whether nothing more is to be had of the node's storage, or there is no node.
    pub(crate) fn has_failed(&self) -> bool {
        self.node.as_ref().is_none_or(|node| node.has_failed() || node.steppers.v1.has_failed())
    }

    /// The queue of this name, if it is there.
    pub(crate) fn queue(&self, name: &str) -> Option<QueueRef> {
        self.node.as_ref()?.broker.view().queue("/", name)
    }

    /// Sets the node's clock by the simulated time.
    pub(crate) fn tick(&self, now_ms: u64) {
        if let Some(node) = &self.node {
            node.broker.tick(self.clock.read(now_ms));
        }
    }

    /// Has the node's next start begin at a simulated time.
    pub(crate) fn set_start_time(&mut self, now_ms: u64) {
        self.options.clock = Clock::TicksFrom(self.clock.read(now_ms));
    }

    /// Stops the node in good order, when nobody is connected; false if its disk is against it.
    pub(crate) fn stop(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.broker.stop().is_ok())
    }

    /// Checks that nothing of the node outlives it.
    pub(crate) fn drop_whole(&mut self) {
        let left = self.node.take().map(|node| Weak::clone(&node.disk));
        if left.is_some_and(|disk| disk.strong_count() > 0) {
            fail("something of the node is left in memory");
        }
    }

    /// The content of the disk after a loss of power; or after the end of the process, the only crash
    /// survived where nothing waits for syncs.
    pub(crate) fn some_survival(&self, random: &mut Random) -> CrashOutcome {
        match (random.below(4), self.options.durability) {
            (0, _) | (_, Durability::Write) => CrashOutcome::Everything,
            (1, Durability::Sync) => CrashOutcome::OnlySynced,
            (_, Durability::Sync) => CrashOutcome::Torn(random.next()),
        }
    }

    /// A node on a copy of a disk, to be looked into while no time goes by.
    pub(crate) fn look_into(&self, copy: &MemoryDisk) -> SingleClient {
        expect_ok(self.try_to_look_into(copy))
    }

    /// As [`Self::look_into`], on a disk that may be damaged.
    pub(crate) fn try_to_look_into(&self, copy: &MemoryDisk) -> Result<SingleClient, String> {
        let options =
            NodeOptions { clock: Clock::TicksFrom(Now::default()), ..self.options.clone() };
        Node::open_loaded(copy, &options).and_then(SingleClient::new)
    }

    /// Nothing is in any queue: looks at what is left all the same. False if the disk fails meanwhile.
    pub(crate) fn check_empty(&mut self) -> bool {
        let Some(node) = &mut self.node else { return false };
        if node.broker.figures().message_bytes() != 0 {
            fail("bytes are left after the drain");
        }
        expect_ok(node.frees_all())
    }
}
