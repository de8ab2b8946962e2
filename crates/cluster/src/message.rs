//! The messages that replicas of a group exchange.

use bytes::Bytes;

use crate::entry::Payload;
use crate::members::{Members, PeerId};

/// A message between two replicas of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The replica that sent it.
    pub from: PeerId,
    /// The replica it is for.
    pub to: PeerId,
    /// The sender's term; of a (pre-)vote the term that it is about.
    pub term: u64,
    /// The content.
    pub body: MessageBody,
}

/// An entry on its way to a follower; its index follows from its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentEntry {
    /// The term of the leader that made it.
    pub term: u64,
    /// Its content.
    pub payload: Payload,
}

/// Up to where a log goes, as candidates and voters tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// The index of its last entry.
    pub last_index: u64,
    /// The term of its last entry.
    pub last_term: u64,
    /// The index up to which it is known to be committed.
    pub commit: u64,
    /// The term of the entry at that index.
    pub commit_term: u64,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageBody {
    /// Entries from the leader, behind the entry at `prev_index`; none to ask where the logs agree.
    Append {
        /// The index of the entry before the first.
        prev_index: u64,
        /// The term of that entry.
        prev_term: u64,
        /// The index up to which the leader's log is committed.
        commit: u64,
        /// The entries, one behind the other.
        entries: Vec<SentEntry>,
    },
    /// The follower has all entries up to `index`, durably.
    Appended {
        /// The index.
        index: u64,
        /// The index up to which the follower's log is committed.
        commit: u64,
    },
    /// The follower has another entry at `index`, or none.
    Rejected {
        /// The `prev_index` that was rejected.
        index: u64,
        /// The index at which the logs may agree.
        hint_index: u64,
        /// The term of the follower's entry there.
        hint_term: u64,
        /// The index up to which the follower's log is committed.
        commit: u64,
    },
    /// A candidate asks for a vote.
    Vote {
        /// Whether it asks if it would get one.
        is_pre: bool,
        /// Whether the leader has asked it to.
        is_transfer: bool,
        /// The candidate's log.
        log: LogEnd,
    },
    /// The answer to [`MessageBody::Vote`].
    Voted {
        /// Whether the vote that was asked for was a trial, as in the question.
        is_pre: bool,
        /// Whether the vote was given.
        is_granted: bool,
        /// Up to where the voter's log is committed; last index and term are 0.
        log: LogEnd,
    },
    /// The sender leads; of the receiver's log all up to `commit` is committed.
    Heartbeat {
        /// The index.
        commit: u64,
    },
    /// The answer to [`MessageBody::Heartbeat`].
    HeartbeatAnswer {
        /// The index up to which the follower's log is committed.
        commit: u64,
    },
    /// As [`MessageBody::Heartbeat`], and wants no answer.
    Commit {
        /// The index.
        commit: u64,
    },
    /// The leader asks a follower that has all its entries to campaign at once.
    TimeoutNow,
    /// A follower that was asked for a vote asks its leader whether it still leads.
    WhoLeads,
    /// The answer of one that does not lead.
    NotLeader,
    /// The leader's log begins behind what the receiver has: it should get this image.
    ImageOffer(ImageOffer),
    /// Asks for the next piece of an image, or for another image.
    ImageWant {
        /// The image's index.
        index: u64,
        /// The bytes that are there already; all, if they are not those that were offered.
        offset: u64,
    },
    /// A piece of an image.
    ImagePiece {
        /// The image's index.
        index: u64,
        /// Where the piece belongs.
        offset: u64,
        /// The piece.
        bytes: Bytes,
    },
    /// The group, or the receiver, is known to have been removed.
    Gone,
}

/// An image that a leader offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageOffer {
    /// The index of the last entry in the image.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
    /// The members at that entry.
    pub members: Members,
    /// The length of the machine's bytes.
    pub machine_bytes: u64,
    /// The CRC32C of the machine's bytes.
    pub checksum: u32,
}
