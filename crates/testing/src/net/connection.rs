//! One connection: what is under way to each of its ends.

use super::{Address, ConnectionNo};
use crate::random::Random;
use std::collections::VecDeque;

/// The bytes of one read, at most, that have left in several pieces.
const READ_BYTES_MAX: usize = 4096;

/// A node's part in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The node dialled the other one.
    Dialler,
    /// The node was dialled.
    Acceptor,
}

impl Role {
    /// The other node's role.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Dialler => Self::Acceptor,
            Self::Acceptor => Self::Dialler,
        }
    }
}

/// The speed of a connection's bytes, besides their delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// Bytes take their delay only.
    Full,
    /// A number of bytes in a second, not 0, in each direction.
    Slow {
        /// The number.
        bytes_per_s: u64,
    },
    /// No byte arrives.
    Stuck,
}

/// Something under way to an end.
#[derive(Debug)]
pub(super) enum Parcel {
    /// The answer to the dialler's request, which is not awaited longer than this.
    Dial {
        deadline_ms: u64,
    },
    Accepted,
    Bytes(Vec<u8>),
    Closed,
}

impl Parcel {
    const fn n_bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Dial { .. } | Self::Accepted | Self::Closed => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The node has not heard of the connection, or not that it is made.
    New,
    Open,
    /// The node has closed it, has heard its end, or has died.
    Over,
}

#[derive(Debug)]
pub(super) struct Side {
    pub(super) node: Address,
    /// Parcels and when they arrive, in order.
    pub(super) inbox: VecDeque<(u64, Parcel)>,
    /// When the node learns that the connection is lost, with all that has not arrived before.
    lost_ms: Option<u64>,
    phase: Phase,
}

#[derive(Debug)]
pub(super) struct Connection {
    dialler: Side,
    acceptor: Side,
    pub(super) speed: Speed,
    /// The connection to the acceptor that gets a copy of all that the dialler writes.
    pub(super) ghost: Option<ConnectionNo>,
    /// Nothing more gets under way.
    is_lost: bool,
}

impl Connection {
    pub(super) fn new(dialler: Address, acceptor: Address) -> Self {
        let (inbox, lost_ms, phase) = (VecDeque::new, None, Phase::New);
        let [dialler, acceptor] =
            [dialler, acceptor].map(|node| Side { node, inbox: inbox(), lost_ms, phase });
        Self { dialler, acceptor, speed: Speed::Full, ghost: None, is_lost: false }
    }

    pub(super) const fn side(&self, role: Role) -> &Side {
        match role {
            Role::Dialler => &self.dialler,
            Role::Acceptor => &self.acceptor,
        }
    }

    const fn side_mut(&mut self, role: Role) -> &mut Side {
        match role {
            Role::Dialler => &mut self.dialler,
            Role::Acceptor => &mut self.acceptor,
        }
    }

    pub(super) fn role_of(&self, node: Address) -> Option<Role> {
        [Role::Dialler, Role::Acceptor].into_iter().find(|role| self.side(*role).node == node)
    }

    pub(super) fn can_write(&self, role: Role) -> bool {
        self.side(role).phase == Phase::Open
    }

    pub(super) fn has_ended(&self) -> bool {
        self.dialler.phase == Phase::Over && self.acceptor.phase == Phase::Over
    }

    /// Bytes under way to an end.
    pub(super) fn bytes_to(&self, role: Role) -> usize {
        self.side(role).inbox.iter().map(|(_, parcel)| parcel.n_bytes()).sum()
    }

    /// Sends something to an end, where it arrives after what was sent before.
    pub(super) fn push(&mut self, to: Role, due_ms: u64, parcel: Parcel) {
        let is_lost = self.is_lost;
        let bytes_per_s =
            if let Speed::Slow { bytes_per_s } = self.speed { bytes_per_s } else { u64::MAX };
        let side = self.side_mut(to);
        let is_first = matches!(parcel, Parcel::Dial { .. } | Parcel::Accepted);
        if side.phase == Phase::New && side.inbox.is_empty() && !is_first {
            // A dialler gives up before anybody has heard of it.
            side.phase = Phase::Over;
        }
        if side.phase == Phase::Over || is_lost {
            return;
        }
        let last_ms = side.inbox.back().map_or(0, |(due_ms, _)| *due_ms);
        let span_ms = parcel.n_bytes() as u64 * 1000 / bytes_per_s;
        match (parcel, side.inbox.back_mut()) {
            (Parcel::Bytes(more), Some((arrives_ms, Parcel::Bytes(bytes))))
                if due_ms <= last_ms && bytes.len() + more.len() <= READ_BYTES_MAX =>
            {
                bytes.extend(more);
                *arrives_ms += span_ms;
            }
            (parcel, _) => side.inbox.push_back((due_ms.max(last_ms) + span_ms, parcel)),
        }
    }

    pub(super) const fn open(&mut self, role: Role) {
        self.side_mut(role).phase = Phase::Open;
    }

    /// When a node learns of the connection's loss: not before it has heard of the connection.
    pub(super) fn lost_ms(&self, role: Role) -> Option<u64> {
        let is_unknown = role == Role::Acceptor && self.acceptor.phase == Phase::New;
        self.side(role).lost_ms.filter(|_| !is_unknown)
    }

    /// Takes the first thing that has come to an end.
    pub(super) fn take(&mut self, role: Role) -> Option<Parcel> {
        let (_, parcel) = self.side_mut(role).inbox.pop_front()?;
        match parcel {
            Parcel::Accepted => self.open(role),
            Parcel::Closed => self.end(role),
            Parcel::Dial { .. } | Parcel::Bytes(_) => {}
        }
        Some(parcel)
    }

    /// Ends a connection for one node, which is told no more.
    pub(super) fn end(&mut self, role: Role) {
        let side = self.side_mut(role);
        (side.phase, side.lost_ms) = (Phase::Over, None);
        side.inbox.clear();
    }

    /// Has an end learn that the connection is lost, with a part of what was under way to it.
    pub(super) fn lose(&mut self, role: Role, told_ms: u64, random: &mut Random) {
        (self.is_lost, self.speed) = (true, Speed::Full);
        let side = self.side_mut(role);
        if side.phase == Phase::Over || side.lost_ms.is_some() {
            return;
        }
        side.inbox.truncate(random.below(side.inbox.len() + 1));
        match (side.phase, role) {
            (Phase::New, Role::Dialler) => side.inbox.clear(),
            (Phase::New, Role::Acceptor) if side.inbox.is_empty() => return self.end(role),
            _ => {}
        }
        side.lost_ms = Some(told_ms);
    }

    /// Has all that is under way arrive by a time.
    pub(super) fn hurry(&mut self, upto_ms: u64) {
        for side in [&mut self.dialler, &mut self.acceptor] {
            let dues = side.inbox.iter_mut().map(|(due_ms, _)| due_ms);
            dues.chain(&mut side.lost_ms).for_each(|due_ms| *due_ms = upto_ms.min(*due_ms));
        }
    }
}
