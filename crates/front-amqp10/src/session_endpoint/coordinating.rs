//! A session's transactions: requests to their coordinator, and what messages do in them.

use super::{SessionEndpoint, SessionIo, answer_attach};
use crate::fault::ProtocolFault;
use crate::incoming::{IncomingLimits, IncomingLink, Payload};
use crate::links::{LinkState, error_of};
use crate::management_links::NO_LINK;
use crate::outcomes::{DeliveryRange, put_rejected, put_settled};
use crate::outgoing::UnsettledMessage;
use crate::requests::{AttachedLink, LinkRequest};
use crate::settlement::UnsettledDeliveries;
use crate::transactions::{
    COORDINATOR_CREDIT, COORDINATOR_REQUEST_BYTES_MAX, LOCAL_TRANSACTIONS, SessionTransactions,
    SettledRange, state_of, unknown_transaction,
};
use amqp10::{
    Attach, Condition, Coordinator, CoordinatorRequest, Declared, DeliveryOutcome, DeliveryState,
    Discharge, Disposition, LinkTarget, PassingState, Performative, Role, SerialNumber,
    TransactionalState, Transfer,
};
use session::{ChannelId, Error, LinkId, Outcome, Settle};

/// Attaches the link to a session's coordinator, which needs no broker.
///
/// # Errors
/// The fault that refuses the link.
pub(super) fn attach_coordinator(
    session: &mut SessionEndpoint,
    io: &mut SessionIo<'_>,
    attach: &Attach<'_>,
) -> Result<(), ProtocolFault> {
    let refused = |text| ProtocolFault::link(Condition::NotImplemented, text);
    if session.transactions.is_none() {
        let transactions = SessionTransactions::of(session.channel, io.channel_max);
        session.transactions = transactions.map(Box::new);
    }
    let transactions = session.transactions.as_mut();
    let transactions = transactions.ok_or_else(|| refused("too many sessions"))?;
    if transactions.handle.is_some() {
        return Err(refused("the session has a coordinator"));
    }
    transactions.attached(attach);
    io.requests.push(LinkRequest::BeginTransactions(transactions.channel));
    let target = Some(LinkTarget::Coordinator(Coordinator { capabilities: LOCAL_TRANSACTIONS }));
    let attached = AttachedLink { link: NO_LINK, source: None, target, filters: None };
    answer_attach(session, io, attach, &attached, COORDINATOR_REQUEST_BYTES_MAX);
    let count = attach.initial_delivery_count.unwrap_or_default();
    let link = IncomingLink::new(NO_LINK, attach.snd_settle_mode, count);
    let link = link.with_credit(COORDINATOR_CREDIT);
    let flow = link.flow(attach.handle, session.windows.flow());
    Performative::Flow(flow).encode_frame(session.channel, io.out);
    if let Some(slot) = session.link_mut(attach.handle) {
        *slot = LinkState::Coordinator(Box::new(link));
    }
    Ok(())
}

/// Takes a transfer of a request to the coordinator.
pub(super) fn request(
    session: &mut SessionEndpoint,
    io: &mut SessionIo<'_>,
    transfer: &Transfer<'_>,
    payload: Payload<'_>,
) -> Result<(), ProtocolFault> {
    let channel = session.channel;
    let limits = &mut IncomingLimits {
        message_bytes_max: COORDINATOR_REQUEST_BYTES_MAX,
        unfinished_bytes: io.limits.unfinished_bytes,
    };
    let Some(LinkState::Coordinator(link)) = session.link_mut(transfer.handle) else {
        return Ok(());
    };
    let Some(received) = link.receive(transfer, payload, limits)? else { return Ok(()) };
    let id = (!received.is_settled).then_some(received.id);
    let request = CoordinatorRequest::of_message(payload.whole(received.gathered.as_ref()));
    let bad = |error: amqp10::DecodeError| {
        ProtocolFault::link(Condition::DecodeError, format!("no request to a coordinator: {error}"))
    };
    let refused = match (request.map_err(bad)?, id) {
        (CoordinatorRequest::Declare(_), None) => {
            return Err(ProtocolFault::link(Condition::NotAllowed, "a declare is not settled"));
        }
        (CoordinatorRequest::Declare(declare), Some(id)) => {
            link.answered(1);
            let Some(transactions) = &mut session.transactions else { return Ok(()) };
            match transactions.declare(declare.global_id.is_some()) {
                Ok(name) => {
                    let declared = PassingState::Declared(Declared { txn_id: &name });
                    put_state(channel, id, DeliveryState::Passing(declared), io.out);
                    return Ok(());
                }
                Err(fault) => fault,
            }
        }
        (CoordinatorRequest::Discharge(discharge), id) => {
            match end_transaction(session, io, discharge, id) {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            }
        }
    };
    reject(session, io, id, refused)
}

/// Asks the broker for the end of the open transaction.
fn end_transaction(
    session: &mut SessionEndpoint,
    io: &mut SessionIo<'_>,
    Discharge { txn_id, fail }: Discharge<'_>,
    id: Option<SerialNumber>,
) -> Result<(), ProtocolFault> {
    let SessionEndpoint { transactions, unsettled, .. } = session;
    let transactions = transactions.as_mut().ok_or_else(unknown_transaction)?;
    transactions.check(txn_id)?;
    let discharged = transactions.discharge(fail);
    let (channel, number, commits) = (transactions.channel, discharged.number, discharged.commits);
    // Without a commit what is not settled stays with the client.
    let settled = match commits {
        true => settle_provisional(unsettled, io.requests, transactions),
        false => Vec::new(),
    };
    transactions.provisional.clear();
    transactions.ends(discharged, id, settled);
    io.requests.push(LinkRequest::Discharge {
        session: ChannelId(session.channel),
        channel,
        number,
        commits,
    });
    Ok(())
}

/// Settles, in a transaction, what has a provisional outcome; returns what the client is to be told of.
fn settle_provisional(
    unsettled: &mut UnsettledDeliveries<UnsettledMessage>,
    requests: &mut Vec<LinkRequest>,
    transactions: &mut SessionTransactions,
) -> Vec<SettledRange> {
    let channel = transactions.channel;
    let mut settled = std::mem::take(&mut transactions.provisional);
    settled.retain(|SettledRange { range, outcome }| {
        let n_requests = requests.len();
        let (last, outcome) = (range.last.unwrap_or(range.first), *outcome);
        unsettled.settle(range.first, last, |_, UnsettledMessage { link, position, .. }| {
            requests.push(LinkRequest::Settle(Settle { channel, link, position, outcome }));
        });
        requests.len() > n_requests
    });
    settled
}

/// The broker's answer to the end of a transaction.
pub(crate) fn discharged(
    session: &mut SessionEndpoint,
    io: &mut SessionIo<'_>,
    number: u32,
    result: Result<(), Error>,
) -> Result<(), ProtocolFault> {
    let Some(transactions) = &mut session.transactions else { return Ok(()) };
    let Some(handle) = transactions.handle else { return Ok(()) };
    let Some(ending) = transactions.take_ended(number) else { return Ok(()) };
    let result = ending.result(result);
    let channel = session.channel;
    for SettledRange { range, outcome } in &ending.settled {
        let state = result.as_ref().map_or(DeliveryState::RELEASED, |()| state_of(*outcome));
        put_settled(channel, Role::Sender, *range, Some(state), io.out);
    }
    if let Some(LinkState::Coordinator(link)) = session.link_mut(handle) {
        link.answered(1);
    }
    match (result, ending.discharge) {
        (Ok(()), Some(id)) => put_state(channel, id, DeliveryState::ACCEPTED, io.out),
        (Err(fault), Some(id)) => {
            if let Err(fault) = reject(session, io, Some(id), fault) {
                return session.fail_link(io, handle, fault);
            }
        }
        (_, None) => {}
    }
    session.renew_credit(io, handle);
    Ok(())
}

/// Rejects a request to the coordinator.
///
/// # Errors
/// The fault for which the link ends: its client does not take rejections, or wants no answers.
fn reject(
    session: &SessionEndpoint,
    io: &mut SessionIo<'_>,
    id: Option<SerialNumber>,
    fault: ProtocolFault,
) -> Result<(), ProtocolFault> {
    let takes = session.transactions.as_ref().is_some_and(|it| it.takes_rejections);
    let Some(id) = id.filter(|_| takes) else { return Err(fault) };
    put_rejected(session.channel, id, error_of(&fault), io.out);
    Ok(())
}

/// Checks that a publish is part of the open transaction.
pub(super) fn check_publish(
    session: &SessionEndpoint,
    state: Option<DeliveryState<'_>>,
) -> Result<(), ProtocolFault> {
    let Some(DeliveryState::Passing(PassingState::Transactional(state))) = state else {
        return Ok(());
    };
    let transactions = session.transactions.as_ref().ok_or_else(unknown_transaction)?;
    transactions.check(state.txn_id)
}

/// The channel of the open transaction.
pub(super) fn open_channel(session: &SessionEndpoint) -> Result<ChannelId, ProtocolFault> {
    let open = session.transactions.as_ref().and_then(|transactions| transactions.open_channel());
    open.ok_or_else(unknown_transaction)
}

/// Takes the outcomes of deliveries which hold if their transaction does. Those that the client settles, too,
/// are the broker's from here on; the others stay with the client until then.
pub(super) fn retire(
    session: &mut SessionEndpoint,
    io: &mut SessionIo<'_>,
    disposition: &Disposition<'_>,
    TransactionalState { txn_id, .. }: TransactionalState<'_>,
    outcome: Outcome,
) -> Result<(), ProtocolFault> {
    let transactions = session.transactions.as_mut().ok_or_else(unknown_transaction)?;
    transactions.check(txn_id)?;
    let (first, last) = (disposition.first, disposition.last.unwrap_or(disposition.first));
    let (channel, links) = (transactions.channel, &mut transactions.links);
    if disposition.settled {
        session.unsettled.settle(first, last, |_, message| {
            links.insert(message.link);
            let (link, position) = (message.link, message.position);
            io.requests.push(LinkRequest::Settle(Settle { channel, link, position, outcome }));
        });
        return Ok(());
    }
    let range = DeliveryRange { first, last: disposition.last };
    transactions.note_provisional(SettledRange { range, outcome })
}

/// A link on which the open transaction may have settled messages is gone.
pub(super) fn note_detached(session: &mut SessionEndpoint, link: LinkId) {
    if let Some(transactions) = &mut session.transactions {
        transactions.note_detached(link);
    }
}

/// The coordinator's link is gone: what is open is rolled back.
pub(super) fn end_coordinator(session: &mut SessionEndpoint, io: &mut SessionIo<'_>) {
    let Some(transactions) = &mut session.transactions else { return };
    transactions.end();
    io.requests.push(LinkRequest::EndSession(transactions.channel));
}

/// Appends the state of a delivery that is settled with it.
pub(super) fn put_state(
    channel: u16,
    id: SerialNumber,
    state: DeliveryState<'_>,
    out: &mut Vec<u8>,
) {
    put_settled(channel, Role::Receiver, DeliveryRange { first: id, last: None }, Some(state), out);
}

/// Appends the provisional outcome of a publish in the open transaction.
pub(super) fn put_accepted(session: &SessionEndpoint, id: SerialNumber, out: &mut Vec<u8>) {
    let Some(transactions) = &session.transactions else { return };
    let outcome = Some(DeliveryOutcome::Accepted(amqp10::Accepted {}));
    let state = TransactionalState { txn_id: &transactions.name(), outcome };
    let state = DeliveryState::Passing(PassingState::Transactional(state));
    put_state(session.channel, id, state, out);
}
