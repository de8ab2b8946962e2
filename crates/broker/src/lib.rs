//! Joins the parts: control plane, sessions, the way of messages into queues, rules, recovery, listings.
//! Never sockets, never how a protocol spells anything; the time comes in by [`Broker::tick`] and [`Clock`].
//! Start reading at [`Session`], then `publish.rs`, then [`Broker`]; queues are in the crate `queues`.

mod admin;
mod alarms;
mod broker;
mod connections;
mod direct_reply_to;
mod figures;
mod held;
mod options;
mod publish;
mod remote_sessions;
mod rules;
mod session;
mod start;
mod timers;

pub use crate::admin::Operations;
pub use crate::alarms::{Alarm, Alarms};
pub use crate::broker::{
    Broker, Changes, Events, Firehose, HalfEmptied, LogLine, Tap, follow_definitions,
};
pub use crate::connections::{
    ByRoute, ChannelCounters, Connection, Connections, Container, Deliveries, ExchangeCounts,
    Identity, Interrupt, Login, MESSAGE_SIZES, PeerCertificate, ProtocolTotals, PublishTotals,
    Published, PublishedTo, TlsPeer, Traffic,
};
pub use crate::figures::{
    FILE_KINDS, Figures, HEAVIEST_NAMED, Heaviest, HeavyConnection, HeavyQueue, Losses,
    QueueTotals, StreamSums,
};
pub use crate::options::{BrokerOptions, Interceptors, Limits, Overwrite};
pub use crate::remote_sessions::RemoteSessions;
pub use crate::rules::{Departed, Departure, Fate, QueueTimersStepper};
pub use crate::session::{Hold, Session, Stop, n_settles_spare};
pub use crate::start::{Steppers, StreamsStepper, start};
pub use content::{PagerOptions, StorageOptions};
pub use control::{
    ControlPlane, DefinitionsLinks, FoundingError, HomeLinks, QueueHomes, ReplicaParts,
    Replication, View, awaits_cluster, discard_others, found_cluster, join_cluster, other_homes,
    resume_cluster,
};
pub use inspect::{Browser, LookFrom, LookedAt};
pub use queue::Standing;
pub use queue_type::{Count, DeleteConditions, QueueStat};
pub use queues::{Diagnosis, QueueContents, QueueRef};
pub use quorum::QuorumInspection;
pub use recovery::{Found, OpenError, Repair, repair};
pub use segments::FileTraffic;
pub use stdx::Clock;
pub use stream::{ReadAhead, StreamDurability, StreamOptions};
pub use trace::{Span, SpanKind, Spans};
pub use undo::{BringingBack, TakenAway, Taking, UndoEntry, UndoOptions, UndoRefused};
