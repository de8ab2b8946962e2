//! Deliveries that are settled by being written: which they are, and where in the outgoing bytes each
//! ends. Knows offsets in a stream; must never know a socket, or what was encoded.

use session::{ChannelId, LinkId, Outcome, Position, Settle};
use std::collections::VecDeque;

/// The bytes up to which deliveries are remembered together: a socket that takes a part of a large write
/// settles all of it but this much.
const RUN_BYTES_MAX: u64 = 16 * 1024;

/// Messages that follow one another in their queue and in the outgoing bytes of one link.
#[derive(Clone, Copy, Debug)]
struct Run {
    channel: u16,
    link: LinkId,
    /// Delivery tag of the first.
    tag: u64,
    first: u64,
    last: u64,
    /// Offset of the first one's first byte.
    starts_at: u64,
    /// Offset behind the last byte of the last.
    ends_at: u64,
}

impl Run {
    /// Whether the run grows by `next`. Runs that are about to be written, with the first `n_taken` bytes, do
    /// not: they would wait for what comes after them.
    fn goes_on_with(&self, next: &Self, n_taken: u64) -> bool {
        self.link == next.link
            && self.starts_at >= n_taken
            && self.last.checked_add(1) == Some(next.first)
            && self.ends_at == next.starts_at
            && next.ends_at - self.starts_at <= RUN_BYTES_MAX
    }
}

/// A delivery that is put into the outgoing bytes.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    /// The channel it is delivered on.
    pub channel: u16,
    /// The link it is delivered on.
    pub link: LinkId,
    /// Its delivery tag.
    pub tag: u64,
    /// The message's place in its queue.
    pub position: Position,
    /// Offset of its first byte.
    pub starts_at: u64,
    /// Offset behind its last byte.
    pub ends_at: u64,
}

/// Deliveries that are settled by being written, until their settlement is taken, in the order of the
/// bytes.
#[derive(Debug, Default)]
pub(crate) struct AutoAckInFlight {
    runs: VecDeque<Run>,
    /// Bytes written, as far as is known.
    n_written: u64,
}

impl AutoAckInFlight {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// A delivery was put in; the first `n_taken` bytes of the stream were taken to be written.
    pub(crate) fn push(&mut self, put: Put, n_taken: u64) {
        let Put { channel, link, tag, position: Position(first), starts_at, ends_at } = put;
        let next = Run { channel, link, tag, first, last: first, starts_at, ends_at };
        match self.runs.back_mut() {
            Some(run) if run.goes_on_with(&next, n_taken) => {
                (run.last, run.ends_at) = (next.last, ends_at);
            }
            Some(_) | None => self.runs.push_back(next),
        }
    }

    /// Notes the number of bytes of the stream that are written.
    pub(crate) fn wrote(&mut self, n_written: u64) {
        self.n_written = self.n_written.max(n_written);
    }

    /// Whether something is settled.
    pub(crate) fn has_written(&self) -> bool {
        self.runs.front().is_some_and(|run| run.ends_at <= self.n_written)
    }

    /// Takes up to `n_max` messages that are settled.
    pub(crate) fn take_written(&mut self, n_max: usize, mut each: impl FnMut(Settle)) {
        for _ in 0..n_max {
            let Some(run) = self.runs.front_mut().filter(|run| run.ends_at <= self.n_written)
            else {
                return;
            };
            each(Settle {
                channel: ChannelId(run.channel),
                link: run.link,
                position: Position(run.first),
                outcome: Outcome::Accepted,
            });
            if run.first == run.last {
                self.runs.pop_front();
            } else {
                run.first += 1;
                run.tag += 1;
            }
        }
    }

    /// The deliveries of a channel go back to their queues, written or not.
    pub(crate) fn forget_channel(&mut self, channel: u16) {
        self.runs.retain(|run| run.channel != channel);
    }

    /// The deliveries of these links, which are sorted, with their delivery tags.
    pub(crate) fn of_links(
        &self,
        links: &[LinkId],
    ) -> impl Iterator<Item = (u64, LinkId, Position)> {
        let of_links = self.runs.iter().filter(|run| links.binary_search(&run.link).is_ok());
        of_links.flat_map(|run| {
            let positions = (run.first..=run.last).map(Position);
            (run.tag..).zip(positions).map(|(tag, position)| (tag, run.link, position))
        })
    }

    /// Gives back memory that is not in use.
    pub(crate) fn trim(&mut self) {
        self.runs.shrink_to(self.runs.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn put(link: u64, position: u64, starts_at: u64, n_bytes: u64) -> Put {
        Put {
            channel: 1,
            link: LinkId(link),
            tag: 0,
            position: Position(position),
            starts_at,
            ends_at: starts_at + n_bytes,
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// A link is delivered something this long; a gap in its positions before it or not.
        Put(u64, u64, bool),
        /// Bytes that are no such delivery.
        Other(u64),
        /// The socket takes so many bytes.
        Write(u64),
        /// Takes all bytes put in so far to be written.
        Begin,
        /// Takes the settlement of so many messages.
        Take(usize),
        Ask(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..3_u64, 20..3_000_u64, prop::bool::weighted(0.2))
                .prop_map(|(link, n_bytes, gap)| Step::Put(link, n_bytes, gap)),
            1 => (1..50_u64).prop_map(Step::Other),
            2 => (1..30_000_u64).prop_map(Step::Write),
            2 => Just(Step::Begin),
            2 => (1..20_usize).prop_map(Step::Take),
            1 => (0..3_u64).prop_map(Step::Ask),
        ]
    }

    proptest! {
            /// Settles no delivery before it is written, and all that are written, but for a run.
            #[test]
            fn settles_what_was_written_and_nothing_else(
                steps in prop::collection::vec(step(), 0..300),
            ) {
                let (mut unwritten, mut model) = (AutoAckInFlight::default(), VecDeque::new());
                let (mut next, mut at, mut n_taken, mut n_written) = ([0_u64; 3], 0, 0, 0);
                for step in steps {
                    match step {
                        Step::Put(link, n_bytes, gap) => {
                            let position = &mut next[usize::try_from(link).unwrap()];
                            *position += 1 + u64::from(gap);
                            unwritten.push(put(link, *position, at, n_bytes), n_taken);
                            at += n_bytes;
                            model.push_back((link, *position, at));
                        }
                        Step::Other(n_bytes) => at += n_bytes,
                        Step::Write(n) => {
                            n_written = n_taken.min(n_written + n);
                            unwritten.wrote(n_written);
                        }
                        Step::Begin => n_taken = at,
                        Step::Take(n_max) => {
                            let mut taken = Vec::new();
                            unwritten.take_written(n_max, |settle| taken.push(settle));
                            prop_assert!(taken.len() <= n_max);
                            for settle in &taken {
                                let (link, position, ends_at) = model.pop_front().unwrap();
                                prop_assert_eq!(settle.link, LinkId(link));
                                prop_assert_eq!(settle.position, Position(position));
                                prop_assert!(ends_at <= n_written, "settled before it was written");
                            }
                            if taken.len() < n_max && let Some((.., ends_at)) = model.front() {
                                prop_assert!(!unwritten.has_written());
                                prop_assert!(ends_at + RUN_BYTES_MAX > n_written, "settled too late");
    let all_is_written = n_written == n_taken;
                                prop_assert!(*ends_at > n_taken || !all_is_written, "waits in vain");
                            }
                        }
                        Step::Ask(link) => {
                            let left: Vec<u64> =
                                unwritten.of_links(&[LinkId(link)]).map(|(.., at)| at.0).collect();
                            let expected: Vec<u64> =
                                model.iter().filter(|(of, ..)| *of == link).map(|one| one.1).collect();
                            prop_assert_eq!(left, expected);
                        }
                    }
                }
            }
        }

    #[test]
    fn a_flood_is_remembered_in_few_runs() {
        let mut unwritten = AutoAckInFlight::default();
        for n in 0..10_000 {
            unwritten.push(put(1, n, n * 100, 100), 0);
        }
        assert!(unwritten.runs.len() <= 100 * 10_000 / 16_000);
        unwritten.forget_channel(1);
        assert!(unwritten.is_empty());
    }
}
