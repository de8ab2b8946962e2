//! The messages of a queue as they are kept: in memory, in page images, in the log or a journal of version 1;
//! the storage that queues of a node share, and the pager. Never whose turn it is, or what a consumer is.
//! Start reading at [`Content`], then [`Services`].

mod body_refs;
mod content;
mod context;
mod durability;
mod journal;
mod journal_inbox;
mod left_pages;
mod look;
mod options;
mod paged_queue;
pub mod pager;
mod pager_inbox;
mod paging;
pub mod records;
mod restoring;
mod services;
mod storage;
mod upkeep;

pub use crate::content::Content;
pub use crate::context::QueueContext;
pub use crate::durability::{Durability, KeptTogether, LoggedAt};
pub use crate::journal::{Journal, QUEUES_DIR, READ_BYTES, journals_dir_of};
pub use crate::journal_inbox::{Fill, JournalInbox, JournalWork, OPEN_JOURNALS_MAX, Removal, Task};
pub use crate::left_pages::{left_pages_file, read_left_pages, write_left_pages};
pub use crate::look::{Looker, See, Seen};
pub use crate::options::{PagerOptions, StorageOptions};
pub use crate::paged_queue::{PagedQueue, PagerHost};
pub use crate::pager_inbox::PagerInbox;
pub use crate::paging::Paging;
pub use crate::restoring::{Restoring, StopNote};
pub use crate::services::Services;
pub use crate::storage::{Images, Losses, PAGES_DIR, SWAP_DIR, Storage};
pub use crate::upkeep::{ContentUpkeep, Lost};
