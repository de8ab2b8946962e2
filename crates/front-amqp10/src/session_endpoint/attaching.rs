//! A session's links as they come in place: checks, the question to the broker, its answer.

use super::coordinating::attach_coordinator;
use super::{SessionEndpoint, SessionIo, answer_attach, credit_request, requests_of, responses_of};
use crate::address::TargetAddress;
use crate::fault::{FaultScope, ProtocolFault};
use crate::incoming::IncomingLink;
use crate::links::{
    AttachingLink, EarlyDetach, LinkState, accepting, check_attach, put_detach, refusing,
};
use crate::management_links::{
    NO_LINK, REQUEST_BYTES_MAX, RequestLink, ResponseLink, check_pair, is_of_management,
    paired_twice,
};
use crate::outgoing::OutgoingLink;
use crate::requests::{AttachAsked, AttachResult, AttachedLink, LinkHandle, LinkRequest};
use crate::topics::target_of;
use amqp10::{
    Attach, Condition, Detach, LinkTarget, Performative, Role, SenderSettleMode, TargetTerminus,
};
use session::{ChannelId, LinkId, PublishTarget, ShortString};

impl SessionEndpoint {
    /// Takes an attach of the client.
    pub(super) fn attach(
        &mut self,
        io: &mut SessionIo<'_>,
        attach: &Attach<'_>,
        body: &[u8],
    ) -> Result<(), ProtocolFault> {
        let handle = attach.handle;
        if handle > self.handle_max {
            return Err(ProtocolFault::session(
                Condition::FramingError,
                format!(
                    "link handle value ({handle}) exceeds maximum link handle value ({})",
                    self.handle_max
                ),
            ));
        }
        let index = usize::try_from(handle).unwrap_or(usize::MAX);
        if index >= self.links.len() {
            self.links.resize_with(index + 1, LinkState::default);
        }
        let key = LinkHandle { channel: ChannelId(self.channel), handle };
        if !matches!(self.link_mut(handle), None | Some(LinkState::Free | LinkState::Detached)) {
            return Err(ProtocolFault::session(
                Condition::HandleInUse,
                format!("handle {handle} is already associated with a link"),
            ));
        }
        if let Err(fault) = check_attach(attach) {
            self.refuse(io, attach, &fault);
            return Ok(());
        }
        if is_of_management(attach) {
            self.attach_management(io, attach);
            return Ok(());
        }
        if attach.role == Role::Sender && matches!(attach.target, Some(LinkTarget::Coordinator(_)))
        {
            if let Err(fault) = attach_coordinator(self, io, attach) {
                self.refuse(io, attach, &fault);
            }
            return Ok(());
        }
        let target = match publish_target(attach, io.settings.permits_address_v1) {
            Ok(target) => target,
            Err(fault) => {
                self.refuse(io, attach, &fault);
                return Ok(());
            }
        };
        let asked = AttachAsked { key, body: body.to_vec(), target };
        if let Some(state) = self.link_mut(handle) {
            *state = LinkState::Attaching(Box::new(AttachingLink::new(asked.clone())));
        }
        io.requests.push(LinkRequest::Attach(Box::new(asked)));
        Ok(())
    }

    /// Attaches a link of a pair to the management node, which needs no broker.
    fn attach_management(&mut self, io: &mut SessionIo<'_>, attach: &Attach<'_>) {
        let is_twice = match attach.role {
            Role::Sender => requests_of(&mut self.links, attach.name).is_some(),
            Role::Receiver => responses_of(&mut self.links, attach.name).is_some(),
        };
        let twice = if is_twice { Err(paired_twice(attach)) } else { Ok(()) };
        if let Err(fault) = check_pair(attach, io.settings.has_management()).and(twice) {
            return self.refuse(io, attach, &fault);
        }
        let attached = AttachedLink { link: NO_LINK, source: None, target: None, filters: None };
        let mut answer = accepting(attach, &attached, io.limits.message_bytes_max);
        answer.snd_settle_mode = SenderSettleMode::Settled;
        answer.source = attach.source;
        let request_bytes_max = io.limits.message_bytes_max.min(REQUEST_BYTES_MAX);
        let state = match attach.role {
            Role::Sender => {
                answer.snd_settle_mode = attach.snd_settle_mode;
                answer.max_message_size = Some(request_bytes_max);
                LinkState::Requests(Box::new(RequestLink::new(attach)))
            }
            Role::Receiver => LinkState::Responses(Box::new(ResponseLink::new(attach))),
        };
        self.names.note(&answer);
        Performative::Attach(Box::new(answer)).encode_frame(self.channel, io.out);
        if let LinkState::Requests(link) = &state {
            let flow = link.incoming.flow(attach.handle, self.windows.flow());
            Performative::Flow(flow).encode_frame(self.channel, io.out);
        }
        if let Some(slot) = self.link_mut(attach.handle) {
            *slot = state;
        }
    }

    /// Refuses an attach: with an end of the link that has no terminus, and its detach.
    fn refuse(&mut self, io: &mut SessionIo<'_>, attach: &Attach<'_>, fault: &ProtocolFault) {
        let answer = refusing(attach);
        Performative::Attach(Box::new(answer)).encode_frame(self.channel, io.out);
        put_detach(self.channel, attach.handle, true, Some(fault), io.out);
        if let Some(state) = self.link_mut(attach.handle) {
            *state = LinkState::Detached;
        }
    }

    /// The broker's answer to an attach.
    pub(crate) fn attached(
        &mut self,
        io: &mut SessionIo<'_>,
        handle: u32,
        result: AttachResult<'_>,
    ) -> Result<(), ProtocolFault> {
        let Some(state) = self.link_mut(handle) else { return Ok(()) };
        if !matches!(state, LinkState::Attaching(_)) {
            return Ok(());
        }
        let LinkState::Attaching(attaching) = std::mem::take(state) else { return Ok(()) };
        let Some(asked) = attaching.asked.attach() else { return Ok(()) };
        match result {
            Ok(attached) => {
                self.put_link(io, &asked, &attached, attaching.asked.target.clone());
                early_input(self, io, handle, attached.link, &attaching)?;
            }
            Err(fault) if fault.scope == FaultScope::Link => {
                self.refuse(io, &asked, &fault);
                if attaching.detach.is_some()
                    && let Some(state) = self.link_mut(handle)
                {
                    *state = LinkState::Free;
                }
            }
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    fn put_link(
        &mut self,
        io: &mut SessionIo<'_>,
        asked: &Attach<'_>,
        attached: &AttachedLink<'_>,
        target: Option<PublishTarget>,
    ) {
        let (handle, link) = (asked.handle, attached.link);
        let message_bytes_max = io.limits.message_bytes_max;
        answer_attach(self, io, asked, attached, message_bytes_max);
        let state = match asked.role {
            Role::Sender => {
                let count = asked.initial_delivery_count.unwrap_or_default();
                let mut link = IncomingLink::new(link, asked.snd_settle_mode, count);
                let address = attached.target.or(asked.target).and_then(|it| address_of(&it));
                // A topic that was made for a link is gone where no queue stands for it.
                link.is_topic =
                    matches!(address, Some(TargetAddress::Topic { is_temporary: false, .. }));
                let made = attached.target.and(address).and_then(made_target);
                let link = link.to(target.or(made));
                let flow = link.flow(handle, self.windows.flow());
                Performative::Flow(flow).encode_frame(self.channel, io.out);
                LinkState::Incoming(Box::new(link))
            }
            Role::Receiver => {
                let is_settled = asked.snd_settle_mode == SenderSettleMode::Settled;
                let max = asked.max_message_size.filter(|max| *max > 0).unwrap_or(u64::MAX);
                LinkState::Outgoing(OutgoingLink::new(link, is_settled, max))
            }
        };
        if let Some(slot) = self.link_mut(handle) {
            *slot = state;
        }
    }
}

/// Takes what the client has sent on a link before it was attached.
fn early_input(
    session: &mut SessionEndpoint,
    io: &mut SessionIo<'_>,
    handle: u32,
    link: LinkId,
    attaching: &AttachingLink,
) -> Result<(), ProtocolFault> {
    if let Some(fault) = &attaching.fault {
        session.fail_link(io, handle, fault.clone())?;
    } else if let Some(flow) = attaching.flow
        && let Some(LinkState::Outgoing(outgoing)) = session.link_mut(handle)
    {
        outgoing.note_credit(flow.delivery_count, flow.credit);
        io.requests.push(credit_request(session.channel, link, flow));
    }
    if let Some(EarlyDetach { is_closed }) = attaching.detach {
        let detach = Detach { handle, closed: is_closed, error: None };
        session.client_detaches(io, &detach);
    }
    Ok(())
}

/// The exchange and key that a client attaches a publisher to; none for a consumer, and where each message
/// says its own.
fn publish_target(
    attach: &Attach<'_>,
    version_1: bool,
) -> Result<Option<PublishTarget>, ProtocolFault> {
    let Some(target) = attach.target.as_ref().filter(|_| attach.role == Role::Sender) else {
        return Ok(None);
    };
    let (exchange, routing_key) = match TargetAddress::of_target(target, version_1)? {
        TargetAddress::Queue(queue) | TargetAddress::Declared(queue) => {
            (ShortString::default(), Some(short(&queue)?))
        }
        TargetAddress::Exchange { exchange, routing_key } => {
            (short(&exchange)?, routing_key.as_deref().map(short).transpose()?)
        }
        TargetAddress::Topic { name, .. } => return Ok(Some(target_of(short(&name)?))),
        TargetAddress::Anonymous | TargetAddress::Temporary | TargetAddress::TemporaryTopic => {
            return Ok(None);
        }
        TargetAddress::Management => {
            let text = "/management not supported";
            return Err(ProtocolFault::link(Condition::NotImplemented, text));
        }
    };
    Ok(Some(PublishTarget { exchange, routing_key }))
}

/// The node of a publisher's link that is in place.
fn address_of<'a>(target: &LinkTarget<'a>) -> Option<TargetAddress<'a>> {
    let LinkTarget::Terminus(target) = *target else { return None };
    let at_address = LinkTarget::Terminus(TargetTerminus { dynamic: false, ..target });
    TargetAddress::of_target(&at_address, false).ok()
}

/// The exchange and key of the node that was made for a publisher's link.
fn made_target(made: TargetAddress<'_>) -> Option<PublishTarget> {
    match made {
        TargetAddress::Queue(name) => short(&name).ok().map(PublishTarget::queue),
        TargetAddress::Topic { name, .. } => short(&name).ok().map(target_of),
        TargetAddress::Exchange { .. }
        | TargetAddress::Declared(_)
        | TargetAddress::Anonymous
        | TargetAddress::Management
        | TargetAddress::Temporary
        | TargetAddress::TemporaryTopic => None,
    }
}

fn short(name: &[u8]) -> Result<ShortString, ProtocolFault> {
    let too_long = |_| ProtocolFault::link(Condition::InvalidField, "a name is too long");
    ShortString::new(name).map_err(too_long)
}
