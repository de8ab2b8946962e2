//! Delivery as all queues do it that give messages to consumers: their channels, answers to publishers that
//! wait for them, dead letters on their way, figures, alarms. Never where a message is kept, or whose turn it
//! is.
//! Start reading at [`ConsumerChannel`], then [`Answers`] and [`CopiedLetters`].

mod alarms;
mod answers;
mod consumer_channel;
mod counters;
mod counts;
mod letters;
mod settings;

pub use crate::alarms::{AlarmOwner, QueueAlarms};
pub use crate::answers::Answers;
pub use crate::consumer_channel::{ConsumerChannel, OutboxRoom, own_timeout_ms};
pub use crate::counters::{QueueCounters, QueueFigures};
pub use crate::counts::{COUNTS_BYTES_MAX, add_counts};
pub use crate::letters::{CopiedLetters, DepartingMessage, Sending};
pub use crate::settings::{dead_letter_to, limits, retry};
