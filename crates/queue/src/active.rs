use crate::key::ConsumerKey;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// A consumer's place among those that wait: by priority, then as they came.
type Place = (Reverse<i64>, u64);

/// The one of a queue's consumers that gets deliveries, where only one at a time does.
///
/// The first to come is active until it is cancelled or goes away. Then the next is: of the highest
/// consumer priority, and of those the one that came first (RabbitMQ's classic queues; a higher
/// priority that comes later waits).
#[derive(Clone, Debug, Default)]
pub struct SingleActive {
    active: Option<ConsumerKey>,
    /// All consumers, the active one among them; who is first is next.
    line: BTreeMap<Place, ConsumerKey>,
    places: HashMap<ConsumerKey, Place>,
    n_came: u64,
}

impl SingleActive {
    /// The active consumer, if there is any.
    pub const fn active(&self) -> Option<ConsumerKey> {
        self.active
    }

    /// A consumer came; whether it is the active one.
    pub(crate) fn add(&mut self, key: ConsumerKey, priority: i64) -> bool {
        let place = (Reverse(priority), self.n_came);
        self.n_came += 1;
        self.line.insert(place, key);
        let before = self.places.insert(key, place);
        assert!(before.is_none(), "a consumer comes once");
        if self.active.is_none() {
            self.active = Some(key);
        }
        self.active == Some(key)
    }

    /// A consumer gets nothing any more; who is active instead, if it was.
    pub(crate) fn remove(&mut self, key: ConsumerKey) -> Option<ConsumerKey> {
        if let Some(place) = self.places.remove(&key) {
            self.line.remove(&place);
        }
        if self.active != Some(key) {
            return None;
        }
        self.active = self.line.values().next().copied();
        self.active
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_is_the_first_of_the_highest_priority() {
        let mut single = SingleActive::default();
        assert!(single.add(ConsumerKey(0), 0));
        for (key, priority) in [(1, 0), (2, 5), (3, 5)] {
            assert!(!single.add(ConsumerKey(key), priority));
        }
        assert_eq!(single.remove(ConsumerKey(3)), None);
        assert_eq!(single.remove(ConsumerKey(0)), Some(ConsumerKey(2)));
        assert_eq!(single.remove(ConsumerKey(2)), Some(ConsumerKey(1)));
        assert_eq!(single.remove(ConsumerKey(1)), None);
        assert_eq!(single.active(), None);
    }
}
