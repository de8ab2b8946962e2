//! Exchanges that give a message to one of their destinations: by a hash, or by chance.

use imbl::Vector;

use crate::binding::Binding;
use crate::destination::Destination;
use crate::digest::Digest;
use crate::small_map::SmallMap;

/// The destinations, in an order that follows from their names: it is the same after a restart.
/// A clone is O(1), a change O(log n).
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices(Vector<Choice>);

#[derive(Clone, Debug)]
struct Choice {
    /// The destination's name as a number.
    seed: u64,
    destination: Destination,
    /// The number of bindings to the destination, by their weights.
    weights: SmallMap<u32, u32>,
    /// The greatest of `weights`, the one that counts.
    weight: f64,
}

impl Choice {
    fn weigh(&mut self) {
        self.weight = self.weights.max().copied().unwrap_or(1).into();
    }
}

impl Choices {
    fn position(&self, binding: &Binding) -> Result<usize, usize> {
        let wanted = (binding.seed, &binding.destination);
        self.0.binary_search_by(|choice| (choice.seed, &choice.destination).cmp(&wanted))
    }

    /// Adds a binding that is not there.
    pub(crate) fn add(&mut self, binding: &Binding) {
        match self.position(binding) {
            Ok(at) => {
                if let Some(choice) = self.0.get_mut(at) {
                    let n = choice.weights.get(&binding.weight).copied().unwrap_or_default();
                    choice.weights.insert(binding.weight, n + 1);
                    choice.weigh();
                }
            }
            Err(at) => self.0.insert(
                at,
                Choice {
                    seed: binding.seed,
                    destination: binding.destination.clone(),
                    weights: SmallMap::One(binding.weight, 1),
                    weight: binding.weight.into(),
                },
            ),
        }
    }

    /// Removes a binding that is there.
    pub(crate) fn remove(&mut self, binding: &Binding) {
        let Ok(at) = self.position(binding) else { return };
        let Some(choice) = self.0.get_mut(at) else { return };
        match choice.weights.get_mut(&binding.weight) {
            Some(n) if *n > 1 => *n -= 1,
            Some(_) | None => choice.weights.remove(&binding.weight),
        }
        choice.weigh();
        if choice.weights.is_empty() {
            self.0.remove(at);
        }
    }

    /// The one of the remainder: all move when the number of destinations changes.
    pub(crate) fn by_modulus(&self, hash: u64) -> Option<&Destination> {
        let at = hash.checked_rem(u64::try_from(self.0.len()).ok()?)?;
        self.0.get(usize::try_from(at).ok()?).map(|choice| &choice.destination)
    }

    /// The one with the best lot, so that each gets its weight's share, and a destination that comes
    /// or goes takes or gives no more than its own share (weighted rendezvous hashing: the lot is
    /// `-ln(u) / weight` for a number u in 0..1 made of message and destination, the least wins).
    pub(crate) fn by_lot(&self, hash: u64) -> Option<&Destination> {
        let mut best: Option<(&Choice, f64)> = None;
        for choice in self.0.leaves().flatten() {
            let (u, weight) = (unit(Digest::of_number(choice.seed).with(hash)), choice.weight);
            // -ln(u) is at least 1 - u: most lots need no logarithm to be found worse.
            if best.is_none_or(|(_, least)| (1.0 - u) < least * weight) {
                let lot = -u.ln() / weight;
                if best.is_none_or(|(_, least)| lot < least) {
                    best = Some((choice, lot));
                }
            }
        }
        best.map(|(choice, _)| &choice.destination)
    }
}

/// A number above 0 and not above 1.
#[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
fn unit(digest: Digest) -> f64 {
    ((digest.number() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use amqp091::Table;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::exchange_kind::ExchangeKind;
    use crate::name::{Name, QueueId, RoutingKey};

    const N_KEYS: u64 = 4_000;

    fn binding(queue: u64, weight: &str) -> Binding {
        let (source, destination) = (Name::from("x"), Destination::Queue(QueueId(queue)));
        let (kind, key) = (ExchangeKind::ConsistentHash, RoutingKey::from(weight));
        let binding = Binding::new(source, kind, destination, key, Table::new()).unwrap();
        binding.to_destination_named(&format!("queue-{queue}"))
    }

    fn queue(destination: &Destination) -> u64 {
        match destination {
            Destination::Queue(id) => id.0,
            Destination::Exchange(name) => panic!("no queue: {name}"),
        }
    }

    fn hashes(n: u64) -> impl Iterator<Item = u64> {
        (0..n).map(|n| Digest::of_name(format!("key-{n}").as_bytes()).number())
    }

    fn lots(choices: &Choices, n: u64) -> Vec<u64> {
        hashes(n).filter_map(|hash| choices.by_lot(hash).map(queue)).collect()
    }

    #[test]
    fn each_destination_gets_its_share() {
        let mut choices = Choices::default();
        let weights = [(1, 1), (2, 1), (3, 2), (4, 4)];
        for (queue, weight) in weights {
            choices.add(&binding(queue, &weight.to_string()));
        }
        let mut counts = BTreeMap::new();
        for queue in lots(&choices, N_KEYS) {
            *counts.entry(queue).or_insert(0_u64) += 1;
        }
        for (queue, weight) in weights {
            let share = N_KEYS * weight / 8;
            let count = counts.get(&queue).copied().unwrap_or_default();
            assert!(count.abs_diff(share) < share / 5, "{queue}: {count} of {share}");
        }
        let mut counts = BTreeMap::new();
        for hash in hashes(N_KEYS) {
            *counts.entry(choices.by_modulus(hash).map(queue).unwrap()).or_insert(0_u64) += 1;
        }
        assert!(counts.values().all(|count| count.abs_diff(N_KEYS / 4) < N_KEYS / 20));
    }

    #[test]
    fn a_second_binding_to_a_queue_adds_nothing_and_the_last_to_go_takes_it_out() {
        let mut choices = Choices::default();
        choices.add(&binding(1, "10"));
        choices.add(&binding(2, "10"));
        let before = lots(&choices, N_KEYS);
        choices.add(&binding(1, "5"));
        assert_eq!(lots(&choices, N_KEYS), before);
        choices.remove(&binding(1, "5"));
        assert_eq!(lots(&choices, N_KEYS), before);
        choices.remove(&binding(1, "10"));
        assert!(lots(&choices, N_KEYS).iter().all(|queue| *queue == 2));
        choices.remove(&binding(2, "10"));
        assert!(choices.by_lot(7).is_none() && choices.by_modulus(7).is_none());
    }

    #[test]
    fn bindings_of_one_weight_are_one_entry() {
        let mut choices = Choices::default();
        (0..1_000).for_each(|_| choices.add(&binding(1, "10")));
        (0..999).for_each(|_| choices.add(&binding(1, "3")));
        let weights = choices.0.get(0).map(|choice| (choice.weights.len(), choice.weight));
        assert_eq!(weights, Some((2, 10.0)));
        (0..1_000).for_each(|_| choices.remove(&binding(1, "10")));
        assert_eq!(choices.0.get(0).map(|choice| choice.weight), Some(3.0));
    }

    proptest! {
        /// Of each step only those keys move that the destination that came takes, or the one that
        /// went had; and what is chosen depends on what is bound alone, not on the way there.
        #[test]
        fn only_what_comes_or_goes_moves(
            steps in vec((0_u64..8, select(vec!["1", "2", "7"])), 1..20)
        ) {
            let mut choices = Choices::default();
            let mut bound: BTreeMap<u64, &str> = BTreeMap::new();
            let mut before = lots(&choices, 200);
            for (which, weight) in steps {
                if let Some(weight) = bound.remove(&which) {
                    choices.remove(&binding(which, weight));
                } else {
                    bound.insert(which, weight);
                    choices.add(&binding(which, weight));
                }
                let after = lots(&choices, 200);
                for (old, new) in before.iter().zip(&after) {
                    prop_assert!(old == new || *old == which || *new == which);
                }
                before = after;
            }
            let mut again = Choices::default();
            for (queue, weight) in bound.iter().rev() {
                again.add(&binding(*queue, weight));
            }
            prop_assert_eq!(lots(&again, 200), before);
            for hash in hashes(100) {
                prop_assert_eq!(again.by_modulus(hash), choices.by_modulus(hash));
            }
        }
    }
}
