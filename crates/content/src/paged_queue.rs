//! A queue as the pager knows it, and the node as the pager knows it.

use crate::journal::Journal;
use crate::storage::Storage;
use message_store::BodyStore;
use meta::QueueDef;
use queue::Standings;
use std::fmt::Debug;
use std::sync::Arc;
use store::backlog::{ColdPage, FoundPage, Image, Job, LoadedPage, PageBitmap, PageKey, Toward};
use store::blob::BlobId;

/// A queue as the pager knows it: jobs of its backlog, and what comes of them.
pub trait PagedQueue: Debug + Send + Sync {
    /// Definition of the queue.
    fn def(&self) -> &Arc<QueueDef>;

    /// The storage that the queue is kept in.
    fn storage(&self) -> &Storage;

    /// Bodies of the queue's virtual host.
    fn bodies(&self) -> &Arc<BodyStore>;

    /// Whether nothing can be delivered before a page is read.
    fn waits_for_page(&self) -> bool;

    /// The next job of the pager's turn. After none, the queue asks anew when there is one.
    fn next_job(&self, image: &mut Image) -> Option<Job>;

    /// Notes that a page's image is stored, and durable if it is to be.
    fn written(&self, page: PageKey, blob: BlobId, is_durable: bool);

    /// Takes the page that was read, or the reason that it cannot be read.
    fn loaded(&self, page: PageKey, loaded: Result<LoadedPage, String>);

    /// Finds the nearest page with a message in that direction, and the standings of its messages.
    fn find(&self, toward: Toward) -> Option<(FoundPage, Standings)>;

    /// Messages that are still in a page once it was read, and their standings; none if the page is gone.
    fn still(&self, page: &ColdPage) -> Option<(PageBitmap, Standings)>;

    /// The queue's journal, if it has one: read in place of a page that cannot be read.
    fn journal(&self) -> Option<Arc<Journal>>;
}

/// The node as the pager knows it.
pub trait PagerHost: Debug + Send + Sync {
    /// Journals of queues whose files have version 1, or that are being converted to or from it.
    fn journals(&self) -> Vec<Arc<Journal>>;

    /// Notes that pages were synced: messages left in old segments of the log may be worth moving.
    fn pages_synced(&self);
}
