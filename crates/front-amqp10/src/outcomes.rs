//! The answers to a client's deliveries, gathered so that many leave in one frame.

use amqp10::{
    AmqpError, Condition, DeliveryState, Disposition, MapRef, Performative, Role, SerialNumber,
    Symbol, ValueRef, put_map,
};
use message::Refusal;
use session::RefusedBy;

/// Deliveries with one of the two outcomes that say nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AnsweredRun {
    first: SerialNumber,
    /// The number of deliveries behind the first.
    n_more: u32,
    is_accepted: bool,
}

/// Deliveries that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliveryRange {
    pub(crate) first: SerialNumber,
    /// The last one; none if the first is the only one.
    pub(crate) last: Option<SerialNumber>,
}

/// The outcomes of a session's incoming deliveries that were not told yet.
#[derive(Debug, Default)]
pub(crate) struct OutcomeRuns(Vec<AnsweredRun>);

impl OutcomeRuns {
    /// Notes the outcome of `n` deliveries, from `id` on.
    #[inline]
    pub(crate) fn add(&mut self, id: SerialNumber, n: u32, is_accepted: bool) {
        if let Some(last) = self.0.last_mut()
            && last.is_accepted == is_accepted
            && last.first.plus(last.n_more).plus(1) == id
        {
            last.n_more += n;
        } else {
            self.0.push(AnsweredRun { first: id, n_more: n - 1, is_accepted });
        }
    }

    /// Whether there is nothing to be told.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the outcomes, in as few frames as there are runs: answers may have come in any order.
    pub(crate) fn tell(&mut self, channel: u16, out: &mut Vec<u8>) {
        if let [first, _, ..] = self.0[..] {
            // Ids at hand lie within half of the number space.
            let base = first.first.plus(1 << 31);
            self.0.sort_unstable_by_key(|run| run.first.since(base));
            self.0.dedup_by(|run, before| {
                let follows = run.is_accepted == before.is_accepted
                    && before.first.plus(before.n_more).plus(1) == run.first;
                if follows {
                    before.n_more += run.n_more + 1;
                }
                follows
            });
        }
        for run in self.0.drain(..) {
            let state =
                if run.is_accepted { DeliveryState::ACCEPTED } else { DeliveryState::RELEASED };
            let last = (run.n_more > 0).then(|| run.first.plus(run.n_more));
            let range = DeliveryRange { first: run.first, last };
            put_settled(channel, Role::Receiver, range, Some(state), out);
        }
    }
}

/// Appends a disposition that releases these deliveries, which the client is to settle.
pub(crate) fn put_released(
    channel: u16,
    DeliveryRange { first, last }: DeliveryRange,
    out: &mut Vec<u8>,
) {
    let (role, state) = (Role::Sender, Some(DeliveryState::RELEASED));
    let disposition = Disposition { role, first, last, settled: false, state, batchable: false };
    Performative::Disposition(disposition).encode_frame(channel, out);
}

/// Appends a disposition that settles these deliveries.
pub(crate) fn put_settled(
    channel: u16,
    role: Role,
    DeliveryRange { first, last }: DeliveryRange,
    state: Option<DeliveryState<'_>>,
    out: &mut Vec<u8>,
) {
    let disposition = Disposition { role, first, last, settled: true, state, batchable: false };
    Performative::Disposition(disposition).encode_frame(channel, out);
}

/// Appends the rejection of a delivery.
pub(crate) fn put_rejected(
    channel: u16,
    id: SerialNumber,
    error: AmqpError<'_>,
    out: &mut Vec<u8>,
) {
    let state = DeliveryState::rejected(Some(error));
    let range = DeliveryRange { first: id, last: None };
    put_settled(channel, Role::Receiver, range, Some(state), out);
}

/// Appends the rejection of a delivery that a queue has refused. COMPAT: queue and reason are in the error's
/// info, as with RabbitMQ; what RabbitMQ refuses, too, has its condition and words.
pub(crate) fn put_refused(channel: u16, id: SerialNumber, by: RefusedBy<'_>, out: &mut Vec<u8>) {
    let mut info = Vec::new();
    put_map(&mut info, |items| {
        items.put_symbol("queue", ValueRef::Str(by.queue));
        items.put_symbol("reason", ValueRef::Symbol(by.why.as_str()));
    });
    let is_limit = matches!(by.why, Refusal::MaxLen | Refusal::MaxPending);
    let condition =
        if is_limit { Condition::ResourceLimitExceeded } else { Condition::PreconditionFailed };
    let description = format!("queue '{}' {}", by.queue, in_words(by.why));
    let error = AmqpError {
        condition: Symbol(condition.as_str()),
        description: Some(&description),
        info: MapRef::decode(&info),
    };
    put_rejected(channel, id, error, out);
}

const fn in_words(why: Refusal) -> &'static str {
    match why {
        Refusal::MaxLen => "exceeded maximum length",
        Refusal::Unavailable => "is unavailable",
        Refusal::Rejected => "has a consumer that rejected the message",
        Refusal::Expired => "let the message expire",
        Refusal::DeliveryLimit => "reached the delivery limit of the message",
        Refusal::Purged => "was purged",
        Refusal::Damaged => "has the message damaged",
        Refusal::Deleted => "was deleted",
        Refusal::NoConsumer => "has no consumer",
        Refusal::MaxPending => "has too many messages that wait for consumers",
        Refusal::Timeout => "had no consumer for the message in time",
    }
}

#[cfg(test)]
mod tests;
