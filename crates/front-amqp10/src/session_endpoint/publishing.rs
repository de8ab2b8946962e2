//! Publishes on the links of a session, and their answers.

use super::coordinating::{check_publish, open_channel, put_accepted};
use super::{SessionEndpoint, SessionIo, slot_mut};
use crate::fault::{FaultScope, ProtocolFault};
use crate::incoming::{AnonymousNote, IncomingLink, KeptTag, Payload, ReceivedMessage};
use crate::links::{LinkState, error_of};
use crate::outcomes::{DeliveryRange, put_refused, put_rejected, put_settled};
use crate::published_heads::{MessagePublish, PublishFault};
use crate::requests::{LinkRequest, UNFILLED};
use crate::unanswered::PublishOrigin;
use amqp10::{
    Condition, DeliveryState, Performative, Role, SerialNumber, Transfer, ValueRef, put_map,
};
use message::Refusal;
use session::{ChannelId, Confirmation, Error, ErrorKind, Publish};

impl SessionEndpoint {
    /// Takes a transfer of a publisher, and publishes the message of which it is the last part.
    #[inline]
    pub(super) fn publish(
        &mut self,
        io: &mut SessionIo<'_>,
        transfer: &Transfer<'_>,
        payload: Payload<'_>,
    ) -> Result<(), ProtocolFault> {
        if transfer.state.is_some() {
            check_publish(self, transfer.state)?;
        }
        let (channel, handle) = (ChannelId(self.channel), transfer.handle);
        let Some(LinkState::Incoming(incoming)) = self.link_mut(handle) else { return Ok(()) };
        let Some(message) = incoming.receive(transfer, payload, &mut io.limits)? else {
            return Ok(());
        };
        let ReceivedMessage { id, is_settled, gathered, tag, is_transactional } = message;
        let link = incoming.link;
        let id = (!is_settled).then_some(id);
        let is_named = incoming.target.is_none() && is_settled;
        let tag = is_named.then(|| tag.unwrap_or_else(|| KeptTag::of(transfer)));
        let read = match io.heads.publish(channel, payload, gathered, incoming) {
            Ok(read) => read,
            Err(PublishFault::Malformed(fault)) => return Err(fault),
            Err(PublishFault::Misrouted(fault)) => {
                return MisroutedPublish { id, tag, fault }.tell(channel.0, incoming, io.out);
            }
        };
        let MessagePublish { publish, names_topic } = read;
        if names_topic && !std::mem::replace(&mut incoming.is_topic, true) {
            io.requests.push(LinkRequest::NeedTopics(channel));
        }
        if is_transactional {
            incoming.answered(1);
            let mandatory = !names_topic && !incoming.is_of_topic();
            return post(self, io, Publish { mandatory, ..publish }, id);
        }
        self.n_published += 1;
        self.unanswered.push(self.n_published, PublishOrigin { handle, link, id });
        if let Some(tag) = tag {
            self.anonymous_notes.push(self.n_published, AnonymousNote::Tag(tag));
        } else if names_topic {
            self.anonymous_notes.push(self.n_published, AnonymousNote::Topic);
        }
        io.requests.push(LinkRequest::Publish(UNFILLED));
        if let Some(LinkRequest::Publish(place)) = io.requests.last_mut() {
            *place = publish;
        }
        Ok(())
    }

    /// The broker has refused a publish, which ends nothing but its link, if that.
    pub(crate) fn refuse_publish(
        &mut self,
        io: &mut SessionIo<'_>,
        number: u64,
        error: Error,
    ) -> Result<(), ProtocolFault> {
        let (mut refused, mut tag) = (None, None);
        self.unanswered.take_range(number, number, |publish, _| refused = Some(publish));
        self.anonymous_notes.take_range(number, number, |_, note| match note {
            AnonymousNote::Tag(it) => tag = Some(it),
            AnonymousNote::Topic => {}
        });
        let Some(publish) = refused else { return Ok(()) };
        let (channel, PublishOrigin { handle, link, id }) = (self.channel, publish);
        let Some(LinkState::Incoming(incoming)) = self.link_mut(handle) else { return Ok(()) };
        if incoming.link != link {
            return Ok(());
        }
        let is_misrouted = error.kind == ErrorKind::NotFound;
        let fault = ProtocolFault { scope: FaultScope::Link, ..ProtocolFault::of_refusal(error) };
        let answered = if is_misrouted {
            MisroutedPublish { id, tag, fault }.tell(channel, incoming, io.out)
        } else {
            Err(fault)
        };
        match answered {
            Ok(()) => self.renew_credit(io, handle),
            Err(fault) => self.fail_link(io, handle, fault)?,
        }
        Ok(())
    }

    /// The broker's answer to the publishes `first..=last` of the session.
    pub(crate) fn answer(
        &mut self,
        io: &mut SessionIo<'_>,
        first: u64,
        last: u64,
        answer: Confirmation<'_>,
    ) {
        let mut first = first;
        if !self.anonymous_notes.is_empty() {
            let mut topics = Vec::new();
            self.anonymous_notes.take_range(first, last, |number, note| {
                if answer == Confirmation::Unroutable && matches!(note, AnonymousNote::Topic) {
                    topics.push(number);
                }
            });
            for number in topics {
                if first < number {
                    answer_run(self, io, first, number - 1, answer);
                }
                answer_run(self, io, number, number, Confirmation::Accepted);
                first = number + 1;
            }
        }
        if first <= last {
            answer_run(self, io, first, last, answer);
        }
    }
}

/// The broker's answer to publishes that no notes are about.
#[inline]
fn answer_run(
    session: &mut SessionEndpoint,
    io: &mut SessionIo<'_>,
    first: u64,
    last: u64,
    answer: Confirmation<'_>,
) {
    let channel = session.channel;
    let SessionEndpoint { links, unanswered, outcomes, windows, .. } = session;
    let mut lost = Vec::new();
    unanswered.take_range(first, last, |PublishOrigin { handle, link, id }, n| {
        let Some(LinkState::Incoming(incoming)) = slot_mut(links, handle) else { return };
        if incoming.link != link {
            return;
        }
        incoming.answered(n);
        let is_lost = answer == Confirmation::Unroutable && incoming.lost_queue().is_some();
        if is_lost {
            lost.push(handle);
        }
        match (id, answer) {
            (None, _) => {}
            // The link's end answers these, and nothing before it.
            (Some(_), Confirmation::Unroutable) if is_lost => {}
            (Some(id), Confirmation::Accepted) => outcomes.add(id, n, true),
            (Some(id), Confirmation::Unroutable) => {
                outcomes.add(id, n, incoming.is_of_topic());
            }
            // A queue that is gone is a queue that the message was not routed to.
            (Some(id), Confirmation::Refused(by)) if by.why == Refusal::Deleted => {
                outcomes.add(id, n, false);
            }
            (Some(id), Confirmation::Refused(by)) => {
                (0..n).for_each(|n| put_refused(channel, id.plus(n), by, io.out));
            }
        }
        if let Some(credit) = incoming.renew_credit(io.n_reads) {
            windows.make_room(credit);
            let flow = incoming.flow(handle, windows.flow());
            Performative::Flow(flow).encode_frame(channel, io.out);
        }
    });
    for handle in lost {
        lose_queue(session, io, handle);
    }
}

/// Publishes in the open transaction, which is numbered by nobody: its commit answers it.
#[cold]
fn post(
    session: &SessionEndpoint,
    io: &mut SessionIo<'_>,
    publish: Publish,
    id: Option<SerialNumber>,
) -> Result<(), ProtocolFault> {
    let channel = open_channel(session)?;
    // No message of a transaction is lost: without a route it is not committed, but for one to a topic.
    io.requests.push(LinkRequest::Publish(Publish { channel, ..publish }));
    if let Some(id) = id {
        put_accepted(session, id, io.out);
    }
    Ok(())
}

/// The queue of a publisher's target is gone. COMPAT: as with RabbitMQ the link is detached.
#[cold]
fn lose_queue(session: &mut SessionEndpoint, io: &mut SessionIo<'_>, handle: u32) {
    let Some(LinkState::Incoming(incoming)) = session.link_mut(handle) else { return };
    let Some(queue) = incoming.lost_queue() else { return };
    let text = format!("no queue '{}' in vhost '{}'", queue.to_text(), io.vhost);
    // A fault of a link ends nothing else.
    drop(session.fail_link(io, handle, ProtocolFault::link(Condition::ResourceDeleted, text)));
}

/// A message that leads nowhere.
struct MisroutedPublish {
    /// The delivery's id; none if the client wants no answer.
    id: Option<SerialNumber>,
    /// The client's name for a delivery that it wants no answer to, on a link without a target.
    tag: Option<KeptTag>,
    fault: ProtocolFault,
}

impl MisroutedPublish {
    /// Tells the client. COMPAT: as with RabbitMQ a link with a target is detached, and one whose messages
    /// name theirs goes on if the client wants to be answered (Anonymous Terminus 1.0, 2.2.2).
    fn tell(
        self,
        channel: u16,
        incoming: &mut IncomingLink,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtocolFault> {
        let Self { id, tag, fault } = self;
        incoming.answered(1);
        match (incoming.target.is_none(), id) {
            (true, Some(id)) => {
                put_rejected(channel, id, error_of(&fault), out);
                Ok(())
            }
            (true, None) => Err(with_delivery_tag(fault, tag)),
            (false, Some(id)) => {
                let range = DeliveryRange { first: id, last: None };
                put_settled(channel, Role::Receiver, range, Some(DeliveryState::RELEASED), out);
                Err(fault)
            }
            (false, None) => Err(fault),
        }
    }
}

fn with_delivery_tag(fault: ProtocolFault, tag: Option<KeptTag>) -> ProtocolFault {
    let mut info = Vec::new();
    if let Some(tag) = tag {
        put_map(&mut info, |items| {
            items.put_symbol("delivery-tag", ValueRef::Binary(tag.bytes()));
        });
    }
    ProtocolFault { info, ..fault }
}
