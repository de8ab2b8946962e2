//! A node joins a cluster, or leaves the one that it belongs to.
//!
//! The data that a node had is replaced. The note [`NodeNote::Joining`](log::NodeNote) beside the node's
//! identity says how far it is, so that the node or the same command goes on after a kill at any moment:
//!
//! - No note: the node's data is whole, or there is none. A start goes on as what the node is.
//! - *Asks*: the same; a member may have added the node, known by the note's token. A start goes on as what
//!   the node is. The same command asks again with this token, and gets the same number.
//! - *Wipes*: the data is condemned, and a part of it gone; the new identity may be there. A start removes
//!   the rest, then writes the identity, or is a fresh node.
//! - *Learns*: the new identity is there, and no data but the cluster's. The node connects to the members
//!   that the note names until it has definitions of its own.
//! - *Discards*: an operator's word that the other members are lost. A start goes on in the note's epoch, as
//!   the only member, and forgets the others; then the note goes.
//!
//! ```text
//! join:    count messages, write "asks", ask a member, write "wipes", wipe, write the identity,
//!          write "learns", start as a learner; once the definitions are applied and durable, remove the note
//! reset:   ask a member to forget this node, write "wipes", wipe, remove the note
//! forced:  write "wipes", wipe, remove the note
//! ```
//!
//! Each step is durable before the next begins. Clients are disconnected, and listeners closed, before
//! messages are counted: none come between that and the wipe. A wipe spares the note, the format's file and
//! the lock; it takes the identity and the promise too. Joining ends a promise: whoever made that cluster had
//! those of a majority.

use crate::joining_message::{JoinAnswer, JoinAsk, JoinedCluster, LeaveAsk};
use crate::joining_note::JoiningNote;
use log::NodeIdentity;

/// The refusal to join while messages would be lost.
const HOLDS_MESSAGES: &str = "durable queues of this node hold messages, which joining a cluster deletes: \
                              consume or move them first, or use --force";

/// The thing that the host of a [`Joining`] does next. It says when that is done: [`Joining::done`] unless
/// another function is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoiningStep {
    /// Count the messages in durable queues; [`Joining::counted`] takes their number.
    CountMessages,
    /// Write the note durably.
    WriteNote(JoiningNote),
    /// Ask a member to add this node, again after a while; [`Joining::answered`] takes the answer.
    AskToJoin(JoinAsk),
    /// Ask a member to remove this node, again after a while; [`Joining::answered`] takes the answer.
    AskToLeave(LeaveAsk),
    /// Remove all data of the node, durably: definitions, messages, identity, promise.
    Wipe,
    /// Write the node's new identity durably.
    WriteIdentity(NodeIdentity),
    /// Remove the note durably.
    RemoveNote,
    /// Done: the node is a learner of the cluster. The note goes once its definitions are durable here.
    Learn(JoinedCluster),
    /// Done: the node is fresh.
    BeFresh,
    /// Ended: the node is what it was, for this reason.
    Refuse(String),
}

/// The step that a node is at.
#[derive(Clone, Debug, PartialEq, Eq)]
enum JoiningPhase {
    Counts(JoinAsk),
    NotesAsk(JoinAsk),
    AsksToJoin(JoinAsk),
    AsksToLeave(LeaveAsk),
    Condemns(Option<JoinedCluster>),
    Wipes(Option<JoinedCluster>),
    Identifies(JoinedCluster),
    NotesMembers(JoinedCluster),
    Learns(JoinedCluster),
    RemovesNote,
    IsFresh,
    Withdraws(String),
    IsRefused(String),
}

/// A node that joins or leaves a cluster.
#[derive(Clone, Debug)]
pub struct Joining {
    name: String,
    phase: JoiningPhase,
}

impl Joining {
    /// Begins to join, or goes on with an earlier attempt. `ask` has a new random token, which is used unless
    /// `note` has one.
    #[must_use]
    pub fn join(mut ask: JoinAsk, is_forced: bool, note: Option<JoiningNote>) -> Self {
        if let Some(going_on) = Self::resume(&ask.name, note.clone()) {
            return going_on;
        }
        if let Some(JoiningNote::Asks { token }) = note {
            ask.token = token;
        }
        let name = ask.name.clone();
        let phase = if is_forced { JoiningPhase::NotesAsk(ask) } else { JoiningPhase::Counts(ask) };
        Self { name, phase }
    }

    /// Begins to leave the node's cluster.
    #[must_use]
    pub fn reset(me: &NodeIdentity) -> Self {
        let ask = LeaveAsk { cluster: me.cluster, number: me.number };
        Self { name: me.name.clone(), phase: JoiningPhase::AsksToLeave(ask) }
    }

    /// Begins to wipe the node without telling anybody. Members of its cluster go on to count it.
    #[must_use]
    pub fn force_reset(name: &str) -> Self {
        Self { name: name.to_owned(), phase: JoiningPhase::Condemns(None) }
    }

    /// Goes on at a start, before anything else is read; none if the node starts as what it is.
    #[must_use]
    pub fn resume(name: &str, note: Option<JoiningNote>) -> Option<Self> {
        let phase = match note? {
            JoiningNote::Asks { .. } | JoiningNote::Discards { .. } => return None,
            JoiningNote::Wipes(then) => JoiningPhase::Wipes(then),
            JoiningNote::Learns(cluster) => JoiningPhase::Learns(cluster),
        };
        Some(Self { name: name.to_owned(), phase })
    }

    /// The thing that is to be done now.
    #[must_use]
    pub fn step(&self) -> JoiningStep {
        match self.phase.clone() {
            JoiningPhase::Counts(_) => JoiningStep::CountMessages,
            JoiningPhase::NotesAsk(ask) => {
                JoiningStep::WriteNote(JoiningNote::Asks { token: ask.token })
            }
            JoiningPhase::AsksToJoin(ask) => JoiningStep::AskToJoin(ask),
            JoiningPhase::AsksToLeave(ask) => JoiningStep::AskToLeave(ask),
            JoiningPhase::Condemns(then) => JoiningStep::WriteNote(JoiningNote::Wipes(then)),
            JoiningPhase::Wipes(_) => JoiningStep::Wipe,
            JoiningPhase::Identifies(cluster) => {
                JoiningStep::WriteIdentity(cluster.identity(&self.name))
            }
            JoiningPhase::NotesMembers(cluster) => {
                JoiningStep::WriteNote(JoiningNote::Learns(cluster))
            }
            JoiningPhase::Learns(cluster) => JoiningStep::Learn(cluster),
            JoiningPhase::RemovesNote | JoiningPhase::Withdraws(_) => JoiningStep::RemoveNote,
            JoiningPhase::IsFresh => JoiningStep::BeFresh,
            JoiningPhase::IsRefused(text) => JoiningStep::Refuse(text),
        }
    }

    /// Notes that the step is done.
    pub fn done(&mut self) {
        self.phase = match self.phase.clone() {
            JoiningPhase::NotesAsk(ask) => JoiningPhase::AsksToJoin(ask),
            JoiningPhase::Condemns(then) => JoiningPhase::Wipes(then),
            JoiningPhase::Wipes(Some(cluster)) => JoiningPhase::Identifies(cluster),
            JoiningPhase::Wipes(None) => JoiningPhase::RemovesNote,
            JoiningPhase::Identifies(cluster) => JoiningPhase::NotesMembers(cluster),
            JoiningPhase::NotesMembers(cluster) => JoiningPhase::Learns(cluster),
            JoiningPhase::RemovesNote => JoiningPhase::IsFresh,
            JoiningPhase::Withdraws(text) => JoiningPhase::IsRefused(text),
            waiting @ (JoiningPhase::Counts(_)
            | JoiningPhase::AsksToJoin(_)
            | JoiningPhase::AsksToLeave(_)
            | JoiningPhase::Learns(_)
            | JoiningPhase::IsFresh
            | JoiningPhase::IsRefused(_)) => waiting,
        };
    }

    /// Takes the number of messages in durable queues.
    pub fn counted(&mut self, n_messages: u64) {
        if let JoiningPhase::Counts(ask) = &self.phase {
            self.phase = match n_messages {
                0 => JoiningPhase::NotesAsk(ask.clone()),
                _ => JoiningPhase::IsRefused(HOLDS_MESSAGES.to_owned()),
            };
        }
    }

    /// Takes a member's answer. The node asks on if the cluster cannot do it now.
    pub fn answered(&mut self, answer: JoinAnswer) {
        self.phase = match (self.phase.clone(), answer) {
            (JoiningPhase::AsksToJoin(_), JoinAnswer::Joined(cluster)) => {
                JoiningPhase::Condemns(Some(cluster))
            }
            (JoiningPhase::AsksToJoin(_), JoinAnswer::Refused(text)) => {
                JoiningPhase::Withdraws(text)
            }
            (JoiningPhase::AsksToLeave(_), JoinAnswer::Left) => JoiningPhase::Condemns(None),
            (JoiningPhase::AsksToLeave(_), JoinAnswer::Refused(text)) => {
                JoiningPhase::IsRefused(text)
            }
            (phase, _) => phase,
        };
    }
}
