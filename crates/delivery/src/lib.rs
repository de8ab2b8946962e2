//! Delivery as all queues do it that give messages to consumers: figures, alarms, and what is told with a
//! message. Never where a message is kept, or whose turn it is.
//! Start reading at [`QueueCounters`], then [`QueueAlarms`].

mod alarms;
mod counters;
mod counts;

pub use crate::alarms::QueueAlarms;
pub use crate::counters::QueueCounters;
pub use crate::counts::{COUNTS_BYTES_MAX, add_counts};
