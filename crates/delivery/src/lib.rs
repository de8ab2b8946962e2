//! Delivery as all queues do it that give messages to consumers: figures, alarms, and what is told with a
//! message. Never where a message is kept, or whose turn it is.
//! Start reading at [`QueueCounters`], then [`QueueAlarms`].

mod alarms;
mod consumer_channel;
mod counters;
mod counts;
mod letters;
mod settings;

pub use crate::alarms::QueueAlarms;
pub use crate::consumer_channel::{ConsumerChannel, OutboxRoom, own_timeout_ms};
pub use crate::counters::QueueCounters;
pub use crate::counts::{COUNTS_BYTES_MAX, add_counts};
pub use crate::letters::{CopiedLetters, DepartingMessage, Sending};
pub use crate::settings::{dead_letter_to, limits, retry};
