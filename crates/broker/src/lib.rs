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
mod rules;
mod session;
mod start;
mod timers;

pub use crate::admin::Operations;
pub use crate::alarms::{Alarm, Alarms};
pub use crate::broker::{Broker, Changes, Events, Firehose, HalfEmptied, LogLine, Tap};
pub use crate::connections::{
    ByRoute, ChannelCounters, Connection, Connections, Deliveries, ExchangeCounts, Identity,
    Interrupt, Login, MESSAGE_SIZES, PeerCertificate, PublishTotals, Published, TlsPeer, Traffic,
};
pub use crate::figures::{
    FILE_KINDS, Figures, HEAVIEST_NAMED, Heaviest, HeavyConnection, HeavyQueue, Losses,
    QueueTotals, StreamSums,
};
pub use crate::options::{BrokerOptions, Interceptors, Limits, Overwrite};
pub use crate::rules::{Departed, Departure, Fate, QueueTimersStepper};
pub use crate::session::{Hold, Session, Stop, n_settles_spare};
pub use crate::start::{Steppers, StreamsStepper, start};
pub use classic::ClassicV1Stepper;
pub use classic::{Delayed, DelayedMessage};
pub use content::pager::PagerStepper;
pub use content::{PagerOptions, Seen, StorageOptions};
pub use control::{DEFINITIONS_FILE, View};
pub use exchanges::Forecast;
pub use inspect::{Browser, LookAt, LookFrom, LookedAt, end_of};
pub use message::Properties as MessageProperties;
pub use queue::machine::DeadLetters;
pub use queue::{DeliveryCounts, Reason, Standing};
pub use queue_type::{
    Activity, ConsumerView, Count, Counts, Deaths, DeleteConditions, Holder, PendingConfirms,
    QueueRefused, QueueStat, WaitsFor,
};
pub use queues::{Diagnosis, QueueContents, QueueRef};
pub use quorum::{
    BODY_START_BYTES, LogFigures, Peeked, QuorumFigures, QuorumInspection, QuorumQueue,
};
pub use recovery::{Found, OpenError, Repair, repair};
pub use segments::FileTraffic;
pub use stdx::Clock;
pub use store::blob::BlobStats;
pub use stream::{
    GroupRole, Inspection, PublisherView, ReadAhead, Stream, StreamDamage, StreamDurability,
    StreamMessage, StreamOptions, SubscriptionView, Tail, TrackedValue,
};
pub use trace::events::Event;
pub use trace::{ClockNs, Span, SpanKind, Spans, Tapped, TraceContext};
pub use undo::{
    Act, BringingBack, Busy, Head, Keeping, KeptStream, TakenAway, Taking, Undo, UndoEntry,
    UndoOffer, UndoOptions, UndoRefused,
};
