use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use stdx::UnixMs;

const ALL: PositionRange = PositionRange { start: 0, end: u64::MAX };

struct Queue {
    deadlines: Deadlines,
    lanes: Priorities,
    next: u64,
}

impl Queue {
    fn new() -> Self {
        Self { deadlines: Deadlines::default(), lanes: Priorities::new(0), next: 0 }
    }

    fn put(&mut self, n: u64, deadline_ms: Option<u64>, now_ms: u64) {
        let range = PositionRange { start: self.next, end: self.next + n };
        self.next = range.end;
        self.lanes.push_back(range, 0);
        if let Some(deadline_ms) = deadline_ms {
            let n_live = self.lanes.n_ready();
            self.deadlines.push(
                range,
                UnixMs::from_raw(deadline_ms),
                UnixMs::from_raw(now_ms),
                &self.lanes,
                n_live,
            );
        }
    }

    fn expire(&mut self, now_ms: u64) -> Vec<u64> {
        let mut gone = Vec::new();
        self.deadlines.expire(UnixMs::from_raw(now_ms), u64::MAX, &mut self.lanes, &mut gone);
        let mut gone: Vec<u64> = gone.iter().flat_map(|range| range.start..range.end).collect();
        gone.sort_unstable();
        gone
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u64, Option<u64>),
    Send,
    ComeBack(u64),
    Settle(u64),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (1..4_u64, 0..300_u64).prop_map(|(n, ttl)| Step::Put(n, Some(ttl))),
        2 => (1..4_u64).prop_map(|n| Step::Put(n, Some(100))),
        1 => (1..4_u64).prop_map(|n| Step::Put(n, None)),
        3 => Just(Step::Send),
        2 => (0..60_u64).prop_map(Step::ComeBack),
        1 => (0..60_u64).prop_map(Step::Settle),
        3 => (0..80_u64).prop_map(Step::Pass),
    ]
}

proptest! {
    #[test]
    fn what_is_ready_expires_when_it_is_due(steps in prop::collection::vec(step(), 0..150)) {
        let mut queue = Queue::new();
        let mut deadline_of: BTreeMap<u64, u64> = BTreeMap::new();
        let mut now_ms = 1_000;
        for step in steps {
            match step {
                Step::Put(n, ttl) => {
                    let deadline = ttl.map(|ttl| now_ms + ttl);
                    let first = queue.next;
                    queue.put(n, deadline, now_ms);
                    deadline_of.extend(deadline.iter().flat_map(|at| (first..first + n).map(|p| (p, *at))));
                }
                Step::Send => {
                    queue.lanes.send_next();
                }
                Step::ComeBack(position) => {
                    if queue.lanes.come_back(position) {
                        queue.deadlines.come_back(position);
                    }
                }
                Step::Settle(position) => {
                    if queue.lanes.forget_away(position).is_some() {
                        queue.deadlines.forget(position);
                    }
                }
                Step::Pass(ms) => {
                    now_ms += ms;
                    let is_due = |at: &u64| deadline_of.get(at).is_some_and(|due| *due <= now_ms);
                    let ready: Vec<u64> = queue.lanes.ready()
                        .flat_map(|(_, set)| set.ranges()).flat_map(|r| r.start..r.end)
                        .filter(is_due).collect();
                    let next_ms = queue.deadlines.next_ms();
                    if !ready.is_empty() {
                        prop_assert!(next_ms.is_some_and(|next| next <= UnixMs::from_raw(now_ms)));
                    }
                    prop_assert_eq!(queue.expire(now_ms), ready);
                    prop_assert!(queue.deadlines.next_ms().is_none_or(|next| next > UnixMs::from_raw(now_ms)));
                }
            }
        }
    }
}

#[test]
fn a_time_to_live_of_the_whole_queue_costs_the_same_however_deep_it_is() {
    let mut queue = Queue::new();
    let ttl_ms = 400_000;
    for now_ms in 0..ttl_ms {
        queue.put(3, Some(now_ms + ttl_ms), now_ms);
    }
    assert!(queue.deadlines.rising.n_steps() <= 16_384);
    assert_eq!(queue.deadlines.scattered.n_entries(), 0);
    for now_ms in (ttl_ms..2 * ttl_ms + 1_000).step_by(4_973) {
        let gone = queue.expire(now_ms);
        let newest = gone.last().map_or(0, |at| at / 3 + ttl_ms);
        assert!(newest <= now_ms, "never early");
        let oldest_left = queue.lanes.lowest().map_or(u64::MAX, |at| at / 3 + ttl_ms);
        assert!(oldest_left + ttl_ms / 4_096 >= now_ms, "hardly late");
    }
    let left: Vec<u64> = queue
        .lanes
        .ready()
        .flat_map(|(_, set)| set.ranges())
        .flat_map(|r| r.start..r.end)
        .collect();
    assert_eq!(queue.expire(3 * ttl_ms), left);
}

#[test]
fn deadlines_of_their_own_cost_a_few_bytes_each() {
    let mut queue = Queue::new();
    for n in 0..30_000_u64 {
        queue.put(1, Some(n * 7_919 % 600_000), 0);
    }
    let scattered = &queue.deadlines.scattered;
    assert!(scattered.n_buckets() < 20_000, "{}", scattered.n_buckets());
    for now_ms in (0..700_000).step_by(15_003) {
        let gone = queue.expire(now_ms);
        assert!(gone.iter().all(|n| n * 7_919 % 600_000 <= now_ms), "never early");
        let ready = queue.lanes.ready().flat_map(|(_, set)| set.ranges());
        for n in ready.flat_map(|range| range.start..range.end) {
            assert!(n * 7_919 % 600_000 + 600_000 / 4_096 >= now_ms, "hardly late");
        }
    }
    assert_eq!(queue.lanes.n_ready(), 0);
}

#[test]
fn entries_of_messages_that_are_gone_do_not_pile_up() {
    let mut queue = Queue::new();
    let day_ms = 86_400_000;
    queue.put(1, Some(20 * day_ms), 0);
    queue.lanes.send_next();
    for n in 0..20_000_u64 {
        queue.put(1, Some(day_ms + n * 7_919 % 1_000), n);
        queue.lanes.pop_next();
    }
    let scattered = &queue.deadlines.scattered;
    assert!(scattered.n_entries() < 4_000, "{} entries", scattered.n_entries());
}

#[test]
fn messages_without_deadlines_between_others_stay() {
    let mut queue = Queue::new();
    for n in 0..10_000_u64 {
        queue.put(1, (n % 2 == 0).then_some(n), 0);
    }
    assert_eq!(queue.expire(10_000).len(), 5_000);
    assert_eq!(queue.lanes.n_ready(), 5_000);
    let mut taken = Vec::new();
    queue.lanes.take_ready(ALL, &mut taken);
    assert!(taken.iter().all(|range| range.len() == 1 && range.start % 2 == 1));
}

/// Whoever waits for messages to become due is given them in that order, the older first among equals.
#[test]
fn messages_are_due_in_order() {
    let mut queue = Queue::new();
    for deadline_ms in [500, 100, 300, 100, 600, 300] {
        queue.put(1, Some(deadline_ms), 0);
    }
    let in_order = queue.deadlines.in_order().map(|(due_ms, at)| (due_ms.get(), at));
    let in_order: Vec<(u64, u64)> = in_order.collect();
    assert_eq!(in_order, [(100, 1), (100, 3), (300, 2), (300, 5), (500, 0), (600, 4)]);
    let mut gone = Vec::new();
    queue.deadlines.expire(UnixMs::from_raw(499), 1, &mut queue.lanes, &mut gone);
    assert_eq!(gone, [PositionRange::one(1)], "no more than are wanted");
    queue.deadlines.expire(UnixMs::from_raw(1_000), u64::MAX, &mut queue.lanes, &mut gone);
    let order: Vec<u64> = gone.iter().flat_map(|range| range.start..range.end).collect();
    assert_eq!(order, [1, 3, 2, 5, 0, 4]);
}
