//! The HTTP API of a node, RabbitMQ's: logins, routes, lists, answers.
//! Never how a queue does it, never a client protocol: it reads snapshots and figures, and changes things as
//! an operator or, in a user's name, as a client would.
//! Start reading at `routes`, then [`serve`].

mod access;
mod admin;
mod amqp10_json;
mod audit;
mod body;
mod call;
mod caller;
mod columns;
mod connection;
mod cookie;
mod host;
mod jobs;
mod list;
mod live;
mod local;
mod login;
mod long;
mod memory;
mod messages;
mod negotiation;
mod objects;
mod origins;
mod peer_answers;
mod peers;
mod properties;
mod query;
mod recent;
mod refusal;
mod request;
mod routes;
mod scrape;
mod server;
mod settings;
mod slow;
mod stats;
mod stream;
mod tracer;
mod turns;
mod typed_table;
mod user_session;
mod web;

pub use access::ACCESS;
pub use connection::{Entrance, IsTold, Listener, PeerLine};
pub use list::shown;
pub use local::serve_local;
pub use messages::line::rewritten;
pub use peer_answers::{PeerAnswer, PeerAnswers};
#[doc(hidden)]
pub use server::Socketless;
pub use server::{serve, serve_metrics};
pub use settings::{Limits, MessageAccess, MetricsSettings, Restrictions, Settings};

use auth::LoginThrottle;
use memory::Memory;
use mgmt::Management;
use stats::ChangedQueues;
use std::hash::RandomState;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stdx::Now;

/// Tells the time.
pub type Clock = Box<dyn Fn() -> Now + Send + Sync>;

/// The parts that requests of all connections share.
pub struct Api {
    management: Arc<Management>,
    throttle: Arc<LoginThrottle>,
    settings: Settings,
    /// Most connections of clients, if there is a limit.
    connections_max: Option<u64>,
    clock: Clock,
    logins: cookie::Logins,
    stats: stats::Stats,
    history: metrics::History,
    turns: stream::Turns,
    traces: tracer::Traces,
    lists: objects::queues::QueueLists,
    /// Makes tags of what is not hashed whole.
    tags: RandomState,
}

stdx::debug_of!(|it: Api| settings = it.settings);

impl Api {
    /// The API of a node. `throttle` is that of its other listeners.
    #[must_use]
    pub fn new(
        management: Arc<Management>,
        throttle: Arc<LoginThrottle>,
        settings: Settings,
        connections_max: Option<u64>,
        clock: Clock,
    ) -> Arc<Self> {
        let memory = Memory::new(Arc::clone(&management.broker), settings.body_bytes_max);
        Arc::new(Self {
            management,
            throttle,
            settings,
            connections_max,
            clock,
            logins: cookie::Logins::default(),
            stats: stats::Stats::default(),
            history: metrics::History::default(),
            turns: stream::Turns::new(memory),
            traces: tracer::Traces::default(),
            lists: objects::queues::QueueLists::default(),
            tags: RandomState::new(),
        })
    }

    /// Has everything end that is under way, since the node stops.
    pub fn end(&self) {
        self.turns.is_stopping.store(true, Ordering::Relaxed);
        self.turns.jobs.end();
    }

    /// Whether a line of the log is written that the client at that address causes.
    fn is_told(&self, client: IpAddr, line: PeerLine) -> bool {
        self.turns.is_told.get().is_none_or(|is_told| is_told(client, line))
    }

    fn now(&self) -> Now {
        (self.clock)()
    }

    /// The clock of what is shared, where somebody looks often and lets go of it in time.
    fn sharing_clock(&self) -> Option<&Clock> {
        self.stats.is_sampled.load(Ordering::Relaxed).then_some(&self.clock)
    }

    /// Looks at the figures of the node and its virtual hosts, and at those of all objects if that is wanted.
    fn look(&self, wants_all: bool) {
        let changed = self.stats.look(&self.management, self.now(), wants_all);
        if let Some(ChangedQueues { before_ms, now_ms, queues }) = changed {
            let is_there = |queue| self.stats.knows(queue);
            self.history.ages.look(&queues, before_ms, now_ms, is_there);
        }
        self.lists.forget(self.now().monotonic_ms.get());
    }
}
