//! A session: its windows, its links, and the deliveries both ways that have not come to an end.

mod attaching;
mod coordinating;
mod listing;
mod publishing;
mod settling;

use crate::fault::{FaultScope, ProtocolFault};
use crate::incoming::{AnonymousNote, IncomingLimits, Payload, ReceivedMessage};
use crate::links::{EarlyDetach, EarlyFlow, LinkState, accepting, put_detach};
use crate::management_links::{
    REQUEST_BYTES_MAX, RequestLink, ResponseLink, check_waiting, half_open,
};
use crate::outcomes::OutcomeRuns;
use crate::outgoing::{
    DeliveryHead, FrameSender, OutgoingDelivery, UnsettledMessage, WaitingOutputs,
};
use crate::published_heads::PublishedHeads;
use crate::requests::{AttachedLink, LinkHandle, LinkRequest, ManagementCall, SentMessage};
use crate::settings::ConnectionSettings;
use crate::settlement::{NumberedEntries, UnsettledDeliveries};
use crate::transactions::SessionTransactions;
use crate::unanswered::UnansweredPublishes;
use crate::windows::SessionWindows;
use amqp10::{
    Attach, Begin, Condition, Detach, Flow, MapRef, Performative, SerialNumber, Transfer,
};
pub(crate) use coordinating::discharged;
use listing::LinkNames;
pub(crate) use listing::{listed, note_subscription, publish_targets};
use session::{ChannelId, ConsumerCredit, CreditRequest, LinkId};
pub(crate) use settling::{release_in_session, settle_range};

/// The connection's part of what a session does.
#[derive(Debug)]
pub(crate) struct SessionIo<'c> {
    pub(crate) out: &'c mut Vec<u8>,
    pub(crate) requests: &'c mut Vec<LinkRequest>,
    /// The largest frame that the client takes, in bytes.
    pub(crate) frame_bytes_max: u32,
    /// The number of reads of the connection.
    pub(crate) n_reads: u64,
    pub(crate) settings: &'c ConnectionSettings,
    pub(crate) limits: IncomingLimits<'c>,
    /// The heads of what the read in progress publishes.
    pub(crate) heads: &'c mut PublishedHeads,
    /// The highest number of a session's channel.
    pub(crate) channel_max: u16,
    /// The client's virtual host.
    pub(crate) vhost: &'c str,
}

impl SessionIo<'_> {
    const fn sender(&self, channel: u16) -> FrameSender {
        FrameSender { channel, frame_bytes_max: self.frame_bytes_max }
    }
}

/// A session of a connection.
#[derive(Debug)]
pub(crate) struct SessionEndpoint {
    channel: u16,
    handle_max: u32,
    windows: SessionWindows,
    /// Links by handle.
    pub(crate) links: Vec<LinkState>,
    unsettled: UnsettledDeliveries<UnsettledMessage>,
    n_published: u64,
    unanswered: UnansweredPublishes,
    /// Notes about unanswered deliveries of links without a target.
    anonymous_notes: NumberedEntries<AnonymousNote>,
    pub(crate) outcomes: OutcomeRuns,
    pub(crate) waiting: WaitingOutputs,
    names: LinkNames,
    /// The session's transactions, since it has had a coordinator.
    pub(crate) transactions: Option<Box<SessionTransactions>>,
}

impl SessionEndpoint {
    /// Begins the session that a client asks for, and answers it.
    pub(crate) fn begin(
        channel: u16,
        begin: &Begin<'_>,
        handle_max: u32,
        is_held: bool,
        out: &mut Vec<u8>,
    ) -> Self {
        let windows = SessionWindows::new(begin, is_held);
        let answer = windows.begin(channel, handle_max);
        Performative::Begin(Box::new(answer)).encode_frame(channel, out);
        Self {
            channel,
            handle_max,
            windows,
            links: Vec::new(),
            unsettled: UnsettledDeliveries::default(),
            n_published: 0,
            unanswered: UnansweredPublishes::default(),
            anonymous_notes: NumberedEntries::default(),
            outcomes: OutcomeRuns::default(),
            waiting: WaitingOutputs::default(),
            names: LinkNames::default(),
            transactions: None,
        }
    }

    /// Takes a performative of the session.
    pub(crate) fn receive(
        &mut self,
        io: &mut SessionIo<'_>,
        performative: &Performative<'_>,
        body: &[u8],
        payload: Payload<'_>,
    ) -> Result<(), ProtocolFault> {
        match performative {
            Performative::Transfer(transfer) => self.transfer(io, transfer, payload),
            Performative::Disposition(disposition) => self.disposition(io, disposition),
            Performative::Flow(flow) => self.flow(io, flow),
            Performative::Attach(attach) => self.attach(io, attach, body),
            Performative::Detach(detach) => {
                self.client_detaches(io, detach);
                Ok(())
            }
            Performative::Begin(_) => Err(ProtocolFault::session(
                Condition::IllegalState,
                format!("channel {} has a session already", self.channel),
            )),
            Performative::Open(_) | Performative::End(_) | Performative::Close(_) => Ok(()),
        }
    }

    fn link_mut(&mut self, handle: u32) -> Option<&mut LinkState> {
        slot_mut(&mut self.links, handle)
    }

    /// Takes a transfer.
    #[inline]
    pub(crate) fn transfer(
        &mut self,
        io: &mut SessionIo<'_>,
        transfer: &Transfer<'_>,
        payload: Payload<'_>,
    ) -> Result<(), ProtocolFault> {
        if self.windows.receive_transfer()? {
            Performative::Flow(self.windows.flow()).encode_frame(self.channel, io.out);
        }
        let handle = transfer.handle;
        let received = match self.link_mut(handle) {
            Some(LinkState::Incoming(_)) => self.publish(io, transfer, payload).map(|()| None),
            Some(LinkState::Coordinator(_)) => {
                coordinating::request(self, io, transfer, payload).map(|()| None)
            }
            Some(LinkState::Detached) => return Ok(()),
            Some(LinkState::Attaching(attaching)) => {
                let fault = ProtocolFault::link(Condition::TransferLimitExceeded, "");
                attaching.fault.get_or_insert(fault);
                return Ok(());
            }
            Some(LinkState::Requests(link)) => {
                let limits = &mut IncomingLimits {
                    message_bytes_max: io.limits.message_bytes_max.min(REQUEST_BYTES_MAX),
                    unfinished_bytes: io.limits.unfinished_bytes,
                };
                link.incoming.receive(transfer, payload, limits)
            }
            Some(LinkState::Outgoing(_) | LinkState::Responses(_)) => Err(ProtocolFault::link(
                Condition::NotAllowed,
                "transfer on a link whose sender is the server",
            )),
            Some(LinkState::Free) | None => return Err(unattached(handle)),
        };
        match received {
            Ok(None) => self.renew_credit(io, handle),
            Ok(Some(ReceivedMessage { id, is_settled, gathered, .. })) => {
                check_waiting(self.waiting.n_bytes())?;
                if !is_settled {
                    self.outcomes.add(id, 1, true);
                }
                let key = LinkHandle { channel: ChannelId(self.channel), handle };
                let call = management_call(&mut self.links, key, payload.whole(gathered.as_ref()))?;
                io.requests.push(LinkRequest::Manage(Box::new(call)));
                self.renew_credit(io, handle);
            }
            Err(fault) => self.fail_link(io, handle, fault)?,
        }
        Ok(())
    }

    fn renew_credit(&mut self, io: &mut SessionIo<'_>, handle: u32) {
        let Self { links, windows, channel, .. } = self;
        let Some(link) = slot_mut(links, handle).and_then(LinkState::incoming) else { return };
        if let Some(credit) = link.renew_credit(io.n_reads) {
            windows.make_room(credit);
            let flow = link.flow(handle, windows.flow());
            Performative::Flow(flow).encode_frame(*channel, io.out);
        }
    }

    /// Ends a link for a fault of its client, or hands the fault on if it ends more.
    fn fail_link(
        &mut self,
        io: &mut SessionIo<'_>,
        handle: u32,
        fault: ProtocolFault,
    ) -> Result<(), ProtocolFault> {
        if fault.scope != FaultScope::Link {
            return Err(fault);
        }
        if let Some(link) = self.forget_link(io, handle) {
            let channel = ChannelId(self.channel);
            io.requests.push(LinkRequest::Detach { channel, link, is_closed: false });
        }
        self.tell_outcomes(io.out);
        put_detach(self.channel, handle, true, Some(&fault), io.out);
        if let Some(state) = self.link_mut(handle) {
            *state = LinkState::Detached;
        }
        Ok(())
    }

    /// Forgets a link and what is unsettled on it; returns the broker's name for it, if it has one.
    fn forget_link(&mut self, io: &mut SessionIo<'_>, handle: u32) -> Option<LinkId> {
        self.names.forget(handle);
        let channel = ChannelId(self.channel);
        let mut state = std::mem::take(self.link_mut(handle)?);
        let incoming = state.incoming();
        incoming.into_iter().for_each(|link| link.forget_partial(io.limits.unfinished_bytes));
        match state {
            LinkState::Free
            | LinkState::Attaching(_)
            | LinkState::Requests(_)
            | LinkState::Detached => None,
            LinkState::Coordinator(_) => {
                coordinating::end_coordinator(self, io);
                None
            }
            LinkState::Responses(link) => {
                self.waiting.forget_link(handle);
                if let Some((_, requests)) = requests_of(&mut self.links, &link.name) {
                    requests.incoming.forget_unanswered();
                }
                io.requests.push(LinkRequest::EndResponses(LinkHandle { channel, handle }));
                None
            }
            LinkState::Incoming(link) => Some(link.link),
            LinkState::Outgoing(link) => {
                self.waiting.forget_link(handle);
                self.unsettled.settle_all(|unsettled| unsettled.handle == handle, |_| {});
                coordinating::note_detached(self, link.link);
                Some(link.link)
            }
        }
    }

    fn flow(&mut self, io: &mut SessionIo<'_>, flow: &Flow<'_>) -> Result<(), ProtocolFault> {
        self.windows.receive_flow(flow)?;
        let sender = io.sender(self.channel);
        self.waiting.resume(&sender, &mut self.windows, io.out);
        let of_session = self.windows.flow();
        let Some(handle) = flow.handle else {
            if flow.echo {
                Performative::Flow(of_session).encode_frame(self.channel, io.out);
            }
            return Ok(());
        };
        let early = EarlyFlow::of(flow);
        let answer = match self.link_mut(handle) {
            Some(LinkState::Free) | None => return Err(unattached(handle)),
            Some(LinkState::Detached) => None,
            Some(LinkState::Attaching(attaching)) => {
                attaching.flow = early.or(attaching.flow);
                None
            }
            // The publisher tells what it has available.
            Some(
                state @ (LinkState::Incoming(_)
                | LinkState::Coordinator(_)
                | LinkState::Requests(_)),
            ) => {
                let link = state.incoming().filter(|_| flow.echo);
                link.map(|link| link.flow(handle, of_session))
            }
            Some(LinkState::Responses(link)) => link.flow(flow, of_session),
            Some(LinkState::Outgoing(outgoing)) => {
                if let Some(early) = early {
                    outgoing.note_credit(early.delivery_count, early.credit);
                }
                let link = outgoing.link;
                let channel = self.channel;
                io.requests.extend(early.map(|early| credit_request(channel, link, early)));
                None
            }
        };
        if let Some(flow) = answer {
            Performative::Flow(flow).encode_frame(self.channel, io.out);
        }
        Ok(())
    }

    fn client_detaches(&mut self, io: &mut SessionIo<'_>, detach: &Detach<'_>) {
        let (handle, channel) = (detach.handle, ChannelId(self.channel));
        match self.link_mut(handle) {
            // COMPAT: a detach of a link that is not there is passed over.
            Some(LinkState::Free) | None => return,
            Some(LinkState::Attaching(attaching)) => {
                attaching.detach = Some(EarlyDetach { is_closed: detach.closed });
                return;
            }
            Some(state @ LinkState::Detached) => {
                *state = LinkState::Free;
                return;
            }
            Some(_) => {}
        }
        if let Some(link) = self.forget_link(io, handle) {
            let is_closed = detach.closed;
            io.requests.push(LinkRequest::Detach { channel, link, is_closed });
        }
        put_detach(self.channel, handle, detach.closed, None, io.out);
    }

    /// Sends a message on a link, or lets it wait for the client's window.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        io: &mut SessionIo<'_>,
        handle: u32,
        SentMessage { position, content }: &SentMessage<'_>,
    ) -> Result<(), ProtocolFault> {
        let sender = io.sender(self.channel);
        let n_waiting_bytes = self.waiting.n_bytes();
        let message_bytes_max;
        let head = match self.link_mut(handle) {
            Some(LinkState::Outgoing(outgoing)) => {
                message_bytes_max = outgoing.message_bytes_max;
                let (link, tag) = (outgoing.link, outgoing.next_tag());
                let id = match tag {
                    Some(_) => {
                        let position = *position;
                        self.unsettled.next(UnsettledMessage { handle, link, position })
                    }
                    None => self.unsettled.next_settled(),
                };
                DeliveryHead { handle, id, tag }
            }
            Some(LinkState::Responses(responses)) => {
                check_waiting(n_waiting_bytes)?;
                message_bytes_max = responses.message_bytes_max;
                let name = responses.name.clone();
                if let Some((requests, link)) = requests_of(&mut self.links, &name) {
                    link.incoming.answered(1);
                    self.renew_credit(io, requests);
                }
                DeliveryHead { handle, id: self.unsettled.next_settled(), tag: None }
            }
            Some(_) | None => return Ok(()),
        };
        let delivery = OutgoingDelivery { head, content, message_bytes_max };
        self.waiting.deliver(&sender, &mut self.windows, delivery, io.out)
    }

    /// Tells a consumer's credit, behind the deliveries that were made before.
    pub(crate) fn flowed(&mut self, io: &mut SessionIo<'_>, handle: u32, credit: ConsumerCredit) {
        let Some(LinkState::Outgoing(outgoing)) = self.link_mut(handle) else { return };
        outgoing.flowed(credit);
        let sender = io.sender(self.channel);
        let flow = Flow {
            handle: Some(handle),
            delivery_count: Some(SerialNumber::new(credit.delivery_count)),
            link_credit: Some(credit.credit),
            available: Some(credit.available),
            drain: credit.drain,
            properties: credit.is_active.map_or(MapRef::EMPTY, activity),
            ..self.windows.flow()
        };
        self.waiting.flow(&sender, &self.windows, flow, io.out);
    }

    /// The broker ends a link.
    pub(crate) fn detach(&mut self, io: &mut SessionIo<'_>, handle: u32, fault: &ProtocolFault) {
        let is_there =
            matches!(self.link_mut(handle), Some(LinkState::Incoming(_) | LinkState::Outgoing(_)));
        if !is_there {
            return;
        }
        self.forget_link(io, handle);
        put_detach(self.channel, handle, true, Some(fault), io.out);
        if let Some(state) = self.link_mut(handle) {
            *state = LinkState::Detached;
        }
    }

    /// Closes the client's window while publishers are held, or opens it again.
    pub(crate) fn hold(&mut self, is_held: bool, out: &mut Vec<u8>) {
        if self.windows.hold(is_held) {
            Performative::Flow(self.windows.flow()).encode_frame(self.channel, out);
        }
    }

    /// Appends the outcomes that were gathered.
    pub(crate) fn tell_outcomes(&mut self, out: &mut Vec<u8>) {
        if !self.outcomes.is_empty() {
            self.outcomes.tell(self.channel, out);
        }
    }
}

/// The link of a handle.
#[inline]
fn slot_mut(links: &mut [LinkState], handle: u32) -> Option<&mut LinkState> {
    links.get_mut(usize::try_from(handle).ok()?)
}

/// Appends the server's end of a link that is in place, and notes the link's names.
fn answer_attach(
    session: &mut SessionEndpoint,
    io: &mut SessionIo<'_>,
    asked: &Attach<'_>,
    attached: &AttachedLink<'_>,
    message_bytes_max: u64,
) {
    let answer = accepting(asked, attached, message_bytes_max);
    session.names.note(&answer);
    Performative::Attach(Box::new(answer)).encode_frame(session.channel, io.out);
}

const fn credit_request(channel: u16, link: LinkId, flow: EarlyFlow) -> LinkRequest {
    let EarlyFlow { delivery_count, credit, drain, echo } = flow;
    let (channel, delivery_count) = (ChannelId(channel), delivery_count.bits());
    LinkRequest::Credit(CreditRequest { channel, link, delivery_count, credit, drain, echo })
}

/// The link of this name on which requests come, and its handle.
fn requests_of<'s>(links: &'s mut [LinkState], name: &str) -> Option<(u32, &'s mut RequestLink)> {
    (0..).zip(links).find_map(|(handle, state)| {
        let LinkState::Requests(link) = state else { return None };
        (*link.name == *name).then_some((handle, &mut **link))
    })
}

/// The link of this name on which responses go out, and its handle.
fn responses_of<'s>(links: &'s mut [LinkState], name: &str) -> Option<(u32, &'s mut ResponseLink)> {
    (0..).zip(links).find_map(|(handle, state)| {
        let LinkState::Responses(link) = state else { return None };
        (*link.name == *name).then_some((handle, &mut **link))
    })
}

/// The request to the management node that came on a link, if its response has a link and credit.
fn management_call(
    links: &mut [LinkState],
    LinkHandle { channel, handle }: LinkHandle,
    sections: &[u8],
) -> Result<ManagementCall, ProtocolFault> {
    let Some(LinkState::Requests(requests)) = slot_mut(links, handle) else {
        return Err(half_open());
    };
    let name = requests.name.clone();
    let (handle, link) = responses_of(links, &name).ok_or_else(half_open)?;
    link.take_credit()?;
    let responses = LinkHandle { channel, handle };
    Ok(ManagementCall { responses, sections: sections.to_vec() })
}

/// The property of a flow that tells whether a consumer is the active one of its queue.
fn activity(is_active: bool) -> MapRef<'static> {
    const ACTIVE: &[u8] = b"\xc1\x13\x02\xa3\x0frabbitmq:active\x41";
    const WAITING: &[u8] = b"\xc1\x13\x02\xa3\x0frabbitmq:active\x42";
    MapRef::decode(if is_active { ACTIVE } else { WAITING })
}

fn unattached(handle: u32) -> ProtocolFault {
    ProtocolFault::session(Condition::UnattachedHandle, format!("Unattached link handle: {handle}"))
}
