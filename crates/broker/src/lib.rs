//! Joins the pure cores to the log: queues at run time, sessions, confirms, listings.
//! Never sockets, never how a protocol spells anything; the time comes in by [`Broker::tick`] and [`Clock`].
//! Start reading at [`Session`], then `queue.rs`, then [`Broker`].

mod admin;
mod alarms;
mod background;
mod broker;
mod capacity;
mod classic_v1;
mod clock;
mod confirm;
mod connections;
mod control_plane;
mod direct_reply_to;
mod events;
mod exchanges;
mod firehose;
mod headers;
mod held;
mod interceptors;
mod journal;
mod limits;
mod log_exchange;
mod log_records;
mod message_store;
mod names;
mod options;
mod owned_message;
mod pager;
mod queue;
mod recovery;
mod repair;
mod rules;
mod sender_selected;
mod session;
mod slices;
mod storage;
mod top_users;

pub use crate::alarms::{Alarm, Alarms};
pub use crate::broker::Broker;
pub use crate::classic_v1::ClassicV1Stepper;
pub use crate::clock::Clock;
pub use crate::connections::{
    ChannelCounters, Connection, Connections, Identity, Interrupt, Traffic,
};
pub use crate::control_plane::{DEFINITIONS_FILE, View};
pub use crate::interceptors::{Interceptors, Overwrite};
pub use crate::log_exchange::LogLine;
pub use crate::options::{BrokerOptions, Limits, PagerOptions, StorageOptions};
pub use crate::pager::PagerStepper;
pub use crate::queue::{
    Activity, ConsumerView, Delayed, DelayedMessage, DeleteConditions, PendingConfirms, Queue,
    QueueCounters, QueueRefused, head_timestamp,
};
pub use crate::recovery::{Found, OpenError, Steppers};
pub use crate::repair::{Repair, repair};
pub use crate::rules::QueueTimersStepper;
pub use crate::session::{Session, Stop};
pub use crate::storage::Losses;
pub use crate::top_users::{HEAVIEST_NAMED, Heaviest, HeavyConnection, HeavyQueue};
