//! The work that a step gives the host of a group, as data.

use std::sync::Arc;

use bytes::Bytes;
use log::Lsn;

use crate::entry::Image;
use crate::image_store::ImageWrite;
use crate::members::{Members, PeerId};
use crate::message::{Message, MessageBody};

/// Whom the host has to tell what became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The fate of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalOutcome {
    /// The proposal is committed, in the entry of this index.
    Committed(u64),
    /// The proposal is in no log. Another replica may lead.
    Refused(Option<PeerId>),
    /// The replica leads no longer: the proposal is in the log, or is not.
    Lost,
}

/// A message, and when it may leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// The message.
    pub message: Message,
    /// The position of the node's log that must be durable before; messages to one peer keep their order.
    pub after: Option<Lsn>,
}

/// Commands that are committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The index of their entry.
    pub index: u64,
    /// The term of their entry.
    pub term: u64,
    /// The commands, as they were proposed, one proposal behind the other.
    pub commands: Bytes,
}

/// A request of a group to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupRequest {
    /// [`RaftGroup::take_image`](crate::RaftGroup::take_image) with the machine as it is now.
    Image,
    /// [`GroupStep::Campaign`](crate::GroupStep::Campaign) after a random time, unless a leader is heard of.
    CampaignLater,
    /// [`GroupStep::Tick`](crate::GroupStep::Tick) after a second.
    TickLater,
    /// The replica has stopped: a committed entry could not be read, or its log is damaged.
    Stopped,
    /// The replica is no member any more.
    Gone,
}

/// Whether a replica may take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The replica takes part.
    Sound,
    /// Entries up to the index are missing in the log: the replica waits for an image, and does not vote.
    Damaged(u64),
    /// The replica takes no part until its node starts again.
    Stopped,
}

/// The outcome of a step, in the order in which the host works it off.
#[derive(Debug, Default)]
pub struct GroupEffects {
    /// An image that replaces the machine.
    pub restored: Option<Image>,
    /// Commands to apply, behind that.
    pub committed: Vec<Committed>,
    /// The members, if they have changed. A replica that they lack is made anew only when `durable_at` has
    /// come.
    pub members: Option<Arc<Members>>,
    /// Proposals that are decided.
    pub answers: Vec<(Ticket, ProposalOutcome)>,
    /// Messages for other replicas.
    pub messages: Vec<OutgoingMessage>,
    /// [`GroupStep::Durable`](crate::GroupStep::Durable) is due once this position is durable.
    pub durable_at: Option<Lsn>,
    /// An image to write without the group's lock; then
    /// [`RaftGroup::image_written`](crate::RaftGroup::image_written) is due.
    pub write: Option<ImageWrite>,
    /// Further work for the host.
    pub requests: Vec<GroupRequest>,
}

impl GroupEffects {
    pub(crate) fn send(&mut self, from: PeerId, to: PeerId, term: u64, body: MessageBody) {
        self.messages
            .push(OutgoingMessage { message: Message { from, to, term, body }, after: None });
    }

    pub(crate) fn ask(&mut self, request: GroupRequest) {
        if !self.requests.contains(&request) {
            self.requests.push(request);
        }
    }
}
