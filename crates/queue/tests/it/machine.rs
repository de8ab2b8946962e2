//! The core of quorum queues, by example.

use queue::machine::{
    Answer, Arrival, Assigned, Attach, Command, Effects, Get, Items, NumberRange, Outcome,
    PRIORITY_DEFAULT, Promise, Put, Run, Settings,
};
use queue::{DeliveryCounts, Machine, PositionRange, Return};
use stdx::record::Reader;

/// A queue that is written and restored after each command; each command is written and read, too.
struct Queue {
    machine: Machine,
    now_ms: u64,
    next_put: u64,
}

impl Queue {
    fn new(settings: Settings) -> Self {
        Self { machine: Machine::new(settings, 0), now_ms: 0, next_put: 0 }
    }

    fn apply(&mut self, command: &Command<'_>) -> Effects {
        let mut written = Vec::new();
        command.write(self.now_ms, &mut written);
        let mut reader = Reader::new(&written);
        let (now_ms, command) = Command::read(&mut reader).expect("it was written");
        assert!(reader.is_empty());
        let mut form = Vec::new();
        self.machine.write(&mut form);
        let mut restored = Machine::restore(&form).expect("it was written");
        let (mut effects, mut again) = (Effects::default(), Effects::default());
        self.machine.apply(now_ms, &command, &mut effects);
        restored.apply(now_ms, &command, &mut again);
        assert_eq!(effects, again);
        self.machine = restored;
        effects
    }

    fn put_all(&mut self, arrivals: &[Arrival]) -> Effects {
        let first = self.next_put;
        self.next_put += arrivals.len() as u64;
        let arrivals = Items::Slice(arrivals);
        self.apply(&Command::Put(Put {
            publisher: 7,
            first,
            confirms: true,
            named: None,
            arrivals,
        }))
    }

    fn put(&mut self, n: usize) -> Effects {
        let arrival = Arrival { priority: PRIORITY_DEFAULT, ttl_ms: None, bytes: 10 };
        self.put_all(&vec![arrival; n])
    }

    fn attach(&mut self, consumer: u64, prefetch: u32) -> Vec<u64> {
        let terms = Attach { consumer, node: 1, prefetch, priority: 0, timeout_ms: None };
        positions(&self.apply(&Command::Attach(terms)))
    }

    fn settle(&mut self, consumer: u64, outcome: Outcome, numbers: &[u64]) -> Effects {
        let numbers: Vec<_> = numbers.iter().copied().map(NumberRange::one).collect();
        let numbers = Items::Slice(&numbers);
        self.apply(&Command::Settle { consumer, outcome, numbers })
    }
}

fn positions(effects: &Effects) -> Vec<u64> {
    effects.assigned.iter().map(|assigned| assigned.position).collect()
}

#[test]
fn a_message_comes_in_is_given_out_and_settled() {
    let mut queue = Queue::new(Settings::default());
    let effects = queue.put(3);
    assert_eq!(effects.stored[0].positions, PositionRange { start: 0, end: 3 });
    assert_eq!(effects.promises, [Promise::Confirmed(Run { publisher: 7, first: 0, n: 3 })]);
    assert_eq!(queue.attach(1, 2), [0, 1]);
    let effects = queue.settle(1, Outcome::Accepted, &[0]);
    assert_eq!(effects.released, [PositionRange::one(0)]);
    assert_eq!(positions(&effects), [2]);
    assert_eq!((queue.machine.facts().n_ready(), queue.machine.facts().n_held()), (0, 2));
}

#[test]
fn returned_messages_come_first_in_the_order_they_came_back() {
    let mut queue = Queue::new(Settings::default());
    queue.put(4);
    assert_eq!(queue.attach(1, 2), [0, 1]);
    queue.apply(&Command::Cancel { consumer: 1 });
    queue.settle(1, Outcome::Returned(Return::Released), &[1, 0]);
    assert_eq!(queue.attach(2, 0), [1, 0, 2, 3]);
}

#[test]
fn a_message_is_taken() {
    let mut queue = Queue::new(Settings::default());
    queue.put(1);
    let get = Get { request: 9, settles: false, consumer: 5, node: 1, timeout_ms: None };
    let effects = queue.apply(&Command::Get(get));
    let counts = DeliveryCounts::default();
    let assigned = Assigned { consumer: 5, number: 0, position: 0, counts };
    assert_eq!(effects.answers, [Answer::Got { request: 9, assigned, n_ready: 0 }]);
    let effects = queue.apply(&Command::Get(get));
    assert_eq!(effects.answers, [Answer::Empty { request: 9 }]);
    queue.apply(&Command::Detach { consumer: 5, how: Return::Failed });
    let effects = queue.apply(&Command::Get(Get { settles: true, ..get }));
    let counts = DeliveryCounts { n_failed: 1, n_acquired: 1 };
    let assigned = Assigned { consumer: 5, number: 1, position: 0, counts };
    assert_eq!(effects.answers, [Answer::Got { request: 9, assigned, n_ready: 0 }]);
    assert_eq!(effects.released, [PositionRange::one(0)]);
}
