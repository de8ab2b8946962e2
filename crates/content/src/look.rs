//! Looking at a queue's messages, a page at a time, beside the data path: what is in memory is copied under
//! the queue's lock, what is on disk is read without it and into nobody's window. Nothing changes for it.

use crate::paged_queue::PagedQueue;
use crate::pager::{Scratch, read_page};
use message::MessageRef;
use queue::{DeliveryCounts, Standing, Standings};
use std::ops::ControlFlow;
use store::StoreError;
use store::backlog::{ColdPage, FoundContent, LoadedPage, Toward};

/// A message that was looked at.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Position of the message in the queue, which does not change.
    pub position: u64,
    /// State of the message in the queue.
    pub standing: Standing,
    /// Whether a consumer had the message before; of an unacked message that is known only where returns are
    /// counted.
    pub redelivered: Option<bool>,
    /// Number of times that the message came back, as far as it is counted.
    pub counts: DeliveryCounts,
    /// The message.
    pub message: MessageRef<'a>,
}

/// Callback that takes messages one after the other, and breaks when it has enough.
pub type See<'s> = dyn FnMut(&Seen<'_>) -> ControlFlow<()> + 's;

/// A browser of queues' messages, with buffers for the pages it reads.
#[derive(Debug, Default)]
pub struct Looker(Scratch);

impl Looker {
    /// Shows the messages of the nearest page in that direction. Returns what lies behind those that were
    /// taken; none when there is no page. A page that cannot be read is passed over.
    ///
    /// # Errors
    /// The disk's.
    pub fn page(
        &mut self,
        queue: &dyn PagedQueue,
        toward: Toward,
        see: &mut See<'_>,
    ) -> Result<Option<Toward>, StoreError> {
        while let Some((found, standings)) = queue.find(toward) {
            let (read, cold, standings) = match found.content {
                FoundContent::Here(page) => (Ok(page), None, standings),
                FoundContent::Cold(mut cold) => {
                    let read = read_page(&mut self.0, queue, &cold);
                    let Some((live, standings)) = queue.still(&cold) else { continue };
                    cold.live = live;
                    (read?, Some(cold), standings)
                }
            };
            let beyond = toward.beyond_page(&found.span);
            let mut page = match read {
                Ok(page) => page,
                Err(reason) => {
                    tracing::warn!(
                        queue = %queue.def().name,
                        vhost = %queue.def().vhost,
                        "cannot read a page of messages: {reason}"
                    );
                    return Ok(Some(beyond));
                }
            };
            self.0.fetch_bodies(queue, &mut page)?;
            let taken = show(&page, cold.as_ref(), &standings, toward, see);
            page.recycle(&queue.storage().pool);
            return Ok(Some(taken.unwrap_or(beyond)));
        }
        Ok(None)
    }
}

/// Shows messages until one is taken as the last: returns what lies behind that. Of a page that was read,
/// only those are shown which `cold` says are in it by now.
fn show(
    page: &LoadedPage,
    cold: Option<&ColdPage>,
    standings: &Standings,
    toward: Toward,
    see: &mut See<'_>,
) -> Option<Toward> {
    for (position, message) in page.in_order(toward) {
        if cold.is_some_and(|cold| !cold.live.has(cold.page.first(), position)) {
            continue;
        }
        let (standing, counts) = (standings.at(position), standings.counts(position));
        let redelivered = match standing {
            Standing::Held => (counts != DeliveryCounts::default()).then_some(true),
            Standing::Ready | Standing::Delayed(_) | Standing::Departing => {
                Some(standings.is_redelivered(position))
            }
        };
        if see(&Seen { position, standing, redelivered, counts, message }).is_break() {
            return Some(toward.beyond(position));
        }
    }
    None
}
