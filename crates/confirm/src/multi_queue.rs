//! Publishes whose confirms several parties have a part in: queues that wait for their consumers, and disks.

use super::{Confirmation, Run};
use session::{ChannelId, Sink};
use std::collections::BTreeMap;

/// Publishes of a connection that several parties have yet to answer, by channel and number.
#[derive(Debug, Default)]
pub(super) struct MultiQueueConfirms(BTreeMap<(ChannelId, u64), Unanswered>);

#[derive(Clone, Copy, Debug)]
struct Unanswered {
    n_left: u32,
    /// Whether the publisher was told of a refusal already.
    is_refused: bool,
}

impl MultiQueueConfirms {
    /// Answers each publish of `run` on behalf of one part; a publish that is not in here has no other part.
    /// The publisher is told of the last acceptance or the first refusal. Returns how many of the publishes
    /// had no other part.
    #[inline]
    pub(super) fn answer(
        &mut self,
        sink: &mut dyn Sink,
        run: Run,
        answer: Confirmation<'_>,
    ) -> u64 {
        if self.0.is_empty() {
            sink.confirm(run.channel, run.first, run.last, answer);
            return run.len();
        }
        let mut n_alone = 0;
        for sequence in run.first..=run.last {
            n_alone += u64::from(!self.knows(run.channel, sequence));
            if let Some(answer) = self.answer_one(run.channel, sequence, 1, answer) {
                sink.confirm(run.channel, sequence, sequence, answer);
            }
        }
        n_alone
    }

    /// Answers a publish on behalf of `n` of its parts. Returns what the publisher is told now.
    pub(super) fn answer_one<'q>(
        &mut self,
        channel: ChannelId,
        sequence: u64,
        n: u32,
        answer: Confirmation<'q>,
    ) -> Option<Confirmation<'q>> {
        let Some(part) = self.0.get_mut(&(channel, sequence)) else { return Some(answer) };
        part.n_left = part.n_left.saturating_sub(n);
        let is_last = part.n_left == 0;
        let told = match answer {
            Confirmation::Refused(_) => {
                (!std::mem::replace(&mut part.is_refused, true)).then_some(answer)
            }
            Confirmation::Accepted | Confirmation::Unroutable => {
                (is_last && !part.is_refused).then_some(answer)
            }
        };
        if is_last {
            self.0.remove(&(channel, sequence));
        }
        told
    }

    /// Adds `n` parts to a publish beside the caller's.
    pub(super) fn add(&mut self, channel: ChannelId, sequence: u64, n: u32) {
        let part = self.0.entry((channel, sequence));
        part.or_insert(Unanswered { n_left: 1, is_refused: false }).n_left += n;
    }

    /// Whether several parties have a part in a publish.
    pub(super) fn knows(&self, channel: ChannelId, sequence: u64) -> bool {
        self.0.contains_key(&(channel, sequence))
    }

    /// Publishes of a channel that were not answered yet.
    pub(super) fn n_open(&self, channel: ChannelId) -> u64 {
        let of_channel = self.0.range((channel, 0)..=(channel, u64::MAX));
        of_channel.filter(|(_, part)| !part.is_refused).count() as u64
    }

    /// Drops the publishes of a channel.
    pub(super) fn forget(&mut self, channel: ChannelId) {
        self.0.retain(|(of, _), _| *of != channel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::Refusal;
    use session::RefusedBy;

    const CHANNEL: ChannelId = ChannelId(1);
    const ACK: Confirmation<'static> = Confirmation::Accepted;
    const NACK: Confirmation<'static> =
        Confirmation::Refused(RefusedBy { queue: "q", why: Refusal::MaxLen });

    #[test]
    fn the_last_of_all_confirms_and_the_first_refusal_refuses() {
        let mut parts = MultiQueueConfirms::default();
        assert_eq!(parts.answer_one(CHANNEL, 1, 1, ACK), Some(ACK), "nobody else has a part");
        parts.add(CHANNEL, 1, 2);
        assert_eq!(parts.answer_one(CHANNEL, 1, 1, ACK), None);
        assert_eq!(parts.n_open(CHANNEL), 1);
        assert_eq!(parts.answer_one(CHANNEL, 1, 2, ACK), Some(ACK));
        assert!(!parts.knows(CHANNEL, 1));
        parts.add(CHANNEL, 2, 2);
        assert_eq!(parts.answer_one(CHANNEL, 2, 1, NACK), Some(NACK));
        assert_eq!(parts.n_open(CHANNEL), 0);
        assert_eq!(parts.answer_one(CHANNEL, 2, 1, NACK), None);
        assert_eq!(parts.answer_one(CHANNEL, 2, 1, ACK), None, "it was refused");
        assert!(!parts.knows(CHANNEL, 2));
    }

    #[test]
    fn a_part_may_become_several() {
        let mut parts = MultiQueueConfirms::default();
        parts.add(CHANNEL, 7, 1);
        assert_eq!(parts.answer_one(CHANNEL, 7, 1, ACK), None);
        assert_eq!(parts.answer_one(CHANNEL, 7, 1, ACK), Some(ACK));
        parts.add(CHANNEL, 8, 1);
        parts.forget(CHANNEL);
        assert!(!parts.knows(CHANNEL, 8));
    }
}
