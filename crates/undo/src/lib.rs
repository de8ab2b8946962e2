//! Taking messages away so that they can be brought back: what operators purge, delete and remove is written
//! down before. Never permissions, nor how messages are put into queues.
//! Start reading at [`Keeping`].
//!
//! ```text
//! look at messages -> write them down, sync -> take away exactly these -> the next ones
//! ```
//! At each moment, a message is therefore in its queue or written down.

mod bringing_back;
mod entry;
mod keeping;
mod undo;

pub use bringing_back::{BringingBack, UndoRefused};
pub use entry::{Act, Busy, Head, KeptStream, RemovedMessage, UndoEntry};
pub use keeping::{Keeping, TakenAway, Taking};
pub use undo::{Undo, UndoOffer, UndoOptions};
