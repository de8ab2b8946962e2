//! The members of a group: who votes, who only follows, and how that changes.

use std::collections::BTreeSet;

use stdx::record::{Reader, RecordError, put_u8, put_u64};

/// Most members of a group, voters and learners together.
pub const MEMBERS_MAX: usize = 64;

/// The bits of a replica's number that are its serial.
const SERIAL_BITS: u32 = 48;

/// A replica of a group: `node << 48 | serial`, new whenever a replica is made anew. 0 is nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

impl PeerId {
    /// The number of the replica's node.
    #[must_use]
    pub const fn node(self) -> u16 {
        (self.0 >> SERIAL_BITS) as u16
    }
}

/// The nodes that are alive, as far as this one knows.
#[derive(Clone, Debug, Default)]
pub struct LivingNodes(BTreeSet<u16>);

impl LivingNodes {
    /// Notes whether a node is alive.
    pub fn set(&mut self, node: u16, is_alive: bool) {
        if is_alive {
            self.0.insert(node);
        } else {
            self.0.remove(&node);
        }
    }

    /// The nodes.
    pub fn nodes(&self) -> impl Iterator<Item = u16> {
        self.0.iter().copied()
    }

    /// Whether a replica's node is alive.
    #[must_use]
    pub fn has(&self, peer: PeerId) -> bool {
        self.0.contains(&peer.node())
    }
}

/// A step of a change of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The replica gets entries and does not vote.
    AddLearner(PeerId),
    /// The learner becomes a voter.
    Promote(PeerId),
    /// The replica is a member no longer.
    Remove(PeerId),
}

impl Change {
    /// Reads the payload of a membership entry.
    ///
    /// # Errors
    /// The bytes are no change.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(bytes);
        let (tag, peer) = (reader.u8()?, PeerId(reader.u64()?));
        match tag {
            0 => Ok(Self::AddLearner(peer)),
            1 => Ok(Self::Promote(peer)),
            2 => Ok(Self::Remove(peer)),
            _ => Err(RecordError::Invalid),
        }
    }

    /// Appends the payload of a membership entry.
    pub fn encode(self, out: &mut Vec<u8>) {
        let (tag, peer) = match self {
            Self::AddLearner(peer) => (0, peer),
            Self::Promote(peer) => (1, peer),
            Self::Remove(peer) => (2, peer),
        };
        put_u8(out, tag);
        put_u64(out, peer.0);
    }
}

/// The members of a group since an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// The index of the membership entry, or of the image, that they came with.
    pub since: u64,
    /// Replicas that vote, in the order in which they campaign.
    pub voters: Vec<PeerId>,
    /// Replicas that get entries alone.
    pub learners: Vec<PeerId>,
}

impl Members {
    /// Voters and learners.
    pub fn all(&self) -> impl Iterator<Item = PeerId> + '_ {
        self.voters.iter().chain(&self.learners).copied()
    }

    /// Whether a replica is one of them.
    #[must_use]
    pub fn has(&self, peer: PeerId) -> bool {
        self.all().any(|member| member == peer)
    }

    /// Whether a replica is a voter.
    #[must_use]
    pub fn has_voter(&self, peer: PeerId) -> bool {
        self.voters.contains(&peer)
    }

    /// Whether `me` votes and nobody else is a member.
    #[must_use]
    pub fn are_only(&self, me: PeerId) -> bool {
        self.voters == [me] && self.learners.is_empty()
    }

    /// Whether the nodes of a majority of the voters are alive, `me` taken for alive.
    #[must_use]
    pub fn has_living_majority(&self, me: PeerId, living: &LivingNodes) -> bool {
        let is_alive = |peer: &&PeerId| **peer == me || living.has(**peer);
        self.voters.iter().filter(is_alive).count() > self.voters.len() / 2
    }

    /// The members after a change by the entry at `index`; none if the change does not fit them.
    #[must_use]
    pub fn after(&self, change: Change, index: u64) -> Option<Self> {
        let mut next = Self { since: index, ..self.clone() };
        match change {
            Change::AddLearner(peer) => {
                let fits = peer.0 != 0 && !self.has(peer) && self.all().count() < MEMBERS_MAX;
                fits.then(|| next.learners.push(peer))?;
            }
            Change::Promote(peer) => {
                next.learners.retain(|learner| *learner != peer);
                (next.learners != self.learners).then(|| next.voters.push(peer))?;
            }
            Change::Remove(peer) => {
                next.voters.retain(|voter| *voter != peer);
                next.learners.retain(|learner| *learner != peer);
                (self.has(peer) && !next.voters.is_empty()).then_some(())?;
            }
        }
        Some(next)
    }

    /// Whether a group may have these members: nobody twice, and not too many.
    #[must_use]
    pub fn are_distinct(&self) -> bool {
        let distinct: BTreeSet<_> = self.all().filter(|peer| peer.0 != 0).collect();
        distinct.len() == self.all().count() && distinct.len() <= MEMBERS_MAX
    }

    /// Reads members.
    ///
    /// # Errors
    /// The bytes are no members, or these are none that a group can have.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let since = reader.u64()?;
        let (voters, learners) = (peers(reader)?, peers(reader)?);
        let members = Self { since, voters, learners };
        members.are_distinct().then_some(members).ok_or(RecordError::Invalid)
    }

    /// Appends members.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.since);
        for peers in [&self.voters, &self.learners] {
            put_u8(out, u8::try_from(peers.len()).unwrap_or(u8::MAX));
            peers.iter().for_each(|peer| put_u64(out, peer.0));
        }
    }
}

fn peers(reader: &mut Reader<'_>) -> Result<Vec<PeerId>, RecordError> {
    let n = usize::from(reader.u8()?);
    if n > MEMBERS_MAX {
        return Err(RecordError::Invalid);
    }
    (0..n).map(|_| reader.u64().map(PeerId)).collect()
}
