//! One consuming channel: counts, times and acknowledges deliveries.

use amqp091::method::{BasicAck, BasicConsume, BasicNack};
use amqp091::{Method, TableRef};
use anyhow::{Context as _, bail};

use crate::assembly::{Assembly, header_stamp};
use crate::clock::{self, MILLISECOND};
use crate::config::Settle;
use crate::losses::Lost;
use crate::publisher::TurnTime;
use crate::rate::Gate;
use crate::stats::{Run, Sample};
use crate::template;
use crate::verify::Ledger;

/// A consumer's settings.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) channel: u16,
    /// The queues to consume: number (for the ledger) and name.
    pub(crate) queues: Vec<(usize, String)>,
    pub(crate) settle: Settle,
    pub(crate) limit: u64,
    pub(crate) gate: Option<Gate>,
    /// The place of time stamps in deliveries.
    pub(crate) stamps: Stamps,
    pub(crate) is_verified: bool,
    /// The time to begin, nanoseconds after the start; 0 is before it.
    pub(crate) start_at: u64,
    /// Whether at the end what is left of several to settle at once is settled.
    pub(crate) settles_rest: bool,
    /// Encoded arguments of basic.consume.
    pub(crate) arguments: Vec<u8>,
    pub(crate) n_publishers: usize,
}

/// The place of time stamps in deliveries, and their clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamps {
    pub(crate) are_in_headers: bool,
    pub(crate) are_millis: bool,
}

/// The delivery that is coming in.
#[derive(Clone, Copy, Debug, Default)]
struct Delivery {
    tag: u64,
    is_redelivered: bool,
    /// The consumer's queue that the delivery is from.
    queue: usize,
}

/// A consuming channel.
#[derive(Debug)]
pub(crate) struct Consumer {
    plan: Plan,
    delivery: Delivery,
    assembly: Assembly,
    header_stamp: Option<u64>,
    received: u64,
    /// Deliveries since the last acknowledgement.
    n_unsettled: u64,
    latencies: Run,
    /// The last number of each publisher, queue by queue.
    last: Vec<Option<u64>>,
    n_consuming: usize,
    is_started: bool,
}

impl Consumer {
    pub(crate) fn new(plan: Plan) -> Self {
        let n_last = if plan.is_verified { plan.n_publishers * plan.queues.len() } else { 0 };
        let assembly = Assembly::new(plan.is_verified);
        Self {
            plan,
            delivery: Delivery::default(),
            assembly,
            header_stamp: None,
            received: 0,
            n_unsettled: 0,
            latencies: Run::default(),
            last: vec![None; n_last],
            n_consuming: 0,
            is_started: false,
        }
    }

    /// The time at which the consumer is to begin; `None` once it has.
    pub(crate) fn starts_at(&self) -> Option<u64> {
        (!self.is_started).then_some(self.plan.start_at)
    }

    /// Deliveries were asked for in another way.
    pub(crate) fn begun(&mut self) {
        self.is_started = true;
        self.n_consuming = self.plan.queues.len();
    }

    /// Asks for deliveries.
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>) {
        self.is_started = true;
        for (at, (_, queue)) in self.plan.queues.iter().enumerate() {
            let tag = at.to_string();
            let consume = BasicConsume {
                queue: queue.as_bytes(),
                consumer_tag: tag.as_bytes(),
                no_ack: self.plan.settle == Settle::Automatic,
                arguments: TableRef::trusted(&self.plan.arguments),
                ..BasicConsume::default()
            };
            consume.encode_frame(self.plan.channel, out);
        }
    }

    /// The connection is lost: it begins again, at once, on the next one.
    pub(crate) fn disconnect(&mut self) {
        self.delivery = Delivery::default();
        self.assembly.reset();
        self.header_stamp = None;
        self.n_unsettled = 0;
        self.n_consuming = 0;
        self.is_started = false;
        self.plan.start_at = 0;
    }

    /// A queue has a new name.
    pub(crate) fn rename(&mut self, number: usize, name: &str) {
        for queue in self.plan.queues.iter_mut().filter(|queue| queue.0 == number) {
            name.clone_into(&mut queue.1);
        }
    }

    /// The broker will deliver from all queues.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_started && self.n_consuming == self.plan.queues.len()
    }

    /// Whether the consumer has received as many messages as it was to.
    pub(crate) fn is_done(&self) -> bool {
        self.received >= self.plan.limit
    }

    /// The number of messages that it has received.
    pub(crate) fn n_received(&self) -> u64 {
        self.received
    }

    /// Whether deliveries are settled when they are sent.
    pub(crate) fn is_automatic(&self) -> bool {
        self.plan.settle == Settle::Automatic
    }

    /// The time at which the next delivery may be handled, if that is limited.
    pub(crate) fn open_at(&self) -> u64 {
        self.plan.gate.as_ref().map_or(0, Gate::open_at)
    }

    /// A method that is not basic.deliver.
    pub(crate) fn on_method(&mut self, method: &Method<'_>) -> anyhow::Result<()> {
        if matches!(method, Method::BasicConsumeOk(_)) {
            self.n_consuming += 1;
        } else if let Method::BasicCancel(cancel) = method {
            let tag = String::from_utf8_lossy(cancel.consumer_tag);
            let queue = tag.parse().ok().and_then(|at: usize| self.plan.queues.get(at));
            let name = queue.map_or("?", |(_, name)| name.as_str());
            return Err(Lost(format!("the broker cancelled a consumer of queue '{name}'")).into());
        } else {
            bail!("unexpected {} on a consuming channel", method.name());
        }
        Ok(())
    }

    /// The payload of a basic.deliver, behind class and method number.
    #[inline]
    pub(crate) fn on_deliver(&mut self, fields: &[u8]) -> anyhow::Result<()> {
        let delivery = delivery(fields).context("a malformed basic.deliver")?;
        self.delivery = delivery;
        self.assembly.begin();
        Ok(())
    }

    /// A content header.
    #[inline]
    pub(crate) fn on_header(
        &mut self,
        payload: &[u8],
        time: TurnTime,
        out: &mut Vec<u8>,
        seen: &mut Seen<'_>,
    ) -> anyhow::Result<()> {
        if self.plan.stamps.are_in_headers {
            self.header_stamp = header_stamp(payload);
        }
        if self.assembly.header(payload)? {
            self.complete(None, time, out, seen);
        }
        Ok(())
    }

    /// A part of a body.
    #[inline]
    pub(crate) fn on_body(
        &mut self,
        payload: &[u8],
        time: TurnTime,
        out: &mut Vec<u8>,
        seen: &mut Seen<'_>,
    ) -> anyhow::Result<()> {
        let Some(body) = self.assembly.body(payload)? else { return Ok(()) };
        let stamp = stamp(body, self.delivery, &self.plan, &mut self.last, seen.ledger);
        self.complete(stamp, time, out, seen);
        Ok(())
    }

    /// A message from the only queue, by another protocol. Gives back whether it is among those wanted.
    #[inline]
    pub(crate) fn on_message(
        &mut self,
        body: &[u8],
        is_redelivered: bool,
        time: TurnTime,
        seen: &mut Seen<'_>,
    ) -> bool {
        let delivery = Delivery { is_redelivered, ..Delivery::default() };
        let stamp = stamp(body, delivery, &self.plan, &mut self.last, seen.ledger);
        self.count(u64::try_from(body.len()).unwrap_or_default(), stamp, time, seen)
    }

    #[inline]
    fn complete(
        &mut self,
        stamp: Option<u64>,
        time: TurnTime,
        out: &mut Vec<u8>,
        seen: &mut Seen<'_>,
    ) {
        if self.count(self.assembly.size(), stamp, time, seen) {
            self.settle(out);
        }
    }

    /// Counts a message of so many bytes; false if there have been enough.
    #[inline]
    fn count(
        &mut self,
        n_bytes: u64,
        stamp: Option<u64>,
        time: TurnTime,
        seen: &mut Seen<'_>,
    ) -> bool {
        if self.is_done() {
            return false;
        }
        self.received += 1;
        seen.sample.counts.received += 1;
        seen.sample.counts.received_bytes += n_bytes;
        let stamp = if self.plan.stamps.are_in_headers { self.header_stamp.take() } else { stamp };
        if let Some(latency) = stamp.and_then(|stamp| self.latency(stamp, time.now)) {
            self.latencies.add(latency, 1, &mut seen.sample.latency);
        }
        if let Some(gate) = &self.plan.gate {
            gate.pass(time.elapsed());
        }
        true
    }

    fn latency(&self, stamp: u64, now: u64) -> Option<u64> {
        if self.plan.stamps.are_millis {
            return Some(clock::wall_ms().saturating_sub(stamp) * MILLISECOND);
        }
        // A stamp from the future or of another clock says nothing.
        now.checked_sub(stamp).filter(|_| stamp != 0)
    }

    #[inline]
    fn settle(&mut self, out: &mut Vec<u8>) {
        let every = match self.plan.settle {
            Settle::Automatic => return,
            Settle::Ack { every } | Settle::Nack { every, .. } => every,
        };
        self.n_unsettled += 1;
        if self.n_unsettled >= every || self.is_done() {
            self.settle_now(out);
        }
    }

    /// Acknowledges (or refuses) all up to the last delivery.
    fn settle_now(&mut self, out: &mut Vec<u8>) {
        let (delivery_tag, multiple) = (self.delivery.tag, self.n_unsettled > 1);
        match self.plan.settle {
            Settle::Automatic => {}
            Settle::Ack { .. } => {
                BasicAck { delivery_tag, multiple }.encode_frame(self.plan.channel, out);
            }
            Settle::Nack { requeue, .. } => {
                let nack = BasicNack { delivery_tag, multiple, requeue };
                nack.encode_frame(self.plan.channel, out);
            }
        }
        self.n_unsettled = 0;
    }

    /// The run is over.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        if self.plan.settles_rest && self.n_unsettled > 0 {
            self.settle_now(out);
        }
    }

    /// The end of what was read at once.
    pub(crate) fn flush(&mut self, sample: &mut Sample) {
        self.latencies.flush(&mut sample.latency);
    }
}

/// The records of what a consumer sees.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) sample: &'a mut Sample,
    pub(crate) ledger: Option<&'a Ledger>,
}

/// Tag, flag and consumer of a basic.deliver.
#[inline]
fn delivery(fields: &[u8]) -> Option<Delivery> {
    let (&len, rest) = fields.split_first()?;
    let (consumer_tag, rest) = rest.split_at_checked(usize::from(len))?;
    let (tag, rest) = rest.split_first_chunk()?;
    let (&redelivered, _) = rest.split_first()?;
    let queue = match *consumer_tag {
        [digit @ b'0'..=b'9'] => usize::from(digit - b'0'),
        _ => std::str::from_utf8(consumer_tag).ok()?.parse().ok()?,
    };
    Some(Delivery { tag: u64::from_be_bytes(*tag), is_redelivered: redelivered & 1 != 0, queue })
}

/// The time stamp of a body; of copies there is none, since the first one's time is the one that counts.
#[inline]
fn stamp(
    body: &[u8],
    delivery: Delivery,
    plan: &Plan,
    last: &mut [Option<u64>],
    ledger: Option<&Ledger>,
) -> Option<u64> {
    let is_copy = ledger.is_some_and(|ledger| check(body, delivery, plan, last, ledger));
    template::stamp_of(body).filter(|_| !is_copy)
}

/// Notes what came in the ledger; gives back whether it is a copy of what came before.
fn check(
    body: &[u8],
    delivery: Delivery,
    plan: &Plan,
    last: &mut [Option<u64>],
    ledger: &Ledger,
) -> bool {
    let Some(mark) = template::verified(body) else {
        ledger.damaged(&format!("{} bytes, the checksum is wrong", body.len()));
        return false;
    };
    let queue = plan.queues.get(delivery.queue).map_or(usize::MAX, |&(number, _)| number);
    let publisher = usize::try_from(mark.publisher).unwrap_or(usize::MAX);
    let at = delivery.queue.saturating_mul(plan.n_publishers).saturating_add(publisher);
    let last = last.get_mut(at).filter(|_| publisher < plan.n_publishers);
    let before = last.as_ref().and_then(|last| **last);
    let is_copy = ledger.received(queue, mark, before, delivery.is_redelivered);
    if let Some(last) = last {
        *last = Some(last.unwrap_or(0).max(mark.number));
    }
    is_copy
}

#[cfg(test)]
mod tests;
