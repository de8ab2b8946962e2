//! A network between simulated nodes. Connections carry bytes in order, in pieces of random sizes and after
//! random times; connections get lost, stuck and slow, and pairs of nodes are cut off from each other. Time
//! is an argument in milliseconds, chance comes from a seed: the same calls have the same results.
//!
//! Model of TCP: bytes that a node has written wait while the way is cut, and arrive after it has healed. A
//! lost connection delivers a part of them, and tells both ends, perhaps one only seconds later: until then
//! that end writes into nothing. A cut loses no connection by itself: nodes close those that time out. An end
//! may write while nobody reads at the other one (a node that stands still), until the buffer is full.

mod connection;
#[cfg(test)]
mod tests;

use crate::random::Random;
use connection::{Connection, Parcel};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use connection::{Role, Speed};

/// A node's address, and its place among the nodes of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub usize);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// The number of a connection; a dialled one has the same at both ends. Numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionNo(pub u64);

/// A node's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// The node whose end is meant.
    pub node: Address,
    /// The connection.
    pub connection: ConnectionNo,
}

/// An event at an end of a connection. No other follows [`NetEvent::Closed`] and [`NetEvent::Lost`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetEvent {
    /// At the node that was dialled: a node has connected.
    Accepted {
        /// The node that dialled.
        from: Address,
    },
    /// At the node that dialled: the connection is made.
    Connected,
    /// Bytes of the other end.
    Bytes(Vec<u8>),
    /// The other end has closed the connection; all that it wrote before has arrived.
    Closed,
    /// The connection could not be made, or is lost.
    Lost,
}

/// The end of a node's life, as others notice it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The process has died: connections are reset at once where the way is not cut.
    Process,
    /// The machine is gone: others learn of it late.
    Machine,
}

/// The speeds and sizes of a network.
#[derive(Clone, Copy, Debug)]
pub struct NetOptions {
    /// The longest time that bytes take, one way.
    pub delay_ms_max: usize,
    /// Bytes that are written leave in pieces of at most so many; those that arrive together are one read.
    pub piece_bytes_max: usize,
    /// Bytes under way on a connection in one direction, at most: then nothing more is written.
    pub buffer_bytes_max: usize,
    /// A connection that is not made by then is lost.
    pub dial_timeout_ms: u64,
    /// The longest time after which an end learns that its connection is lost.
    pub late_ms_max: usize,
    /// Dialled connections that arrive twice: the second one, which nobody has dialled, brings a copy of all
    /// that the dialler writes, until it is lost.
    pub ghosts_percent: usize,
}

impl Default for NetOptions {
    fn default() -> Self {
        Self {
            delay_ms_max: 5,
            piece_bytes_max: 1000,
            buffer_bytes_max: 64 << 10,
            dial_timeout_ms: 2000,
            late_ms_max: 10_000,
            ghosts_percent: 2,
        }
    }
}

/// An event that is under way; the first one is the least.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NextEvent {
    due_ms: u64,
    number: ConnectionNo,
    role: Role,
    /// The node learns that the connection is lost.
    is_loss: bool,
}

/// A network between nodes.
#[derive(Debug)]
pub struct Net {
    random: Random,
    options: NetOptions,
    connections: BTreeMap<ConnectionNo, Connection>,
    n_connections: u64,
    /// Nodes that can be dialled.
    listening: BTreeSet<Address>,
    /// Nodes whose machines are gone: nothing answers who dials them.
    silent: BTreeSet<Address>,
    /// Nodes that take nothing at the moment.
    frozen: BTreeSet<Address>,
    /// Directions, from and to, in which nothing goes.
    cuts: BTreeSet<(Address, Address)>,
}

impl Net {
    /// A network where no node can be dialled yet.
    #[must_use]
    pub const fn new(random: Random, options: NetOptions) -> Self {
        Self {
            random,
            options,
            connections: BTreeMap::new(),
            n_connections: 0,
            listening: BTreeSet::new(),
            silent: BTreeSet::new(),
            frozen: BTreeSet::new(),
            cuts: BTreeSet::new(),
        }
    }

    /// Has a node accept connections.
    pub fn listen(&mut self, node: Address) {
        self.listening.insert(node);
        self.silent.remove(&node);
    }

    /// Ends a node's life, with its ends of all its connections.
    pub fn kill(&mut self, now_ms: u64, node: Address, death: Death) {
        self.listening.remove(&node);
        if death == Death::Machine {
            self.silent.insert(node);
        }
        self.frozen.remove(&node);
        for number in self.connections() {
            let Some((connection, role)) = self.end(End { node, connection: number }) else {
                continue;
            };
            let peer = connection.side(role.other()).node;
            connection.end(role);
            let is_late = death == Death::Machine || self.cuts.contains(&(node, peer));
            self.lose(now_ms, number, is_late.then_some(role.other()));
        }
    }

    /// Has a node take nothing from now on, as when its process stands still, or take everything again.
    pub fn freeze(&mut self, node: Address, is_frozen: bool) {
        if is_frozen {
            self.frozen.insert(node);
        } else {
            self.frozen.remove(&node);
        }
    }

    /// Lets nothing through from one node to another, until [`Net::heal`].
    pub fn cut(&mut self, from: Address, to: Address) {
        self.cuts.insert((from, to));
    }

    /// The connections that at least one end takes for open.
    #[must_use]
    pub fn connections(&self) -> Vec<ConnectionNo> {
        self.connections.keys().copied().collect()
    }

    /// Loses a connection with a part of what is under way. Both ends learn of it soon, but for one that is
    /// late: until then what it writes goes nowhere.
    pub fn lose(&mut self, now_ms: u64, number: ConnectionNo, late: Option<Role>) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        for role in [Role::Dialler, Role::Acceptor] {
            let is_late = late == Some(role);
            let span_ms_max =
                if is_late { self.options.late_ms_max } else { self.options.delay_ms_max };
            let told_ms = now_ms + self.random.below(span_ms_max + 1) as u64;
            connection.lose(role, told_ms, &mut self.random);
        }
        self.remove_ended(now_ms);
    }

    /// Has a connection take bytes and deliver none, or few; neither end learns of it.
    pub fn set_speed(&mut self, connection: ConnectionNo, speed: Speed) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.speed = speed;
        }
    }

    /// Ends all cuts and delays: what is under way arrives soon, and ends that have not yet learnt of a lost
    /// connection do. Stuck connections go on, or are lost; so are those that nobody has dialled.
    pub fn heal(&mut self, now_ms: u64) {
        self.cuts.clear();
        for number in self.connections() {
            let Some(connection) = self.connections.get_mut(&number) else { continue };
            let is_lost = connection.speed == Speed::Stuck && self.random.percent(50);
            let ghost = connection.ghost.take();
            connection.speed = Speed::Full;
            connection.hurry(now_ms + self.options.delay_ms_max as u64);
            if let Some(ghost) = ghost {
                self.lose(now_ms, ghost, None);
            }
            if is_lost {
                self.lose(now_ms, number, None);
            }
        }
    }

    /// Dials another node. The result is an event at this end: [`NetEvent::Connected`] or
    /// [`NetEvent::Lost`].
    pub fn dial(&mut self, now_ms: u64, from: Address, to: Address) -> ConnectionNo {
        assert_ne!(from, to, "no node dials itself");
        let due_ms = now_ms + self.delay_ms() + self.delay_ms();
        let mut connection = Connection::new(from, to);
        let deadline_ms = now_ms + self.options.dial_timeout_ms;
        connection.push(Role::Dialler, due_ms, Parcel::Dial { deadline_ms });
        self.add(connection)
    }

    /// Writes bytes to the other end; returns how many there was room for: none while the connection is not
    /// made, or over. There may be room for the rest later, of which nobody is told.
    pub fn write(&mut self, now_ms: u64, end: End, bytes: &[u8]) -> usize {
        let Some((connection, role)) = self.end(end) else { return 0 };
        if !connection.can_write(role) {
            return 0;
        }
        let (under_way, ghost) = (connection.bytes_to(role.other()), connection.ghost);
        let ghost = ghost.filter(|_| role == Role::Dialler);
        let n = bytes.len().min(self.options.buffer_bytes_max.saturating_sub(under_way));
        let (mut rest, _) = bytes.split_at(n);
        while !rest.is_empty() {
            let size = 1 + self.random.below(self.options.piece_bytes_max.min(rest.len()));
            let (piece, later) = rest.split_at(size);
            for (number, role) in [(Some(end.connection), role), (ghost, Role::Dialler)] {
                self.send(now_ms, number, role.other(), Parcel::Bytes(piece.to_vec()));
            }
            rest = later;
        }
        n
    }

    /// Closes a connection at one end, where no event comes any more; what was written still arrives.
    pub fn close(&mut self, now_ms: u64, end: End) {
        let Some((connection, role)) = self.end(end) else { return };
        connection.end(role);
        self.send(now_ms, Some(end.connection), role.other(), Parcel::Closed);
        self.remove_ended(now_ms);
    }

    /// The time of the next event, perhaps past; none if nothing is under way that can arrive.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        self.first().map(|first| first.due_ms)
    }

    /// The next event that is due, and the end where it happens.
    pub fn next(&mut self, now_ms: u64) -> Option<(End, NetEvent)> {
        let NextEvent { number, role, is_loss, .. } =
            self.first().filter(|first| first.due_ms <= now_ms)?;
        let connection = self.connections.get_mut(&number)?;
        let (node, peer) = (connection.side(role).node, connection.side(role.other()).node);
        let end = End { node, connection: number };
        let event = match connection.take(role).filter(|_| !is_loss) {
            Some(Parcel::Dial { deadline_ms }) => self.answer_dial(now_ms, number, deadline_ms),
            Some(Parcel::Accepted) => NetEvent::Accepted { from: peer },
            Some(Parcel::Bytes(bytes)) => NetEvent::Bytes(bytes),
            Some(Parcel::Closed) => NetEvent::Closed,
            None => {
                connection.end(role);
                NetEvent::Lost
            }
        };
        self.remove_ended(now_ms);
        Some((end, event))
    }

    /// The event that can happen first.
    fn first(&self) -> Option<NextEvent> {
        let ends = self.connections.iter().flat_map(|(number, connection)| {
            [Role::Dialler, Role::Acceptor].map(|role| (*number, connection, role))
        });
        let able = ends.filter(|(_, of, role)| !self.frozen.contains(&of.side(*role).node));
        let events = able.flat_map(|(number, connection, role)| {
            let dues = [(self.due_ms(connection, role), false), (connection.lost_ms(role), true)];
            dues.map(|(due_ms, is_loss)| Some(NextEvent { due_ms: due_ms?, number, role, is_loss }))
        });
        events.flatten().min()
    }

    /// When the next thing that is under way to an end arrives, if it can.
    fn due_ms(&self, connection: &Connection, role: Role) -> Option<u64> {
        let (node, peer) = (connection.side(role).node, connection.side(role.other()).node);
        let (due_ms, parcel) = connection.side(role).inbox.front()?;
        let is_cut = self.cuts.contains(&(peer, node));
        match parcel {
            Parcel::Dial { deadline_ms } if is_cut || self.is_unheard(node, peer) => {
                Some(*deadline_ms)
            }
            Parcel::Dial { .. } => Some(*due_ms),
            Parcel::Accepted | Parcel::Bytes(_) | Parcel::Closed => {
                (!is_cut && connection.speed != Speed::Stuck).then_some(*due_ms)
            }
        }
    }

    /// Whether what a node sends to another one comes to nothing.
    fn is_unheard(&self, node: Address, peer: Address) -> bool {
        self.cuts.contains(&(node, peer)) || self.silent.contains(&peer)
    }

    /// Makes a dialled connection, unless nobody listens or its time is over.
    fn answer_dial(&mut self, now_ms: u64, number: ConnectionNo, deadline_ms: u64) -> NetEvent {
        let due_ms = now_ms + self.delay_ms();
        let (is_ghost, is_heard) =
            (self.random.percent(self.options.ghosts_percent), self.random.percent(50));
        let Some(connection) = self.connections.get_mut(&number) else { return NetEvent::Lost };
        let (from, to) =
            (connection.side(Role::Dialler).node, connection.side(Role::Acceptor).node);
        if !self.listening.contains(&to) || (now_ms >= deadline_ms && !is_heard) {
            connection.end(Role::Dialler);
            connection.end(Role::Acceptor);
            return NetEvent::Lost;
        }
        connection.push(Role::Acceptor, due_ms, Parcel::Accepted);
        if now_ms >= deadline_ms {
            // The node that was dialled has heard of it, and its answer came too late.
            connection.end(Role::Dialler);
            self.lose(now_ms, number, Some(Role::Acceptor));
            return NetEvent::Lost;
        }
        connection.open(Role::Dialler);
        if is_ghost {
            let mut ghost = Connection::new(from, to);
            ghost.push(Role::Acceptor, due_ms, Parcel::Accepted);
            ghost.end(Role::Dialler);
            connection.ghost = Some(ConnectionNo(self.n_connections));
            self.add(ghost);
        }
        NetEvent::Connected
    }

    fn end(&mut self, end: End) -> Option<(&mut Connection, Role)> {
        let connection = self.connections.get_mut(&end.connection)?;
        let role = connection.role_of(end.node)?;
        Some((connection, role))
    }

    fn add(&mut self, connection: Connection) -> ConnectionNo {
        let number = ConnectionNo(self.n_connections);
        self.n_connections += 1;
        self.connections.insert(number, connection);
        number
    }

    fn send(&mut self, now_ms: u64, number: Option<ConnectionNo>, to: Role, parcel: Parcel) {
        let Some(number) = number else { return };
        let due_ms = now_ms + self.delay_ms();
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.push(to, due_ms, parcel);
        }
    }

    fn delay_ms(&mut self) -> u64 {
        self.random.below(self.options.delay_ms_max + 1) as u64
    }

    /// Removes connections that are over at both ends; their ghosts get lost.
    fn remove_ended(&mut self, now_ms: u64) {
        let mut ghosts = Vec::new();
        self.connections.retain(|_, connection| {
            let has_ended = connection.has_ended();
            ghosts.extend(connection.ghost.filter(|_| has_ended));
            !has_ended
        });
        for ghost in ghosts {
            self.lose(now_ms, ghost, Some(Role::Acceptor));
        }
    }
}
