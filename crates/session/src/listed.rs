//! Sessions of AMQP 1.0 with their links, as listings show them.

use crate::ChannelId;

/// A session as it was at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSession {
    /// The session's channel, as its client numbers it.
    pub channel: ChannelId,
    /// The highest handle that a link may have.
    pub handle_max: u32,
    /// The windows, both ways.
    pub windows: ListedWindows,
    /// Deliveries that the client has not settled.
    pub n_unsettled: u64,
    /// Links on which the client publishes, by handle.
    pub incoming: Vec<ListedLink>,
    /// Links on which the client consumes, by handle.
    pub outgoing: Vec<ListedLink>,
}

/// The windows of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedWindows {
    /// The id of the next transfer that comes.
    pub next_incoming_id: u32,
    /// The transfers that may come.
    pub incoming: u32,
    /// The id of the next transfer that goes out.
    pub next_outgoing_id: u32,
    /// The transfers that may go out.
    pub remote_incoming: u32,
    /// The transfers that the client has said that it may send.
    pub remote_outgoing: u32,
}

/// A link of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedLink {
    /// The client's number for the link.
    pub handle: u32,
    /// The client's name for the link.
    pub name: String,
    /// The address of the node that messages go to, or come from; none is the anonymous terminus.
    pub address: Option<String>,
    /// The queue that messages come from, if they come from one.
    pub queue: Option<String>,
    /// The sender's way to settle: `unsettled`, `settled` or `mixed`.
    pub settle_mode: &'static str,
    /// The largest message, in bytes; none for any.
    pub message_bytes_max: Option<u64>,
    /// Deliveries made: a serial number.
    pub delivery_count: u32,
    /// Deliveries that may follow.
    pub credit: u32,
    /// Publishes that the broker has not answered.
    pub n_unanswered: u32,
    /// The filters of the source: an encoded map, or nothing.
    pub filter: Vec<u8>,
}
