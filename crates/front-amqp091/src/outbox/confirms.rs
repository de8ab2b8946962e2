//! Confirms of one channel: gathered as they come, told in as few frames as is allowed.

use amqp091::method::{BasicAck, BasicNack};
use session::Confirmation;

/// The broker's answer as AMQP 0-9-1 knows it: an unroutable message is returned, and acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckOrNack {
    Ack,
    Nack,
}

impl From<Confirmation<'_>> for AckOrNack {
    #[inline]
    fn from(confirmation: Confirmation<'_>) -> Self {
        match confirmation {
            Confirmation::Accepted | Confirmation::Unroutable => Self::Ack,
            Confirmation::Refused(_) => Self::Nack,
        }
    }
}

/// Publishes `first..=last` and the broker's answer to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    last: u64,
    answer: AckOrNack,
    told: bool,
}

/// The answers to a confirming channel's publishes, sent and unsent.
///
/// `multiple` is used only where everything below is answered already, so that it never says more
/// than is true. Positive and negative answers never share a frame.
#[derive(Debug, Default)]
pub(super) struct Confirms {
    /// The number up to which all publishes are answered and told.
    told_upto: u64,
    /// Answers above, in order, without overlap.
    ahead: Vec<Run>,
}

impl Confirms {
    pub(super) fn add(&mut self, first: u64, last: u64, answer: AckOrNack) {
        if last < first {
            return;
        }
        let run = Run { first, last, answer, told: false };
        let index = match self.ahead.last() {
            // Answers come in order, nearly always.
            Some(highest) if highest.last < first => self.ahead.len(),
            Some(_) => self.ahead.partition_point(|other| other.first < first),
            None => 0,
        };
        if let Some(before) = index.checked_sub(1).and_then(|i| self.ahead.get_mut(i))
            && before.last.checked_add(1) == Some(first)
            && before.answer == answer
            && !before.told
        {
            before.last = last;
            return;
        }
        self.ahead.insert(index, run);
    }

    /// Appends the frames for everything that was not told yet.
    pub(super) fn tell(&mut self, channel: u16, out: &mut Vec<u8>) {
        let mut n_done = 0;
        let mut pending: Option<Run> = None;
        for run in &self.ahead {
            if run.first != self.told_upto + 1 {
                break;
            }
            match &mut pending {
                // A run that was told already only joins what is around it.
                Some(open) if open.answer == run.answer => {
                    if !run.told {
                        open.last = run.last;
                    }
                }
                _ => {
                    if let Some(open) = pending.take() {
                        put_upto(open, channel, out);
                    }
                    if !run.told {
                        pending = Some(*run);
                    }
                }
            }
            self.told_upto = run.last;
            n_done += 1;
        }
        if let Some(open) = pending {
            put_upto(open, channel, out);
        }
        self.ahead.drain(..n_done);
        for run in self.ahead.iter_mut().filter(|run| !run.told) {
            for tag in run.first..=run.last {
                put(tag, false, run.answer, channel, out);
            }
            run.told = true;
        }
        self.join_told();
    }

    #[cfg(test)]
    fn is_told(&self) -> bool {
        self.ahead.iter().all(|run| run.told)
    }

    pub(super) fn trim(&mut self) {
        self.ahead.shrink_to(self.ahead.len());
    }

    /// Neighbours that were told are one run, so that memory follows the gaps.
    fn join_told(&mut self) {
        self.ahead.dedup_by(|next, before| {
            let joins = before.last + 1 == next.first && before.answer == next.answer;
            if joins {
                before.last = next.last;
            }
            joins
        });
    }
}

fn put_upto(run: Run, channel: u16, out: &mut Vec<u8>) {
    put(run.last, run.first != run.last, run.answer, channel, out);
}

fn put(delivery_tag: u64, multiple: bool, answer: AckOrNack, channel: u16, out: &mut Vec<u8>) {
    match answer {
        AckOrNack::Ack => BasicAck { delivery_tag, multiple }.encode_frame(channel, out),
        AckOrNack::Nack => {
            BasicNack { delivery_tag, multiple, requeue: false }.encode_frame(channel, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AckOrNack::{Ack, Nack};
    use amqp091::{Method, decode_frame};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn told(bytes: &[u8]) -> Vec<(u64, bool, AckOrNack)> {
        let (mut rest, mut told) = (bytes, Vec::new());
        while let Some((frame, used)) = decode_frame(rest, 0).unwrap() {
            assert_eq!(frame.channel, 7);
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else may come")]
            told.push(match Method::decode(frame.payload).unwrap() {
                Method::BasicAck(ack) => (ack.delivery_tag, ack.multiple, Ack),
                Method::BasicNack(nack) => (nack.delivery_tag, nack.multiple, Nack),
                other => panic!("{other:?}"),
            });
            rest = &rest[used..];
        }
        assert!(rest.is_empty());
        told
    }

    fn tell(confirms: &mut Confirms) -> Vec<(u64, bool, AckOrNack)> {
        let mut out = Vec::new();
        confirms.tell(7, &mut out);
        told(&out)
    }

    #[test]
    fn runs_fold_and_answers_stay_apart() {
        let mut confirms = Confirms::default();
        confirms.add(1, 1, Ack);
        confirms.add(2, 2, Ack);
        confirms.add(3, 4, Nack);
        assert_eq!(tell(&mut confirms), [(2, true, Ack), (4, true, Nack)]);
        confirms.add(5, 5, Ack);
        assert_eq!(tell(&mut confirms), [(5, false, Ack)]);
        assert!(confirms.ahead.is_empty());
    }

    #[test]
    fn what_is_above_a_gap_is_told_singly_until_the_gap_closes() {
        let mut confirms = Confirms::default();
        confirms.add(3, 4, Ack);
        assert_eq!(tell(&mut confirms), [(3, false, Ack), (4, false, Ack)]);
        confirms.add(1, 2, Ack);
        confirms.add(5, 6, Ack);
        assert_eq!(tell(&mut confirms), [(6, true, Ack)]);
    }

    proptest! {
        /// A client that applies every frame to its set of open publishes ends up with the truth.
        #[test]
        fn clients_learn_exactly_what_was_answered(
            order in Just((1..=60_u64).collect::<Vec<_>>()).prop_shuffle(),
            nacked in prop::collection::btree_set(1..=60_u64, 0..20),
            tell_after in prop::collection::vec(any::<bool>(), 60),
            keep_order in any::<bool>(),
        ) {
            let mut order = order;
            if keep_order { order.sort_unstable(); }
            let mut confirms = Confirms::default();
            let mut open: BTreeMap<u64, Option<AckOrNack>> =
                (1..=60).map(|tag| (tag, None)).collect();
            let mut truth = BTreeMap::new();
            for (tag, tell_now) in order.iter().zip(tell_after.iter().chain(std::iter::repeat(&true))) {
                let answer = if nacked.contains(tag) { Nack } else { Ack };
                confirms.add(*tag, *tag, answer);
                truth.insert(*tag, answer);
                if !tell_now { continue; }
                for (upto, multiple, answer) in tell(&mut confirms) {
                    let from = if multiple { 1 } else { upto };
                    for (tag, heard) in open.range_mut(from..=upto) {
                        prop_assert!(truth.contains_key(tag), "told {} too early", tag);
                        heard.get_or_insert(answer);
                    }
                }
                prop_assert!(confirms.is_told());
                let heard: BTreeMap<u64, AckOrNack> =
                    open.iter().filter_map(|(tag, heard)| heard.map(|a| (*tag, a))).collect();
                prop_assert_eq!(&heard, &truth);
            }
        }
    }
}
