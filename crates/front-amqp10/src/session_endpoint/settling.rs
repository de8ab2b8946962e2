//! Outcomes that clients give to the deliveries of a session, in ranges.

use super::coordinating::retire;
use super::{SessionEndpoint, SessionIo};
use crate::fault::ProtocolFault;
use crate::links::LinkState;
use crate::outcomes::{DeliveryRange, put_settled};
use crate::outgoing::UnsettledMessage;
use crate::requests::LinkRequest;
use amqp10::{
    Condition, DeliveryOutcome, DeliveryState, Disposition, MapRef, Modified, PassingState, Role,
    SerialNumber, TransactionalState, ValueRef,
};
use bytes::Bytes;
use session::{ChannelId, LinkId, MessageChanges, Modification, Outcome, Position, Settle};
use std::collections::BTreeMap;
use stdx::UnixMs;

/// The annotation that says when messages are to come again, in milliseconds since 1970.
const DELIVERY_TIME: &str = "x-opt-delivery-time";

impl SessionEndpoint {
    /// Takes the outcomes of a range of deliveries.
    pub(super) fn disposition(
        &mut self,
        io: &mut SessionIo<'_>,
        disposition: &Disposition<'_>,
    ) -> Result<(), ProtocolFault> {
        let Disposition { role, first, settled, state, .. } = *disposition;
        let last = disposition.last.unwrap_or(first);
        let outcome = match (role, state) {
            // The client settles what it has sent: the server has done so before.
            (Role::Sender, _) => return Ok(()),
            (Role::Receiver, Some(DeliveryState::Outcome(outcome))) => outcome,
            // Without an outcome that of the source holds.
            (Role::Receiver, None) if settled => DeliveryOutcome::Released(amqp10::Released {}),
            (Role::Receiver, None | Some(DeliveryState::Passing(PassingState::Received(_)))) => {
                return Ok(());
            }
            (
                Role::Receiver,
                Some(DeliveryState::Passing(PassingState::Transactional(transactional))),
            ) => {
                let fault = match provisional_outcome(&transactional) {
                    Ok(outcome) => retire(self, io, disposition, transactional, outcome),
                    Err(fault) => Err(fault),
                };
                return fault.or_else(|fault| self.refuse_outcome(io, first, last, &fault));
            }
            (
                Role::Receiver,
                Some(DeliveryState::Passing(PassingState::Declared(_)) | DeliveryState::Other(_)),
            ) => {
                let text = "unsupported delivery state";
                let fault = ProtocolFault::link(Condition::NotImplemented, text);
                return self.refuse_outcome(io, first, last, &fault);
            }
        };
        let channel = ChannelId(self.channel);
        let n_requests = io.requests.len();
        match changes_of(&outcome) {
            Ok(None) => settle_range(self, io, (first, last), broker_outcome(&outcome)),
            Ok(Some(changes)) => {
                let mut by_link: BTreeMap<LinkId, Vec<Position>> = BTreeMap::new();
                self.unsettled.settle(first, last, |_, message| {
                    by_link.entry(message.link).or_default().push(message.position);
                });
                let outcome = broker_outcome(&outcome);
                io.requests.extend(by_link.into_iter().map(|(link, positions)| {
                    let changes = changes.clone();
                    let modification = Modification { link, positions, outcome, changes };
                    LinkRequest::Modify { channel, modification: Box::new(modification) }
                }));
            }
            Err(fault) => return self.refuse_outcome(io, first, last, &fault),
        }
        if !settled && io.requests.len() > n_requests {
            let range = DeliveryRange { first, last: disposition.last };
            put_settled(self.channel, Role::Sender, range, state, io.out);
        }
        Ok(())
    }

    /// Detaches the links of deliveries with an outcome that is not taken.
    fn refuse_outcome(
        &mut self,
        io: &mut SessionIo<'_>,
        first: SerialNumber,
        last: SerialNumber,
        fault: &ProtocolFault,
    ) -> Result<(), ProtocolFault> {
        let mut handles = Vec::new();
        self.unsettled.settle(first, last, |_, message| handles.push(message.handle));
        handles.sort_unstable();
        handles.dedup();
        for handle in handles {
            self.fail_link(io, handle, fault.clone())?;
        }
        Ok(())
    }
}

/// Settles the deliveries from the first to the last with an outcome without changes.
#[inline]
pub(crate) fn settle_range(
    session: &mut SessionEndpoint,
    io: &mut SessionIo<'_>,
    (first, last): (SerialNumber, SerialNumber),
    outcome: Outcome,
) {
    let channel = ChannelId(session.channel);
    session.unsettled.settle(first, last, |_, message| {
        let UnsettledMessage { link, position, .. } = message;
        io.requests.push(LinkRequest::Settle(Settle { channel, link, position, outcome }));
    });
}

/// Tells the client of a session that it has held these deliveries of a link for too long, in the order of
/// their positions. COMPAT: they are released, and stay to be settled, as with RabbitMQ. False if nothing is
/// settled on the link.
pub(crate) fn release_in_session(
    session: &mut SessionEndpoint,
    io: &mut SessionIo<'_>,
    handle: u32,
    positions: &[Position],
) -> bool {
    let sender = io.sender(session.channel);
    let Some(LinkState::Outgoing(outgoing)) = session.link_mut(handle) else { return true };
    let (link, is_settled) = (outgoing.link, outgoing.is_settled);
    let is_overdue =
        |it: &UnsettledMessage| it.link == link && positions.binary_search(&it.position).is_ok();
    let overdue = session.unsettled.iter().filter(|(_, message)| is_overdue(message));
    let mut ids = overdue.map(|(id, _)| id).peekable();
    while let Some(first) = ids.next() {
        let mut last = None;
        while let Some(id) = ids.next_if(|id| *id == last.unwrap_or(first).plus(1)) {
            last = Some(id);
        }
        session.waiting.release(&sender, handle, DeliveryRange { first, last }, io.out);
    }
    !is_settled
}

/// The broker's word for an outcome, without the changes that go along.
const fn broker_outcome(outcome: &DeliveryOutcome<'_>) -> Outcome {
    match outcome {
        DeliveryOutcome::Accepted(_) => Outcome::Accepted,
        DeliveryOutcome::Rejected(_)
        | DeliveryOutcome::Modified(Modified { undeliverable_here: true, .. }) => Outcome::Rejected,
        DeliveryOutcome::Modified(Modified { delivery_failed: true, .. }) => Outcome::Modified,
        DeliveryOutcome::Released(_) | DeliveryOutcome::Modified(_) => Outcome::Released,
    }
}

/// The broker's word for an outcome in a transaction, which no changes go along with.
fn provisional_outcome(state: &TransactionalState<'_>) -> Result<Outcome, ProtocolFault> {
    let outcome = state.outcome.as_ref();
    if outcome.map(changes_of).transpose()?.flatten().is_some() {
        let text = "annotations of modified in a transaction are not supported";
        return Err(ProtocolFault::link(Condition::NotImplemented, text));
    }
    Ok(outcome.map_or(Outcome::Released, broker_outcome))
}

/// The changes to messages that go along with an outcome; none for most.
fn changes_of(outcome: &DeliveryOutcome<'_>) -> Result<Option<MessageChanges>, ProtocolFault> {
    match outcome {
        DeliveryOutcome::Modified(Modified { message_annotations, .. })
            if *message_annotations != MapRef::EMPTY =>
        {
            changes_by(*message_annotations).map(Some)
        }
        DeliveryOutcome::Accepted(_)
        | DeliveryOutcome::Rejected(_)
        | DeliveryOutcome::Released(_)
        | DeliveryOutcome::Modified(_) => Ok(None),
    }
}

#[cold]
fn changes_by(annotations: MapRef<'_>) -> Result<MessageChanges, ProtocolFault> {
    let is_free = |key| matches!(key, ValueRef::Symbol(name) if name.starts_with("x-"));
    if !annotations.iter().all(|(key, _)| is_free(key)) {
        let text =
            "bad value for 'message-annotations' of modified: keys are symbols that begin with x-";
        return Err(ProtocolFault::link(Condition::InvalidField, text));
    }
    let until_ms = annotations.get(DELIVERY_TIME).and_then(milliseconds).map(UnixMs::from_raw);
    let mut encoded = Vec::new();
    ValueRef::Map(annotations).encode(&mut encoded);
    Ok(MessageChanges { annotations: Bytes::from(encoded), until_ms })
}

/// The milliseconds that a timestamp or a whole number says. COMPAT: other values are passed over.
#[expect(clippy::wildcard_enum_match_arm, reason = "other types are neither")]
fn milliseconds(value: ValueRef<'_>) -> Option<u64> {
    match value {
        ValueRef::U8(n) => Some(n.into()),
        ValueRef::U16(n) => Some(n.into()),
        ValueRef::U32(n) => Some(n.into()),
        ValueRef::U64(n) => Some(n),
        ValueRef::I8(n) => n.try_into().ok(),
        ValueRef::I16(n) => n.try_into().ok(),
        ValueRef::I32(n) => n.try_into().ok(),
        ValueRef::I64(n) | ValueRef::Timestamp(n) => n.try_into().ok(),
        _ => None,
    }
}
