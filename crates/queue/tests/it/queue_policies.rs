//! Queues with rules, by example.

use queue::{
    AckMode, Assigned, Checkout, Consumer, ConsumerKey, CreditMode, DeliveryCounts, Fifo, Gone,
    Limits, MessageAttrs, NotHeld, PolicyState, PositionRange, PositionSet, QueuePolicy, Reason,
    RecoveredMessages, Retry, RetryOn, Return, SingleActive,
};
use stdx::UnixMs;

const fn acking(priority: i64) -> Checkout {
    Checkout { settling: AckMode::Manual, credit_mode: CreditMode::Unlimited, priority }
}

fn arrival(priority: u8, deadline_ms: Option<u64>) -> MessageAttrs {
    MessageAttrs { priority, deadline_ms: deadline_ms.map(UnixMs::from_raw), bytes: 0 }
}

fn drain(fifo: &mut Fifo) -> Vec<u64> {
    std::iter::from_fn(|| fifo.next_delivery()).map(|given| given.position).collect()
}

fn positions(gone: &[Gone], reason: Reason) -> Vec<u64> {
    assert!(gone.iter().all(|gone| gone.reason == reason), "{gone:?}");
    let mut positions: Vec<u64> =
        gone.iter().flat_map(|gone| gone.positions.start..gone.positions.end).collect();
    positions.sort_unstable();
    positions
}

/// Gives a message back that was not tried.
fn requeue(fifo: &mut Fifo, consumer: ConsumerKey, position: u64) -> Result<(), NotHeld> {
    fifo.give_back(consumer, position, Return::Released, UnixMs::from_raw(0), &mut Vec::new())
}

fn note_sent(fifo: &mut Fifo, given: &Assigned, bytes: u64) {
    if let Some(policy) = fifo.messages_mut().policy_mut() {
        policy.note_sent(given.position, given.settling, bytes);
    }
}

fn n_ready_by_priority(fifo: &Fifo) -> Vec<(u8, u64)> {
    fifo.messages().ready_by_priority().map(|(priority, set)| (priority, set.len())).collect()
}

fn active(fifo: &Fifo) -> Option<ConsumerKey> {
    fifo.consumers().single().and_then(SingleActive::active)
}

fn ready_bytes(fifo: &Fifo) -> u64 {
    fifo.messages().policy().map_or(0, |policy| policy.ready_bytes().get())
}

fn expired(fifo: &mut Fifo, now_ms: u64) -> Vec<u64> {
    let mut gone = Vec::new();
    fifo.messages_mut().expire(UnixMs::from_raw(now_ms), u64::MAX, &mut gone);
    positions(&gone, Reason::Expired)
}

#[test]
fn higher_priorities_leave_first_and_requeued_messages_keep_their_places() {
    let mut fifo = Fifo::with_policy(QueuePolicy { priority_max: 5, ..QueuePolicy::default() });
    for priority in [0, 9, 5, 1, 0] {
        fifo.put(&arrival(priority, None), UnixMs::from_raw(0));
    }
    let consumer = fifo.consumers_mut().attach(acking(0));
    assert_eq!(drain(&mut fifo), [1, 2, 3, 0, 4]);
    for position in [0, 2, 3] {
        requeue(&mut fifo, consumer, position).unwrap();
    }
    assert_eq!(n_ready_by_priority(&fifo), [(0, 1), (1, 1), (5, 1)]);
    assert_eq!(drain(&mut fifo), [2, 3, 0]);
}

#[test]
fn messages_expire_in_the_middle_and_held_ones_when_they_come_back() {
    let mut fifo = Fifo::new();
    let consumer = fifo.consumers_mut().attach_passive();
    fifo.put(&arrival(0, Some(100)), UnixMs::from_raw(0));
    fifo.enqueue(1);
    fifo.put(&arrival(0, Some(50)), UnixMs::from_raw(0));
    fifo.put(&arrival(0, Some(200)), UnixMs::from_raw(0));
    fifo.take(consumer, AckMode::Manual).unwrap();
    assert_eq!(
        fifo.messages().policy().and_then(PolicyState::next_deadline),
        Some(UnixMs::from_raw(50))
    );
    assert_eq!(expired(&mut fifo, 49), []);
    assert_eq!(expired(&mut fifo, 150), [2]);
    requeue(&mut fifo, consumer, 0).unwrap();
    assert_eq!(
        fifo.messages().policy().and_then(PolicyState::next_deadline),
        Some(UnixMs::from_raw(0))
    );
    assert_eq!(expired(&mut fifo, 150), [0]);
    assert_eq!(
        fifo.messages().policy().and_then(PolicyState::next_deadline),
        Some(UnixMs::from_raw(200))
    );
    assert_eq!(fifo.messages().n_ready(), 2);
}

#[test]
fn a_time_to_live_of_nothing_reaches_only_who_waits() {
    let mut fifo = Fifo::new();
    fifo.put(&arrival(0, Some(7)), UnixMs::from_raw(7));
    assert_eq!(expired(&mut fifo, 7), [0]);
    fifo.consumers_mut().attach(acking(0));
    fifo.put(&arrival(0, Some(7)), UnixMs::from_raw(7));
    assert_eq!(drain(&mut fifo), [1]);
    assert_eq!(expired(&mut fifo, 7), []);
}

#[test]
fn a_full_queue_drops_the_oldest_of_the_lowest_priority() {
    let limits = Limits { messages_max: Some(2), ..Limits::default() };
    let mut fifo =
        Fifo::with_policy(QueuePolicy { priority_max: 9, limits, ..QueuePolicy::default() });
    for priority in [1, 0, 0, 5] {
        fifo.put(&arrival(priority, None), UnixMs::from_raw(0));
    }
    let gone: Vec<Gone> = std::iter::from_fn(|| fifo.messages_mut().drop_over_limit()).collect();
    assert_eq!(positions(&gone, Reason::MaxLen), [1, 2]);
    assert_eq!(fifo.messages().n_ready(), 2);
}

#[test]
fn a_limit_on_bytes_counts_ready_messages_only() {
    let limits = Limits { bytes_max: Some(100), refuses: true, messages_max: None };
    let mut fifo = Fifo::with_policy(QueuePolicy { limits, ..QueuePolicy::default() });
    let consumer = fifo.consumers_mut().attach_passive();
    let sized = |bytes| MessageAttrs { bytes, ..MessageAttrs::default() };
    fifo.put(&sized(60), UnixMs::from_raw(0));
    assert_eq!(ready_bytes(&fifo), 60);
    let given = fifo.take(consumer, AckMode::Manual).unwrap();
    note_sent(&mut fifo, &given, 60);
    assert_eq!(ready_bytes(&fifo), 0);
    requeue(&mut fifo, consumer, given.position).unwrap();
    assert_eq!(ready_bytes(&fifo), 60);
    fifo.set_policy(QueuePolicy {
        limits: Limits { bytes_max: Some(50), ..Limits::default() },
        ..QueuePolicy::default()
    });
    let gone: Vec<Gone> = std::iter::from_fn(|| {
        let dropped = fifo.messages_mut().drop_over_limit()?;
        fifo.messages_mut().policy_mut().unwrap().ready_bytes_mut().left(60);
        Some(dropped)
    })
    .collect();
    assert_eq!((positions(&gone, Reason::MaxLen), ready_bytes(&fifo)), (vec![0], 0));
}

#[test]
fn a_message_whose_delivery_fails_too_often_is_gone() {
    let mut fifo =
        Fifo::with_policy(QueuePolicy { delivery_limit: Some(2), ..QueuePolicy::default() });
    let consumer = fifo.consumers_mut().attach_passive();
    fifo.enqueue(1);
    let mut gone = Vec::new();
    for (how, n_failed) in [(Return::Failed, 1), (Return::Released, 1), (Return::Failed, 2)] {
        fifo.take(consumer, AckMode::Manual).unwrap();
        fifo.give_back(consumer, 0, how, UnixMs::from_raw(0), &mut gone).unwrap();
        assert_eq!(
            fifo.messages()
                .policy()
                .map_or_else(DeliveryCounts::default, |it| it.returns().of(0))
                .n_failed,
            n_failed
        );
    }
    assert_eq!(
        fifo.messages().policy().unwrap().returns().iter().collect::<Vec<_>>(),
        [(0, DeliveryCounts { n_failed: 2, n_acquired: 3 })]
    );
    fifo.take(consumer, AckMode::Manual).unwrap();
    let left = fifo.detach(consumer, Return::Failed, UnixMs::from_raw(0), &mut gone);
    assert_eq!((left.n_requeued, fifo.messages().n_ready()), (1, 0));
    assert_eq!(positions(&gone, Reason::DeliveryLimit), [0]);
}

#[test]
fn what_came_back_waits_before_it_is_tried_again() {
    let retry = Retry { on: RetryOn::Failed, min_ms: 100, max_ms: 1_000 };
    let mut fifo = Fifo::with_policy(QueuePolicy { retry: Some(retry), ..QueuePolicy::default() });
    let consumer = fifo.consumers_mut().attach(acking(0));
    fifo.enqueue(2);
    drain(&mut fifo);
    fifo.give_back(consumer, 0, Return::Failed, UnixMs::from_raw(10), &mut Vec::new()).unwrap();
    fifo.give_back(consumer, 1, Return::Released, UnixMs::from_raw(10), &mut Vec::new()).unwrap();
    assert_eq!(
        (
            fifo.messages().n_ready(),
            fifo.messages().policy().map_or(0, |it| it.delayed().len()),
            fifo.messages().policy().and_then(PolicyState::next_deadline)
        ),
        (1, 1, Some(UnixMs::from_raw(110)))
    );
    assert_eq!(drain(&mut fifo), [1]);
    let n_ready_at = |fifo: &mut Fifo, now_ms| {
        let policy = fifo.messages_mut().policy_mut();
        assert_eq!(policy.map(|it| it.wake(now_ms, |_| false)), Some(Vec::new()));
        fifo.messages().n_ready()
    };
    assert_eq!(
        [
            n_ready_at(&mut fifo, UnixMs::from_raw(109)),
            n_ready_at(&mut fifo, UnixMs::from_raw(110))
        ],
        [0, 1]
    );
    assert_eq!(drain(&mut fifo), [0]);
    assert_eq!(
        fifo.messages().policy().map_or_else(DeliveryCounts::default, |it| it.returns().of(0)),
        DeliveryCounts { n_failed: 1, n_acquired: 1 }
    );
}

#[test]
fn only_the_single_active_consumer_gets_deliveries() {
    let mut fifo = Fifo::new();
    fifo.consumers_mut().make_single_active();
    let first = fifo.consumers_mut().attach(acking(0));
    let second = fifo.consumers_mut().attach(acking(0));
    let third = fifo.consumers_mut().attach(acking(5));
    assert_eq!((fifo.consumers().n_active(), active(&fifo)), (3, Some(first)));
    fifo.enqueue(3);
    assert_eq!(fifo.next_delivery().map(|given| given.consumer), Some(first));
    fifo.consumers_mut().change(first).set_prefetch(Some(1));
    assert!(fifo.is_waiting(), "the others get nothing while the first is at its limit");
    fifo.consumers_mut().cancel(first);
    assert_eq!(active(&fifo), Some(third));
    assert_eq!(fifo.next_delivery().map(|given| given.consumer), Some(third));
    assert_eq!(fifo.consumers().get(first).map_or(0, Consumer::n_held), 1);
    fifo.detach(third, Return::Released, UnixMs::from_raw(0), &mut Vec::new());
    assert_eq!(active(&fifo), Some(second));
    assert_eq!(drain(&mut fifo), [1, 2]);
    fifo.detach(second, Return::Released, UnixMs::from_raw(0), &mut Vec::new());
    assert_eq!((active(&fifo), fifo.consumers().n_active()), (None, 0));
}

#[test]
fn a_queue_without_rules_is_plain_again_when_it_is_empty() {
    let mut fifo = Fifo::new();
    fifo.consumers_mut().attach(Checkout { settling: AckMode::Auto, ..acking(0) });
    fifo.put(&arrival(0, Some(1_000)), UnixMs::from_raw(0));
    assert_eq!(
        fifo.messages().policy().and_then(PolicyState::next_deadline),
        Some(UnixMs::from_raw(1_000))
    );
    drain(&mut fifo);
    fifo.enqueue(1);
    assert_eq!(fifo.messages().policy().and_then(PolicyState::next_deadline), None);
    assert_eq!(drain(&mut fifo), [1]);
}

#[test]
fn what_was_stored_comes_back_with_what_is_known_about_it() {
    let rules = QueuePolicy { priority_max: 3, delivery_limit: Some(9), ..QueuePolicy::default() };
    let mut fifo = Fifo::with_policy(rules);
    let returns = DeliveryCounts { n_failed: 2, n_acquired: 3 };
    let stored = RecoveredMessages {
        positions: PositionRange { start: 10, end: 13 },
        priority: 0,
        deadline_ms: None,
        bytes: 30,
        returns: DeliveryCounts::default(),
    };
    fifo.restore(&stored, UnixMs::from_raw(0));
    let urgent = PositionRange { start: 15, end: 17 };
    fifo.restore(
        &RecoveredMessages {
            positions: urgent,
            priority: 3,
            deadline_ms: Some(UnixMs::from_raw(50)),
            returns,
            ..stored
        },
        UnixMs::from_raw(0),
    );
    let mut seen = PositionSet::new();
    seen.push_back(14, 2);
    fifo.messages_mut().restored(20, 11, &seen);
    assert_eq!((fifo.messages().first_undelivered(), fifo.messages().next_position()), (11, 20));
    assert_eq!(fifo.seen().ranges().map(|range| range.start).collect::<Vec<_>>(), [10, 15]);
    assert_eq!(
        fifo.messages().policy().map_or_else(DeliveryCounts::default, |it| it.returns().of(16)),
        returns
    );
    fifo.consumers_mut().attach(acking(0));
    let given: Vec<(u64, bool)> = std::iter::from_fn(|| fifo.next_delivery())
        .take(3)
        .map(|given| (given.position, given.redelivered))
        .collect();
    assert_eq!(given, [(15, true), (16, false), (10, true)]);
    assert_eq!(expired(&mut fifo, 50), []);
}
