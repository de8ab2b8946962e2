//! The pair of links to the management node (Link Pair 1.0): requests come on one, responses go out on the
//! other link of the same name.

use crate::fault::ProtocolFault;
use crate::incoming::IncomingLink;
use amqp10::{Attach, Condition, Flow, LinkTarget, Role, SerialNumber, ValueRef};
use session::{LinkId, ListedLink};

/// The address of the management node.
pub(crate) const MANAGEMENT: &str = "/management";
/// The requests that a client may make before it gets more credit. COMPAT: RabbitMQ's.
pub(crate) const MANAGEMENT_CREDIT: u32 = 8;
/// The largest request, in bytes: as large as one of AMQP 0-9-1, which is a frame.
pub(crate) const REQUEST_BYTES_MAX: u64 = 128 * 1024;
/// The most bytes of responses and deliveries that wait for a session's window while requests are taken.
const WAITING_BYTES_MAX: usize = 1024 * 1024;
/// The number of links that the broker does not know; it gives none of this number.
pub(crate) const NO_LINK: LinkId = LinkId(u64::MAX);

/// The link on which requests come.
#[derive(Debug)]
pub(crate) struct RequestLink {
    pub(crate) name: Box<str>,
    pub(crate) incoming: IncomingLink,
}

/// The link on which responses go out, all of them settled.
#[derive(Debug)]
pub(crate) struct ResponseLink {
    pub(crate) name: Box<str>,
    pub(crate) message_bytes_max: u64,
    delivery_count: SerialNumber,
    credit: u32,
}

/// Whether the attach is of a link to or from the management node.
pub(crate) fn is_of_management(attach: &Attach<'_>) -> bool {
    let address = match (attach.role, &attach.source, &attach.target) {
        (Role::Receiver, Some(source), _) => source.address,
        (Role::Sender, _, Some(LinkTarget::Terminus(target))) => target.address,
        _ => None,
    };
    address == Some(ValueRef::Str(MANAGEMENT))
}

/// Checks that the link is one of a pair, and that there is somebody to talk to.
pub(crate) fn check_pair(attach: &Attach<'_>, has_management: bool) -> Result<(), ProtocolFault> {
    if !has_management {
        let text = "/management not supported";
        return Err(ProtocolFault::link(Condition::NotImplemented, text));
    }
    if attach.properties.get("paired") == Some(ValueRef::Bool(true)) {
        return Ok(());
    }
    // COMPAT: RabbitMQ's text.
    let text = "Link property 'paired' is not set to boolean value 'true'";
    Err(ProtocolFault::link(Condition::InvalidField, text))
}

impl RequestLink {
    pub(crate) fn new(attach: &Attach<'_>) -> Self {
        let count = attach.initial_delivery_count.unwrap_or_default();
        let incoming = IncomingLink::new(NO_LINK, attach.snd_settle_mode, count);
        Self { name: attach.name.into(), incoming: incoming.with_credit(MANAGEMENT_CREDIT) }
    }
}

impl ResponseLink {
    pub(crate) fn new(attach: &Attach<'_>) -> Self {
        let message_bytes_max = attach.max_message_size.filter(|max| *max > 0).unwrap_or(u64::MAX);
        let delivery_count = SerialNumber::default();
        Self { name: attach.name.into(), message_bytes_max, delivery_count, credit: 0 }
    }

    /// Fills in the link's part of what listings show.
    pub(crate) fn list(&self, listed: &mut ListedLink) {
        listed.message_bytes_max = Some(self.message_bytes_max).filter(|max| *max < u64::MAX);
        listed.delivery_count = self.delivery_count.bits();
        listed.credit = self.credit;
    }

    /// Takes credit for the response to a request.
    pub(crate) fn take_credit(&mut self) -> Result<(), ProtocolFault> {
        let Some(left) = self.credit.checked_sub(1) else {
            // COMPAT: RabbitMQ's text and scope.
            let text = "insufficient credit (0) for management link from RabbitMQ to client";
            return Err(ProtocolFault::session(Condition::PreconditionFailed, text));
        };
        self.credit = left;
        self.delivery_count = self.delivery_count.plus(1);
        Ok(())
    }

    /// Takes a flow of the client; returns the answer, if one is due.
    pub(crate) fn flow(
        &mut self,
        flow: &Flow<'_>,
        of_session: Flow<'static>,
    ) -> Option<Flow<'static>> {
        let Flow { drain, echo, .. } = *flow;
        let n_seen = flow.delivery_count.unwrap_or_default();
        let n_on_their_way = self.delivery_count.since(n_seen);
        self.credit = flow.link_credit?.saturating_sub(n_on_their_way);
        if drain {
            self.delivery_count = self.delivery_count.plus(self.credit);
            self.credit = 0;
        }
        (drain || echo).then_some(Flow {
            handle: flow.handle,
            delivery_count: Some(self.delivery_count),
            link_credit: Some(self.credit),
            available: Some(0),
            drain,
            ..of_session
        })
    }
}

/// The fault of a request whose response has no link.
pub(crate) fn half_open() -> ProtocolFault {
    // COMPAT: RabbitMQ's text and scope.
    let text = "received transfer on half open management link pair";
    ProtocolFault::session(Condition::PreconditionFailed, text)
}

/// Checks that a client takes the responses that it asks for.
pub(crate) fn check_waiting(n_bytes: usize) -> Result<(), ProtocolFault> {
    if n_bytes <= WAITING_BYTES_MAX {
        return Ok(());
    }
    let text = format!("responses wait for the session's window (> {WAITING_BYTES_MAX} bytes)");
    Err(ProtocolFault::session(Condition::ResourceLimitExceeded, text))
}

/// The fault of a link whose name another of the session's has that goes the same way.
pub(crate) fn paired_twice(attach: &Attach<'_>) -> ProtocolFault {
    let text = format!("management link pair '{}' is attached already", attach.name);
    ProtocolFault::link(Condition::PreconditionFailed, text)
}
