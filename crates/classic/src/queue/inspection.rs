//! A look into a queue, for listings and for tests.

use super::Queue;
use super::membership::Owner;
use session::ChannelId;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use store::backlog::Lookup;

/// A queue as listings look into it. Each answer takes the queue's lock.
#[derive(Clone, Copy, Debug)]
pub struct Inspection<'q>(pub(super) &'q Queue);

impl Queue {
    /// The queue as listings look into it.
    #[must_use]
    pub const fn inspect(&self) -> Inspection<'_> {
        Inspection(self)
    }
}

impl Inspection<'_> {
    /// Its consumers.
    #[must_use]
    pub fn consumers(self) -> Vec<ConsumerView> {
        stdx::lock(&self.0.state).membership().views()
    }

    /// Adds up how many messages each channel holds.
    pub fn count_held(self, held: &mut BTreeMap<Owner, u64>) {
        if self.0.counters.n_unacked.load(Ordering::Relaxed) > 0 {
            stdx::lock(&self.0.state).membership().count_held(held);
        }
    }

    /// The property `timestamp` of the message that it gives out next; none while that is not in memory.
    #[must_use]
    pub fn head_timestamp(self) -> Option<u64> {
        let state = stdx::lock(&self.0.state);
        match state.content.backlog.get(state.fifo.messages().head()?) {
            Lookup::Here(message) => message.view().timestamp(),
            Lookup::Cold | Lookup::Gone => None,
        }
    }

    /// Whether nothing can be delivered before a page is read.
    #[must_use]
    pub fn waits_for_page(self) -> bool {
        stdx::lock(&self.0.state).paging_turn().is_head_cold()
    }

    /// Pages of the backlog that are not in memory.
    #[must_use]
    pub fn pages_on_disk(self) -> usize {
        let state = stdx::lock(&self.0.state);
        state.content.backlog.pages().n_pages() - state.content.backlog.pages().n_pages_here()
    }
}

/// A consumer as listings show it.
#[derive(Clone, Debug)]
pub struct ConsumerView {
    /// The connection it belongs to.
    pub connection: meta::ConnectionId,
    /// The channel it belongs to.
    pub channel: ChannelId,
    /// Its tag.
    pub consumer_tag: session::ShortString,
    /// Whether it settles what it gets.
    pub ack_required: bool,
    /// Unsettled deliveries allowed at a time; 0 for no limit.
    pub prefetch_count: u32,
    /// Whether it is the only one allowed.
    pub exclusive: bool,
    /// Its arguments.
    pub arguments: session::Table,
    /// Whether it gets deliveries.
    pub activity: Activity,
}

/// Whether a consumer gets deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It does, as others may.
    Up,
    /// It does, as the only one.
    SingleActive,
    /// It waits to be the only one that does.
    Waiting,
}

impl Activity {
    /// As listings show it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::SingleActive => "single_active",
            Self::Waiting => "waiting",
        }
    }
}
