//! One publishing channel: when it may publish, what, and what became of it.

use amqp091::Method;
use anyhow::bail;

use crate::assembly::Assembly;
use crate::clock::{self, MILLISECOND};
use crate::confirm_window::ConfirmWindow;
use crate::message::{Messages, Source};
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

/// A publishing channel.
#[derive(Debug)]
pub(crate) struct Publisher {
    /// Its number among all publishers.
    pub(crate) id: u32,
    messages: Messages,
    timing: Timing,
    window: Option<ConfirmWindow>,
    limit: u64,
    sent: u64,
    /// Messages sent on connections that are lost: delivery tags count from there.
    sent_before: u64,
    use_millis: bool,
    returned: Assembly,
    confirm_run: Run,
    /// Time of the last confirm, or since the window is in use, nanoseconds of the clock.
    progress_at: u64,
}

/// A publisher's settings.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) id: u32,
    pub(crate) source: Source,
    pub(crate) timing: Timing,
    pub(crate) window: Option<ConfirmWindow>,
    pub(crate) limit: u64,
    pub(crate) use_millis: bool,
    /// Bytes written at once.
    pub(crate) batch_bytes: usize,
    pub(crate) is_verified: bool,
}

impl Publisher {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            id: plan.id,
            messages: Messages::new(plan.source, plan.batch_bytes),
            timing: plan.timing,
            window: plan.window,
            limit: plan.limit,
            sent: 0,
            sent_before: 0,
            use_millis: plan.use_millis,
            returned: Assembly::new(plan.is_verified),
            confirm_run: Run::default(),
            progress_at: 0,
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
    /// PerfTest that is not published again.
    pub(crate) fn disconnect(&mut self) {
        self.messages.drop_pending();
        self.window.iter_mut().for_each(ConfirmWindow::reset);
        self.sent_before = self.sent;
        self.returned.reset();
        self.hold();
    }

    /// Everything is published, and confirmed if it is to be.
    pub(crate) fn is_done(&self) -> bool {
        self.sent >= self.limit && self.n_outstanding() == 0
    }

    /// The number of publishes that wait for their confirms.
    pub(crate) fn n_outstanding(&self) -> usize {
        self.window.as_ref().map_or(0, ConfirmWindow::n_outstanding)
    }

    /// Whether confirms are overdue.
    pub(crate) fn is_stuck(&self, now: u64, timeout: u64) -> bool {
        self.n_outstanding() > 0 && now.saturating_sub(self.progress_at) > timeout
    }

    /// Makes as many messages ready as may be published now.
    pub(crate) fn stage(&mut self, time: TurnTime, sample: &mut Sample) -> Staged {
        let elapsed = time.elapsed();
        if self.sent >= self.limit {
            return Staged::Done;
        }
        if elapsed < self.timing.start_at {
            return Staged::NotBefore(self.timing.start_at);
        }
        let room = self.window.as_ref().map_or(usize::MAX, ConfirmWindow::room);
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
        sample.counts.sent += n;
        sample.counts.sent_bytes += n * self.messages.body_len();
        Staged::Bytes
    }

    fn put_messages(&mut self, n_max: usize, time: TurnTime) -> u64 {
        let elapsed = time.elapsed();
        let wall_ms = if self.use_millis { clock::wall_ms() } else { 0 };
        self.messages.begin(elapsed);
        let before = self.sent;
        for _ in 0..n_max.min(self.messages.capacity()) {
            let Some(counts_from) = self.timing.next_stamp(elapsed) else { break };
            let stamp = time.start + counts_from;
            if let Some(window) = &mut self.window {
                window.publish(stamp);
            }
            let stamp = if self.use_millis {
                wall_ms.saturating_sub((time.now - stamp) / MILLISECOND)
            } else {
                stamp
            };
            self.messages.put(Mark { number: self.sent, stamp, publisher: self.id });
            self.sent += 1;
        }
        self.messages.end();
        self.sent - before
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
            sample.counts.confirmed +=
                self.settle(ack.delivery_tag, ack.multiple, now, sample, ledger);
        } else if let Method::BasicNack(nack) = method {
            // Without the ledger: what was refused may be lost.
            sample.counts.nacked +=
                self.settle(nack.delivery_tag, nack.multiple, now, sample, None);
        } else if let Method::BasicReturn(_) = method {
            sample.counts.returned += 1;
            self.returned.begin();
        } else {
            bail!("unexpected {} on a publishing channel", method.name());
        }
        Ok(())
    }

    fn settle(
        &mut self,
        tag: u64,
        is_multiple: bool,
        now: u64,
        sample: &mut Sample,
        ledger: Option<&Ledger>,
    ) -> u64 {
        let Some(window) = &mut self.window else { return 0 };
        self.progress_at = now;
        let (run, latencies, id) = (&mut self.confirm_run, &mut sample.confirm_latency, self.id);
        let before = self.sent_before;
        let n = window.settle(tag, is_multiple, |tag, stamp| {
            run.add(now.saturating_sub(stamp), 1, latencies);
            if let Some(ledger) = ledger {
                // Delivery tags count from 1, numbers of messages from 0.
                ledger.confirmed(id, before + tag - 1);
            }
        });
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

    /// The number of messages handed to the socket.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Bodies, Keys};
    use crate::rate::Schedule;
    use crate::template::{Address, Marking};
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
            properties: Properties::default(),
            bodies: Bodies::Stamped { size, marking: Marking::Body },
            keys: Keys::Fixed,
        };
        let limiter = rate.map(|rate| RateLimiter::new(Schedule::constant(rate), 0));
        Publisher::new(Plan {
            id: 0,
            source,
            timing: Timing { limiter, start_at: 0, is_held: false, held_until: 0 },
            window: Some(ConfirmWindow::new(10)),
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
        let ledger = Ledger::new(1, 1);
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
