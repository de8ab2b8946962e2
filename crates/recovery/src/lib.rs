//! From files to definitions and queues: the definitions' snapshot, then the log on top of it; and the repair
//! of data that a start refuses. Never threads, connections or sessions.
//! Start reading at [`Found::read`].

mod error;
mod queue_dirs;
mod repair;
mod replay;

pub use error::OpenError;
pub use queue_dirs::QueueDirs;
pub use repair::{Repair, repair};
pub use replay::{Found, Replay};
