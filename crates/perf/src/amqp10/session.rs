//! A session with its only link, under load: what the broker says, and what is answered.

use amqp10::{
    AmqpError, DeliveryState, Disposition, Flow, FrameRef, MessageHead, Performative, Role,
    SerialNumber, Transfer, ValueRef,
};
use anyhow::{Context as _, bail};

use super::links::Receiving;
use super::transfer::{HANDLE, body_of};
use crate::consumer::{Consumer, Seen};
use crate::publisher::{Leave, Publisher, TurnTime};

/// Transfers that may be on their way to us. Every flow opens the window anew.
pub(super) const INCOMING_WINDOW: u32 = 1 << 30;

/// Whom a session's link belongs to.
pub(crate) enum Agent<'a> {
    Publisher(&'a mut Publisher),
    Consumer(&'a mut Consumer),
}

/// Deliveries that get the same answer.
#[derive(Clone, Copy, Debug)]
struct Answered {
    first: SerialNumber,
    last: SerialNumber,
    state: DeliveryState<'static>,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    receiving: Receiving,
    /// The broker's leave to publish, as it told last.
    leave: Leave,
    next_incoming: SerialNumber,
    /// Deliveries that came, and those since the last flow.
    n_deliveries: SerialNumber,
    n_since_flow: u32,
    /// The id of the delivery that is coming in.
    delivery_id: SerialNumber,
    /// The transfers of a message that comes in several.
    parts: Vec<u8>,
    answered: Option<Answered>,
}

impl Session {
    /// A session whose link is attached: the broker takes `window` transfers, and its first one has the
    /// number `next_incoming`.
    pub(crate) fn new(receiving: Receiving, next_incoming: SerialNumber, window: u32) -> Self {
        let zero = SerialNumber::default();
        Self {
            receiving,
            leave: Leave { deliveries: zero, transfers: zero.plus(window) },
            next_incoming,
            n_deliveries: zero,
            n_since_flow: 0,
            delivery_id: zero,
            parts: Vec::new(),
            answered: None,
        }
    }

    /// Gives the broker credit.
    pub(crate) fn put_credit(&mut self, out: &mut Vec<u8>) {
        self.n_since_flow = 0;
        let flow = Flow {
            handle: Some(HANDLE),
            delivery_count: Some(self.n_deliveries),
            link_credit: Some(self.receiving.credits),
            ..self.flow(SerialNumber::default())
        };
        Performative::Flow(flow).encode_frame(0, out);
    }

    fn flow(&self, next_outgoing: SerialNumber) -> Flow<'static> {
        Flow::of_session(self.next_incoming, INCOMING_WINDOW, next_outgoing, u32::MAX)
    }

    /// Takes a frame. Gives back whether it is the broker's goodbye.
    ///
    /// # Errors
    /// The broker ends the link or the session, or closes with an error; or it says what makes no sense.
    #[inline]
    pub(crate) fn on_frame(
        &mut self,
        frame: FrameRef<'_>,
        agent: Agent<'_>,
        time: TurnTime,
        out: &mut Vec<u8>,
        seen: &mut Seen<'_>,
    ) -> anyhow::Result<bool> {
        if frame.body.is_empty() {
            return Ok(false);
        }
        let (performative, payload) = Performative::decode(frame.body)?;
        match (performative, agent) {
            (Performative::Transfer(transfer), Agent::Consumer(consumer)) => {
                if let Some(whole) = self.whole(&transfer, payload)? {
                    self.on_message(whole.as_deref().unwrap_or(payload), consumer, time, out, seen);
                    self.parts = whole.unwrap_or_default();
                    self.parts.clear();
                }
            }
            (Performative::Disposition(disposition), Agent::Publisher(publisher)) => {
                publisher.on_disposition(&disposition, time.now, seen);
            }
            (Performative::Flow(flow), agent) => self.on_flow(&flow, agent, out),
            (Performative::Disposition(_), Agent::Consumer(_)) => {}
            (Performative::Close(amqp10::Close { error: None }), _) => return Ok(true),
            (other, _) => bail!(told(&other)),
        }
        Ok(false)
    }

    fn on_flow(&mut self, flow: &Flow<'_>, agent: Agent<'_>, out: &mut Vec<u8>) {
        self.leave.transfers = flow.next_incoming_id.unwrap_or_default().plus(flow.incoming_window);
        if let Some(credit) = flow.link_credit {
            self.leave.deliveries = flow.delivery_count.unwrap_or_default().plus(credit);
        }
        let mut next_outgoing = SerialNumber::default();
        if let Agent::Publisher(publisher) = agent {
            publisher.leave = Some(self.leave);
            next_outgoing = publisher.next_transfer();
        }
        if flow.echo {
            Performative::Flow(self.flow(next_outgoing)).encode_frame(0, out);
        }
    }

    /// Whether a transfer ends its message; all of it, if it came in several.
    #[inline]
    fn whole(
        &mut self,
        transfer: &Transfer<'_>,
        payload: &[u8],
    ) -> anyhow::Result<Option<Option<Vec<u8>>>> {
        self.next_incoming = self.next_incoming.plus(1);
        let is_first = self.parts.is_empty();
        if is_first {
            self.delivery_id = transfer.delivery_id.context("a transfer without a delivery id")?;
            if !transfer.more {
                return Ok(Some(None));
            }
        }
        self.parts.extend_from_slice(payload);
        Ok((!transfer.more).then(|| Some(std::mem::take(&mut self.parts))))
    }

    #[inline]
    fn on_message(
        &mut self,
        message: &[u8],
        consumer: &mut Consumer,
        time: TurnTime,
        out: &mut Vec<u8>,
        seen: &mut Seen<'_>,
    ) {
        self.n_deliveries = self.n_deliveries.plus(1);
        self.n_since_flow += 1;
        let is_again = seen.ledger.is_some() && is_redelivered(message);
        if !consumer.on_message(body_of(message), is_again, time, seen) {
            return;
        }
        if !consumer.is_automatic() {
            self.answer(self.receiving.outcome(consumer.n_received()), out);
        }
        if self.n_since_flow >= self.receiving.credits.div_ceil(2) && !consumer.is_done() {
            self.put_credit(out);
        }
    }

    /// Answers the delivery that came last, now or together with those behind it.
    #[inline]
    fn answer(&mut self, state: DeliveryState<'static>, out: &mut Vec<u8>) {
        let id = self.delivery_id;
        let goes_on = |it: &Answered| it.state == state && it.last.plus(1) == id;
        let first = match self.answered.filter(goes_on) {
            Some(answered) => answered.first,
            None => {
                self.put_answer(out);
                id
            }
        };
        self.answered = Some(Answered { first, last: id, state });
        if self.receiving.every > 0 && id.since(first) + 1 >= self.receiving.every {
            self.put_answer(out);
        }
    }

    fn put_answer(&mut self, out: &mut Vec<u8>) {
        let Some(Answered { first, last, state }) = self.answered.take() else { return };
        let last = (last != first).then_some(last);
        let (role, state) = (Role::Receiver, Some(state));
        let answer = Disposition { role, first, last, settled: true, state, batchable: false };
        Performative::Disposition(answer).encode_frame(0, out);
    }

    /// The end of what was read at once.
    pub(crate) fn flush(&mut self, is_done: bool, out: &mut Vec<u8>) {
        if self.receiving.every == 0 || is_done {
            self.put_answer(out);
        }
    }
}

/// Whether a message's header says that it was delivered before.
fn is_redelivered(message: &[u8]) -> bool {
    let mut fields = MessageHead::read(message).header.iter().skip(3);
    fields.next() == Some(ValueRef::Bool(false))
        || fields.next().and_then(|field| field.as_integer()).is_some_and(|n| n > 0)
}

/// The end of a link, a session or a connection in words; or what makes no sense.
pub(super) fn told(performative: &Performative<'_>) -> String {
    let (what, error) = if let Performative::Detach(detach) = performative {
        ("detaches a link", detach.error)
    } else if let Performative::End(end) = performative {
        ("ends a session", end.error)
    } else if let Performative::Close(close) = performative {
        ("closes", close.error)
    } else {
        return format!("the broker says something unexpected: {performative:?}");
    };
    let words = error.map_or_else(String::new, |AmqpError { condition, description, .. }| {
        format!(": {} {}", condition.0, description.unwrap_or_default())
    });
    format!("the broker {what}{}", words.trim_end())
}
