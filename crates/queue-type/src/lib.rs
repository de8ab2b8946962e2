//! The words of the queue seam: what sessions, operators and listings say to a queue of any type, and what it
//! answers. Never how a queue does it.
//! Start reading at [`Attach`], [`Publishes`] and [`QueueStat`].

mod consume;
mod dead_letters;
mod deaths;
mod deletion;
mod global_prefetch;
mod host;
mod listing;
mod publish;
mod tally;
mod used;
mod wakes;

pub use crate::consume::{
    AckTimeout, AfterDetach, Attach, AttachRefused, Got, Owner, Settled, Taker,
};
pub use crate::dead_letters::{
    AwaitedLetters, DeadLetter, LostAt, RejectedDeadLetters, SentLetters, TriedLetter,
};
pub use crate::deaths::Deaths;
pub use crate::deletion::{DeleteConditions, PickedMessage, QueueRefused};
pub use crate::global_prefetch::ChannelLimit;
pub use crate::host::{
    AlarmChange, AlarmTimes, Given, LetterBatch, LetterLimits, QueueHost, RuledQueue,
};
pub use crate::listing::{Activity, ConsumerView, Holder, PendingConfirms, QueueStat, WaitsFor};
pub use crate::publish::{
    Any, Confirm, ConfirmRef, DeadLetterTo, Incoming, Named, Publishes, RefusedItem, TakenConfirm,
};
pub use crate::tally::{Count, Counts, Tally};
pub use crate::used::{UsedMark, UsedQueues};
pub use crate::wakes::{Wakes, wake_all};
