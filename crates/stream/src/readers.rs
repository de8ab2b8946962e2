//! The readers of a stream, which of them wait for more, and who is told when it ends. Never what they read.

use crate::follower::Follower;
use crate::listed::{PublisherView, Registered, SubscriptionView};
use meta::ConnectionId;
use queue_type::{ConsumerView, Count, Counts, Owner, Wakes};
use session::{Event, LinkId, Outbox, PublisherId, StreamEvent};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// A reader of a stream: message by message, or chunk by chunk.
pub(crate) trait Reader: Debug + Send + Sync {
    /// The client's side of the reader.
    fn follower(&self) -> &Follower;

    /// Delivers what there is, on the thread that has put it there. The waker of its connection's task.
    fn read_here(self: Arc<Self>) -> Option<Waker>;

    /// The reader as listings show it, if it is a consumer of messages.
    fn view(&self) -> Option<ConsumerView>;

    /// The reader as listings show it, if it is a subscription.
    fn subscription(&self) -> Option<SubscriptionView>;

    /// The reader's unacked messages.
    fn n_unacked(&self) -> u64;

    /// Ends the reader: it tells its client, or its link is told with the stream's publishers.
    fn end(&self) -> Ended;

    /// Gives memory and files back if the reader was given nothing for a while.
    fn rest(&self);
}

/// How the client of a reader hears that the stream has ended.
pub(crate) enum Ended {
    Told(Option<Waker>),
    WithPublishers,
}

type ReaderRef = Arc<dyn Reader>;

/// The most bytes that the thread which has written them delivers itself.
const READ_HERE_BYTES_MAX: usize = 16 * 1024;
/// The most readers that this thread delivers to, which takes a few milliseconds.
const READ_HERE_MAX: usize = 1024;

/// The readers of a stream.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    state: Mutex<State>,
    n_unacked: AtomicU64,
    /// Messages that consumers of single messages were given since the node started.
    n_delivered: AtomicU64,
    /// Messages that such consumers have settled since the node started.
    n_acked: AtomicU64,
    /// Messages that filters of such consumers have passed over since the node started.
    n_passed_over: AtomicU64,
}

#[derive(Default)]
struct State {
    all: BTreeMap<u64, ReaderRef>,
    last_key: u64,
    /// The readers that have read everything that was committed.
    waiting: Vec<ReaderRef>,
    /// Publishers of the stream itself.
    publishing: BTreeMap<(ConnectionId, PublisherId), Arc<Registered>>,
    has_ended: bool,
}

stdx::debug_of!(|it: State| all = it.all);

impl Readers {
    /// A key for a new consumer.
    pub(crate) fn next_key(&self) -> u64 {
        let mut state = stdx::lock(&self.state);
        state.last_key += 1;
        state.last_key
    }

    /// Adds a reader; false after the end.
    pub(crate) fn add(&self, reader: ReaderRef) -> bool {
        let mut state = stdx::lock(&self.state);
        if !state.has_ended {
            state.all.insert(reader.follower().key, reader);
        }
        !state.has_ended
    }

    /// Adds a publisher; false after the end.
    pub(crate) fn add_publisher(&self, it: &Arc<Registered>) -> bool {
        let mut state = stdx::lock(&self.state);
        if !state.has_ended {
            state.publishing.insert((it.connection, it.id), Arc::clone(it));
        }
        !state.has_ended
    }

    /// Takes a publisher away, unless that was done before: its number may be another's by now.
    pub(crate) fn remove_publisher(&self, it: &Registered) {
        if !it.is_gone() {
            stdx::lock(&self.state).publishing.remove(&(it.connection, it.id));
        }
    }

    pub(crate) fn remove(&self, key: u64) {
        let removed = stdx::lock(&self.state).all.remove(&key);
        drop(removed);
    }

    pub(crate) fn len(&self) -> usize {
        stdx::lock(&self.state).all.len()
    }

    /// Has a reader told once more is committed than it has seen; it has to look again afterwards.
    pub(crate) fn wait(&self, reader: ReaderRef) {
        stdx::lock(&self.state).waiting.push(reader);
    }

    /// Tells the waiting readers that so many bytes more are committed. Few bytes are delivered at once,
    /// which saves each reader a turn of its own.
    pub(crate) fn tell(&self, n_bytes: usize, wakes: &mut Wakes) {
        let mut waiting = std::mem::take(&mut stdx::lock(&self.state).waiting);
        if waiting.is_empty() {
            return;
        }
        let is_little = n_bytes <= READ_HERE_BYTES_MAX && waiting.len() <= READ_HERE_MAX;
        wakes.extend(waiting.drain(..).filter_map(|reader| {
            reader.follower().ends_to_wait();
            if is_little { reader.read_here() } else { reader.follower().tell_readable() }
        }));
        // The memory of the list serves the next time.
        let emptied = waiting;
        let mut state = stdx::lock(&self.state);
        if state.waiting.is_empty() {
            state.waiting = emptied;
        }
    }

    /// Removes all readers and publishers, and tells their clients: of the stream protocol, once a
    /// connection.
    pub(crate) fn end(&self, stream: &str, wakes: &mut Wakes) {
        let (all, publishing) = {
            let mut state = stdx::lock(&self.state);
            state.has_ended = true;
            state.waiting = Vec::new();
            (std::mem::take(&mut state.all), std::mem::take(&mut state.publishing))
        };
        tell_gone(all.into_values(), publishing.into_values(), stream, wakes);
    }

    /// Removes those that use the stream protocol, and tells them: they come again.
    pub(crate) fn send_away(&self, stream: &str, wakes: &mut Wakes) {
        let (away, publishing) = {
            let mut state = stdx::lock(&self.state);
            let (stay, away) =
                std::mem::take(&mut state.all).into_iter().partition(|(_, it)| it.view().is_some());
            state.all = stay;
            (away, std::mem::take(&mut state.publishing))
        };
        let away: BTreeMap<u64, ReaderRef> = away;
        tell_gone(away.into_values(), publishing.into_values(), stream, wakes);
    }

    /// Removes a connection's readers and publishers without telling its client: the links of the readers;
    /// none if it has neither.
    pub(crate) fn leave(&self, connection: ConnectionId) -> Option<Vec<LinkId>> {
        let (publishing, readers) = {
            let mut state = stdx::lock(&self.state);
            let is_its = |_: &u64, reader: &mut ReaderRef| reader.follower().owner.0 == connection;
            let readers: Vec<_> = state.all.extract_if(.., is_its).map(|(_, it)| it).collect();
            let is_its = |key: &(ConnectionId, PublisherId), _: &mut _| key.0 == connection;
            let publishing: Vec<_> =
                state.publishing.extract_if(.., is_its).map(|(_, it)| it).collect();
            (publishing, readers)
        };
        publishing.iter().for_each(|publisher| publisher.set_gone());
        let ended = |reader: &ReaderRef| {
            reader.end();
            reader.follower().link
        };
        let links: Vec<LinkId> = readers.iter().map(ended).collect();
        (!publishing.is_empty() || !links.is_empty()).then_some(links)
    }

    /// Has readers give memory and files back that were given nothing since the last call.
    pub(crate) fn rest(&self) {
        self.all().iter().for_each(|reader| reader.rest());
    }

    fn all(&self) -> Vec<ReaderRef> {
        stdx::lock(&self.state).all.values().cloned().collect()
    }

    /// Consumers of messages, as listings show them.
    pub(crate) fn views(&self) -> Vec<ConsumerView> {
        self.all().iter().filter_map(|reader| reader.view()).collect()
    }

    /// Subscriptions, as listings show them.
    pub(crate) fn subscriptions(&self) -> Vec<SubscriptionView> {
        self.all().iter().filter_map(|reader| reader.subscription()).collect()
    }

    /// Publishers of the stream itself, as listings show them.
    pub(crate) fn publishers(&self) -> Vec<PublisherView> {
        stdx::lock(&self.state).publishing.values().map(|it| it.view()).collect()
    }

    /// Messages that were delivered and not settled.
    pub(crate) fn n_unacked(&self) -> u64 {
        self.n_unacked.load(Ordering::Relaxed)
    }

    pub(crate) fn add_unacked(&self, n: u64) {
        self.n_unacked.fetch_add(n, Ordering::Relaxed);
        self.note_delivered(n);
    }

    pub(crate) fn note_delivered(&self, n: u64) {
        self.n_delivered.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn note_acked(&self, n: u64) {
        self.n_acked.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn note_passed_over(&self, n: u64) {
        self.n_passed_over.fetch_add(n, Ordering::Relaxed);
    }

    /// Counts of messages, of which so many were published.
    pub(crate) fn counts(&self, n_published: u64) -> Counts {
        Counts::from_iter([
            (Count::Published, n_published),
            (Count::Delivered, self.n_delivered.load(Ordering::Relaxed)),
            (Count::Acked, self.n_acked.load(Ordering::Relaxed)),
            (Count::PassedOver, self.n_passed_over.load(Ordering::Relaxed)),
        ])
    }

    pub(crate) fn remove_unacked(&self, n: u64) {
        self.n_unacked.fetch_sub(n, Ordering::Relaxed);
    }

    /// Calls `count` with each consumer's channel and the number of its unacked messages.
    pub(crate) fn each_held(&self, mut count: impl FnMut(Owner, u64)) {
        for reader in self.all() {
            let n_unacked = reader.n_unacked();
            if n_unacked > 0 {
                count(reader.follower().owner, n_unacked);
            }
        }
    }
}

/// Tells clients that the stream is gone: those who read chunks or publish, once for each connection.
fn tell_gone(
    readers: impl Iterator<Item = ReaderRef>,
    publishing: impl Iterator<Item = Arc<Registered>>,
    stream: &str,
    wakes: &mut Wakes,
) {
    type Told = (Arc<dyn Outbox>, Vec<LinkId>);
    let mut told: BTreeMap<ConnectionId, Told> = BTreeMap::new();
    for publisher in publishing {
        publisher.set_gone();
        told.insert(publisher.connection, (Arc::clone(&publisher.outbox), Vec::new()));
    }
    for reader in readers {
        match reader.end() {
            Ended::Told(waker) => wakes.extend(waker),
            Ended::WithPublishers => {
                let follower = reader.follower();
                let outbox = || (Arc::clone(&follower.outbox), Vec::new());
                let (_, links) = told.entry(follower.owner.0).or_insert_with(outbox);
                links.push(follower.link);
            }
        }
    }
    for (outbox, links) in told.values() {
        wakes.extend(outbox.batch(&mut |sink| {
            sink.event(Event::Stream(StreamEvent::StreamGone { stream, links }));
        }));
    }
}
