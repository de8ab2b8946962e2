//! Queues with rules of every kind at once, against a naive model.

mod model;

use model::{Message, Model, State};
use proptest::prelude::*;
use queue::{
    AckMode, Assigned, Checkout, Consumer, ConsumerKey, CreditMode, DeliveryCounts, Fifo, Gone,
    Limits, MessageAttrs, PolicyState, PositionRange, QueuePolicy, Reason, Retry, RetryOn, Return,
    UnackedTracking,
};
use std::collections::{BTreeMap, BTreeSet};
use stdx::UnixMs;

fn sorted(ranges: impl Iterator<Item = PositionRange>) -> Vec<u64> {
    let mut positions: Vec<u64> = ranges.flat_map(|range| range.start..range.end).collect();
    positions.sort_unstable();
    positions
}

fn positions(gone: &[Gone], reason: Reason) -> Vec<u64> {
    assert!(gone.iter().all(|gone| gone.reason == reason), "{gone:?}");
    sorted(gone.iter().map(|gone| gone.positions))
}

fn note_sent(fifo: &mut Fifo, given: &Assigned, bytes: u64) {
    if let Some(policy) = fifo.messages_mut().policy_mut() {
        policy.note_sent(given.position, given.settling, bytes);
    }
}

fn note_bytes_gone(fifo: &mut Fifo, bytes: u64) {
    if let Some(policy) = fifo.messages_mut().policy_mut() {
        policy.ready_bytes_mut().left(bytes);
    }
}

fn expired(fifo: &mut Fifo, now_ms: u64) -> Vec<u64> {
    let mut gone = Vec::new();
    fifo.messages_mut().expire(UnixMs::from_raw(now_ms), u64::MAX, &mut gone);
    positions(&gone, Reason::Expired)
}

#[derive(Clone, Debug)]
enum Step {
    Put { priority: u8, ttl_ms: Option<u64>, bytes: u64 },
    Attach(i64),
    Deliver,
    Take,
    Settle(usize),
    Reject(usize),
    GiveBack(usize, Return),
    Detach(usize, Return),
    Cancel(usize),
    Pass(u64),
    Discard(u64),
    Purge,
    Hold(UnackedTracking),
}

fn how() -> impl Strategy<Value = Return> {
    prop_oneof![Just(Return::Failed), Just(Return::Released)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..8_u8, prop::option::of(0..200_u64), 0..40_u64)
            .prop_map(|(priority, ttl_ms, bytes)| Step::Put { priority, ttl_ms, bytes }),
        1 => (0..3_i64).prop_map(Step::Attach),
        6 => Just(Step::Deliver),
        2 => Just(Step::Take),
        2 => any::<usize>().prop_map(Step::Settle),
        1 => any::<usize>().prop_map(Step::Reject),
        5 => (any::<usize>(), how()).prop_map(|(n, how)| Step::GiveBack(n, how)),
        1 => (any::<usize>(), how()).prop_map(|(n, how)| Step::Detach(n, how)),
        1 => any::<usize>().prop_map(Step::Cancel),
        4 => (0..60_u64).prop_map(Step::Pass),
        1 => (0..60_u64).prop_map(Step::Discard),
        1 => Just(Step::Purge),
        2 => prop_oneof![Just(UnackedTracking::Settled), Just(UnackedTracking::All), Just(UnackedTracking::Unrecorded)]
            .prop_map(Step::Hold),
    ]
}

prop_compose! {
    fn rules()(
        priority_max in prop_oneof![Just(0_u8), Just(5_u8)],
        messages_max in prop::option::of(2..12_u64),
        bytes_max in prop::option::of(50..300_u64),
        refuses in prop::bool::weighted(0.67),
        delivery_limit in prop::option::of(0..4_u32),
        on in prop::option::of(prop_oneof![Just(RetryOn::All), Just(RetryOn::Failed), Just(RetryOn::Released)]),
    ) -> QueuePolicy {
        QueuePolicy {
            priority_max,
            limits: Limits { messages_max, bytes_max, refuses },
            delivery_limit,
            counts_returns: true,
            notes_returns: true,
            retry: on.map(|on| Retry { on, min_ms: 20, max_ms: 50 }),
        }
    }
}

struct Pair {
    fifo: Fifo,
    model: Model,
    holding: UnackedTracking,
    /// Held without a record.
    untold: BTreeSet<u64>,
}

impl Pair {
    fn new(rules: QueuePolicy, is_single: bool) -> Self {
        let mut fifo = Fifo::with_policy(rules);
        if is_single {
            fifo.consumers_mut().make_single_active();
        }
        let getter = fifo.consumers_mut().attach_passive();
        let model = Model {
            rules,
            now_ms: 1_000,
            messages: BTreeMap::new(),
            line: Vec::new(),
            getter,
            is_single,
            active: None,
            known: BTreeSet::new(),
        };
        Self { fifo, model, holding: UnackedTracking::default(), untold: BTreeSet::new() }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Put { priority, ttl_ms, bytes } => self.put(priority, ttl_ms, bytes),
            Step::Attach(priority) => self.attach(priority),
            Step::Deliver => self.deliver(),
            Step::Take => self.take(),
            Step::Settle(n) => self.settle(n),
            Step::Reject(n) => self.reject(n),
            Step::GiveBack(n, how) => self.give_back(n, how),
            Step::Detach(n, how) => self.detach(n, how),
            Step::Cancel(n) => self.cancel(n),
            Step::Pass(ms) => self.pass(ms),
            Step::Discard(start) => self.discard(PositionRange { start, end: start + 5 }),
            Step::Purge => self.purge(),
            Step::Hold(holding) => {
                self.fifo.consumers_mut().set_tracking(holding);
                self.holding = holding;
            }
        }
    }

    fn put(&mut self, priority: u8, ttl_ms: Option<u64>, bytes: u64) {
        let Self { fifo, model, .. } = self;
        let fits = !model.exceeds(model.n_counted() + 1, model.ready_bytes() + bytes);
        let fits = fits || !model.rules.limits.refuses;
        if fits {
            let deadline_ms = ttl_ms.map(|ttl| model.now_ms + ttl);
            let at = fifo.put(
                &MessageAttrs { priority, deadline_ms: deadline_ms.map(UnixMs::from_raw), bytes },
                UnixMs::from_raw(model.now_ms),
            );
            let priority = priority.min(model.rules.priority_max);
            let (state, counts) = (State::Ready, DeliveryCounts::default());
            let new = Message { state, priority, deadline_ms, bytes, counts };
            assert!(model.messages.insert(at, new).is_none());
        }
    }

    fn attach(&mut self, priority: i64) {
        let Self { fifo, model, .. } = self;
        let settling = AckMode::Manual;
        let key = fifo.consumers_mut().attach(Checkout {
            settling,
            credit_mode: CreditMode::Unlimited,
            priority,
        });
        model.line.push((key, priority));
        model.known.insert(key);
        model.active = model.active.or(Some(key)).filter(|_| model.is_single);
    }

    fn deliver(&mut self) {
        let Self { fifo, model, .. } = self;
        let next = model.next().filter(|_| !model.line.is_empty());
        let given = fifo.next_delivery();
        assert_eq!(given.map(|given| given.position), next);
        let Some(given) = given else { return };
        assert!(!model.is_single || Some(given.consumer) == model.active);
        let message = model.message_mut(given.position);
        assert_eq!(given.redelivered, message.counts.n_acquired > 0);
        message.state = State::Held(given.consumer);
        note_sent(fifo, &given, message.bytes);
        if self.holding == UnackedTracking::Unrecorded {
            self.untold.insert(given.position);
        }
    }

    /// Tells the queue which messages a consumer holds.
    fn record(&mut self, key: ConsumerKey) {
        let held = self.model.of(|message| message.state == State::Held(key));
        self.untold.retain(|at| !held.contains(at));
        self.fifo.consumers_mut().record(key, held);
        assert!(!self.fifo.consumers().get(key).is_some_and(Consumer::holds_unrecorded));
    }

    fn take(&mut self) {
        let Self { fifo, model, .. } = self;
        let given = fifo.take(model.getter, AckMode::Auto);
        assert_eq!(given.map(|given| given.position), model.next());
        let Some(given) = given else { return };
        if self.holding != UnackedTracking::Settled {
            assert_eq!(given.settling, AckMode::Manual);
            let message = model.message_mut(given.position);
            message.state = State::Held(given.consumer);
            note_sent(fifo, &given, message.bytes);
            return;
        }
        let message = model.remove(given.position);
        assert_eq!(
            fifo.messages()
                .policy()
                .map_or_else(DeliveryCounts::default, |it| it.returns().of(given.position)),
            message.counts
        );
        note_sent(fifo, &given, message.bytes);
    }

    fn settle(&mut self, n: usize) {
        let Some((at, key)) = self.model.pick_held(n) else { return };
        self.fifo.settle(key, at).expect("it is held");
        self.model.remove(at);
        self.untold.remove(&at);
    }

    fn reject(&mut self, n: usize) {
        let Some((at, key)) = self.model.pick_held(n) else { return };
        self.record(key);
        let rejected = self.fifo.reject(key, at).expect("it is held");
        assert_eq!(positions(&[rejected], Reason::Rejected), [at]);
        self.model.remove(at);
    }

    fn give_back(&mut self, n: usize, how: Return) {
        let Some((at, key)) = self.model.pick_held(n) else { return };
        self.record(key);
        let mut gone = Vec::new();
        let now_ms = self.model.now_ms;
        self.fifo.give_back(key, at, how, UnixMs::from_raw(now_ms), &mut gone).expect("it is held");
        let is_gone = self.model.come_back(at, how);
        assert_eq!(positions(&gone, Reason::DeliveryLimit).contains(&at), is_gone);
    }

    fn detach(&mut self, n: usize, how: Return) {
        let Some(n) = n.checked_rem(self.model.known.len()) else { return };
        let key = self.model.known.iter().copied().nth(n).expect("there are more");
        self.record(key);
        let Self { fifo, model, .. } = self;
        let held = model.of(|message| message.state == State::Held(key));
        let mut gone = Vec::new();
        let left = fifo.detach(key, how, UnixMs::from_raw(model.now_ms), &mut gone);
        assert_eq!(left.n_requeued, held.len() as u64);
        let lost: Vec<u64> = held.into_iter().filter(|at| model.come_back(*at, how)).collect();
        assert_eq!(positions(&gone, Reason::DeliveryLimit), lost);
        model.end_deliveries(key);
        model.known.remove(&key);
    }

    fn cancel(&mut self, n: usize) {
        let Some(n) = n.checked_rem(self.model.line.len()) else { return };
        let (key, _) = self.model.line.iter().copied().nth(n).expect("there are more");
        self.fifo.consumers_mut().cancel(key);
        self.model.end_deliveries(key);
    }

    fn pass(&mut self, ms: u64) {
        let Self { fifo, model, .. } = self;
        model.now_ms += ms;
        let now_ms = model.now_ms;
        let due = model.of(|message| matches!(message.state, State::Delayed(at) if at <= now_ms));
        // Every third one is one that nobody waits for any more.
        let (goes, stays): (Vec<u64>, Vec<u64>) = due.into_iter().partition(|at| at % 3 == 0);
        let policy = fifo.messages_mut().policy_mut();
        let mut gone = policy
            .map(|it| it.wake(UnixMs::from_raw(now_ms), |at| at % 3 == 0))
            .unwrap_or_default();
        gone.sort_unstable();
        assert_eq!(gone, goes);
        for at in goes {
            model.remove(at);
        }
        for at in stays {
            model.message_mut(at).state = State::Ready;
        }
    }

    fn discard(&mut self, range: PositionRange) {
        let Self { fifo, model, .. } = self;
        let mut lost = model.ready();
        lost.retain(|at| (range.start..range.end).contains(at));
        assert_eq!(fifo.messages_mut().discard(range), lost.len() as u64);
        for at in lost {
            note_bytes_gone(fifo, model.remove(at).bytes);
        }
    }

    fn purge(&mut self) {
        let Self { fifo, model, .. } = self;
        let free = model.of(|message| !matches!(message.state, State::Held(_)));
        let mut taken = Vec::new();
        assert_eq!(fifo.messages_mut().purge(&mut taken), free.len() as u64);
        assert_eq!(sorted(taken.into_iter()), free);
        model.messages.retain(|_, message| matches!(message.state, State::Held(_)));
    }

    /// The duties of a host after every operation, but for giving out.
    fn tidy(&mut self) {
        let Self { fifo, model, .. } = self;
        while !model.rules.limits.refuses && model.exceeds(model.n_counted(), model.ready_bytes()) {
            let least =
                model.ready().into_iter().min_by_key(|at| (model.message(*at).priority, *at));
            let dropped = fifo.messages_mut().drop_over_limit();
            assert_eq!(dropped.map(|gone| gone.positions.start), least);
            let Some(at) = least else { break };
            note_bytes_gone(fifo, model.remove(at).bytes);
        }
        // Whoever refuses publishes keeps what comes back, however full it is.
        assert_eq!(fifo.messages_mut().drop_over_limit(), None);
        let now_ms = model.now_ms;
        let is_due = |message: &Message| message.deadline_ms.is_some_and(|at| at <= now_ms);
        let due = model.of(|message| message.state == State::Ready && is_due(message));
        assert!(
            due.is_empty()
                || fifo
                    .messages()
                    .policy()
                    .and_then(PolicyState::next_deadline)
                    .is_some_and(|at| at <= UnixMs::from_raw(now_ms))
        );
        assert_eq!(expired(fifo, now_ms), due);
        for at in due {
            note_bytes_gone(fifo, model.remove(at).bytes);
        }
        assert!(
            fifo.messages()
                .policy()
                .and_then(PolicyState::next_deadline)
                .is_none_or(|at| at > UnixMs::from_raw(now_ms))
        );
    }

    fn compare(&self) {
        let Self { fifo, model, .. } = self;
        assert_eq!(sorted(fifo.messages().ready()), model.ready());
        assert_eq!(
            (fifo.messages().n_ready(), fifo.messages().head()),
            (model.ready().len() as u64, model.next())
        );
        let held = model.of(|message| matches!(message.state, State::Held(_)));
        assert_eq!(fifo.consumers().n_held(), held.len() as u64);
        let delayed: Vec<(u64, u64)> = fifo
            .messages()
            .policy()
            .into_iter()
            .flat_map(|policy| policy.delayed().iter())
            .flat_map(|(at, range)| (range.start..range.end).map(move |p| (p, at.get())))
            .collect();
        assert_eq!(
            delayed.len() as u64,
            fifo.messages().policy().map_or(0, |it| it.delayed().len())
        );
        for (position, at) in delayed {
            assert_eq!(model.message(position).state, State::Delayed(at));
        }
        if model.rules.limits.bytes_max.is_some() {
            assert_eq!(
                fifo.messages().policy().map_or(0, |it| it.ready_bytes().get()),
                model.ready_bytes()
            );
        }
        let returned: BTreeMap<u64, DeliveryCounts> =
            fifo.messages().policy().into_iter().flat_map(|it| it.returns().iter()).collect();
        let came_back = model.messages.iter().filter(|(_, m)| m.counts.n_acquired > 0);
        assert!(returned.into_iter().eq(came_back.map(|(at, m)| (*at, m.counts))));
        assert_eq!(fifo.consumers().single().and_then(queue::SingleActive::active), model.active);
        let fresh = model
            .messages
            .iter()
            .find(|(_, m)| m.state == State::Ready && m.counts.n_acquired == 0);
        assert_eq!(
            fifo.messages().first_undelivered(),
            fresh.map_or_else(|| fifo.messages().next_position(), |(at, _)| *at)
        );
    }
}

proptest! {
    #[test]
    fn all_rules_at_once_agree_with_a_naive_model(
        rules in rules(),
        is_single in any::<bool>(),
        steps in prop::collection::vec(step(), 0..150),
    ) {
        let mut pair = Pair::new(rules, is_single);
        for step in &steps {
            pair.run(step);
            pair.tidy();
            pair.compare();
        }
    }
}
