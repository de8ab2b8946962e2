//! The node's connections as listings and operators see them.

mod containers;
mod deliveries;
mod held;
mod published;

pub use deliveries::Deliveries;
pub(crate) use held::Held;
pub(crate) use published::RouteTally;
pub use published::{ByRoute, ExchangeCounts, Published, PublishedTo};

use confirm::ConfirmQueue;
use containers::Containers;
use meta::{ConnectionId, QueueId, QueueKind};
use queue_type::Counts;
use session::{ChannelId, Error, ListedSession, ProtocolKind, ShortString};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use stdx::{Histogram, HistogramCounts, count};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// The user of a connection, its addresses, and its limits agreed on with the client.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// Authenticated user.
    pub user: String,
    /// Virtual host.
    pub vhost: String,
    /// `HOST:PORT -> HOST:PORT`, RabbitMQ's connection name.
    pub name: String,
    /// Peer address.
    pub peer_host: String,
    /// Peer port.
    pub peer_port: u16,
    /// Local address.
    pub host: String,
    /// Local port.
    pub port: u16,
    /// The protocol.
    pub protocol: ProtocolKind,
    /// The client's way of logging in.
    pub login: Login,
    /// Limits agreed on with the client.
    pub negotiated: session::Negotiated,
    /// The properties that the client gave of itself.
    pub client_properties: session::Table,
    /// The time of connecting, in milliseconds since 1970.
    pub connected_at_ms: u64,
}

/// The way in which a client has logged in, and its name for itself.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// The container of a client of AMQP 1.0; apart, so that none takes no memory.
    pub container: Option<Box<Container>>,
    /// SASL mechanism.
    pub mechanism: &'static str,
    /// The encryption of the connection, if there is any.
    pub tls: Option<Arc<TlsPeer>>,
}

/// The name of a client of AMQP 1.0 for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The container id.
    pub id: Box<str>,
    /// Whether no other connection to the virtual host may have the id.
    pub is_sole: bool,
}

impl Login {
    /// The container id of a client of AMQP 1.0.
    pub fn container_id(&self) -> Option<&str> {
        self.container.as_ref().map(|container| &*container.id)
    }
}

/// The encryption of a connection, in RabbitMQ's words.
#[derive(Clone, Debug, Default)]
pub struct TlsPeer {
    /// The version, for example `tlsv1.3`.
    pub version: String,
    /// The exchange of keys.
    pub key_exchange: String,
    /// The cipher.
    pub cipher: String,
    /// The certificate that the client has shown.
    pub certificate: Option<PeerCertificate>,
}

/// The certificate of a client.
#[derive(Clone, Debug, Default)]
pub struct PeerCertificate {
    /// Subject.
    pub subject: String,
    /// Issuer.
    pub issuer: String,
    /// The period for which the certificate is valid.
    pub validity: String,
    /// Serial number, hexadecimal.
    pub serial: String,
    /// The part of the certificate that names its user.
    pub user: Option<String>,
}

impl Identity {
    /// Whether the client uses the stream protocol.
    pub fn is_of_streams(&self) -> bool {
        !self.protocol.row().has_channels
    }

    /// Whether windows of the client's own protocol hold its publishers back during an alarm, so that it is
    /// read on.
    pub fn has_windows(&self) -> bool {
        self.protocol.row().has_windows
    }
}

/// A connection, shared between its task and listings.
#[derive(Debug)]
pub struct Connection {
    /// The connection's id.
    pub id: ConnectionId,
    /// The user and the addresses.
    pub identity: Identity,
    /// The open channels.
    pub channels: Mutex<BTreeMap<ChannelId, Arc<ChannelCounters>>>,
    /// Traffic read from the socket.
    pub received: Traffic,
    /// Traffic written to the socket.
    pub sent: Traffic,
    /// Whether publishing waits for an alarm to clear.
    pub blocked: AtomicBool,
    /// Until when the connection was not read, in monotonic milliseconds; `u64::MAX` while it is not read.
    pub paused_until_ms: AtomicU64,
    pub(crate) confirms: OnceLock<Arc<ConfirmQueue>>,
    pub(crate) held: Held,
    interrupts: Mutex<Interrupts>,
    kick: Notify,
    /// Links on which the client publishes, of one whose links are requests of their own.
    pub n_publisher_links: AtomicU32,
}

/// The reasons for interrupting a connection's task.
#[derive(Debug, Default)]
struct Interrupts {
    close: Option<String>,
    fail: Option<Error>,
    /// Channels that hold messages for too long, with the timeout in milliseconds.
    overdue: BTreeMap<ChannelId, u64>,
    /// Whether the permissions of the connection's user have changed.
    rights_changed: bool,
    /// Whether alarms came on or went that the client is to be told of.
    alarms_changed: bool,
    /// Consumers that an operator cancels.
    cancelled: BTreeSet<(ChannelId, ShortString)>,
}

impl Interrupts {
    fn next(&mut self) -> Option<Interrupt> {
        if let Some(reason) = &self.close {
            return Some(Interrupt::Close(reason.clone()));
        }
        if let Some(error) = &self.fail {
            return Some(Interrupt::Fail(error.clone()));
        }
        if !self.overdue.is_empty() {
            return Some(Interrupt::FailOverdue);
        }
        if let Some((channel, consumer_tag)) = self.cancelled.pop_first() {
            return Some(Interrupt::CancelConsumer(channel, consumer_tag));
        }
        if std::mem::take(&mut self.alarms_changed) {
            return Some(Interrupt::TellAlarms);
        }
        std::mem::take(&mut self.rights_changed).then_some(Interrupt::ReviewRights)
    }
}

/// Traffic in one direction over a socket.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Bytes.
    pub bytes: AtomicU64,
    /// Reads or writes that the bytes took.
    pub n_calls: AtomicU64,
}

impl Traffic {
    /// Counts a read or a write of so many bytes.
    pub fn count(&self, n_bytes: usize) {
        self.bytes.fetch_add(n_bytes as u64, Ordering::Relaxed);
        self.n_calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// A request to a connection's task that does not come from its client;
/// [`Session::obey`](crate::Session::obey) carries it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The connection is closed with 320, for this reason.
    Close(String),
    /// The connection fails.
    Fail(Error),
    /// The channels that hold messages for too long fail.
    FailOverdue,
    /// Publishers and subscriptions that the user may not have any more are taken away.
    ReviewRights,
    /// The client is told whether an alarm is on.
    TellAlarms,
    /// A consumer gets no more; what it holds stays its channel's.
    CancelConsumer(ChannelId, ShortString),
}

/// Upper bounds of message sizes by which messages are counted, in bytes. COMPAT: RabbitMQ's.
pub const MESSAGE_SIZES: [u64; 9] =
    [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000, u64::MAX];

/// Counts of what clients have published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishTotals {
    /// Messages published.
    pub n_published: u64,
    /// Messages published, by [`MESSAGE_SIZES`].
    pub sizes: HistogramCounts<9>,
    /// Messages published on channels with confirms.
    pub n_confirming: u64,
    /// Messages published on channels with confirms, and confirmed or refused by now.
    pub n_answered: u64,
    /// Messages that were returned because no queue took them.
    pub n_returned: u64,
    /// Messages that no queue took, and that were not mandatory.
    pub n_dropped: u64,
}

impl PublishTotals {
    /// Messages that went to a queue, or to a consumer of direct replies.
    pub const fn n_routed(&self) -> u64 {
        self.n_published.saturating_sub(self.n_returned + self.n_dropped)
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.n_published += other.n_published;
        self.sizes.add(&other.sizes);
        self.n_confirming += other.n_confirming;
        self.n_answered += other.n_answered;
        self.n_returned += other.n_returned;
        self.n_dropped += other.n_dropped;
    }
}

/// Counts of what the clients of a protocol have done, but for streams used as such.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtocolTotals {
    /// Messages published.
    pub published: PublishTotals,
    /// Messages delivered, by the type of their queue.
    pub delivered: BTreeMap<QueueKind, Counts>,
}

impl ProtocolTotals {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.published.add(&other.published);
        for (kind, counts) in &other.delivered {
            self.delivered.entry(*kind).or_default().add(counts);
        }
    }

    fn add_channel(&mut self, counters: &ChannelCounters, published: &PublishTotals) {
        self.published.add(published);
        for (kind, counts) in counters.deliveries.by_type() {
            if let Some(kind) = kind {
                self.delivered.entry(kind).or_default().add(&counts);
            }
        }
    }
}

/// Counts of what clients have done on channels that are closed.
#[derive(Debug, Default)]
struct Ended {
    /// Publishes by virtual host.
    by_vhost: BTreeMap<String, (PublishTotals, Published)>,
    by_protocol: BTreeMap<ProtocolKind, ProtocolTotals>,
}

impl ChannelCounters {
    /// Counts a publish. Only the channel's own session does: a plain addition is enough.
    #[inline]
    pub(crate) fn note_published(&self, n_bytes: u64) {
        self.published.note(&MESSAGE_SIZES, n_bytes);
    }

    /// Counts a message that went to no queue, and whether it was returned.
    pub(crate) fn note_unroutable(&self, is_returned: bool) {
        count(if is_returned { &self.n_returned } else { &self.n_dropped }, 1);
    }

    /// The counts of what the channel has published, while `n_unconfirmed` publishes wait for confirms.
    #[must_use]
    pub fn totals(&self, n_unconfirmed: u64) -> PublishTotals {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let sizes = self.published.counts();
        let n_published = sizes.n();
        let confirms = self.confirm.load(Ordering::Relaxed);
        PublishTotals {
            n_published,
            sizes,
            n_confirming: if confirms { n_published } else { 0 },
            n_answered: if confirms { n_published.saturating_sub(n_unconfirmed) } else { 0 },
            n_returned: of(&self.n_returned),
            n_dropped: of(&self.n_dropped),
        }
    }
}

/// A channel's figures.
#[derive(Debug, Default)]
pub struct ChannelCounters {
    /// A number that no other channel of the connection has had.
    pub(crate) serial: u64,
    /// Consumers.
    pub n_consumers: AtomicU32,
    /// Prefetch limit for new consumers; 0 for none.
    pub prefetch_count: AtomicU32,
    /// Whether publishes are confirmed.
    pub confirm: AtomicBool,
    /// Whether it is transactional.
    pub transactional: AtomicBool,
    /// Publishes received, by [`MESSAGE_SIZES`].
    pub published: Histogram<9>,
    /// Messages that were returned because no queue took them.
    pub n_returned: AtomicU64,
    /// Messages that no queue took, and that were not mandatory.
    pub n_dropped: AtomicU64,
    /// Publishes by exchange and queue.
    pub by_route: ByRoute,
    /// Messages delivered to the channel, and acknowledged by it, by queue.
    pub deliveries: Deliveries,
    /// Publishes waiting for `tx.commit`.
    pub n_uncommitted: AtomicU64,
    /// Acknowledgements waiting for `tx.commit`.
    pub n_uncommitted_acks: AtomicU64,
}

impl Connection {
    /// Asks the connection's task to close it with 320 and this reason. The first reason counts.
    pub fn kick(&self, reason: &str) {
        self.interrupt(|it| {
            it.close.get_or_insert_with(|| reason.to_owned());
        });
    }

    /// Asks the connection's task to end a consumer, and to tell the client.
    pub fn cancel_consumer(&self, channel: ChannelId, consumer_tag: ShortString) {
        self.interrupt(|it| {
            it.cancelled.insert((channel, consumer_tag));
        });
    }

    /// Resolves when the connection's task has to do something that its client did not ask for.
    pub async fn kicked(&self) -> Interrupt {
        loop {
            let kick = self.kick.notified();
            if let Some(interrupt) = stdx::lock(&self.interrupts).next() {
                return interrupt;
            }
            kick.await;
        }
    }

    /// Asks the connection's task to close the connection with this error. The first error counts.
    pub(crate) fn fail(&self, error: Error) {
        self.interrupt(|it| {
            it.fail.get_or_insert(error);
        });
    }

    fn interrupt(&self, note: impl FnOnce(&mut Interrupts)) {
        note(&mut stdx::lock(&self.interrupts));
        self.kick.notify_one();
    }

    /// Bytes of memory that the connection occupies beside queues: transactions, messages of which a part is
    /// missing, deliveries that its client does not read, and the list of its unacked messages.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.held.bytes()
    }

    /// Asks the connection's task to fail a channel that holds a message for longer than `timeout_ms`.
    pub(crate) fn note_overdue(&self, channel: ChannelId, timeout_ms: u64) {
        self.interrupt(|it| {
            it.overdue.entry(channel).or_insert(timeout_ms);
        });
    }

    /// Takes the channels that hold messages for too long, with the timeout in milliseconds.
    pub(crate) fn take_overdue(&self) -> BTreeMap<ChannelId, u64> {
        std::mem::take(&mut stdx::lock(&self.interrupts).overdue)
    }

    /// Publishes of a channel whose confirms wait for the disk.
    pub fn n_unconfirmed(&self, channel: ChannelId) -> u64 {
        self.confirms.get().map_or(0, |confirms| confirms.n_waiting(channel))
    }

    /// The sessions of a client of AMQP 1.0, by channel. The client is held up for one of them at a time.
    pub fn sessions(&self) -> Vec<ListedSession> {
        let next = |from: ChannelId| self.confirms.get().and_then(|it| it.session_from(from));
        let after = |it: &ListedSession| Some(ChannelId(it.channel.0.checked_add(1)?));
        std::iter::successors(next(ChannelId(0)), |last| next(after(last)?)).collect()
    }

    /// Whether anything was published on the channels that are open now.
    pub fn has_published(&self) -> bool {
        let channels = stdx::lock(&self.channels);
        channels.values().any(|channel| channel.published.counts().n() > 0)
    }

    /// Bytes received and sent.
    #[must_use]
    pub fn bytes(&self) -> [u64; 2] {
        [&self.received, &self.sent].map(|it| it.bytes.load(Ordering::Relaxed))
    }

    /// Reads and writes of the socket.
    fn calls(&self) -> [u64; 2] {
        [&self.received, &self.sent].map(|it| it.n_calls.load(Ordering::Relaxed))
    }

    /// The number of open channels.
    pub fn n_channels(&self) -> usize {
        stdx::lock(&self.channels).len()
    }
}

fn add_bytes(bytes: &mut BTreeMap<String, [u64; 2]>, connection: &Connection) {
    let sums = bytes.entry(connection.identity.vhost.clone()).or_default();
    sums.iter_mut().zip(connection.bytes()).for_each(|(sum, more)| *sum += more);
}

/// Clients that may block a thread for the disk at a time; other threads stay free for other clients.
const AT_THE_DISK_MAX: usize = 64;

/// Connections that give back at a time what they hold: of any number that end together, others wait for few.
const CLOSING_MAX: usize = 8;

/// Turns of clients, `N` at a time.
#[derive(Debug)]
struct ClientTurns<const N: usize>(Semaphore);

impl<const N: usize> Default for ClientTurns<N> {
    fn default() -> Self {
        Self(Semaphore::new(N))
    }
}

/// All connections of the node.
#[derive(Debug, Default)]
pub struct Connections {
    by_id: Mutex<BTreeMap<ConnectionId, Arc<Connection>>>,
    n_by_protocol: Mutex<BTreeMap<ProtocolKind, usize>>,
    containers: Containers,
    /// The number in front of that of the first connection.
    number_base: u64,
    n_opened: AtomicU64,
    n_channels_opened: AtomicU64,
    /// Whether the node is in maintenance: no client is to use it until an operator says so.
    pub in_maintenance: AtomicBool,
    /// Turns to block a thread for the disk.
    disk_turns: ClientTurns<AT_THE_DISK_MAX>,
    closing_turns: ClientTurns<CLOSING_MAX>,
    /// Reads and writes of the sockets of closed connections.
    calls_before: [AtomicU64; 2],
    /// Bytes received and sent on closed connections, by virtual host.
    bytes_before: Mutex<BTreeMap<String, [u64; 2]>>,
    ended: Mutex<Ended>,
}

impl Connections {
    /// No connections; their ids are above `number_base`, in 32 bits.
    pub(crate) fn numbered_from(number_base: u64) -> Self {
        Self { number_base, ..Self::default() }
    }

    /// An id that none of these connections has, and none that the node has had for four thousand million.
    fn next_id(&self, taken: &BTreeMap<ConnectionId, Arc<Connection>>) -> ConnectionId {
        loop {
            let n = self.n_opened.fetch_add(1, Ordering::Relaxed) + 1;
            let id = ConnectionId(self.number_base | n & u64::from(u32::MAX));
            if !taken.contains_key(&id) {
                return id;
            }
        }
    }

    /// Waits for a turn to block the thread for the disk; the turn lasts until the permit is dropped.
    pub(crate) async fn disk_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.disk_turns.0.acquire().await.ok()
    }

    /// Waits for a turn to give back some of what a connection holds.
    pub(crate) async fn closing_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.closing_turns.0.acquire().await.ok()
    }

    /// Adds a connection, with an id that tells the node and its start too; none if it is to be the only one
    /// of its container, and another one is there.
    pub(crate) fn open(&self, identity: Identity) -> Option<Arc<Connection>> {
        if !self.containers.try_join(&identity) {
            return None;
        }
        let mut by_id = stdx::lock(&self.by_id);
        let id = self.next_id(&by_id);
        let connection = Arc::new(Connection {
            id,
            identity,
            channels: Mutex::default(),
            received: Traffic::default(),
            sent: Traffic::default(),
            blocked: AtomicBool::new(false),
            paused_until_ms: AtomicU64::new(0),
            confirms: OnceLock::new(),
            held: Held::default(),
            interrupts: Mutex::default(),
            kick: Notify::new(),
            n_publisher_links: AtomicU32::new(0),
        });
        *stdx::lock(&self.n_by_protocol).entry(connection.identity.protocol).or_default() += 1;
        by_id.insert(id, Arc::clone(&connection));
        Some(connection)
    }

    /// Removes a closed channel; its publishes stay counted.
    pub(crate) fn end_channel(&self, connection: &Connection, channel: ChannelId) {
        let n_unconfirmed = connection.n_unconfirmed(channel);
        let mut ended = stdx::lock(&self.ended);
        let Some(counters) = stdx::lock(&connection.channels).remove(&channel) else { return };
        let totals = counters.totals(n_unconfirmed);
        let of_protocol = ended.by_protocol.entry(connection.identity.protocol).or_default();
        of_protocol.add_channel(&counters, &totals);
        if totals != PublishTotals::default() {
            let of_vhost = ended.by_vhost.entry(connection.identity.vhost.clone()).or_default();
            of_vhost.0.add(&totals);
            of_vhost.1.add(&counters.by_route.published(), published::ENDED_MAX);
        }
    }

    /// Connections opened since the node started, and channels.
    pub fn n_opened(&self) -> (u64, u64) {
        (self.n_opened.load(Ordering::Relaxed), self.n_channels_opened.load(Ordering::Relaxed))
    }

    pub(crate) fn note_channel_opened(&self) {
        self.n_channels_opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts of what was published since the node started, by virtual host.
    #[must_use]
    pub fn published(&self) -> BTreeMap<String, PublishTotals> {
        let list = self.list();
        let ended = stdx::lock(&self.ended);
        let before = ended.by_vhost.iter().map(|(vhost, (totals, _))| (vhost.clone(), *totals));
        let mut totals: BTreeMap<String, PublishTotals> = before.collect();
        for connection in list {
            let of_vhost = totals.entry(connection.identity.vhost.clone()).or_default();
            for (channel, counters) in stdx::lock(&connection.channels).iter() {
                of_vhost.add(&counters.totals(connection.n_unconfirmed(*channel)));
            }
        }
        drop(ended);
        totals
    }

    /// Counts of what clients have done since the node started, by protocol.
    #[must_use]
    pub fn by_protocol(&self) -> BTreeMap<ProtocolKind, ProtocolTotals> {
        let list = self.list();
        let ended = stdx::lock(&self.ended);
        let mut totals = ended.by_protocol.clone();
        for connection in list {
            let of_protocol = totals.entry(connection.identity.protocol).or_default();
            for (channel, counters) in stdx::lock(&connection.channels).iter() {
                let n_unconfirmed = connection.n_unconfirmed(*channel);
                of_protocol.add_channel(counters, &counters.totals(n_unconfirmed));
            }
        }
        totals
    }

    pub(crate) fn close(&self, id: ConnectionId) {
        let mut by_id = stdx::lock(&self.by_id);
        if let Some(gone) = by_id.remove(&id) {
            for (before, n) in self.calls_before.iter().zip(gone.calls()) {
                before.fetch_add(n, Ordering::Relaxed);
            }
            self.containers.leave(&gone.identity);
            add_bytes(&mut stdx::lock(&self.bytes_before), &gone);
            let mut n_by_protocol = stdx::lock(&self.n_by_protocol);
            let n = n_by_protocol.get_mut(&gone.identity.protocol);
            n.into_iter().for_each(|n| *n -= 1);
        }
    }

    /// Messages published since the node started, by virtual host, and there by exchange and queue. Exchanges
    /// and pairs that `is_there` denies are left out, and forgotten if their channels are closed.
    #[must_use]
    pub(crate) fn published_by_route(
        &self,
        is_there: impl Fn(&str, &[u8], Option<QueueId>) -> bool,
    ) -> BTreeMap<String, Published> {
        let list = self.list();
        let mut ended = stdx::lock(&self.ended);
        let mut sums: BTreeMap<String, Published> = BTreeMap::new();
        for (vhost, (_, before)) in &mut ended.by_vhost {
            before.retain(|exchange, queue| is_there(vhost, exchange, queue));
            sums.insert(vhost.clone(), before.clone());
        }
        for connection in list {
            let of_vhost = sums.entry(connection.identity.vhost.clone()).or_default();
            for counters in stdx::lock(&connection.channels).values() {
                of_vhost.add(&counters.by_route.published(), usize::MAX);
            }
        }
        drop(ended);
        for (vhost, of_vhost) in &mut sums {
            of_vhost.retain(|exchange, queue| is_there(vhost, exchange, queue));
        }
        sums
    }

    /// Bytes received and sent since the node started, by virtual host.
    #[must_use]
    pub fn traffic(&self) -> BTreeMap<String, [u64; 2]> {
        let by_id = stdx::lock(&self.by_id);
        let mut bytes = stdx::lock(&self.bytes_before).clone();
        by_id.values().for_each(|connection| add_bytes(&mut bytes, connection));
        bytes
    }

    /// Reads and writes of sockets since the node started.
    pub fn calls(&self) -> [u64; 2] {
        let by_id = stdx::lock(&self.by_id);
        let mut sums = self.calls_before.each_ref().map(|it| it.load(Ordering::Relaxed));
        for connection in by_id.values() {
            sums.iter_mut().zip(connection.calls()).for_each(|(sum, n)| *sum += n);
        }
        sums
    }

    /// All connections, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Connection>> {
        stdx::lock(&self.by_id).values().cloned().collect()
    }

    /// Asks the connections that `which` accepts to close with 320.
    pub(crate) fn kick_where(&self, reason: &str, which: impl Fn(&Identity) -> bool) {
        let list = self.list();
        let concerned = list.iter().filter(|connection| which(&connection.identity));
        concerned.for_each(|connection| connection.kick(reason));
    }

    /// Has the connections of a user give up what the user may not have any more.
    pub(crate) fn review_rights(&self, user: &str) {
        for connection in self.list().iter().filter(|one| one.identity.user == user) {
            connection.interrupt(|it| it.rights_changed = true);
        }
    }

    /// Has clients told of the alarms that are held back by windows, whether they publish or not.
    pub(crate) fn tell_alarms(&self) {
        for connection in self.list().iter().filter(|one| one.identity.has_windows()) {
            connection.interrupt(|it| it.alarms_changed = true);
        }
    }

    /// The connection with this id, if it is open.
    #[must_use]
    pub fn get(&self, id: ConnectionId) -> Option<Arc<Connection>> {
        stdx::lock(&self.by_id).get(&id).cloned()
    }

    /// The number of open connections of a protocol.
    pub fn n_of(&self, protocol: ProtocolKind) -> usize {
        stdx::lock(&self.n_by_protocol).get(&protocol).copied().unwrap_or_default()
    }

    /// The number of open connections.
    pub fn len(&self) -> usize {
        stdx::lock(&self.by_id).len()
    }

    /// Whether no connection is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
