//! Joins the pure cores to the log: queues at run time, sessions, confirms, listings.
//! Never sockets, never how a protocol spells anything; the time comes in by [`Broker::tick`] and [`Clock`].
//! Start reading at [`Session`], then `queue.rs`, then [`Broker`].

mod admin;
mod alarms;
mod bodies;
mod broker;
mod capacity;
mod clock;
mod confirm;
mod connections;
mod control_plane;
mod copies;
mod entries;
mod events;
mod exchanges;
mod firehose;
mod headers;
mod heaviest;
mod held;
mod interceptors;
mod journal;
mod limits;
mod lines;
mod names;
mod older;
mod options;
mod owned;
mod pager;
mod queue;
mod recovery;
mod repair;
mod replies;
mod rules;
mod session;
mod slices;
mod storage;
mod worker;

pub use crate::alarms::{Alarm, Alarms};
pub use crate::broker::Broker;
pub use crate::clock::Clock;
pub use crate::connections::{ChannelCounters, Connection, Connections, Identity, Kick, Traffic};
pub use crate::control_plane::{DEFINITIONS_FILE, View};
pub use crate::heaviest::{HEAVIEST_NAMED, Heaviest, HeavyConnection, HeavyQueue};
pub use crate::interceptors::{Interceptors, Overwrite};
pub use crate::lines::LogLine;
pub use crate::older::OlderStepper;
pub use crate::options::{BrokerOptions, Limits, PagerOptions, StorageOptions};
pub use crate::pager::PagerStepper;
pub use crate::queue::{
    Activity, ConsumerView, DeleteConditions, HeldBack, HeldBackMessage, PendingConfirms, Queue,
    QueueCounters, QueueRefused, head_timestamp,
};
pub use crate::recovery::{Found, OpenError, Steppers};
pub use crate::repair::{Repair, repair};
pub use crate::rules::RuleStepper;
pub use crate::session::{Session, Stop};
pub use crate::storage::Losses;
