//! The core's rules, by example and against a naive model.

use proptest::prelude::*;
use queue::{
    AckMode, Checkout, ConsumerKey, CreditMode, Detached, Fifo, LinkCredit, NotHeld, Return, Round,
    UnackedTracking,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use stdx::{MonotonicMs, UnixMs};

const fn acking(prefetch: Option<u32>) -> Checkout {
    let credit_mode = CreditMode::of_prefetch(prefetch);
    Checkout { settling: AckMode::Manual, credit_mode, priority: 0 }
}

const fn auto_ack() -> Checkout {
    Checkout { settling: AckMode::Auto, credit_mode: CreditMode::Unlimited, priority: 0 }
}

fn deliver_all(fifo: &mut Fifo) -> Vec<(u32, u64, bool)> {
    std::iter::from_fn(|| fifo.next_delivery())
        .map(|given| (given.consumer.0, given.position, given.redelivered))
        .collect()
}

/// Gives a message back that was not tried.
fn requeue(fifo: &mut Fifo, consumer: ConsumerKey, position: u64) -> Result<(), NotHeld> {
    fifo.give_back(consumer, position, Return::Released, UnixMs::from_raw(0), &mut Vec::new())
}

fn detach(fifo: &mut Fifo, consumer: ConsumerKey) -> Detached {
    fifo.detach(consumer, Return::Released, UnixMs::from_raw(0), &mut Vec::new())
}

#[test]
fn consumers_of_one_priority_take_turns() {
    let mut fifo = Fifo::new();
    fifo.consumers_mut().attach(auto_ack());
    fifo.consumers_mut().attach(auto_ack());
    fifo.enqueue(4);
    let given = deliver_all(&mut fifo);
    assert_eq!(given, [(0, 0, false), (1, 1, false), (0, 2, false), (1, 3, false)]);
    assert_eq!((fifo.messages().n_ready(), fifo.consumers().n_held()), (0, 0));
}

/// A queue with many consumers.
fn many(n_consumers: u32, prefetch: Option<u32>) -> Fifo {
    let mut fifo = Fifo::new();
    for _ in 0..n_consumers {
        fifo.consumers_mut().attach(acking(prefetch));
    }
    fifo
}

/// The consumers that get the next `n` messages, of a round if there is one.
fn takers(fifo: &mut Fifo, round: &Option<Round>, n: u64) -> Vec<u32> {
    let mut next = || match round {
        Some(round) => fifo.next_of_round(round),
        None => fifo.next_delivery(),
    };
    (0..n).map_while(|_| next()).map(|given| given.consumer.0).collect()
}

#[test]
fn many_consumers_of_a_deep_backlog_get_several_messages_in_a_turn_and_as_many_each() {
    let mut fifo = many(64, None);
    fifo.enqueue(64 * 8 + 3);
    let round = fifo.round(MonotonicMs::from_raw(0));
    assert_eq!(round.map(|round| round.n_messages()), Some(64 * 8));
    let given = takers(&mut fifo, &round, 64 * 8);
    assert_eq!(given, (0..64).flat_map(|consumer| [consumer; 8]).collect::<Vec<_>>());
    let round = fifo.round(MonotonicMs::from_raw(0));
    assert_eq!(takers(&mut fifo, &round, 4), [0, 1, 2], "the backlog is shallow");
    fifo.enqueue(64 * 1_000);
    let round = fifo.round(MonotonicMs::from_raw(0));
    assert_eq!(round.map(|round| round.n_messages()), Some(64 * 64), "a turn is not longer");
    assert_eq!(takers(&mut fifo, &round, 65), [vec![3; 64], vec![4]].concat());
    assert_eq!(takers(&mut fifo, &None, 3), [4, 5, 6], "what is left of a turn is forgotten");
    assert_eq!((fifo.consumers().n_held(), fifo.messages().n_ready()), (583, 63_932));
}

/// Gives out all that is ready, in the rounds that are due; how many each consumer got.
fn give_all(fifo: &mut Fifo, n_consumers: u32, now_ms: u64) -> Vec<u64> {
    let mut given = Vec::new();
    while fifo.messages().n_ready() > 0 {
        let round = fifo.round(MonotonicMs::from_raw(now_ms));
        let n = round.map_or(u64::MAX, |round| round.n_messages());
        given.extend(takers(fifo, &round, n));
    }
    let n_of = |consumer| given.iter().filter(|key| **key == consumer).count() as u64;
    (0..n_consumers).map(n_of).collect()
}

fn settle_all(fifo: &mut Fifo, is_settled: impl Fn(u32) -> bool) {
    let held: Vec<_> = fifo.consumers().held().filter(|(key, _)| is_settled(key.0)).collect();
    assert!(held.iter().all(|(key, position)| fifo.settle(*key, *position).is_ok()));
}

/// A queue whose consumers have settled a flood, each part of it within 10 ms: the time, and the queue.
fn flooded(n_consumers: u32, is_settled: impl Fn(u32) -> bool) -> (Fifo, u64) {
    let mut fifo = many(n_consumers, None);
    for now_ms in (0..200).step_by(10) {
        fifo.enqueue(u64::from(n_consumers) * 64);
        give_all(&mut fifo, n_consumers, now_ms);
        settle_all(&mut fifo, &is_settled);
    }
    (fifo, 200)
}

#[test]
fn many_consumers_that_settle_a_flood_at_once_have_long_turns_also_of_a_shallow_backlog() {
    let (mut fifo, now_ms) = flooded(100, |_| true);
    fifo.enqueue(600);
    let n_given = give_all(&mut fifo, 100, now_ms);
    let mut given: Vec<u64> = n_given.into_iter().filter(|n| *n > 0).collect();
    given.sort_unstable();
    assert_eq!(given, [88, 128, 128, 128, 128]);
}

#[test]
fn in_the_long_run_all_who_settle_at_once_are_given_as_much() {
    let (mut fifo, now_ms) = flooded(100, |_| true);
    let mut n_given = vec![0; 100];
    for step in 0..100 {
        fifo.enqueue(100 + step * 739 % 3_000);
        let given = give_all(&mut fifo, 100, now_ms + step * 7);
        n_given.iter_mut().zip(given).for_each(|(all, n)| *all += n);
        settle_all(&mut fifo, |_| true);
    }
    let (least, most) = (n_given.iter().min().unwrap(), n_given.iter().max().unwrap());
    assert!(most - least <= 128 && *least > 1_000, "{n_given:?}");
}

#[test]
fn a_burst_after_a_flood_is_given_out_equally_if_the_flood_is_over_or_not_settled() {
    let (mut late, now_ms) = flooded(100, |_| true);
    let (mut unsettled, _) = flooded(100, |_| false);
    for (fifo, now_ms) in [(&mut late, now_ms + 200), (&mut unsettled, now_ms)] {
        fifo.enqueue(300);
        assert_eq!(give_all(fifo, 100, now_ms), [3; 100]);
    }
}

#[test]
fn a_consumer_that_settles_nothing_has_turns_of_one_message_among_quick_ones() {
    let (mut fifo, now_ms) = flooded(100, |consumer| consumer % 2 == 0);
    fifo.enqueue(700);
    let n_given = give_all(&mut fifo, 100, now_ms);
    let given: Vec<u64> = n_given.into_iter().filter(|n| *n > 0).collect();
    assert_eq!(given, [64, 1, 128, 1, 128, 1, 128, 1, 128, 1, 119]);
}

proptest! {
    #[test]
    fn a_burst_to_workers_that_have_settled_nothing_of_it_is_equal_within_one(
        (n_consumers, acks) in (64..200_u32, any::<bool>()),
        bursts in prop::collection::vec(1..1_500_u64, 1..6),
    ) {
        let mut fifo = Fifo::new();
        for _ in 0..n_consumers {
            fifo.consumers_mut().attach(if acks { acking(None) } else { auto_ack() });
        }
        let mut n_given = vec![0; n_consumers as usize];
        for burst in bursts {
            fifo.enqueue(burst);
            let given = give_all(&mut fifo, n_consumers, 0);
            n_given.iter_mut().zip(given).for_each(|(all, n)| *all += n);
            let (least, most) = (n_given.iter().min().unwrap(), n_given.iter().max().unwrap());
            prop_assert!(most - least <= 1, "{n_given:?}");
        }
    }
}

#[test]
fn consumers_take_turns_of_one_message_if_they_are_few_or_the_backlog_is_shallow() {
    let mut few = many(63, None);
    few.enqueue(63 * 1_000);
    assert!(few.round(MonotonicMs::from_raw(0)).is_none());
    let mut many = many(64, None);
    many.enqueue(64 * 8 - 1);
    let round = many.round(MonotonicMs::from_raw(0));
    assert_eq!(takers(&mut many, &round, 65), (0..64).chain([0]).collect::<Vec<_>>());
}

#[test]
fn a_turn_ends_with_the_consumer_s_credit_and_the_next_one_has_a_whole_turn() {
    let mut fifo = many(64, Some(10));
    fifo.consumers_mut().change(ConsumerKey(0)).set_prefetch(Some(3));
    fifo.enqueue(64 * 8);
    let round = fifo.round(MonotonicMs::from_raw(0));
    assert_eq!(takers(&mut fifo, &round, 12), [vec![0; 3], vec![1; 8], vec![2]].concat());
    fifo.consumers_mut().change(ConsumerKey(2)).set_open(false);
    assert_eq!(takers(&mut fifo, &round, 9), [vec![3; 8], vec![4]].concat());
    fifo.settle(ConsumerKey(0), 0).unwrap();
    assert_eq!(fifo.consumers().n_held(), 20);
}

#[test]
fn prefetch_limits_what_a_consumer_holds() {
    let mut fifo = Fifo::new();
    let consumer = fifo.consumers_mut().attach(acking(Some(2)));
    fifo.enqueue(5);
    assert_eq!(deliver_all(&mut fifo), [(0, 0, false), (0, 1, false)]);
    fifo.settle(consumer, 1).unwrap();
    assert_eq!(deliver_all(&mut fifo), [(0, 2, false)]);
    assert_eq!((fifo.messages().n_ready(), fifo.consumers().n_held()), (2, 2));
}

#[test]
fn a_lower_priority_gets_only_what_the_higher_has_no_credit_for() {
    let mut fifo = Fifo::new();
    let low = fifo.consumers_mut().attach(Checkout { priority: -5, ..acking(None) });
    let high = fifo.consumers_mut().attach(Checkout { priority: 10, ..acking(Some(1)) });
    fifo.enqueue(3);
    assert_eq!(deliver_all(&mut fifo), [(1, 0, false), (0, 1, false), (0, 2, false)]);
    fifo.settle(high, 0).unwrap();
    fifo.settle(low, 1).unwrap();
    fifo.enqueue(1);
    assert_eq!(deliver_all(&mut fifo), [(1, 3, false)]);
}

#[test]
fn nobody_is_given_what_stands_behind_messages_that_are_coming_back() {
    let mut fifo = Fifo::new();
    let holder = fifo.consumers_mut().attach_passive();
    fifo.enqueue(4);
    for _ in 0..3 {
        fifo.take(holder, AckMode::Manual).unwrap();
    }
    fifo.consumers_mut().begin_return();
    fifo.consumers_mut().attach(auto_ack());
    for position in [2, 0, 1] {
        assert!(fifo.is_waiting() && !fifo.takes_at_once());
        assert_eq!(deliver_all(&mut fifo), []);
        requeue(&mut fifo, holder, position).unwrap();
    }
    fifo.consumers_mut().end_return();
    assert_eq!(deliver_all(&mut fifo), [(1, 0, true), (1, 1, true), (1, 2, true), (1, 3, false)]);
}

#[test]
fn requeued_messages_take_their_old_places_and_are_marked() {
    let mut fifo = Fifo::new();
    let consumer = fifo.consumers_mut().attach_passive();
    fifo.enqueue(5);
    for _ in 0..3 {
        fifo.take(consumer, AckMode::Manual).unwrap();
    }
    fifo.settle(consumer, 2).unwrap();
    requeue(&mut fifo, consumer, 1).unwrap();
    requeue(&mut fifo, consumer, 0).unwrap();
    fifo.consumers_mut().attach(auto_ack());
    let order: Vec<(u64, bool)> =
        deliver_all(&mut fifo).into_iter().map(|(_, at, again)| (at, again)).collect();
    assert_eq!(order, [(0, true), (1, true), (3, false), (4, false)]);
}

#[test]
fn what_a_lost_consumer_held_is_redelivered_in_order() {
    let mut fifo = Fifo::new();
    let lost = fifo.consumers_mut().attach(acking(Some(3)));
    fifo.enqueue(4);
    assert_eq!(deliver_all(&mut fifo).len(), 3);
    let left = detach(&mut fifo, lost);
    assert_eq!((left.n_requeued, left.was_active), (3, true));
    fifo.consumers_mut().attach(auto_ack());
    let order: Vec<(u64, bool)> =
        deliver_all(&mut fifo).into_iter().map(|(_, at, again)| (at, again)).collect();
    assert_eq!(order, [(0, true), (1, true), (2, true), (3, false)]);
}

#[test]
fn a_cancelled_consumer_may_still_settle() {
    let mut fifo = Fifo::new();
    let consumer = fifo.consumers_mut().attach(acking(None));
    fifo.enqueue(2);
    deliver_all(&mut fifo);
    fifo.consumers_mut().cancel(consumer);
    assert_eq!(fifo.consumers().n_active(), 0);
    fifo.enqueue(1);
    assert!(fifo.next_delivery().is_none());
    fifo.settle(consumer, 0).unwrap();
    assert!(fifo.settle(consumer, 0).is_err());
    assert_eq!((fifo.messages().n_ready(), fifo.consumers().n_held()), (1, 1));
}

#[test]
fn a_closed_consumer_gets_nothing_until_it_is_open() {
    let mut fifo = Fifo::new();
    let consumer = fifo.consumers_mut().attach(auto_ack());
    fifo.consumers_mut().change(consumer).set_open(false);
    fifo.enqueue(2);
    assert!(fifo.is_waiting());
    fifo.consumers_mut().change(consumer).set_open(true);
    assert_eq!(deliver_all(&mut fifo), [(0, 0, false), (0, 1, false)]);
}

#[test]
fn link_credit_is_used_up_by_deliveries_whatever_is_settled() {
    for settling in [AckMode::Manual, AckMode::Auto] {
        let mut fifo = Fifo::new();
        let checkout = Checkout { settling, credit_mode: CreditMode::Link, priority: 0 };
        let consumer = fifo.consumers_mut().attach(checkout);
        fifo.enqueue(5);
        assert!(fifo.is_waiting(), "no credit came yet");
        fifo.consumers_mut().change(consumer).flow(LinkCredit { delivery_count: 0, credit: 2 });
        assert_eq!(deliver_all(&mut fifo), [(0, 0, false), (0, 1, false)]);
        let _is_held = fifo.settle(consumer, 0);
        assert!(fifo.is_waiting(), "settling gives no credit");
        fifo.consumers_mut().change(consumer).flow(LinkCredit { delivery_count: 1, credit: 2 });
        assert_eq!(deliver_all(&mut fifo), [(0, 2, false)]);
        let credit = fifo.consumers().get(consumer).and_then(queue::Consumer::link_credit);
        assert_eq!(credit, Some(LinkCredit { delivery_count: 3, credit: 0 }));
    }
}

#[test]
fn purging_leaves_held_messages_alone() {
    let mut fifo = Fifo::new();
    let consumer = fifo.consumers_mut().attach(acking(Some(1)));
    fifo.enqueue(3);
    deliver_all(&mut fifo);
    let mut gone = Vec::new();
    assert_eq!(fifo.messages_mut().purge(&mut gone), 2);
    assert_eq!(gone.iter().map(|range| (range.start, range.end)).collect::<Vec<_>>(), [(1, 3)]);
    requeue(&mut fifo, consumer, 0).unwrap();
    assert_eq!(fifo.messages().n_ready(), 1);
}

#[test]
fn what_is_only_counted_is_told_before_it_comes_back() {
    let mut fifo = Fifo::new();
    let consumer = fifo.consumers_mut().attach(acking(Some(3)));
    fifo.consumers_mut().set_tracking(UnackedTracking::Unrecorded);
    fifo.enqueue(4);
    assert_eq!(deliver_all(&mut fifo).len(), 3);
    assert!(fifo.consumers().get(consumer).is_some_and(queue::Consumer::holds_unrecorded));
    assert_eq!((fifo.consumers().n_held(), fifo.consumers().held().count()), (3, 0));
    assert_eq!(requeue(&mut fifo, consumer, 1), Err(NotHeld), "nobody has said that it is held");
    fifo.settle(consumer, 0).unwrap();
    fifo.consumers_mut().record(consumer, [1, 2]);
    assert!(!fifo.consumers().get(consumer).is_some_and(queue::Consumer::holds_unrecorded));
    requeue(&mut fifo, consumer, 1).unwrap();
    assert_eq!(deliver_all(&mut fifo), [(0, 1, true), (0, 3, false)]);
    assert_eq!((fifo.messages().n_ready(), fifo.consumers().n_held()), (0, 3));
}

#[derive(Clone, Debug)]
enum Step {
    Enqueue(u64),
    Attach(Option<u32>),
    AttachAuto,
    AttachLink(AckMode),
    AttachPassive,
    Deliver,
    Take(usize, bool),
    Settle(usize),
    Requeue(usize),
    RequeueAll(usize),
    Detach(usize),
    DetachUntold(usize),
    Cancel(usize),
    SetPrefetch(usize, Option<u32>),
    SetOpen(usize, bool),
    /// With the number of deliveries that the client has not seen.
    Flow(usize, u32, u32),
    Drain(usize),
    PassOn(u64),
    Purge,
    Hold(UnackedTracking),
    Record(usize),
    RecordSome(usize, usize),
}

fn prefetch() -> impl Strategy<Value = Option<u32>> {
    prop::option::of(1..4_u32)
}

fn holding() -> impl Strategy<Value = UnackedTracking> {
    prop_oneof![
        Just(UnackedTracking::Settled),
        Just(UnackedTracking::All),
        Just(UnackedTracking::Unrecorded)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..5_u64).prop_map(Step::Enqueue),
        1 => prefetch().prop_map(Step::Attach),
        1 => Just(Step::AttachAuto),
        2 => prop_oneof![Just(AckMode::Manual), Just(AckMode::Auto)].prop_map(Step::AttachLink),
        1 => Just(Step::AttachPassive),
        6 => Just(Step::Deliver),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(n, settles)| Step::Take(n, settles)),
        3 => any::<usize>().prop_map(Step::Settle),
        2 => any::<usize>().prop_map(Step::Requeue),
        1 => any::<usize>().prop_map(Step::RequeueAll),
        1 => any::<usize>().prop_map(Step::Detach),
        1 => any::<usize>().prop_map(Step::DetachUntold),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => (any::<usize>(), prefetch()).prop_map(|(n, limit)| Step::SetPrefetch(n, limit)),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(n, is)| Step::SetOpen(n, is)),
        4 => (any::<usize>(), 0..3_u32, 0..5_u32)
            .prop_map(|(n, n_unseen, credit)| Step::Flow(n, n_unseen, credit)),
        1 => any::<usize>().prop_map(Step::Drain),
        2 => (1..4_u64).prop_map(Step::PassOn),
        1 => Just(Step::Purge),
        2 => holding().prop_map(Step::Hold),
        1 => any::<usize>().prop_map(Step::Record),
        1 => any::<(usize, usize)>().prop_map(|(n, some)| Step::RecordSome(n, some)),
    ]
}

struct Consumer {
    settling: AckMode,
    /// Messages that it may hold at a time.
    limit: u32,
    /// With link credit.
    link: Option<LinkCredit>,
    is_open: bool,
    is_active: bool,
    /// Gets what it takes.
    takes: bool,
}

impl Consumer {
    fn note_given(&mut self) {
        if let Some(link) = &mut self.link {
            (link.delivery_count, link.credit) = (link.delivery_count + 1, link.credit - 1);
        }
    }
}

#[derive(Default)]
struct Model {
    ready: BTreeSet<u64>,
    seen: BTreeSet<u64>,
    held: BTreeMap<u64, ConsumerKey>,
    /// Of those, such that the queue has only counted.
    untold: BTreeSet<u64>,
    consumers: BTreeMap<ConsumerKey, Consumer>,
    holding: UnackedTracking,
}

impl Model {
    fn held_by(&self, key: ConsumerKey) -> Vec<u64> {
        self.held.iter().filter(|(_, holder)| **holder == key).map(|(at, _)| *at).collect()
    }

    fn wants_more(&self, key: ConsumerKey) -> bool {
        let Some(consumer) = self.consumers.get(&key) else { return false };
        let has_room = match consumer.link {
            Some(link) => link.credit > 0,
            None => self.held_by(key).len() < consumer.limit as usize,
        };
        consumer.is_active && consumer.is_open && has_room
    }

    fn n_active(&self) -> usize {
        self.consumers.values().filter(|consumer| consumer.is_active).count()
    }

    /// Consumers that could be given a message.
    fn any_wants_more(&self) -> bool {
        self.consumers.keys().any(|key| self.wants_more(*key))
    }

    /// The fate of a message that a consumer which settles so is given.
    fn settling(&self, wished: AckMode) -> AckMode {
        if self.holding == UnackedTracking::Settled { wished } else { AckMode::Manual }
    }

    fn hold(&mut self, at: u64, key: ConsumerKey) {
        assert_eq!(self.held.insert(at, key), None, "it is given once");
    }

    fn come_back(&mut self, back: &[u64]) {
        for at in back {
            self.held.remove(at);
            self.ready.insert(*at);
            self.seen.insert(*at);
        }
    }

    fn pick(&self, n: usize) -> Option<ConsumerKey> {
        self.consumers.keys().copied().nth(n.checked_rem(self.consumers.len())?)
    }

    fn pick_held(&self, n: usize) -> Option<(u64, ConsumerKey)> {
        let n = n.checked_rem(self.held.len())?;
        self.held.iter().nth(n).map(|(at, key)| (*at, *key))
    }
}

#[derive(Default)]
struct Pair {
    fifo: Fifo,
    model: Model,
}

impl Pair {
    fn run(&mut self, step: &Step) {
        let pick = |n| self.model.pick(n);
        match *step {
            Step::Enqueue(n) => {
                let first = self.fifo.enqueue(n);
                self.model.ready.extend(first..first + n);
            }
            Step::Attach(prefetch) => self.attach(acking(prefetch)),
            Step::AttachAuto => self.attach(auto_ack()),
            Step::AttachLink(settling) => {
                let credit_mode = CreditMode::Link;
                self.attach(Checkout { settling, credit_mode, priority: 0 });
            }
            Step::AttachPassive => {
                let key = self.fifo.consumers_mut().attach_passive();
                self.note_attached(key, acking(None), false);
            }
            Step::Deliver => self.deliver(),
            Step::Take(n, settles) => {
                let settling = if settles { AckMode::Manual } else { AckMode::Auto };
                let taker =
                    pick(n).filter(|key| self.model.consumers.get(key).is_some_and(|it| it.takes));
                taker.into_iter().for_each(|key| self.take(key, settling));
            }
            Step::Settle(n) => self.settle(n),
            Step::Requeue(n) => self.requeue(n),
            Step::RequeueAll(n) => pick(n).into_iter().for_each(|key| self.requeue_all(key)),
            Step::Detach(n) => pick(n).into_iter().for_each(|key| self.detach(key)),
            Step::DetachUntold(n) => pick(n).into_iter().for_each(|key| self.detach_untold(key)),
            Step::Cancel(n) => pick(n).into_iter().for_each(|key| {
                self.fifo.consumers_mut().cancel(key);
                self.change(key, |consumer| consumer.is_active = false);
            }),
            Step::SetPrefetch(n, limit) => pick(n).into_iter().for_each(|key| {
                self.fifo.consumers_mut().change(key).set_prefetch(limit);
                self.change(key, |it| {
                    if it.settling == AckMode::Manual {
                        it.limit = limit.unwrap_or(u32::MAX);
                    }
                });
            }),
            Step::SetOpen(n, is_open) => pick(n).into_iter().for_each(|key| {
                self.fifo.consumers_mut().change(key).set_open(is_open);
                self.change(key, |consumer| consumer.is_open = is_open);
            }),
            Step::Flow(n, n_unseen, credit) => {
                pick(n).into_iter().for_each(|key| self.flow(key, n_unseen, credit));
            }
            Step::Drain(n) => pick(n).into_iter().for_each(|key| self.drain(key)),
            Step::PassOn(n) => self.pass_on(n),
            Step::Purge => {
                let mut gone = Vec::new();
                assert_eq!(
                    self.fifo.messages_mut().purge(&mut gone),
                    self.model.ready.len() as u64
                );
                self.model.ready.clear();
            }
            Step::Hold(holding) => {
                self.fifo.consumers_mut().set_tracking(holding);
                self.model.holding = holding;
            }
            Step::Record(n) => pick(n).into_iter().for_each(|key| self.record(key, usize::MAX)),
            Step::RecordSome(n, some) => {
                pick(n).into_iter().for_each(|key| self.record(key, some % 4));
            }
        }
    }

    fn change(&mut self, key: ConsumerKey, change: impl FnOnce(&mut Consumer)) {
        change(self.model.consumers.get_mut(&key).expect("it is known"));
    }

    fn attach(&mut self, checkout: Checkout) {
        let key = self.fifo.consumers_mut().attach(checkout);
        self.note_attached(key, checkout, true);
    }

    fn note_attached(&mut self, key: ConsumerKey, checkout: Checkout, is_active: bool) {
        let limit = checkout.mode().prefetch().unwrap_or(u32::MAX);
        let has_link_credit = checkout.credit_mode == CreditMode::Link;
        let new = Consumer {
            settling: checkout.settling,
            limit,
            link: has_link_credit.then_some(LinkCredit { delivery_count: 0, credit: 0 }),
            is_open: true,
            is_active,
            takes: !is_active,
        };
        assert!(self.model.consumers.insert(key, new).is_none());
    }

    fn deliver(&mut self) {
        let Self { fifo, model } = self;
        let could = model.any_wants_more() && !model.ready.is_empty();
        let given = fifo.next_delivery();
        assert_eq!(given.is_some(), could);
        let Some(given) = given else { return };
        assert!(model.wants_more(given.consumer));
        assert_eq!(Some(given.position), model.ready.pop_first());
        assert_eq!(given.redelivered, model.seen.contains(&given.position));
        let consumer = model.consumers.get_mut(&given.consumer).expect("it is known");
        let wished = consumer.settling;
        consumer.note_given();
        let is_link = consumer.link.is_some();
        assert_eq!(given.settling, model.settling(wished));
        if given.settling == AckMode::Manual {
            model.hold(given.position, given.consumer);
            let is_untold = model.holding == UnackedTracking::Unrecorded && !is_link;
            if wished == AckMode::Manual && is_untold {
                model.untold.insert(given.position);
            }
        }
    }

    /// The client has not seen some of the last deliveries, and allows `credit` from the others on.
    fn flow(&mut self, key: ConsumerKey, n_unseen: u32, credit: u32) {
        let link = self.model.consumers.get(&key).and_then(|it| it.link);
        let count = link.map_or(0, |link| link.delivery_count);
        let seen = LinkCredit { delivery_count: count - n_unseen.min(count), credit };
        self.fifo.consumers_mut().change(key).flow(seen);
        self.change(key, |consumer| {
            if let Some(link) = &mut consumer.link {
                link.credit = (seen.delivery_count + credit).saturating_sub(link.delivery_count);
            }
        });
    }

    fn drain(&mut self, key: ConsumerKey) {
        self.fifo.consumers_mut().change(key).drain();
        self.change(key, |consumer| {
            if let Some(link) = &mut consumer.link {
                link.delivery_count += std::mem::take(&mut link.credit);
            }
        });
    }

    /// Messages that come while one consumer takes everything.
    fn pass_on(&mut self, n: u64) {
        let Self { fifo, model } = self;
        let Some(taker) = fifo.sole_taker() else { return };
        let n = n.min(taker.n_room);
        fifo.pass_on(&taker, n);
        let consumer = model.consumers.get_mut(&taker.consumer).expect("it is known");
        (0..n).for_each(|_| consumer.note_given());
    }

    fn take(&mut self, key: ConsumerKey, wished: AckMode) {
        let Self { fifo, model } = self;
        let given = fifo.take(key, wished);
        assert_eq!(given.map(|given| given.position), model.ready.pop_first());
        let Some(given) = given else { return };
        assert_eq!(given.settling, model.settling(wished));
        if given.settling == AckMode::Manual {
            model.hold(given.position, key);
        }
    }

    fn settle(&mut self, n: usize) {
        let Self { fifo, model } = self;
        let Some((at, key)) = model.pick_held(n) else { return };
        fifo.settle(key, at).expect("the model says it is held");
        model.held.remove(&at);
        model.untold.remove(&at);
        if !fifo.consumers().get(key).is_some_and(queue::Consumer::holds_unrecorded) {
            assert_eq!(fifo.settle(key, at), Err(NotHeld));
        }
    }

    fn requeue(&mut self, n: usize) {
        let Some((at, key)) = self.model.pick_held(n) else { return };
        if self.model.untold.contains(&at) {
            assert_eq!(requeue(&mut self.fifo, key, at), Err(NotHeld));
            self.record(key, usize::MAX);
        }
        requeue(&mut self.fifo, key, at).expect("the model says it is held");
        self.model.come_back(&[at]);
    }

    fn requeue_all(&mut self, key: ConsumerKey) {
        self.record(key, usize::MAX);
        let back = self.model.held_by(key);
        assert_eq!(
            self.fifo.give_back_all(
                key,
                &HashSet::new(),
                Return::Released,
                UnixMs::from_raw(0),
                &mut Vec::new()
            ),
            back.len() as u64
        );
        self.model.come_back(&back);
    }

    fn detach(&mut self, key: ConsumerKey) {
        self.record(key, usize::MAX);
        self.detach_untold(key);
    }

    /// Messages nobody has told of go with their consumer.
    fn detach_untold(&mut self, key: ConsumerKey) {
        let Self { fifo, model } = self;
        let (lost, back): (Vec<u64>, Vec<u64>) =
            model.held_by(key).into_iter().partition(|at| model.untold.contains(at));
        let left = detach(fifo, key);
        assert_eq!(left.n_requeued, back.len() as u64);
        for at in lost {
            model.held.remove(&at);
            model.untold.remove(&at);
        }
        model.come_back(&back);
        let gone = model.consumers.remove(&key);
        assert_eq!(gone.map(|gone| gone.is_active), Some(left.was_active));
    }

    /// Tells what the consumer holds, as far as the first `n` that were not told of.
    fn record(&mut self, key: ConsumerKey, n: usize) {
        let Self { fifo, model } = self;
        let mut n_left = n;
        let mut told = model.held_by(key);
        told.retain(|at| {
            let is_told = !model.untold.contains(at) || n_left > 0;
            n_left -= usize::from(is_told && model.untold.remove(at));
            is_told
        });
        fifo.consumers_mut().record(key, told);
    }

    fn compare(&self) {
        let Self { fifo, model } = self;
        assert_eq!(fifo.messages().n_ready(), model.ready.len() as u64);
        assert_eq!(fifo.consumers().n_held(), model.held.len() as u64);
        assert_eq!(fifo.consumers().n_active(), model.n_active());
        let mut told = model.held.clone();
        told.retain(|at, _| !model.untold.contains(at));
        assert_eq!(
            fifo.consumers().held().map(|(key, at)| (at, key)).collect::<BTreeMap<_, _>>(),
            told
        );
        let ready: Vec<u64> =
            fifo.messages().ready().flat_map(|range| range.start..range.end).collect();
        assert!(ready.iter().eq(&model.ready));
        for (key, consumer) in &model.consumers {
            let known = fifo.consumers().get(*key);
            assert_eq!(known.and_then(queue::Consumer::link_credit), consumer.link);
            let held = model.held_by(*key);
            assert_eq!(fifo.consumers().get(*key).map_or(0, queue::Consumer::n_held), held.len());
            let untold = held.iter().any(|at| model.untold.contains(at));
            assert_eq!(
                fifo.consumers().get(*key).is_some_and(queue::Consumer::holds_unrecorded),
                untold
            );
        }
        let any_holds = model.holding != UnackedTracking::Settled
            || model.consumers.values().any(|it| it.is_active && it.settling == AckMode::Manual);
        let takes_at_once = model.ready.is_empty() && model.any_wants_more();
        assert_eq!(fifo.takes_at_once(), takes_at_once);
        assert_eq!(fifo.passes_through(), takes_at_once && !any_holds);
        let is_sole = takes_at_once && !any_holds && model.n_active() == 1;
        assert_eq!(fifo.sole_taker().is_some(), is_sole);
    }
}

proptest! {
    #[test]
    fn the_core_agrees_with_a_naive_model(steps in prop::collection::vec(step(), 0..200)) {
        let mut pair = Pair::default();
        for step in &steps {
            pair.run(step);
            pair.compare();
        }
    }
}

#[test]
fn failed_deliveries_are_counted_and_those_that_were_given_back_are_not() {
    let mut fifo = Fifo::new();
    let consumer = fifo.consumers_mut().attach_passive();
    fifo.enqueue(2);
    let mut take = |how| {
        let given = fifo.take(consumer, AckMode::Manual).unwrap();
        let n_failed = queue::n_failed(fifo.messages(), given.position);
        fifo.give_back(consumer, given.position, how, UnixMs::from_raw(0), &mut Vec::new())
            .unwrap();
        (given.position, given.redelivered, n_failed)
    };
    assert_eq!(take(Return::Released), (0, false, 0));
    assert_eq!(take(Return::Failed), (0, true, 0));
    assert_eq!(take(Return::Released), (0, true, 1));
    assert_eq!(take(Return::Failed), (0, true, 1));
    let given = fifo.take(consumer, AckMode::Auto).unwrap();
    assert_eq!(queue::n_failed(fifo.messages(), given.position), 2);
    queue::forget_failed(&mut fifo, given.position);
    assert_eq!(queue::n_failed(fifo.messages(), given.position), 0);
}
