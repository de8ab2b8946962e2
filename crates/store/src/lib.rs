//! The files of queues besides the log: files of blobs, and what lies in them.
//! Knows [`segments::Disk`], message records and positions. Never consumers, protocols, definitions, clocks,
//! threads.
//! Start reading at [`blob`] and [`backlog`]; file formats are drawn at the top of the file that
//! owns them.

pub mod backlog;
pub mod blob;
mod error;
mod queued;

pub use error::StoreError;
pub use queued::{Queued, StoredBody};
