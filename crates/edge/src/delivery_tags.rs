//! Delivery tags of one channel: which message each stands for, until it is settled.

use session::{LinkId, Position, UnsettledSince};
use std::collections::VecDeque;

/// A delivered message that was not settled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsettled {
    tag: u64,
    /// The link on which the message was delivered.
    pub link: LinkId,
    /// The message's place in its queue.
    pub position: Position,
}

/// Marks an entry that is settled but not at the front. Links are counted from small numbers.
const SETTLED: LinkId = LinkId(u64::MAX);
/// Below this many entries settled ones in the middle are left alone.
const COMPACT_FROM: usize = 64;

/// The tags of one channel. Entries stand in the order of their tags; settled ones in the middle
/// are marked, and dropped when they reach the front or outnumber the rest, so that memory follows
/// the number of unsettled messages.
#[derive(Debug, Default)]
pub struct DeliveryTags {
    last: u64,
    entries: VecDeque<Unsettled>,
    n_settled: usize,
    /// Deliveries of a transactional channel that were settled since the last commit: a rollback makes them
    /// outstanding again. The broker bounds their number.
    uncommitted: Option<Vec<Unsettled>>,
    releasing: Option<Box<Releasing>>,
}

/// The deliveries outstanding when a client gives all of them back: the broker may ask for them until
/// it has carried that out.
#[derive(Debug, Default)]
struct Releasing {
    /// Requests of the client that were not answered.
    n_asked: u32,
    entries: Vec<Unsettled>,
}

impl DeliveryTags {
    /// The next tag, for a delivery that is settled by being sent.
    #[inline]
    pub const fn next_settled(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The next tag, for a delivery that is to be settled.
    #[inline]
    pub fn next(&mut self, link: LinkId, position: Position) -> u64 {
        self.last += 1;
        self.entries.push_back(Unsettled { tag: self.last, link, position });
        self.last
    }

    /// The channel is transactional from here on.
    pub fn select_tx(&mut self) {
        self.uncommitted.get_or_insert_default();
    }

    /// Ends the transaction: settled deliveries stay settled.
    pub fn commit_tx(&mut self) {
        if let Some(uncommitted) = &mut self.uncommitted {
            uncommitted.clear();
        }
    }

    /// Makes the deliveries that were settled since the last commit outstanding again.
    pub fn roll_back_tx(&mut self) {
        let Some(uncommitted) = &mut self.uncommitted else { return };
        if uncommitted.is_empty() {
            return;
        }
        self.entries.retain(|entry| entry.link != SETTLED);
        self.n_settled = 0;
        self.entries.extend(uncommitted.drain(..));
        self.entries.make_contiguous().sort_unstable_by_key(|entry| entry.tag);
    }

    /// Gives all outstanding deliveries back to their queues: their tags stand for nothing any more.
    pub fn release_all(&mut self) {
        let releasing = self.releasing.get_or_insert_default();
        releasing.n_asked += 1;
        let outstanding = self.entries.drain(..).filter(|entry| entry.link != SETTLED);
        releasing.entries.extend(outstanding);
        self.n_settled = 0;
    }

    /// The broker has carried out a [`DeliveryTags::release_all`].
    pub fn released(&mut self) {
        let Some(releasing) = &mut self.releasing else { return };
        releasing.n_asked -= 1;
        releasing.entries.clear();
        if releasing.n_asked == 0 {
            self.releasing = None;
        }
    }

    /// Settles one; `None` when the tag is not outstanding.
    #[inline]
    pub fn settle(&mut self, tag: u64) -> Option<Unsettled> {
        let found = self.take(tag)?;
        if let Some(uncommitted) = &mut self.uncommitted {
            uncommitted.push(found);
        }
        Some(found)
    }

    #[inline]
    fn take(&mut self, tag: u64) -> Option<Unsettled> {
        let index = self.find(tag)?;
        if index == 0 {
            let found = self.entries.pop_front();
            self.drop_settled_front();
            return found;
        }
        let entry = self.entries.get_mut(index)?;
        let found = *entry;
        entry.link = SETTLED;
        self.n_settled += 1;
        if self.entries.len() >= COMPACT_FROM && self.n_settled * 2 > self.entries.len() {
            self.entries.retain(|entry| entry.link != SETTLED);
            self.n_settled = 0;
        }
        Some(found)
    }

    /// Settles everything up to `tag`, which must be outstanding; 0 settles all there is.
    /// False when the tag is unknown: nothing is settled then.
    pub fn settle_upto(&mut self, tag: u64, mut each: impl FnMut(Unsettled)) -> bool {
        let n = match tag {
            0 => self.entries.len(),
            _ => match self.find(tag) {
                Some(index) => index + 1,
                None => return false,
            },
        };
        for entry in self.entries.drain(..n) {
            if entry.link == SETTLED {
                self.n_settled -= 1;
            } else {
                if let Some(uncommitted) = &mut self.uncommitted {
                    uncommitted.push(entry);
                }
                each(entry);
            }
        }
        self.drop_settled_front();
        true
    }

    /// The unsettled deliveries of these links, which are sorted, with their tags. An acknowledgement
    /// counts from the commit of its transaction on. While the broker carries out a release, the
    /// deliveries it gives back are named here once and then forgotten.
    pub fn unsettled(&mut self, links: &[LinkId], found: &mut Vec<(u64, LinkId, Position)>) {
        let mut is_of_link = |entry: &Unsettled| {
            let is_so = links.binary_search(&entry.link).is_ok();
            if is_so {
                found.push((entry.tag, entry.link, entry.position));
            }
            is_so
        };
        for entry in self.uncommitted.iter().flatten() {
            is_of_link(entry);
        }
        if let Some(releasing) = &mut self.releasing {
            releasing.entries.retain(|entry| !is_of_link(entry));
            self.entries.retain(|entry| !is_of_link(entry));
        } else {
            for entry in &self.entries {
                is_of_link(entry);
            }
        }
    }

    /// The oldest unsettled delivery of a link, and the newest of the channel, by their tags. An
    /// acknowledgement counts from the commit of its transaction on.
    #[must_use]
    pub fn unsettled_since(&self, link: LinkId) -> Option<UnsettledSince> {
        let is_of_link = |entry: &&Unsettled| entry.link == link;
        let outstanding = self.entries.iter().find(is_of_link);
        let uncommitted = self.uncommitted.iter().flatten().filter(is_of_link);
        let oldest = uncommitted.chain(outstanding).map(|entry| entry.tag).min()?;
        Some(UnsettledSince { oldest, newest: self.last })
    }

    /// Gives back memory that is not in use.
    pub fn trim(&mut self) {
        self.entries.shrink_to(self.entries.len());
    }

    #[inline]
    fn drop_settled_front(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.link == SETTLED) {
            self.entries.pop_front();
            self.n_settled -= 1;
        }
    }

    /// The index of an outstanding tag: found at once where no tag between was left out.
    #[inline]
    fn find(&self, tag: u64) -> Option<usize> {
        let front = self.entries.front()?;
        let guess = usize::try_from(tag.checked_sub(front.tag)?).ok()?;
        let index = match self.entries.get(guess) {
            Some(entry) if entry.tag == tag => guess,
            Some(_) | None => self.entries.binary_search_by_key(&tag, |entry| entry.tag).ok()?,
        };
        self.entries.get(index).filter(|entry| entry.link != SETTLED).map(|_| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Deliver,
        DeliverSettled,
        Settle(u64),
        SettleUpto(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Deliver),
            2 => Just(Step::DeliverSettled),
            3 => (0..300_u64).prop_map(Step::Settle),
            1 => (0..300_u64).prop_map(Step::SettleUpto),
        ]
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(steps in prop::collection::vec(step(), 0..600)) {
            let (mut tags, mut model, mut last) = (DeliveryTags::default(), BTreeMap::new(), 0_u64);
            for step in steps {
                match step {
                    Step::Deliver => {
                        last += 1;
                        prop_assert_eq!(tags.next(LinkId(1), Position(last * 10)), last);
                        model.insert(last, Position(last * 10));
                    }
                    Step::DeliverSettled => {
                        last += 1;
                        prop_assert_eq!(tags.next_settled(), last);
                    }
                    Step::Settle(tag) => {
                        let found = tags.settle(tag).map(|entry| entry.position);
                        prop_assert_eq!(found, model.remove(&tag));
                    }
                    Step::SettleUpto(tag) => {
                        let mut found = Vec::new();
                        let known = tags.settle_upto(tag, |entry| found.push(entry.position));
                        prop_assert_eq!(known, tag == 0 || model.contains_key(&tag));
                        let mut expected = Vec::new();
                        if known {
                            let upto = if tag == 0 { u64::MAX } else { tag };
                            expected.extend(model.extract_if(..=upto, |_, _| true).map(|(_, p)| p));
                        }
                        prop_assert_eq!(found, expected);
                    }
                }
                prop_assert!(tags.entries.len() <= 2 * model.len() + COMPACT_FROM);
            }
        }
    }

    #[test]
    fn one_message_that_is_never_settled_holds_nothing_else() {
        let mut tags = DeliveryTags::default();
        tags.next(LinkId(1), Position(0));
        for i in 0..100_000 {
            let tag = tags.next(LinkId(1), Position(i));
            assert!(tags.settle(tag).is_some());
            tags.next_settled();
        }
        assert!(tags.entries.len() <= COMPACT_FROM);
    }

    #[test]
    fn the_oldest_delivery_of_a_link_is_known_until_it_is_settled_for_good() {
        let mut tags = DeliveryTags::default();
        tags.select_tx();
        let since = |tags: &DeliveryTags, link| {
            tags.unsettled_since(LinkId(link)).map(|since| (since.oldest, since.newest))
        };
        for at in 1..=6 {
            tags.next(LinkId(at % 2), Position(at));
        }
        tags.next_settled();
        assert_eq!(
            (since(&tags, 1), since(&tags, 0), since(&tags, 9)),
            (Some((1, 7)), Some((2, 7)), None)
        );
        assert!(tags.settle(4).is_some() && tags.settle(2).is_some());
        assert_eq!(since(&tags, 0), Some((2, 7)), "it is not committed");
        tags.commit_tx();
        assert_eq!((since(&tags, 1), since(&tags, 0)), (Some((1, 7)), Some((6, 7))));
        tags.release_all();
        assert_eq!(since(&tags, 1), None);
    }

    /// A rollback takes acknowledgements back, a commit does not.
    #[test]
    fn a_rollback_makes_settled_tags_outstanding_again() {
        let mut tags = DeliveryTags::default();
        tags.select_tx();
        for at in 1..=5 {
            tags.next(LinkId(1), Position(at));
        }
        assert!(tags.settle_upto(2, |_| ()));
        assert!(tags.settle(4).is_some());
        tags.roll_back_tx();
        let mut seen = Vec::new();
        assert!(tags.settle_upto(0, |entry| seen.push(entry.tag)));
        assert_eq!(seen, [1, 2, 3, 4, 5]);
        tags.commit_tx();
        tags.roll_back_tx();
        assert!(tags.settle(3).is_none());
    }
}
