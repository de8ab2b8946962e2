//! The core of quorum queues, by example.

use queue::machine::{
    Answer, Arrival, Assigned, Attach, Command, DUE_MAX, Effects, Get, Items, Named, NumberRange,
    Outcome, PRIORITY_DEFAULT, Promise, Put, Run, Settings,
};
use queue::{DeliveryCounts, Limits, Machine, PositionRange, Return};
use stdx::UnixMs;
use stdx::record::{Reader, RecordError};

/// A queue that is written and restored after each command; each command is written and read, too.
struct Queue {
    machine: Machine,
    now_ms: u64,
    next_put: u64,
}

impl Queue {
    fn new(settings: Settings) -> Self {
        Self { machine: Machine::new(settings, UnixMs::from_raw(0)), now_ms: 0, next_put: 0 }
    }

    fn apply(&mut self, command: &Command<'_>) -> Effects {
        let mut written = Vec::new();
        command.write(UnixMs::from_raw(self.now_ms), &mut written);
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
            ignores_length: false,
            named: None,
            arrivals,
        }))
    }

    fn put(&mut self, n: usize) -> Effects {
        let arrival = Arrival { priority: PRIORITY_DEFAULT, ttl_ms: None, bytes: 10 };
        self.put_all(&vec![arrival; n])
    }

    fn attach(&mut self, consumer: u64, prefetch: u32) -> Vec<u64> {
        let terms = Attach {
            consumer,
            node: 1,
            prefetch,
            has_link_credit: false,
            priority: 0,
            timeout_ms: None,
        };
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
fn unsent_messages_are_the_next_ones_in_their_order() {
    let mut queue = Queue::new(Settings::default());
    queue.put(5);
    assert_eq!(queue.attach(1, 4), [0, 1, 2, 3]);
    queue.apply(&Command::Cancel { consumer: 1 });
    queue.settle(1, Outcome::Unsent, &[2, 3]);
    queue.settle(1, Outcome::Unsent, &[1]);
    assert_eq!(queue.attach(2, 0), [1, 2, 3, 4]);
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

fn plain(settings: Settings, n: usize, ttl_ms: Option<u64>) -> Machine {
    let mut machine = Machine::new(settings, UnixMs::from_raw(0));
    let arrivals = vec![Arrival { priority: PRIORITY_DEFAULT, ttl_ms, bytes: 12 }; n];
    let arrivals = Items::Slice(&arrivals);
    let put = Put {
        publisher: 1,
        first: 0,
        confirms: true,
        ignores_length: false,
        named: None,
        arrivals,
    };
    machine.apply(UnixMs::from_raw(0), &Command::Put(put), &mut Effects::default());
    machine
}

#[test]
fn a_deep_backlog_has_a_short_written_form() {
    let machine = plain(Settings::default(), 1_000_000, None);
    let mut form = Vec::new();
    machine.write(&mut form);
    assert_eq!(machine.facts().n_ready(), 1_000_000);
    assert!(form.len() < 400, "{} bytes", form.len());
}

#[test]
fn a_command_takes_a_limited_number_of_messages_that_are_due() {
    let n = usize::try_from(DUE_MAX).expect("not many") + 5;
    let mut machine = plain(Settings::default(), n, Some(10));
    let mut left = Vec::new();
    for _ in 0..2 {
        let mut effects = Effects::default();
        machine.apply(UnixMs::from_raw(10), &Command::Tick, &mut effects);
        left.push((machine.facts().n_ready(), effects.deadline_ms.map(UnixMs::get)));
    }
    assert_eq!(left, [(5, Some(10)), (0, None)]);

    let mut machine = plain(Settings::default(), n, None);
    let limits = Limits { messages_max: Some(1), ..Limits::default() };
    let mut effects = Effects::default();
    machine.apply(
        UnixMs::from_raw(7),
        &Command::Settings(Settings { limits, ..Settings::default() }),
        &mut effects,
    );
    assert_eq!((machine.facts().n_ready(), effects.deadline_ms.map(UnixMs::get)), (5, Some(7)));
    machine.apply(UnixMs::from_raw(7), &Command::Tick, &mut effects);
    assert_eq!((machine.facts().n_ready(), effects.deadline_ms.map(UnixMs::get)), (1, None));
}

#[test]
fn a_named_publisher_puts_again_over_reconnects_what_it_has_no_answer_for() {
    let mut machine = Machine::new(Settings::default(), UnixMs::from_raw(0));
    let arrivals = [Arrival { priority: 4, ttl_ms: None, bytes: 1 }; 3];
    let mut put = |publisher, first| {
        let named = Some(Named { name: b"orders", first });
        let arrivals = Items::Slice(&arrivals);
        let put =
            Put { publisher, first: 0, confirms: true, ignores_length: false, named, arrivals };
        let mut effects = Effects::default();
        machine.apply(UnixMs::from_raw(0), &Command::Put(put), &mut effects);
        effects.promises
    };
    assert_eq!(put(1, 10), [Promise::Confirmed(Run { publisher: 1, first: 0, n: 3 })]);
    let duplicate = Promise::Duplicate(Run { publisher: 2, first: 0, n: 2 });
    assert_eq!(put(2, 11), [duplicate, Promise::Confirmed(Run { publisher: 2, first: 2, n: 1 })]);
    assert_eq!(machine.facts().n_ready(), 4);
}

/// The names used last are known, and take no more than that many do.
#[test]
fn named_publishers_that_come_and_go_are_bounded() {
    const KNOWN: u32 = 100;
    let settings = Settings { named_publishers_max: KNOWN, ..Settings::default() };
    let mut machine = Machine::new(settings, UnixMs::from_raw(0));
    let (mut effects, mut next) = (Effects::default(), 0..);
    let mut put = |machine: &mut Machine, name: u32| {
        let (name, first) = (name.to_le_bytes(), next.next().unwrap_or(0));
        let named = Some(Named { name: &name, first: 7 });
        let arrivals = Items::Slice(&[Arrival { priority: 4, ttl_ms: None, bytes: 1 }]);
        effects.clear();
        let put =
            Put { publisher: 0, first, confirms: true, ignores_length: false, named, arrivals };
        machine.apply(UnixMs::from_raw(0), &Command::Put(put), &mut effects);
        matches!(effects.promises.first(), Some(Promise::Duplicate(_)))
    };
    let n_names = 100_000;
    for name in 0..n_names {
        assert!(!put(&mut machine, name));
    }
    let mut form = Vec::new();
    machine.write(&mut form);
    assert!(form.len() < 64 * KNOWN as usize, "{}", form.len());
    let mut machine = Machine::restore(&form).expect("it was written");
    assert!((n_names - KNOWN..n_names).all(|name| put(&mut machine, name)));
    assert!(!put(&mut machine, n_names - KNOWN - 1), "it was forgotten");
}

/// Another command that comes just then does not make it used.
#[test]
fn an_unused_queue_is_told_by_a_tick_alone() {
    let settings = Settings { expires_ms: Some(10), ..Settings::default() };
    let (mut machine, mut effects) =
        (Machine::new(settings, UnixMs::from_raw(0)), Effects::default());
    machine.apply(UnixMs::from_raw(10), &Command::Purge { request: 1 }, &mut effects);
    assert!(!effects.promises.contains(&Promise::Unused));
    assert_eq!(effects.deadline_ms, Some(UnixMs::from_raw(10)));
    machine.apply(UnixMs::from_raw(10), &Command::Tick, &mut effects);
    assert!(effects.promises.contains(&Promise::Unused));
}

/// Whoever is done with a queue last has used it then: also with what was fetched, not with nothing.
#[test]
fn a_queue_is_used_while_messages_of_it_are_held() {
    let mut queue = Queue::new(Settings { expires_ms: Some(10), ..Settings::default() });
    queue.put(1);
    let mut at = |now_ms, command| {
        queue.now_ms = now_ms;
        queue.apply(&command).deadline_ms
    };
    let get = Get { request: 1, settles: false, consumer: 7, node: 0, timeout_ms: None };
    assert_eq!(at(5, Command::Get(get)), None);
    assert_eq!(at(20, Command::Tick), None);
    let number = [NumberRange::one(0)];
    let (consumer, outcome, numbers) = (7, Outcome::Accepted, Items::Slice(&number));
    assert_eq!(at(30, Command::Settle { consumer, outcome, numbers }), Some(UnixMs::from_raw(40)));
    assert_eq!(
        at(35, Command::Detach { consumer, how: Return::Released }),
        Some(UnixMs::from_raw(40))
    );
}

#[test]
fn a_written_form_that_has_a_message_twice_is_refused() {
    let mut queue = Queue::new(Settings::default());
    queue.put(2);
    queue.now_ms = 77;
    queue.attach(1, 1);
    let mut form = Vec::new();
    queue.machine.write(&mut form);
    assert!(Machine::restore(&form).is_ok());
    let held = [0_u64, 0, 77].map(u64::to_le_bytes).concat();
    let at = form.windows(24).rposition(|bytes| bytes == held).expect("a delivery that is held");
    form.splice(at + 8..at + 16, 1_u64.to_le_bytes());
    assert_eq!(Machine::restore(&form).err(), Some(RecordError::Invalid));
}
