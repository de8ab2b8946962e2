//! Messages that the queue of a delaying exchange holds back, for operators: looking at them, and taking one
//! out.

use super::Queue;
use super::state::QueueState;
use message::MessageRef;
use queue::{Fifo, PositionRange};
use std::collections::{HashMap, HashSet};
use stdx::UnixMs;
use store::backlog::{Backlog, LoadedPage, Lookup};
use store::blob::BlobId;

/// Bytes of page images that are read for one listing, more or less: enough for a thousand messages that
/// lie in a page each.
const READ_BYTES_MAX: u64 = 128 << 20;

/// A message that a delaying exchange holds back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delayed {
    /// Number that names the message among those of its exchange.
    pub id: u64,
    /// Time when the message goes on.
    pub due_ms: UnixMs,
    /// The message itself; none if it could not be read, or if too much would have had to be.
    pub message: Option<DelayedMessage>,
}

/// A message that is held back, as far as listings show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayedMessage {
    /// Exchange that the message was published to.
    pub exchange: String,
    /// Routing key of the message.
    pub routing_key: String,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// Whether the message survives a restart.
    pub persistent: bool,
}

/// A page image that is to be looked at; it is kept until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kept {
    blob: BlobId,
    is_durable: bool,
}

impl DelayedMessage {
    fn of(message: &MessageRef<'_>, body_bytes: u64) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Self {
            exchange: text(message.exchange),
            routing_key: text(message.routing_key),
            body_bytes,
            persistent: message.persistent,
        }
    }
}

/// The first messages that are held back; and of those that are on disk only, by the number of their
/// row, the images they are in. Each image is kept until it is released once.
fn held_back(
    queue: &Queue,
    fifo: &Fifo,
    backlog: &Backlog,
    n_max: usize,
) -> (Vec<Delayed>, Vec<(usize, Kept)>) {
    let (mut rows, mut kept, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    let by_deadline = fifo.messages().policy().into_iter().flat_map(|it| it.by_deadline());
    for (due_ms, id) in by_deadline.take(n_max) {
        let message = match backlog.get(id) {
            Lookup::Here(message) => Some(DelayedMessage::of(&message, message.body.len() as u64)),
            Lookup::Cold => {
                let image = backlog.pages().image_of(id);
                let image = image.map(|(blob, is_durable)| Kept { blob, is_durable });
                kept.extend(image.map(|image| (rows.len(), image)));
                None
            }
            Lookup::Gone => None,
        };
        rows.push(Delayed { id, due_ms, message });
    }
    kept.retain(|(_, image)| {
        let store = queue.storage().images.store(image.is_durable);
        seen.contains(image) || (store.retain(image.blob, 1) && seen.insert(*image))
    });
    (rows, kept)
}

/// Messages that the queue of a delaying exchange holds back.
#[derive(Clone, Copy, Debug)]
pub struct HeldBack<'q>(&'q Queue);

impl Queue {
    /// Messages it holds back, if it is the queue of a delaying exchange.
    pub const fn held_back(&self) -> HeldBack<'_> {
        HeldBack(self)
    }
}

impl HeldBack<'_> {
    /// The first `n_max` messages that are held back, in the order in which they go on. Reads from the
    /// disk those that are not in memory.
    pub fn first(&self, n_max: usize) -> Vec<Delayed> {
        let (mut rows, kept) = {
            let state = stdx::lock(&self.0.state);
            held_back(self.0, &state.fifo, &state.content.backlog, n_max)
        };
        let mut rows_of: HashMap<Kept, Vec<usize>> = HashMap::new();
        for (at, image) in &kept {
            rows_of.entry(*image).or_default().push(*at);
        }
        let mut left_bytes = READ_BYTES_MAX;
        // In the order of rows, so that it is the last ones nothing is known of.
        for (_, image) in &kept {
            let Some(of_image) = rows_of.remove(image) else { continue };
            let store = self.0.storage().images.store(image.is_durable);
            let bytes = u64::from(store.blob_bytes(image.blob).unwrap_or_default());
            if bytes <= left_bytes {
                left_bytes -= bytes;
                self.show(*image, &of_image, &mut rows);
            }
            self.0.storage().release_image(image.blob, image.is_durable);
        }
        rows
    }

    /// Adds what an image tells to the rows of messages in it.
    fn show(&self, image: Kept, of_image: &[usize], rows: &mut [Delayed]) {
        let mut bytes = Vec::new();
        let store = self.0.storage().images.store(image.is_durable);
        let read = store.read(image.blob, &mut bytes).map_err(|error| error.to_string());
        let page = read.and_then(|()| {
            LoadedPage::read_all(self.0.pool(), &bytes).map_err(|error| error.to_string())
        });
        let page = match page {
            Ok(page) => page,
            Err(reason) => {
                tracing::warn!("cannot read delayed messages: {reason}");
                return;
            }
        };
        let row_of: HashMap<u64, usize> =
            of_image.iter().filter_map(|at| Some((rows.get(*at)?.id, *at))).collect();
        for queued in page.messages() {
            if let Some(row) = row_of.get(&queued.position).and_then(|at| rows.get_mut(*at)) {
                let body_bytes = u64::from(queued.body_bytes());
                row.message = Some(DelayedMessage::of(&queued.message, body_bytes));
            }
        }
    }

    /// Drops a message that is held back; false if it is not, or not any more.
    pub fn cancel(&self, id: u64) -> bool {
        self.0.with(|QueueState { fifo, content, .. }, _| {
            let is_there = fifo.messages_mut().discard(PositionRange::one(id)) > 0;
            if is_there {
                content.release(self.0.pool(), id);
                content.log_settled(self.0);
            }
            is_there
        })
    }
}
