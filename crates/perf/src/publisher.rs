//! One publishing channel: when it may publish, what, and what became of it.

use amqp10::{DeliveryOutcome, DeliveryState, Disposition, SerialNumber};
use amqp091::Method;
use anyhow::bail;

use crate::assembly::Assembly;
use crate::clock::{self, MILLISECOND};
use crate::confirms::{Answer, Confirms};
use crate::consumer::Seen;
use crate::message::{Encoding, Messages, Source};
use crate::rate::RateLimiter;
use crate::stats::{Run, Sample};
use crate::template::{self, Mark};
use crate::verify::Ledger;

/// The outcome of a publisher's attempt to put messages into its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staged {
    /// Nothing: there are bytes to write.
    Bytes,
    /// The next message is due that many nanoseconds after the start.
    NotBefore(u64),
    /// Confirms have to come first.
    Full,
    /// Everything is published.
    Done,
}

/// The time a turn happens at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnTime {
    /// Nanoseconds of the clock that never goes back.
    pub(crate) now: u64,
    /// The start of the run, on the same clock.
    pub(crate) start: u64,
}

impl TurnTime {
    /// Nanoseconds since the start.
    pub(crate) fn elapsed(self) -> u64 {
        self.now.saturating_sub(self.start)
    }
}

/// A publisher's schedule, and the delays it has to make up for.
#[derive(Debug)]
pub(crate) struct Timing {
    /// No limiter: as fast as the broker takes them.
    pub(crate) limiter: Option<RateLimiter>,
    /// Nanoseconds after the start.
    pub(crate) start_at: u64,
    /// Whether the broker keeps it from publishing: the window is full or the socket is.
    pub(crate) is_held: bool,
    /// Until when it was kept last. Messages due before then are late because of the broker, so
    /// their latency counts from when they were due; lateness of timers is not the broker's.
    pub(crate) held_until: u64,
}

impl Timing {
    /// The time the latency of the next message counts from, after the start; `None` if it is not
    /// due yet.
    fn next_stamp(&mut self, elapsed: u64) -> Option<u64> {
        let Some(limiter) = &mut self.limiter else { return Some(elapsed) };
        if limiter.next() > elapsed {
            return None;
        }
        let due = limiter.take();
        Some(if due < self.held_until { due } else { elapsed })
    }
}

/// The leave that a broker gives over AMQP 1.0, up to the numbers of a delivery and of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leave {
    pub(crate) deliveries: SerialNumber,
    pub(crate) transfers: SerialNumber,
}

/// A publishing channel, or link.
#[derive(Debug)]
pub(crate) struct Publisher {
    /// Its number among all publishers.
    pub(crate) id: u32,
    messages: Messages,
    timing: Timing,
    confirms: Confirms,
    limit: u64,
    /// Messages, without those that are sent again.
    sent: u64,
    use_millis: bool,
    returned: Assembly,
    confirm_run: Run,
    /// Time of the last confirm, or since the window is in use, nanoseconds of the clock.
    progress_at: u64,
    /// The broker's leave to publish, where that is needed.
    pub(crate) leave: Option<Leave>,
}

/// A publisher's settings.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) id: u32,
    pub(crate) source: Source,
    pub(crate) timing: Timing,
    pub(crate) confirms: Confirms,
    pub(crate) limit: u64,
    pub(crate) use_millis: bool,
    /// Bytes written at once.
    pub(crate) batch_bytes: usize,
    pub(crate) is_verified: bool,
}

impl Publisher {
    pub(crate) fn new(plan: Plan) -> Self {
        let takes_leave = plan.source.encoding != Encoding::Amqp091;
        Self {
            id: plan.id,
            messages: Messages::new(plan.source, plan.batch_bytes),
            timing: plan.timing,
            confirms: plan.confirms,
            limit: plan.limit,
            sent: 0,
            use_millis: plan.use_millis,
            returned: Assembly::new(plan.is_verified),
            confirm_run: Run::default(),
            progress_at: 0,
            leave: takes_leave.then(Leave::default),
        }
    }

    /// Bytes of messages that are not written yet.
    pub(crate) fn pending(&self) -> &[u8] {
        self.messages.pending()
    }

    /// Notes that `n` bytes of the batch are written.
    pub(crate) fn written(&mut self, n: usize) {
        self.messages.written(n);
    }

    /// The socket takes nothing more.
    pub(crate) fn hold(&mut self) {
        self.timing.is_held = true;
    }

    /// The connection is lost, and with it what was being written or waited for a confirm. As in
    /// PerfTest that is not published again, unless it is kept for it.
    pub(crate) fn disconnect(&mut self) {
        self.messages.drop_pending();
        self.confirms.disconnect(self.sent);
        self.returned.reset();
        self.hold();
    }

    /// Everything is published, and confirmed if it is to be.
    pub(crate) fn is_done(&self) -> bool {
        self.sent >= self.limit && self.n_outstanding() == 0
    }

    /// The number of publishes that wait for their confirms.
    pub(crate) fn n_outstanding(&self) -> usize {
        self.confirms.n_outstanding()
    }

    /// Whether confirms are overdue, and nothing is done about it.
    pub(crate) fn is_stuck(&self, now: u64, timeout: u64) -> bool {
        self.confirms.n_forgotten() > 0 && now.saturating_sub(self.progress_at) > timeout
    }

    /// Makes as many messages ready as may be published now: first those that are to be published again.
    pub(crate) fn stage(&mut self, time: TurnTime, sample: &mut Sample) -> Staged {
        let n = self.put_again(time);
        if n > 0 {
            sample.counts.resent += n;
            self.count(n, sample);
            return Staged::Bytes;
        }
        let staged = self.stage_new(time, sample);
        match (staged, self.confirms.due_at()) {
            (Staged::Bytes, _) | (_, None) => staged,
            (Staged::NotBefore(at), Some(due)) => {
                Staged::NotBefore(at.min(due.saturating_sub(time.start)))
            }
            (Staged::Full | Staged::Done, Some(due)) => {
                Staged::NotBefore(due.saturating_sub(time.start))
            }
        }
    }

    fn count(&self, n: u64, sample: &mut Sample) {
        sample.counts.sent += n;
        sample.counts.sent_bytes += n * self.messages.body_len();
    }

    fn stage_new(&mut self, time: TurnTime, sample: &mut Sample) -> Staged {
        let elapsed = time.elapsed();
        if self.sent >= self.limit {
            return Staged::Done;
        }
        if elapsed < self.timing.start_at {
            return Staged::NotBefore(self.timing.start_at);
        }
        let room = self.confirms.room().min(self.leave_room());
        if room == 0 {
            self.timing.is_held = true;
            return Staged::Full;
        }
        if self.timing.is_held {
            self.timing.is_held = false;
            self.timing.held_until = elapsed;
        }
        if self.n_outstanding() == 0 {
            self.progress_at = time.now;
        }
        let left = usize::try_from(self.limit - self.sent).unwrap_or(usize::MAX);
        let n = self.put_messages(room.min(left), time);
        if n == 0 {
            return Staged::NotBefore(
                self.timing.limiter.as_ref().map_or(elapsed, RateLimiter::next),
            );
        }
        self.count(n, sample);
        Staged::Bytes
    }

    /// The number of messages that the broker lets us publish now.
    fn leave_room(&self) -> usize {
        let Some(Leave { deliveries, transfers }) = self.leave else { return usize::MAX };
        let to = |end: SerialNumber, next: SerialNumber| {
            if next.is_before(end) { end.since(next) } else { 0 }
        };
        let n_frames = u32::try_from(self.messages.n_frames()).unwrap_or(u32::MAX);
        let n =
            to(deliveries, serial(self.sent)).min(to(transfers, self.next_transfer()) / n_frames);
        usize::try_from(n).unwrap_or(usize::MAX)
    }

    /// The number of the next transfer.
    pub(crate) fn next_transfer(&self) -> SerialNumber {
        let n_frames = u64::try_from(self.messages.n_frames()).unwrap_or(1);
        serial(self.sent.wrapping_mul(n_frames))
    }

    fn put_messages(&mut self, n_max: usize, time: TurnTime) -> u64 {
        let elapsed = time.elapsed();
        let wall_ms = self.wall_ms();
        self.messages.begin(elapsed);
        let before = self.sent;
        for _ in 0..n_max.min(self.messages.capacity()) {
            let Some(counts_from) = self.timing.next_stamp(elapsed) else { break };
            let stamp = time.start + counts_from;
            self.put(self.sent, stamp, time.now, wall_ms);
            self.sent += 1;
        }
        self.messages.end();
        self.sent - before
    }

    /// Messages that were published before, with the number and the time they had, in the size that
    /// messages have now.
    fn put_again(&mut self, time: TurnTime) -> u64 {
        let Some(first) = self.confirms.next_due(time.now) else { return 0 };
        let wall_ms = self.wall_ms();
        self.messages.begin(time.elapsed());
        let (mut n, mut next) = (0, Some(first));
        let capacity = u64::try_from(self.messages.capacity()).unwrap_or(u64::MAX);
        while let Some((number, stamp)) = next {
            self.put(number, stamp, time.now, wall_ms);
            n += 1;
            next = if n < capacity { self.confirms.next_due(time.now) } else { None };
        }
        self.messages.end();
        n
    }

    /// Milliseconds since 1970, for time stamps that are those; otherwise 0.
    fn wall_ms(&self) -> u64 {
        if self.use_millis { clock::wall_ms() } else { 0 }
    }

    fn put(&mut self, number: u64, stamp: u64, now: u64, wall_ms: u64) {
        self.confirms.publish(number, stamp, now);
        let stamp = if self.use_millis {
            wall_ms.saturating_sub(now.saturating_sub(stamp) / MILLISECOND)
        } else {
            stamp
        };
        self.messages.put(Mark { number, stamp, publisher: self.id });
    }

    /// A confirm or a return came.
    pub(crate) fn on_method(
        &mut self,
        method: &Method<'_>,
        now: u64,
        sample: &mut Sample,
        ledger: Option<&Ledger>,
    ) -> anyhow::Result<()> {
        if let Method::BasicAck(ack) = method {
            let answer = Answer { tag: ack.delivery_tag, is_multiple: ack.multiple, is_ack: true };
            sample.counts.confirmed += self.settle([answer], now, sample, ledger);
        } else if let Method::BasicNack(nack) = method {
            let (tag, is_multiple) = (nack.delivery_tag, nack.multiple);
            let answer = Answer { tag, is_multiple, is_ack: false };
            // Without the ledger: what was refused may be lost.
            sample.counts.nacked += self.settle([answer], now, sample, None);
        } else if let Method::BasicReturn(_) = method {
            sample.counts.returned += 1;
            self.returned.begin();
        } else {
            bail!("unexpected {} on a publishing channel", method.name());
        }
        Ok(())
    }

    /// The broker tells the outcome of deliveries (AMQP 1.0).
    pub(crate) fn on_disposition(
        &mut self,
        disposition: &Disposition<'_>,
        now: u64,
        seen: &mut Seen<'_>,
    ) {
        let Disposition { first, last, state: Some(DeliveryState::Outcome(outcome)), .. } =
            disposition
        else {
            return;
        };
        let n = u64::from(last.unwrap_or(*first).since(*first)) + 1;
        // Delivery ids are numbers of messages, as far as 32 bits go; tags count from 1.
        let tag = self.sent + 1 - u64::from(serial(self.sent).since(*first)).min(self.sent);
        let is_ack = matches!(outcome, DeliveryOutcome::Accepted(_));
        let answers = (tag..tag + n.min(self.sent + 1 - tag)).map(|tag| Answer {
            tag,
            is_multiple: false,
            is_ack,
        });
        let ledger = seen.ledger.filter(|_| is_ack);
        let n = self.settle(answers, now, seen.sample, ledger);
        match outcome {
            DeliveryOutcome::Accepted(_) => seen.sample.counts.confirmed += n,
            DeliveryOutcome::Released(_) => seen.sample.counts.returned += n,
            DeliveryOutcome::Rejected(_) | DeliveryOutcome::Modified(_) => {
                seen.sample.counts.nacked += n;
            }
        }
    }

    fn settle(
        &mut self,
        answers: impl IntoIterator<Item = Answer>,
        now: u64,
        sample: &mut Sample,
        ledger: Option<&Ledger>,
    ) -> u64 {
        self.progress_at = now;
        let (run, latencies, id) = (&mut self.confirm_run, &mut sample.confirm_latency, self.id);
        let mut n = 0;
        for answer in answers {
            n += self.confirms.settle(answer, now, |number, stamp| {
                run.add(now.saturating_sub(stamp), 1, latencies);
                if let Some(ledger) = ledger {
                    ledger.confirmed(id, number);
                }
            });
        }
        run.flush(latencies);
        n
    }

    /// The header of a returned message.
    pub(crate) fn on_header(&mut self, payload: &[u8]) -> anyhow::Result<()> {
        self.returned.header(payload).map(drop)
    }

    /// A part of the body of a returned message.
    pub(crate) fn on_body(
        &mut self,
        payload: &[u8],
        ledger: Option<&Ledger>,
    ) -> anyhow::Result<()> {
        let Some(body) = self.returned.body(payload)? else { return Ok(()) };
        if let (Some(ledger), Some(mark)) = (ledger, template::verified(body)) {
            ledger.returned(mark.publisher, mark.number);
        }
        Ok(())
    }

    /// The number of messages handed to the socket, each counted once.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }
}

/// A number as far as 32 bits go.
fn serial(number: u64) -> SerialNumber {
    SerialNumber::new(u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Bodies, Keys};
    use crate::rate::Schedule;
    use crate::template::{Address, Marking};
    use crate::verify::Guarantee;
    use amqp091::Properties;
    use amqp091::method::BasicAck;

    /// With a window of 10, at a rate or as fast as it goes.
    fn publisher(rate: Option<f64>) -> Publisher {
        let size = Schedule::constant(12.0);
        let source = Source {
            address: Address {
                channel: 1,
                exchange: "direct".to_owned(),
                routing_key: "key".to_owned(),
                mandatory: false,
                immediate: false,
                frame_max: 131_072,
            },
            properties: vec![Properties::default()],
            encoding: Encoding::Amqp091,
            bodies: Bodies::Stamped { size, marking: Marking::Body },
            keys: Keys::Fixed,
        };
        let limiter = rate.map(|rate| RateLimiter::new(Schedule::constant(rate), 0));
        Publisher::new(Plan {
            id: 0,
            source,
            timing: Timing { limiter, start_at: 0, is_held: false, held_until: 0 },
            confirms: Confirms::counted(10),
            limit: u64::MAX,
            use_millis: false,
            batch_bytes: 64 * 1024,
            is_verified: false,
        })
    }

    /// Writes what may be written and confirms all of it.
    fn round(publisher: &mut Publisher, sample: &mut Sample, now: u64, confirmed_at: u64) {
        publisher.stage(TurnTime { now, start: 0 }, sample);
        let n = publisher.pending().len();
        publisher.written(n);
        let ack = BasicAck { delivery_tag: publisher.sent(), multiple: true };
        publisher.on_method(&Method::BasicAck(ack), confirmed_at, sample, None).unwrap();
    }

    #[test]
    fn a_stalled_broker_does_not_hide_its_stall() {
        let (mut publisher, mut sample) = (publisher(Some(1000.0)), Sample::new());
        for ms in 0..10 {
            let time = TurnTime { now: ms * MILLISECOND, start: 0 };
            assert_eq!(publisher.stage(time, &mut sample), Staged::Bytes);
            publisher.written(publisher.pending().len());
        }
        // Nothing is confirmed until half a second has passed.
        let stalled = TurnTime { now: 10 * MILLISECOND, start: 0 };
        assert_eq!(publisher.stage(stalled, &mut sample), Staged::Full);
        let ack = BasicAck { delivery_tag: 10, multiple: true };
        let after = 500 * MILLISECOND;
        publisher.on_method(&Method::BasicAck(ack), after, &mut sample, None).unwrap();
        for ms in 500..1000 {
            round(&mut publisher, &mut sample, ms * MILLISECOND, (ms + 1) * MILLISECOND);
        }
        // Messages are due every millisecond: those of the stall waited from when they were due.
        let latencies = &sample.confirm_latency;
        assert_eq!(latencies.len(), 1000);
        assert!((latencies.max() / MILLISECOND).abs_diff(500) < 10, "{}", latencies.max());
        let n_slow = latencies.count_between(100 * MILLISECOND, u64::MAX);
        assert!((380..=480).contains(&n_slow), "{n_slow}");
        assert!(latencies.value_at_quantile(0.4) < 2 * MILLISECOND);
    }

    #[test]
    fn publishing_and_confirming_allocate_nothing() {
        let (mut publisher, mut sample) = (publisher(None), Sample::new());
        (0..10).for_each(|now| round(&mut publisher, &mut sample, now, now));
        let before = counting::in_thread();
        (10..1000).for_each(|now| round(&mut publisher, &mut sample, now, now + 1));
        assert_eq!(counting::in_thread().since(before).n_allocations, 0);
        assert_eq!(sample.counts.confirmed, 10_000);
    }

    #[test]
    fn a_new_connection_counts_tags_from_the_start() {
        let (mut publisher, mut sample) = (publisher(None), Sample::new());
        let ledger = Ledger::new(1, 1, Guarantee::Once);
        publisher.stage(TurnTime { now: 1, start: 0 }, &mut sample);
        publisher.disconnect();
        assert!(publisher.pending().is_empty() && publisher.n_outstanding() == 0);
        publisher.stage(TurnTime { now: 2, start: 0 }, &mut sample);
        let ack = BasicAck { delivery_tag: 1, multiple: false };
        publisher.on_method(&Method::BasicAck(ack), 3, &mut sample, Some(&ledger)).unwrap();
        // The eleventh message is promised and missing, the first ten were never promised.
        assert_eq!(ledger.n_missing(&[(0, 0)]), 1);
        ledger.received(0, Mark { number: 10, stamp: 0, publisher: 0 }, None, false);
        assert_eq!(ledger.n_missing(&[(0, 0)]), 0);
    }
}
