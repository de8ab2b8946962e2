//! The files of classic queues besides the log: files of blobs, and what lies in them.
//! Knows [`segments::Disk`], message records and positions. Never consumers, protocols, definitions, clocks,
//! threads.
//! Start reading at [`blob`], [`backlog`] and [`v1`]; file formats are drawn at the top of the file that
//! owns them.

pub mod backlog;
pub mod blob;
mod error;
mod queued;
pub mod v1;

pub use error::StoreError;
pub use queued::{Queued, StoredBody};
