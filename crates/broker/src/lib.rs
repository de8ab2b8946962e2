//! Joins the parts: control plane, sessions, the way of messages into queues, rules, recovery, listings.
//! Never sockets, never how a protocol spells anything; the time comes in by [`Broker::tick`] and [`Clock`].
//! Start reading at [`Session`], then `publish.rs`, then [`Broker`]; queues are in the crate `classic`.

mod admin;
mod alarms;
mod broker;
mod browse;
mod connections;
mod control_plane;
mod direct_reply_to;
mod exchanges;
mod figures;
mod firehose;
mod held;
mod interceptors;
mod limits;
mod log_exchange;
mod log_records;
mod names;
mod options;
mod publish;
mod queue_ref;
mod recovery;
mod repair;
mod rules;
mod sender_selected;
mod session;
mod slices;
mod spans;
mod taps;
mod timers;
mod top_users;
mod undo;
mod undoing;

pub use crate::admin::Operations;
pub use crate::alarms::{Alarm, Alarms};
pub use crate::broker::{Broker, Changes, Event, Events, HalfEmptied};
pub use crate::browse::{Browser, LookAt, LookFrom, LookedAt, end_of, holders};
pub use crate::connections::{
    ByRoute, ChannelCounters, Connection, Connections, Deliveries, ExchangeCounts, Identity,
    Interrupt, Login, MESSAGE_SIZES, PeerCertificate, PublishTotals, Published, TlsPeer, Traffic,
};
pub use crate::control_plane::{DEFINITIONS_FILE, View};
pub use crate::exchanges::Forecast;
pub use crate::figures::{FILE_KINDS, Figures, Losses, QueueTotals, StreamSums};
pub use crate::firehose::{Firehose, Tap};
pub use crate::interceptors::{Interceptors, Overwrite};
pub use crate::log_exchange::LogLine;
pub use crate::options::{BrokerOptions, Limits, UndoOptions};
pub use crate::queue_ref::{Diagnosis, QueueRef};
pub use crate::recovery::{Found, OpenError, Steppers, StreamsStepper};
pub use crate::repair::{Repair, repair};
pub use crate::rules::{Departed, Departure, Fate, QueueTimersStepper};
pub use crate::session::{Hold, Session, Stop, n_settles_spare};
pub use crate::spans::{ClockNs, Span, SpanKind, Spans, TraceContext};
pub use crate::taps::Tapped;
pub use crate::top_users::{HEAVIEST_NAMED, Heaviest, HeavyConnection, HeavyQueue};
pub use crate::undo::{Act, Busy, Head, KeptStream, UndoEntry};
pub use crate::undoing::{
    BringingBack, Keeping, TakenAway, Taking, UndoEntries, UndoOffer, UndoRefused,
};
pub use classic::ClassicV1Stepper;
pub use classic::{Delayed, DelayedMessage};
pub use content::pager::PagerStepper;
pub use content::{PagerOptions, Seen, StorageOptions};
pub use log::FileTraffic;
pub use message::Properties as MessageProperties;
pub use queue::machine::DeadLetters;
pub use queue::{DeliveryCounts, Reason, Standing};
pub use queue_type::{
    Activity, ConsumerView, Count, Counts, Deaths, DeleteConditions, Holder, PendingConfirms,
    QueueRefused, QueueStat, WaitsFor,
};
pub use quorum::{
    BODY_START_BYTES, LogFigures, Peeked, QuorumFigures, QuorumInspection, QuorumQueue,
};
pub use stdx::Clock;
pub use store::blob::BlobStats;
pub use stream::{
    GroupRole, Inspection, PublisherView, ReadAhead, Stream, StreamDamage, StreamDurability,
    StreamMessage, StreamOptions, SubscriptionView, Tail, TrackedValue,
};
