//! The core's rules, by example and against a naive model.

use proptest::prelude::*;
use queue::{Checkout, ConsumerKey, Fifo, Settling};
use std::collections::{BTreeMap, BTreeSet};

const fn acking(prefetch: Option<u32>) -> Checkout {
    Checkout { settling: Settling::ByConsumer, prefetch, priority: 0 }
}

const fn auto_ack() -> Checkout {
    Checkout { settling: Settling::OnDelivery, prefetch: None, priority: 0 }
}

fn deliver_all(fifo: &mut Fifo) -> Vec<(u32, u64, bool)> {
    std::iter::from_fn(|| fifo.next_delivery())
        .map(|given| (given.consumer.0, given.position, given.redelivered))
        .collect()
}

#[test]
fn consumers_of_one_priority_take_turns() {
    let mut fifo = Fifo::new();
    fifo.attach(auto_ack());
    fifo.attach(auto_ack());
    fifo.enqueue(4);
    let given = deliver_all(&mut fifo);
    assert_eq!(given, [(0, 0, false), (1, 1, false), (0, 2, false), (1, 3, false)]);
    assert_eq!((fifo.n_ready(), fifo.n_held()), (0, 0));
}

#[test]
fn prefetch_limits_what_a_consumer_holds() {
    let mut fifo = Fifo::new();
    let consumer = fifo.attach(acking(Some(2)));
    fifo.enqueue(5);
    assert_eq!(deliver_all(&mut fifo), [(0, 0, false), (0, 1, false)]);
    fifo.settle(consumer, 1).unwrap();
    assert_eq!(deliver_all(&mut fifo), [(0, 2, false)]);
    assert_eq!((fifo.n_ready(), fifo.n_held()), (2, 2));
}

#[test]
fn a_lower_priority_gets_only_what_the_higher_has_no_credit_for() {
    let mut fifo = Fifo::new();
    let low = fifo.attach(Checkout { priority: -5, ..acking(None) });
    let high = fifo.attach(Checkout { priority: 10, ..acking(Some(1)) });
    fifo.enqueue(3);
    assert_eq!(deliver_all(&mut fifo), [(1, 0, false), (0, 1, false), (0, 2, false)]);
    fifo.settle(high, 0).unwrap();
    fifo.settle(low, 1).unwrap();
    fifo.enqueue(1);
    assert_eq!(deliver_all(&mut fifo), [(1, 3, false)]);
}

#[test]
fn requeued_messages_take_their_old_places_and_are_marked() {
    let mut fifo = Fifo::new();
    let consumer = fifo.attach_passive();
    fifo.enqueue(5);
    for _ in 0..3 {
        fifo.take(consumer, Settling::ByConsumer).unwrap();
    }
    fifo.settle(consumer, 2).unwrap();
    fifo.requeue(consumer, 1).unwrap();
    fifo.requeue(consumer, 0).unwrap();
    fifo.attach(auto_ack());
    let order: Vec<(u64, bool)> =
        deliver_all(&mut fifo).into_iter().map(|(_, at, again)| (at, again)).collect();
    assert_eq!(order, [(0, true), (1, true), (3, false), (4, false)]);
}

#[test]
fn what_a_lost_consumer_held_is_redelivered_in_order() {
    let mut fifo = Fifo::new();
    let lost = fifo.attach(acking(Some(3)));
    fifo.enqueue(4);
    assert_eq!(deliver_all(&mut fifo).len(), 3);
    let left = fifo.detach(lost);
    assert_eq!((left.n_requeued, left.was_active), (3, true));
    fifo.attach(auto_ack());
    let order: Vec<(u64, bool)> =
        deliver_all(&mut fifo).into_iter().map(|(_, at, again)| (at, again)).collect();
    assert_eq!(order, [(0, true), (1, true), (2, true), (3, false)]);
}

#[test]
fn a_cancelled_consumer_may_still_settle() {
    let mut fifo = Fifo::new();
    let consumer = fifo.attach(acking(None));
    fifo.enqueue(2);
    deliver_all(&mut fifo);
    fifo.cancel(consumer);
    assert_eq!(fifo.n_consumers(), 0);
    fifo.enqueue(1);
    assert!(fifo.next_delivery().is_none());
    fifo.settle(consumer, 0).unwrap();
    assert!(fifo.settle(consumer, 0).is_err());
    assert_eq!((fifo.n_ready(), fifo.n_held()), (1, 1));
}

#[test]
fn a_paused_consumer_gets_nothing_until_resumed() {
    let mut fifo = Fifo::new();
    let consumer = fifo.attach(auto_ack());
    fifo.pause(consumer);
    fifo.enqueue(1);
    assert!(fifo.is_waiting());
    fifo.resume(consumer);
    assert_eq!(deliver_all(&mut fifo), [(0, 0, false)]);
}

#[test]
fn purging_leaves_held_messages_alone() {
    let mut fifo = Fifo::new();
    let consumer = fifo.attach(acking(Some(1)));
    fifo.enqueue(3);
    deliver_all(&mut fifo);
    let mut gone = Vec::new();
    assert_eq!(fifo.purge(&mut gone), 2);
    assert_eq!(gone.iter().map(|range| (range.start, range.end)).collect::<Vec<_>>(), [(1, 3)]);
    fifo.requeue(consumer, 0).unwrap();
    assert_eq!(fifo.n_ready(), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Enqueue(u64),
    Attach(Option<u32>),
    AttachAuto,
    Deliver,
    Settle(usize),
    Requeue(usize),
    Detach(usize),
    Pause(usize),
    Resume(usize),
    Purge,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..5_u64).prop_map(Step::Enqueue),
        1 => prop::option::of(1..4_u32).prop_map(Step::Attach),
        1 => Just(Step::AttachAuto),
        5 => Just(Step::Deliver),
        3 => any::<usize>().prop_map(Step::Settle),
        2 => any::<usize>().prop_map(Step::Requeue),
        1 => any::<usize>().prop_map(Step::Detach),
        1 => any::<usize>().prop_map(Step::Pause),
        1 => any::<usize>().prop_map(Step::Resume),
        1 => Just(Step::Purge),
    ]
}

#[derive(Default)]
struct Model {
    ready: BTreeSet<u64>,
    seen: BTreeSet<u64>,
    held: BTreeMap<u64, ConsumerKey>,
    limits: BTreeMap<ConsumerKey, Option<Option<u32>>>,
    paused: BTreeSet<ConsumerKey>,
}

impl Model {
    fn holds(&self, key: ConsumerKey) -> usize {
        self.held.values().filter(|holder| **holder == key).count()
    }

    fn could_deliver(&self) -> bool {
        !self.ready.is_empty()
            && self.limits.iter().any(|(key, limit)| {
                !self.paused.contains(key)
                    && limit.flatten().is_none_or(|limit| self.holds(*key) < limit as usize)
            })
    }

    fn pick(&self, n: usize) -> Option<ConsumerKey> {
        self.limits.keys().copied().nth(n.checked_rem(self.limits.len())?)
    }

    fn pick_held(&self, n: usize) -> Option<(u64, ConsumerKey)> {
        let n = n.checked_rem(self.held.len())?;
        self.held.iter().nth(n).map(|(at, key)| (*at, *key))
    }
}

fn run(step: Step, fifo: &mut Fifo, model: &mut Model) {
    match step {
        Step::Enqueue(n) => {
            let first = fifo.enqueue(n);
            model.ready.extend(first..first + n);
        }
        Step::Attach(prefetch) => {
            model.limits.insert(fifo.attach(acking(prefetch)), Some(prefetch));
        }
        Step::AttachAuto => {
            model.limits.insert(fifo.attach(auto_ack()), None);
        }
        Step::Deliver => {
            let could = model.could_deliver();
            let given = fifo.next_delivery();
            assert_eq!(given.is_some(), could);
            if let Some(given) = given {
                assert_eq!(Some(given.position), model.ready.pop_first());
                assert_eq!(given.redelivered, model.seen.contains(&given.position));
                if given.settling == Settling::ByConsumer {
                    model.held.insert(given.position, given.consumer);
                }
            }
        }
        Step::Settle(n) => {
            if let Some((at, key)) = model.pick_held(n) {
                fifo.settle(key, at).expect("the model says it is held");
                model.held.remove(&at);
            }
        }
        Step::Requeue(n) => {
            if let Some((at, key)) = model.pick_held(n) {
                fifo.requeue(key, at).expect("the model says it is held");
                model.held.remove(&at);
                model.ready.insert(at);
                model.seen.insert(at);
            }
        }
        Step::Detach(n) => {
            if let Some(key) = model.pick(n) {
                let back: Vec<u64> =
                    model.held.iter().filter(|(_, k)| **k == key).map(|(at, _)| *at).collect();
                assert_eq!(fifo.detach(key).n_requeued, back.len() as u64);
                model.held.retain(|_, holder| *holder != key);
                model.ready.extend(&back);
                model.seen.extend(&back);
                model.limits.remove(&key);
                model.paused.remove(&key);
            }
        }
        Step::Pause(n) => {
            if let Some(key) = model.pick(n) {
                fifo.pause(key);
                model.paused.insert(key);
            }
        }
        Step::Resume(n) => {
            if let Some(key) = model.pick(n) {
                fifo.resume(key);
                model.paused.remove(&key);
            }
        }
        Step::Purge => {
            let mut gone = Vec::new();
            assert_eq!(fifo.purge(&mut gone), model.ready.len() as u64);
            model.ready.clear();
        }
    }
}

proptest! {
    #[test]
    fn the_core_agrees_with_a_naive_model(steps in prop::collection::vec(step(), 0..200)) {
        let mut fifo = Fifo::new();
        let mut model = Model::default();
        for step in steps {
            run(step, &mut fifo, &mut model);
            prop_assert_eq!(fifo.n_ready(), model.ready.len() as u64);
            prop_assert_eq!(fifo.n_held(), model.held.len() as u64);
            prop_assert_eq!(fifo.n_consumers(), model.limits.len());
            let held: BTreeMap<u64, ConsumerKey> = fifo.held().map(|(key, at)| (at, key)).collect();
            prop_assert_eq!(&held, &model.held);
        }
    }
}
