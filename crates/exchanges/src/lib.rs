//! Exchanges that do more with a message than route it, and the state they keep for that. Never queues, nor
//! who publishes. Most exchanges are not here: routing asks for a watched one only where definitions say so.
//! Start reading at [`WatchedExchange`].

mod dedup_snapshot;
mod dedup_window;
mod delay;
mod history;
pub mod sender_selected;

pub use dedup_snapshot::DedupBarrier;
pub use delay::Released;

use amqp091::TableRef;
use classic::delay_ms_of;
use dedup_snapshot::Saving;
use dedup_window::Window;
use history::History;
use message::{MessageRef, OwnedMessage};
use meta::{
    ChangeFacts, Command, ExchangeDeclare, ExchangeSettings, Name, QueueId, Removed, State,
};
use routing::Message;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use stdx::UnixMs;

/// Bytes that one exchange's history may take, and as many for its names of messages seen.
const EXCHANGE_BYTES_MAX: usize = 64 << 20;
/// Bytes that the histories of all exchanges may take together, and as many for the names of messages seen;
/// each exchange has an equal share.
const ALL_EXCHANGES_BYTES_MAX: usize = 256 << 20;

/// An exchange that is asked about each message that comes to it.
#[derive(Debug)]
pub struct WatchedExchange {
    settings: ExchangeSettings,
    /// Bytes that the history may take, and as many for `seen`; the number is the same for all exchanges.
    bytes_max: Arc<AtomicUsize>,
    history: Arc<Mutex<History>>,
    seen: Arc<Mutex<Window>>,
    /// The name of the queue where messages are held back, if the exchange delays.
    pub delayed_queue: Name,
}

/// The fate of a message at a watched exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The message is routed.
    GoesOn,
    /// The message is dropped: the exchange has seen it before.
    Dropped,
    /// The message waits in the exchange's own queue.
    Delayed,
}

/// The fate that a message would have at an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forecast {
    /// The message is routed.
    GoesOn,
    /// The message is dropped: the exchange has seen it before.
    Dropped,
    /// The message is delayed, and routed then.
    Delayed {
        /// The delay in milliseconds.
        delay_ms: u64,
    },
}

impl WatchedExchange {
    fn new(name: &str, settings: ExchangeSettings, bytes_max: &Arc<AtomicUsize>) -> Self {
        Self {
            settings,
            bytes_max: Arc::clone(bytes_max),
            history: Arc::default(),
            seen: Arc::default(),
            delayed_queue: meta::delayed_queue_of(name),
        }
    }

    /// Returns the exchange with other settings and the same state.
    fn with(&self, settings: ExchangeSettings) -> Self {
        Self {
            settings,
            bytes_max: Arc::clone(&self.bytes_max),
            history: Arc::clone(&self.history),
            seen: Arc::clone(&self.seen),
            delayed_queue: self.delayed_queue.clone(),
        }
    }

    const fn takes_memory(&self) -> bool {
        self.settings.history.is_some() || self.settings.deduplication.is_some()
    }

    /// Forgets the oldest messages and names beyond the memory that the exchange may take.
    fn shrink(&self) {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        stdx::lock(&self.history).shrink(usize::MAX, bytes_max);
        stdx::lock(&self.seen).shrink(usize::MAX, bytes_max);
    }

    /// Whether the exchange keeps this message in its history once the message is routed.
    pub fn remembers(&self, message: &Message<'_>) -> bool {
        self.settings.history.is_some() && !history::is_excluded(message.headers)
    }

    /// Adds a message to the history, for destinations that are bound later.
    pub fn remember(&self, message: &MessageRef<'_>) {
        let Some(length) = self.settings.history else { return };
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        stdx::lock(&self.history).add(message, length, bytes_max);
    }

    /// Whether the exchange drops messages that it has seen before.
    pub const fn deduplicates(&self) -> bool {
        self.settings.deduplication.is_some()
    }

    /// Decides the fate of a message, which counts as seen from now on.
    pub fn fate(&self, message: &Message<'_>, now_ms: UnixMs) -> Admission {
        if let Some(rules) = &self.settings.deduplication {
            let bytes_max = self.bytes_max.load(Ordering::Relaxed);
            if stdx::lock(&self.seen).has_seen(message.headers, rules, bytes_max, now_ms) {
                return Admission::Dropped;
            }
        }
        if self.settings.delays && delay_ms_of(message.headers).is_some() {
            return Admission::Delayed;
        }
        Admission::GoesOn
    }

    /// Returns the fate that a message would have, and its delay; the message does not count as seen.
    pub fn forecast(&self, message: &Message<'_>, now_ms: UnixMs) -> Forecast {
        let knows = |rules| stdx::lock(&self.seen).knows(message.headers, rules, now_ms);
        match delay_ms_of(message.headers).filter(|_| self.settings.delays) {
            _ if self.settings.deduplication.as_ref().is_some_and(knows) => Forecast::Dropped,
            Some(delay_ms) => Forecast::Delayed { delay_ms },
            None => Forecast::GoesOn,
        }
    }

    /// Takes back that a message counts as seen, since the message will come again.
    pub fn forget(&self, headers: Option<TableRef<'_>>) {
        if let Some(rules) = &self.settings.deduplication {
            stdx::lock(&self.seen).forget(headers, rules);
        }
    }

    /// The history that newly bound destinations are given; `None` for an exchange without a history.
    pub fn history(&self) -> Option<Vec<OwnedMessage>> {
        self.settings.history.map(|_| stdx::lock(&self.history).all())
    }
}

type OfVhost = imbl::OrdMap<Name, Arc<WatchedExchange>>;

/// All watched exchanges as of some moment, by virtual host and name. A clone is O(1).
#[derive(Clone, Debug, Default)]
pub struct StatefulExchanges {
    by_vhost: imbl::OrdMap<Name, OfVhost>,
    /// The number of exchanges that keep a history or names.
    n_keeping: usize,
}

/// A watched exchange with its names.
struct NamedExchange<'e> {
    vhost: &'e Name,
    name: &'e Name,
    exchange: &'e WatchedExchange,
}

impl StatefulExchanges {
    /// The watched exchange of that name.
    #[must_use]
    pub fn get(&self, vhost: &str, exchange: &str) -> Option<&Arc<WatchedExchange>> {
        self.by_vhost.get(vhost)?.get(exchange)
    }

    /// Delaying exchanges by virtual host and name.
    pub fn delaying(&self) -> impl Iterator<Item = (&Name, &Name)> {
        self.all().filter(|it| it.exchange.settings.delays).map(|it| (it.vhost, it.name))
    }

    /// All watched exchanges.
    fn all(&self) -> impl Iterator<Item = NamedExchange<'_>> {
        self.by_vhost.iter().flat_map(|(vhost, exchanges)| {
            exchanges.iter().map(move |(name, exchange)| NamedExchange { vhost, name, exchange })
        })
    }

    fn insert(&mut self, vhost: &Name, name: &Name, exchange: Arc<WatchedExchange>) {
        self.n_keeping += usize::from(exchange.takes_memory());
        let before = self.by_vhost.entry(vhost.clone()).or_default().insert(name.clone(), exchange);
        self.n_keeping -= usize::from(before.is_some_and(|it| it.takes_memory()));
    }

    fn remove(&mut self, vhost: &str, name: &str) {
        let gone = self.by_vhost.get_mut(vhost).and_then(|it| it.remove(name));
        self.n_keeping -= usize::from(gone.is_some_and(|it| it.takes_memory()));
        if self.by_vhost.get(vhost).is_some_and(OfVhost::is_empty) {
            self.by_vhost.remove(vhost);
        }
    }
}

/// Exchanges that may have begun to delay messages.
#[derive(Debug)]
pub enum NewlyDelaying {
    /// The exchange with this virtual host and name.
    One(Name, Name),
    /// Any exchange.
    Any,
}

/// Consumers on their way to one shard.
#[derive(Debug, Default)]
struct AttachingConsumers {
    n_places: u64,
    /// The shard's consumers once these have been attached.
    n_expected: u64,
}

/// A consumer's place at a shard, kept while the consumer is on its way there.
#[derive(Debug)]
pub struct ShardPlace<'e> {
    exchanges: &'e Exchanges,
    /// The shard's queue.
    pub shard: QueueId,
    is_taken: bool,
}

impl ShardPlace<'_> {
    /// Gives the place up for a consumer that has been attached.
    pub fn take(mut self) {
        self.is_taken = true;
    }
}

impl Drop for ShardPlace<'_> {
    fn drop(&mut self) {
        let mut attaching = stdx::lock(&self.exchanges.attaching);
        if let Entry::Occupied(mut of_shard) = attaching.entry(self.shard) {
            of_shard.get_mut().n_places -= 1;
            of_shard.get_mut().n_expected -= u64::from(!self.is_taken);
            if of_shard.get().n_places == 0 {
                of_shard.remove();
            }
        }
    }
}

/// The node's watched exchanges, which follow the changes of definitions.
#[derive(Debug, Default)]
pub struct Exchanges {
    watched: Mutex<Arc<StatefulExchanges>>,
    /// Bytes that the history of each exchange may take, and as many for its names.
    bytes_max: Arc<AtomicUsize>,
    saving: Mutex<Saving>,
    /// When names of seen messages are written next, in monotonic milliseconds.
    save_at_ms: AtomicU64,
    /// Shards that consumers are on their way to.
    attaching: Mutex<HashMap<QueueId, AttachingConsumers>>,
}

impl Exchanges {
    /// Makes the watched exchanges of these definitions.
    pub fn of(meta: &State) -> Self {
        let exchanges = Self::default();
        exchanges.review(meta);
        exchanges
    }

    /// The watched exchanges as of now.
    #[must_use]
    pub fn now(&self) -> Arc<StatefulExchanges> {
        Arc::clone(&stdx::lock(&self.watched))
    }

    /// Keeps a consumer's place at the shard with the fewest consumers; `shards` come with their numbers of
    /// consumers. Those who choose before the place is dropped count the consumer as attached, so that
    /// consumers that come at once are spread as well. `None` without shards.
    pub fn keep_place(
        &self,
        shards: impl Iterator<Item = (QueueId, u64)>,
    ) -> Option<ShardPlace<'_>> {
        let mut attaching = stdx::lock(&self.attaching);
        let expected = |id| attaching.get(&id).map(|it: &AttachingConsumers| it.n_expected);
        let shards = shards.map(|(id, n_now)| (id, expected(id).unwrap_or(n_now)));
        let (shard, n_expected) = shards.min_by_key(|(_, n_expected)| *n_expected)?;
        let of_shard = attaching.entry(shard).or_default();
        of_shard.n_places += 1;
        of_shard.n_expected = n_expected + 1;
        Some(ShardPlace { exchanges: self, shard, is_taken: false })
    }

    /// Makes the watched exchanges what the definitions say; exchanges that stay keep their state.
    pub fn review(&self, meta: &State) {
        let mut now = stdx::lock(&self.watched);
        let mut watched = StatefulExchanges::default();
        for vhost in meta.vhosts() {
            for exchange in vhost.exchanges() {
                let settings = vhost.policies.exchange_settings(exchange);
                if settings.any() {
                    let name = &exchange.name;
                    let after = match now.get(&vhost.name, name) {
                        Some(before) if before.settings == settings => Arc::clone(before),
                        Some(before) => Arc::new(before.with(settings)),
                        None => Arc::new(WatchedExchange::new(name, settings, &self.bytes_max)),
                    };
                    watched.insert(&vhost.name, name, after);
                }
            }
        }
        self.share_memory(&watched);
        *now = Arc::new(watched);
    }

    /// Sets each exchange's share of memory; when the share shrinks, all exchanges shrink to it.
    fn share_memory(&self, watched: &StatefulExchanges) {
        let n = watched.n_keeping.next_power_of_two();
        let share = (ALL_EXCHANGES_BYTES_MAX / n).min(EXCHANGE_BYTES_MAX);
        if self.bytes_max.swap(share, Ordering::Relaxed) > share {
            watched.all().for_each(|it| it.exchange.shrink());
        }
    }

    /// Removes the exchanges that were deleted, and has `add` add others.
    fn change(&self, removed: &[Removed], add: impl FnOnce(&mut StatefulExchanges)) {
        let mut now = stdx::lock(&self.watched);
        let watched = Arc::make_mut(&mut now);
        for removed in removed {
            if let Removed::Exchange { vhost, exchange } = removed {
                watched.remove(vhost, &exchange.name);
            }
        }
        add(watched);
        self.share_memory(watched);
    }

    /// Follows a change that led to these definitions; adds the exchanges that may delay messages now and did
    /// not before.
    pub fn follow(&self, meta: &State, change: ChangeFacts<'_>, delaying: &mut Vec<NewlyDelaying>) {
        let is_policy = |fact: &Command| {
            matches!(fact, Command::SetPolicy { .. } | Command::ClearPolicy { .. })
        };
        if change.commands().any(is_policy) {
            self.review(meta);
            delaying.push(NewlyDelaying::Any);
            return;
        }
        let created = change.commands().filter_map(|fact| newly_watched(meta, fact));
        let created: Vec<NewlyWatched<'_>> = created.collect();
        let is_removed = change.removed.iter().any(|removed| match removed {
            Removed::Exchange { vhost, exchange } => {
                self.now().get(vhost, &exchange.name).is_some()
            }
            Removed::Binding { .. } | Removed::Queue(_) | Removed::Vhost(_) | Removed::User(_) => {
                false
            }
        });
        let delays = created.iter().filter(|it| it.settings.delays);
        delaying.extend(delays.map(|it| NewlyDelaying::One(it.vhost.clone(), it.name.clone())));
        if !created.is_empty() || is_removed {
            self.change(change.removed, |watched| {
                for NewlyWatched { vhost, name, settings } in created {
                    let exchange = WatchedExchange::new(name, settings, &self.bytes_max);
                    watched.insert(vhost, name, Arc::new(exchange));
                }
            });
        }
    }
}

/// A new exchange that does more than route.
struct NewlyWatched<'f> {
    vhost: &'f Name,
    name: &'f Name,
    settings: ExchangeSettings,
}

/// The exchange that a fact has made, if it does more than route and is still there.
fn newly_watched<'f>(meta: &State, fact: &'f Command) -> Option<NewlyWatched<'f>> {
    let Command::DeclareExchange(ExchangeDeclare { vhost, name, .. }) = fact else { return None };
    let found = meta.vhost(vhost)?;
    let settings = found.policies.exchange_settings(found.exchange(name)?);
    settings.any().then_some(NewlyWatched { vhost, name, settings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::Body;
    use meta::{ExchangeKind, VhostMetadata};
    use stdx::Now;

    #[test]
    fn spreads_consumers_on_their_way_over_shards() {
        let (exchanges, n_consumers) = (Exchanges::default(), [3, 4]);
        let shards = || (1..).map(QueueId).zip(n_consumers);
        let place = || exchanges.keep_place(shards()).unwrap();
        let places = [place(), place(), place()];
        assert_eq!(places.each_ref().map(|it| it.shard), [QueueId(1), QueueId(1), QueueId(2)]);
        drop(places);
        assert_eq!(place().shard, QueueId(1), "places that nobody took do not count");
        assert!(exchanges.keep_place(shards().take(0)).is_none());
        // An attached consumer whose place is still kept counts once.
        let place = exchanges.keep_place([(QueueId(1), 0)].into_iter()).unwrap();
        let next = exchanges.keep_place([(QueueId(1), 1), (QueueId(2), 2)].into_iter()).unwrap();
        assert_eq!((place.shard, next.shard), (QueueId(1), QueueId(1)));
        next.take();
        let next = exchanges.keep_place([(QueueId(1), 2), (QueueId(2), 2)].into_iter()).unwrap();
        drop(place);
        assert_eq!(next.shard, QueueId(1));
    }

    fn declare(state: &mut State, name: &str) {
        let declare = ExchangeDeclare {
            vhost: Name::from("/"),
            name: Name::from(name),
            kind: ExchangeKind::RecentHistory,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: amqp091::Table::new(),
        };
        state.apply(Now::default(), &Command::DeclareExchange(declare)).unwrap();
    }

    #[test]
    fn memory_is_shared_by_the_exchanges_that_keep_something() {
        let mut state = State::new();
        let (vhost, metadata) = (Name::from("/"), VhostMetadata::default());
        state.apply(Now::default(), &Command::CreateVhost { vhost, metadata }).unwrap();
        declare(&mut state, "first");
        let exchanges = Exchanges::of(&state);
        let first = Arc::clone(exchanges.now().get("/", "first").unwrap());
        let body = vec![0; EXCHANGE_BYTES_MAX / 2 - 1_000];
        let message = MessageRef {
            exchange: b"first",
            routing_key: b"k",
            properties: &[0, 0],
            body: Body::Borrowed(&body),
            persistent: false,
            annotations: Default::default(),
            form: message::BodyForm::Plain,
        };
        (0..3).for_each(|_| first.remember(&message));
        assert_eq!(first.history().unwrap().len(), 2);
        let n_exchanges = ALL_EXCHANGES_BYTES_MAX / EXCHANGE_BYTES_MAX;
        for n in 1..=n_exchanges {
            declare(&mut state, &format!("x{n}"));
        }
        exchanges.review(&state);
        assert_eq!(
            first.history().unwrap().len(),
            1,
            "one exchange too many for the highest share"
        );
        first.remember(&message);
        assert_eq!(first.history().unwrap().len(), 1);
    }
}
