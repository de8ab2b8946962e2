//! Clients: their connections, channels and consumers, their requests, and what they hold.

use super::World;
use super::ledger::Copy;
use crate::client::{Read, control, short};
use crate::harness::{Connected, FIRST};
use broker::Session;
use session::{Attachment, ChannelId, Op, Position, Table};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use testing::outbox::Recorder;
use testing::run::fail;

/// Clients at once, at most.
const PEERS_MAX: usize = 4;
/// Deliveries of an outbox that is never full.
const ROOM_MAX: usize = 10_000;

/// A consumer, or the gets of a channel from one queue.
pub(super) struct Link {
    pub(super) queue: &'static str,
    pub(super) channel: u16,
    pub(super) tag: String,
    pub(super) is_consumer: bool,
    pub(super) no_ack: bool,
    pub(super) prefetch: usize,
    pub(super) priority: i64,
    /// Begins with the first message of a stream.
    pub(super) starts_first: bool,
    /// Consumers have come in this order.
    pub(super) number: u64,
    /// By priority: the newest message it was the first to get.
    pub(super) newest: BTreeMap<u8, u64>,
}

/// A channel.
#[derive(Default)]
pub(super) struct Channel {
    /// Numbers its publishes have; `None` if they are not confirmed.
    n_published: Option<u64>,
    /// By number of the publish: its message.
    pub(super) unconfirmed: BTreeMap<u64, u64>,
    /// Whether the channel is ending: others may be given the messages it holds.
    pub(super) is_closing: bool,
    pub(super) is_transactional: bool,
}

/// A publish that was made: the number of its message, and the queue it goes to if it is only one.
pub(super) type Published = (u64, Option<&'static str>);

/// A delivery, by link and position, and which message it is.
pub(super) type HeldCopy = ((u64, Position), Copy);

/// A connection.
pub(super) struct Peer {
    /// None while it is being closed.
    pub(super) session: Option<Session>,
    pub(super) recorder: Arc<Recorder>,
    /// Whether its outbox is never full.
    pub(super) has_room: bool,
    pub(super) channels: BTreeMap<u16, Channel>,
    pub(super) links: BTreeMap<u64, Link>,
    pub(super) held: BTreeMap<(u64, Position), Copy>,
    /// Not yet written to it, in the order of delivery; settled by that.
    pub(super) unwritten: Vec<HeldCopy>,
    /// Publishes an alarm holds, and on which channel.
    pub(super) kept: Option<(u16, Vec<Published>)>,
}

impl Peer {
    /// The messages the client has and has not settled.
    pub(super) fn copies(&self) -> impl Iterator<Item = Copy> + '_ {
        self.held.values().copied().chain(self.unwritten.iter().map(|(_, copy)| *copy))
    }

    /// A publish gets its number, if it is to be confirmed.
    pub(super) fn number(&mut self, channel: u16, id: u64) {
        if let Some(Channel { n_published: Some(n), unconfirmed, .. }) =
            self.channels.get_mut(&channel)
        {
            *n += 1;
            unconfirmed.insert(*n, id);
        }
    }

    /// Whether a link is of that channel.
    fn is_of(&self, link: u64, channel: u16) -> bool {
        self.links.get(&link).is_some_and(|link| link.channel == channel)
    }

    /// The messages that a channel of the client holds.
    pub(super) fn held_on(&self, channel: u16) -> Vec<HeldCopy> {
        let held = self.held.iter().filter(|((link, _), _)| self.is_of(*link, channel));
        held.map(|(key, copy)| (*key, *copy)).collect()
    }

    /// Checks that the connection is listed with the publishes that wait.
    pub(super) fn check_listed(&self) {
        let Some(session) = &self.session else { return };
        for (number, channel) in &self.channels {
            let n = session.connection().n_unconfirmed(ChannelId(*number));
            let wanted = channel.unconfirmed.len() as u64;
            if n != wanted {
                fail(format!("{wanted} publishes wait, listed are {n}"));
            }
        }
    }
}

impl World {
    pub(super) fn peer(&mut self, peer: usize) -> &mut Peer {
        self.peers.get_mut(&peer).expect("the client is connected")
    }

    /// A client that may do something.
    pub(super) fn some_peer(&mut self) -> Option<usize> {
        let peers = self.peers.iter().filter(|(_, peer)| peer.kept.is_none());
        let peers: Vec<usize> = peers.map(|(number, _)| *number).collect();
        self.harness.random.choose(&peers)
    }

    /// A client that may do something, and a channel of it.
    pub(super) fn some_channel(&mut self) -> Option<(usize, u16)> {
        let peer = self.some_peer()?;
        let channels = &self.peers.get(&peer)?.channels;
        Some((peer, self.harness.random.choose_key(channels)?))
    }

    pub(super) fn consumers_of(&self, queue: &str) -> impl Iterator<Item = &Link> {
        let links = self.peers.values().flat_map(|peer| peer.links.values());
        let links = links.chain(self.frame_links().map(|link| &link.link));
        links.filter(move |link| link.is_consumer && link.queue == queue)
    }

    /// The messages of a queue that clients hold.
    pub(super) fn held_of(&self, queue: &str) -> BTreeSet<Copy> {
        self.copies().filter(|copy| copy.queue == queue).collect()
    }

    /// The messages that clients hold.
    pub(super) fn copies(&self) -> impl Iterator<Item = Copy> {
        let framed = self.frames.clients.values().flat_map(|client| client.held.values());
        self.peers.values().flat_map(Peer::copies).chain(framed.map(|(_, copy)| *copy))
    }

    /// A link of a client of either protocol.
    pub(super) fn link_mut(&mut self, peer: usize, number: u64) -> Option<&mut Link> {
        if let Some(peer) = self.peers.get_mut(&peer) {
            return peer.links.get_mut(&number);
        }
        let links = &mut self.frames.clients.get_mut(&peer)?.links;
        links.get_mut(&u32::try_from(number).ok()?).map(|link| &mut link.link)
    }

    /// A client says something, and has its answers.
    pub(super) fn submit(&mut self, peer: usize, read: Read) {
        let session = self.peers.get_mut(&peer).and_then(|peer| peer.session.as_mut());
        let Some(session) = session else { return };
        let said = self.harness.say(session, read);
        session.wake();
        self.check_said(said);
    }

    pub(super) fn control(&mut self, peer: usize, channel: u16, op: Op) {
        self.harness.note(format!("client {peer}, channel {channel}: {op:?}"));
        self.submit(peer, Read::of(vec![control(channel, op)]));
    }

    /// Connects a client, unless there are enough.
    pub(super) fn connect(&mut self) {
        if self.peers.len() >= PEERS_MAX {
            return;
        }
        let Connected { client, recorder, session, limit } = self.harness.connect(FIRST);
        self.harness.note(format!("client {client} connects"));
        let peer = Peer {
            session: Some(session),
            recorder,
            has_room: limit >= ROOM_MAX,
            channels: BTreeMap::new(),
            links: BTreeMap::new(),
            held: BTreeMap::new(),
            unwritten: Vec::new(),
            kept: None,
        };
        self.peers.insert(client, peer);
        for channel in 1..=self.n_channels() {
            self.open(client, channel);
        }
    }

    /// The channels that clients have.
    pub(super) const fn n_channels(&self) -> u16 {
        if self.features.confirms_late { 2 } else { 1 }
    }

    pub(super) fn open(&mut self, peer: usize, channel: u16) {
        self.control(peer, channel, Op::OpenChannel);
        self.peer(peer).channels.insert(channel, Channel::default());
        let random = &mut self.harness.random;
        let is_tx = self.features.has_tx_and_alarms && random.percent(30);
        let is_plain = self.features.confirms_late && random.percent(10);
        if self.is_over() || (is_plain && !is_tx) {
            return;
        }
        self.control(
            peer,
            channel,
            if is_tx { Op::EnableTransactions } else { Op::EnableConfirms },
        );
        if let Some(channel) = self.peer(peer).channels.get_mut(&channel) {
            channel.is_transactional = is_tx;
            channel.n_published = (!is_tx).then_some(0);
        }
    }

    /// A channel ends: what it holds may be given to others from now on.
    pub(super) fn release(&mut self, peer: usize, channel: u16) {
        let state = self.peer(peer);
        let held: Vec<Copy> = state.held_on(channel).into_iter().map(|(_, copy)| copy).collect();
        let Peer { links, held: all, unwritten, channels, .. } = state;
        let is_of = |link: u64| links.get(&link).is_some_and(|link| link.channel == channel);
        all.retain(|(link, _), _| !is_of(*link));
        let of_channel = unwritten.extract_if(.., |((link, _), _)| is_of(*link));
        let unwritten: Vec<Copy> = of_channel.map(|(_, copy)| copy).collect();
        if let Some(channel) = channels.get_mut(&channel) {
            channel.is_closing = true;
        }
        held.into_iter().chain(unwritten).for_each(|copy| self.come_back(copy, true));
    }

    /// A message that a client had comes back to its queue.
    pub(super) fn come_back(&mut self, copy: Copy, has_failed: bool) {
        if self.is_stream(copy.queue) {
            return;
        }
        self.ledger.come_back(copy, has_failed);
        self.returned_to.insert(copy.queue);
        self.use_by_hold(copy.queue);
    }

    /// A connection ends without a word.
    pub(super) fn disconnect(&mut self, peer: usize) {
        self.harness.note(format!("client {peer} is lost"));
        let channels: Vec<u16> = self.peer(peer).channels.keys().copied().collect();
        channels.into_iter().for_each(|channel| self.release(peer, channel));
        let Some(session) = self.peer(peer).session.take() else { return };
        let is_closed = self.harness.close(session);
        self.take_in();
        let links = self.peers.remove(&peer).map(|state| state.links).unwrap_or_default();
        for link in links.into_values().filter(|link| link.is_consumer) {
            self.use_queue(link.queue);
        }
        if !is_closed && !self.is_over() {
            fail("a client cannot leave");
        }
    }

    /// A client reads what it was sent.
    pub(super) fn read(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let state = self.peer(peer);
        let links = state.recorder.read_all();
        if let Some(session) = &state.session {
            session.resume(&links);
        }
        self.harness.note(format!("client {peer} reads"));
        self.take_in();
    }

    pub(super) fn new_link(&mut self, queue: &'static str, channel: u16) -> Link {
        self.n_links += 1;
        let (number, tag) = (self.n_links, format!("c{}", self.n_links));
        Link {
            queue,
            channel,
            tag,
            is_consumer: true,
            no_ack: false,
            prefetch: 0,
            priority: 0,
            starts_first: false,
            number,
            newest: BTreeMap::new(),
        }
    }

    /// Asks for a consumer.
    pub(super) fn attach(&mut self, peer: usize, link: Link, arguments: Table) {
        let (channel, no_ack, consumer_tag) = (link.channel, link.no_ack, short(&link.tag));
        let (queue, exclusive) = (short(link.queue), false);
        self.asking = Some(link);
        let source = None;
        let attachment = Attachment { queue, consumer_tag, no_ack, source, exclusive, arguments };
        self.control(peer, channel, Op::Attach(attachment));
    }

    pub(super) fn get_from(
        &mut self,
        (peer, channel): (usize, u16),
        queue: &'static str,
        no_ack: bool,
    ) {
        let link = self.new_link(queue, channel);
        self.use_queue(queue);
        self.asking = Some(Link { is_consumer: false, no_ack, ..link });
        self.control(peer, channel, Op::Get { queue: short(queue), no_ack });
    }

    pub(super) fn cancel_all(&mut self, peer: usize) {
        let links = self.peer(peer).links.values().filter(|link| link.is_consumer);
        let tags: Vec<_> = links.map(|link| (link.channel, link.tag.clone())).collect();
        for (channel, tag) in tags {
            self.control(peer, channel, Op::Detach { consumer_tag: short(&tag) });
        }
    }
}
