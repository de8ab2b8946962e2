//! The links of a session: their states by handle, checks of what clients attach, and the answers.

use crate::fault::ProtocolFault;
use crate::incoming::IncomingLink;
use crate::management_links::{RequestLink, ResponseLink};
use crate::outgoing::OutgoingLink;
use crate::requests::{AttachAsked, AttachedLink};
use amqp10::{
    AmqpError, Attach, Condition, DeliveryState, Detach, Flow, MapRef, Performative,
    ReceiverSettleMode, Role, SenderSettleMode, SerialNumber, Symbol, Symbols,
};

/// The outcomes that messages may have.
const OUTCOMES: [&str; 4] =
    ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"];
/// The kinds of filters that sources have which have any. COMPAT: RabbitMQ tells it of streams alone.
const FILTERS: [&str; 2] = ["AMQP_FILTEX_PROP_V1_0", "AMQP_FILTEX_SQL_V1_0"];

/// The link of a handle.
#[derive(Debug, Default)]
pub(crate) enum LinkState {
    /// No link has the handle.
    #[default]
    Free,
    /// The broker attaches the link.
    Attaching(Box<AttachingLink>),
    /// The client publishes on the link.
    Incoming(Box<IncomingLink>),
    /// The client consumes on the link.
    Outgoing(OutgoingLink),
    /// The client controls the session's transactions.
    Coordinator(Box<IncomingLink>),
    /// The client makes requests to the management node.
    Requests(Box<RequestLink>),
    /// The management node responds.
    Responses(Box<ResponseLink>),
    /// The link was detached by the server; until the client's answer its input is passed over.
    Detached,
}

impl LinkState {
    /// The link as one on which something comes, whatever it is for.
    #[inline]
    pub(crate) fn incoming(&mut self) -> Option<&mut IncomingLink> {
        match self {
            Self::Incoming(link) | Self::Coordinator(link) => Some(link),
            Self::Requests(link) => Some(&mut link.incoming),
            Self::Free
            | Self::Attaching(_)
            | Self::Outgoing(_)
            | Self::Responses(_)
            | Self::Detached => None,
        }
    }
}

/// A link that the broker attaches.
#[derive(Debug)]
pub(crate) struct AttachingLink {
    pub(crate) asked: AttachAsked,
    /// The client's last flow of the link: many give credit before they have seen the answer.
    pub(crate) flow: Option<EarlyFlow>,
    /// The client's detach, if there was one.
    pub(crate) detach: Option<EarlyDetach>,
    /// The fault for which the link is detached once it is attached.
    pub(crate) fault: Option<ProtocolFault>,
}

impl AttachingLink {
    pub(crate) const fn new(asked: AttachAsked) -> Self {
        Self { asked, flow: None, detach: None, fault: None }
    }
}

/// A link's part of a flow that came before the link was attached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EarlyFlow {
    pub(crate) delivery_count: SerialNumber,
    pub(crate) credit: u32,
    pub(crate) drain: bool,
    pub(crate) echo: bool,
}

impl EarlyFlow {
    /// The link's part of a flow; none if it gives no credit.
    pub(crate) fn of(flow: &Flow<'_>) -> Option<Self> {
        Some(Self {
            // A client that has not seen the link's attach counts from its first delivery.
            delivery_count: flow.delivery_count.unwrap_or_default(),
            credit: flow.link_credit?,
            drain: flow.drain,
            echo: flow.echo,
        })
    }
}

/// A detach that came before the link was attached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EarlyDetach {
    pub(crate) is_closed: bool,
}

/// Checks what a client attaches, before the broker is asked.
pub(crate) fn check_attach(attach: &Attach<'_>) -> Result<(), ProtocolFault> {
    let refuse = |condition, text: &'static str| Err(ProtocolFault::link(condition, text));
    if !attach.unsettled.is_empty() || attach.incomplete_unsettled {
        return refuse(Condition::NotImplemented, "Link recovery not supported");
    }
    if let Some(unknown) = unknown_outcome(attach) {
        let text = format!("Outcomes not supported: {unknown}");
        return Err(ProtocolFault::link(Condition::NotImplemented, text));
    }
    match attach.role {
        // COMPAT: of messages that are settled when sent there is nothing to be said.
        Role::Sender
            if attach.rcv_settle_mode == ReceiverSettleMode::Second
                && attach.snd_settle_mode != SenderSettleMode::Settled =>
        {
            refuse(Condition::NotImplemented, "rcv-settle-mode second not supported")
        }
        Role::Sender if attach.initial_delivery_count.is_none() => {
            refuse(Condition::InvalidField, "Attach refused: no initial-delivery-count")
        }
        Role::Sender if attach.target.is_none() => {
            refuse(Condition::InvalidField, "Attach refused: no target")
        }
        Role::Sender | Role::Receiver => Ok(()),
    }
}

/// The first outcome that a client's source names and that messages do not have here.
fn unknown_outcome<'a>(attach: &Attach<'a>) -> Option<&'a str> {
    attach.source?.outcomes.iter().find(|outcome| !OUTCOMES.contains(outcome))
}

/// The server's end of a link that is in place.
pub(crate) fn accepting<'a>(
    asked: &Attach<'a>,
    attached: &AttachedLink<'a>,
    message_bytes_max: u64,
) -> Attach<'a> {
    let is_sender = asked.role == Role::Receiver;
    let mut source = attached.source.or(asked.source);
    if is_sender && let Some(source) = &mut source {
        source.default_outcome = Some(DeliveryState::RELEASED);
        source.outcomes = Symbols::Listed(&OUTCOMES);
        if attached.source.is_none_or(|source| source.dynamic) {
            source.filter = source.filter.map(|_| attached.filters.unwrap_or(MapRef::EMPTY));
            let is_copied = attached.filters.is_some();
            source.distribution_mode = Some(Symbol(if is_copied { "copy" } else { "move" }));
        } else if let Some(asked) = asked.source {
            source.capabilities = asked.capabilities;
        }
    }
    Attach {
        source,
        target: attached.target.or(asked.target),
        snd_settle_mode: if is_sender && asked.snd_settle_mode == SenderSettleMode::Mixed {
            SenderSettleMode::Unsettled
        } else {
            asked.snd_settle_mode
        },
        max_message_size: if is_sender { asked.max_message_size } else { Some(message_bytes_max) },
        offered_capabilities: Symbols::Listed(if attached.filters.is_some() {
            &FILTERS
        } else {
            &[]
        }),
        ..answering(asked)
    }
}

/// The server's end of a link that is refused: it has no terminus of the server's.
pub(crate) fn refusing<'a>(asked: &Attach<'a>) -> Attach<'a> {
    let is_sender = asked.role == Role::Receiver;
    Attach {
        source: asked.source.filter(|_| !is_sender),
        target: asked.target.filter(|_| is_sender),
        ..answering(asked)
    }
}

fn answering<'a>(asked: &Attach<'a>) -> Attach<'a> {
    let is_sender = asked.role == Role::Receiver;
    Attach {
        name: asked.name,
        handle: asked.handle,
        role: if is_sender { Role::Sender } else { Role::Receiver },
        snd_settle_mode: asked.snd_settle_mode,
        rcv_settle_mode: asked.rcv_settle_mode,
        initial_delivery_count: is_sender.then(SerialNumber::default),
        properties: asked.properties,
        ..Attach::default()
    }
}

/// The fault as an error of the wire.
pub(crate) fn error_of(fault: &ProtocolFault) -> AmqpError<'_> {
    AmqpError {
        condition: Symbol(fault.condition.as_str()),
        description: Some(&*fault.text).filter(|text| !text.is_empty()),
        info: MapRef::decode(&fault.info),
    }
}

/// Appends the server's detach of a link.
pub(crate) fn put_detach(
    channel: u16,
    handle: u32,
    closed: bool,
    fault: Option<&ProtocolFault>,
    out: &mut Vec<u8>,
) {
    let detach = Detach { handle, closed, error: fault.map(error_of) };
    Performative::Detach(detach).encode_frame(channel, out);
}
