//! The core of quorum queues with rules of every kind at once: against a naive model, and against machines
//! restored from its written form.

mod model;
mod numbers;

use model::{Effect, Model};
use proptest::prelude::*;
use queue::machine::{
    Answer, Arrival, Attach, Command, DeadLetters, Effects, Get, Items, MessageNotes, Modify,
    Named, NumberRange, Outcome, PendingLimits, Promise, Put, Run, Settings,
};
use queue::{Limits, LinkCredit, Machine, PositionRange, Retry, RetryOn, Return};
use std::collections::BTreeMap;
use stdx::UnixMs;
use stdx::record::Reader;

/// A command, with what it lists.
#[derive(Clone, Debug)]
enum Step {
    Put {
        publisher: u64,
        /// Numbers that are put again, or with a negative number left out.
        again: i64,
        /// Whether they are confirmed, and whether they may be too many.
        answers: (bool, bool),
        named: Option<(u8, u64)>,
        arrivals: Vec<Arrival>,
    },
    Settle {
        consumer: u64,
        outcome: Outcome,
        /// Which of those that it holds, and what is at their side.
        held: Vec<(usize, u64)>,
        changes: Option<Changes>,
    },
    Departed(Vec<(u64, u64)>),
    Remove(Vec<(u64, u64)>),
    /// To a time from now on, or in the past.
    Reschedule(i64, Vec<(u64, u64)>),
    PublishersGone(Vec<u64>),
    Plain(Command<'static>),
}

/// Changes to messages that are settled: a time from now on, or in the past, and notes.
#[derive(Clone, Debug)]
struct Changes {
    in_ms: Option<i64>,
    notes: Vec<u8>,
}

prop_compose! {
    fn changes()(
        in_ms in prop::option::of(-5..40_i64),
        notes in prop::collection::vec(any::<u8>(), 0..3),
    ) -> Changes {
        Changes { in_ms, notes }
    }
}

fn how() -> impl Strategy<Value = Return> {
    prop_oneof![Just(Return::Failed), Just(Return::Released)]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        3 => Just(Outcome::Accepted),
        4 => how().prop_map(Outcome::Returned),
        1 => how().prop_map(Outcome::Rejected),
    ]
}

fn arrival() -> impl Strategy<Value = Arrival> {
    let priority = prop_oneof![4 => Just(4_u8), 2 => 0..6_u8, 1 => 30..40_u8];
    let ttl_ms = prop::option::weighted(0.3, 0..120_u64);
    (priority, ttl_ms, 0..40_u32).prop_map(|(priority, ttl_ms, bytes)| Arrival {
        priority,
        ttl_ms,
        bytes,
    })
}

prop_compose! {
    fn settings()(
        messages_max in prop::option::weighted(0.4, 1..12_u64),
        bytes_max in prop::option::weighted(0.3, 20..300_u64),
        refuses in any::<bool>(),
        delivery_limit in prop::option::of(0..4_u32),
        on in prop::option::of(prop_oneof![Just(RetryOn::All), Just(RetryOn::Failed), Just(RetryOn::Released)]),
        message_ttl_ms in prop::option::weighted(0.3, 0..150_u64),
        expires_ms in prop::option::weighted(0.2, 1..100_u64),
        dead_letters in prop_oneof![Just(DeadLetters::Dropped), Just(DeadLetters::AtMostOnce), Just(DeadLetters::AtLeastOnce)],
        disconnected_timeout_ms in 1..60_u64,
        pending in prop::option::weighted(0.4, (1..8_u64, 20..200_u64, any::<bool>(), prop::option::of(1..100_u64))),
        is_single_active in prop::bool::weighted(0.4),
    ) -> Settings {
        Settings {
            limits: Limits { messages_max, bytes_max, refuses },
            delivery_limit,
            retry: on.map(|on| Retry { on, min_ms: 10, max_ms: 25 }),
            message_ttl_ms,
            expires_ms,
            dead_letters,
            disconnected_timeout_ms,
            confirm_on_ack: pending.map(|(messages_max, bytes_max, needs_consumer, timeout_ms)| {
                PendingLimits { messages_max, bytes_max, needs_consumer, timeout_ms }
            }),
            named_publishers_max: 2,
            is_single_active,
        }
    }
}

fn terms() -> impl Strategy<Value = Attach> {
    let timeout_ms = prop::option::weighted(0.4, 1..60_u64);
    let has_link_credit = prop::bool::weighted(0.3);
    (0..4_u64, 0..2_u32, 0..4_u32, has_link_credit, 0..3_i64, timeout_ms).prop_map(
        |(consumer, node, prefetch, has_link_credit, priority, timeout_ms)| Attach {
            consumer,
            node,
            prefetch,
            has_link_credit,
            priority,
            timeout_ms,
        },
    )
}

fn plain() -> impl Strategy<Value = Command<'static>> {
    prop_oneof![
        8 => terms().prop_map(Command::Attach),
        1 => (0..4_u64, 0..4_u32).prop_map(|(consumer, prefetch)| Command::Prefetch { consumer, prefetch }),
        4 => (0..4_u64, 0..6_u32, 0..5_u32, any::<bool>()).prop_map(|(consumer, delivery_count, credit, drain)| {
            Command::Flow { consumer, seen: LinkCredit { delivery_count, credit }, drain }
        }),
        2 => (0..5_u64).prop_map(|consumer| Command::Cancel { consumer }),
        2 => (0..6_u64, how()).prop_map(|(consumer, how)| Command::Detach { consumer, how }),
        3 => (any::<bool>(), 0..7_u64, prop::option::of(1..60_u64)).prop_map(|(settles, consumer, timeout_ms)| {
            Command::Get(Get { request: 1, settles, consumer, node: 1, timeout_ms })
        }),
        1 => Just(Command::Purge { request: 2 }),
        4 => Just(Command::Tick),
        1 => Just(Command::Declared),
        2 => (0..2_u32, any::<bool>()).prop_map(|(node, is_up)| Command::Node { node, is_up }),
        1 => settings().prop_map(Command::Settings),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(if_unused, if_empty)| {
            Command::Close { request: 3, if_unused, if_empty }
        }),
        2 => Just(Command::Reopen),
    ]
}

fn settlement() -> impl Strategy<Value = Step> {
    let held = prop::collection::vec((any::<usize>(), 0..3_u64), 1..4);
    let changes = prop::option::weighted(0.4, changes());
    (0..6_u64, outcome(), held, changes).prop_map(|(consumer, outcome, held, changes)| {
        Step::Settle { consumer, outcome, held, changes }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let put = (
        0..2_u64,
        prop_oneof![6 => Just(0_i64), 1 => -1..3_i64],
        (any::<bool>(), prop::bool::weighted(0.2)),
        prop::option::weighted(0.3, (0..3_u8, 0..20_u64)),
        prop::collection::vec(arrival(), 1..5),
    );
    prop_oneof![
        8 => put.prop_map(|(publisher, again, answers, named, arrivals)| {
            Step::Put { publisher, again, answers, named, arrivals }
        }),
        8 => settlement(),
        2 => prop::collection::vec((0..30_u64, 0..6_u64), 1..3).prop_map(Step::Departed),
        1 => prop::collection::vec((0..30_u64, 0..6_u64), 1..3).prop_map(Step::Remove),
        2 => (-5..40_i64, prop::collection::vec((0..30_u64, 0..20_u64), 1..3))
            .prop_map(|(in_ms, positions)| Step::Reschedule(in_ms, positions)),
        1 => prop::collection::vec(0..2_u64, 0..2).prop_map(Step::PublishersGone),
        10 => plain().prop_map(Step::Plain),
    ]
}

/// Effects one by one.
fn listed(effects: &Effects, is_purge: bool) -> Vec<Effect> {
    let positions = |range: PositionRange| range.start..range.end;
    let mut all = Vec::new();
    for stored in &effects.stored {
        let first = stored.positions.start;
        all.extend(positions(stored.positions).map(|position| {
            let number = stored.first + (position - first);
            Effect::Stored { publisher: stored.publisher, number, position }
        }));
    }
    all.extend(effects.assigned.iter().map(|it| Effect::Assigned {
        consumer: it.consumer,
        number: it.number,
        position: it.position,
        n_failed: it.counts.n_failed,
        n_acquired: it.counts.n_acquired,
    }));
    all.extend(effects.answers.iter().map(|answer| match *answer {
        Answer::Attached { consumer } => Effect::Attached(consumer),
        Answer::NotAttached { consumer } => Effect::NotAttached(consumer),
        Answer::Got { request, assigned, n_ready } => {
            Effect::Got { request, number: assigned.number, position: assigned.position, n_ready }
        }
        Answer::Empty { request } => Effect::Empty(request),
        Answer::Flowed { consumer, credit, n_ready } => {
            let LinkCredit { delivery_count, credit } = credit;
            Effect::Flowed { consumer, delivery_count, credit, n_ready }
        }
        Answer::SingleActive { request } => Effect::SingleActive(request),
    }));
    let timed_out = effects.timed_out.iter();
    all.extend(timed_out.map(|it| Effect::TimedOut { consumer: it.consumer, number: it.number }));
    let active = effects.active.iter();
    all.extend(active.map(|it| Effect::Active { consumer: it.consumer, is_active: it.is_active }));
    for departing in &effects.departing {
        let numbered = positions(departing.positions).zip(departing.first_number..);
        all.extend(numbered.map(|(position, number)| Effect::Departing {
            number,
            position,
            reason: departing.reason.as_str(),
        }));
    }
    all.extend(effects.released.iter().flat_map(|it| positions(*it)).map(Effect::Released));
    effects.promises.iter().for_each(|promise| list_promise(*promise, &mut all));
    sorted(all, is_purge)
}

fn each(run: Run, effect: fn(u64, u64) -> Effect) -> impl Iterator<Item = Effect> {
    (run.first..run.first + run.n).map(move |number| effect(run.publisher, number))
}

fn list_promise(promise: Promise, all: &mut Vec<Effect>) {
    match promise {
        Promise::Confirmed(run) => {
            all.extend(each(run, |publisher, number| Effect::Confirmed { publisher, number }))
        }
        Promise::Duplicate(run) => {
            all.extend(each(run, |publisher, number| Effect::Duplicate { publisher, number }))
        }
        Promise::Refused(run, _) => {
            all.extend(each(run, |publisher, number| Effect::Refused { publisher, number }))
        }
        Promise::Departs { publisher, number, letter } => {
            all.push(Effect::Departs { publisher, number, letter });
        }
        Promise::Gap { publisher, expected } => all.push(Effect::Gap { publisher, expected }),
        Promise::Purged { request, n_messages } => all.push(Effect::Purged { request, n_messages }),
        Promise::Closed { request, n_ready } => all.push(Effect::Closed { request, n_ready }),
        Promise::InUse { request } => all.push(Effect::InUse(request)),
        Promise::NotEmpty { request } => all.push(Effect::NotEmpty(request)),
        Promise::Unused => all.push(Effect::Unused),
    }
}

/// Effects by kind, those of a kind in their order, but for what is released; in no order after a purge.
fn sorted(mut effects: Vec<Effect>, is_purge: bool) -> Vec<Effect> {
    if is_purge {
        effects.sort_unstable();
        return effects;
    }
    effects.sort_by_key(|effect| match effect {
        Effect::Stored { .. } => (0, 0),
        Effect::Assigned { .. } => (1, 0),
        Effect::Attached(_)
        | Effect::NotAttached(_)
        | Effect::Got { .. }
        | Effect::Empty(_)
        | Effect::Flowed { .. }
        | Effect::SingleActive(_) => (2, 0),
        Effect::TimedOut { .. } => (3, 0),
        Effect::Active { .. } => (4, 0),
        Effect::Departing { .. } => (5, 0),
        Effect::Released(position) => (6, *position),
        Effect::Confirmed { .. }
        | Effect::Duplicate { .. }
        | Effect::Refused { .. }
        | Effect::Departs { .. }
        | Effect::Gap { .. }
        | Effect::Purged { .. }
        | Effect::Closed { .. }
        | Effect::InUse(_)
        | Effect::NotEmpty(_)
        | Effect::Unused => (7, 0),
    });
    effects
}

fn written(machine: &Machine) -> Vec<u8> {
    let mut form = Vec::new();
    machine.write(&mut form);
    form
}

struct Trio {
    machine: Machine,
    /// Restored before every command.
    restored: Machine,
    model: Model,
    now_ms: u64,
    next_puts: BTreeMap<u64, u64>,
}

impl Trio {
    fn new(settings: Settings) -> Self {
        let machine = Machine::new(settings, UnixMs::from_raw(0));
        let (restored, model) = (machine.clone(), Model::new(settings));
        Self { machine, restored, model, now_ms: 0, next_puts: BTreeMap::new() }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Put { publisher, again, answers, named, arrivals } => {
                let next = self.next_puts.entry(*publisher).or_default();
                let first = next.saturating_add_signed(-again);
                let is_gap = first > *next;
                *next = if is_gap { *next } else { (*next).max(first + arrivals.len() as u64) };
                let name = named.map_or([0], |(name, _)| [name]);
                self.apply(&Command::Put(Put {
                    publisher: *publisher,
                    first,
                    confirms: answers.0,
                    ignores_length: answers.1,
                    named: named.map(|(_, first)| Named { name: &name, first }),
                    arrivals: Items::Slice(arrivals),
                }));
            }
            Step::Settle { consumer, outcome, held, changes } => {
                let all: Vec<u64> = self.model.held(*consumer).iter().map(|it| it.0).collect();
                let some = held.iter().map(|(nth, n)| {
                    let start = all.get(nth % all.len().max(1)).copied().unwrap_or(0);
                    NumberRange { start, end: start + n }
                });
                let numbers: Vec<NumberRange> = some.collect();
                let (consumer, outcome) = (*consumer, *outcome);
                let numbers = Items::Slice(&numbers);
                let Some(Changes { in_ms, notes }) = changes else {
                    return self.apply(&Command::Settle { consumer, outcome, numbers });
                };
                let until_ms = in_ms.map(|in_ms| self.now_ms.saturating_add_signed(in_ms));
                let until_ms = until_ms.map(UnixMs::from_raw);
                self.apply(&Command::Modify(Modify {
                    consumer,
                    outcome,
                    until_ms,
                    notes,
                    numbers,
                }));
            }
            Step::Departed(numbers) => {
                let range = |(start, n): &(u64, u64)| NumberRange { start: *start, end: start + n };
                let numbers: Vec<NumberRange> = numbers.iter().map(range).collect();
                self.apply(&Command::Departed { numbers: Items::Slice(&numbers) });
            }
            Step::Remove(positions) => {
                let range = |(start, n): &(u64, u64)| NumberRange { start: *start, end: start + n };
                let positions: Vec<NumberRange> = positions.iter().map(range).collect();
                self.apply(&Command::Remove { request: 4, positions: Items::Slice(&positions) });
            }
            Step::Reschedule(in_ms, positions) => {
                let range = |(start, n): &(u64, u64)| NumberRange { start: *start, end: start + n };
                let positions: Vec<NumberRange> = positions.iter().map(range).collect();
                let until_ms = self.now_ms.saturating_add_signed(*in_ms);
                self.apply(&Command::Reschedule {
                    until_ms: UnixMs::from_raw(until_ms),
                    positions: Items::Slice(&positions),
                });
            }
            Step::PublishersGone(publishers) => {
                self.apply(&Command::PublishersGone { publishers: Items::Slice(publishers) });
            }
            Step::Plain(command) => self.apply(command),
        }
    }

    fn apply(&mut self, command: &Command<'_>) {
        let mut log = Vec::new();
        command.write(UnixMs::from_raw(self.now_ms), &mut log);
        let (now_ms, read) = Command::read(&mut Reader::new(&log)).expect("it was written");
        assert_eq!((now_ms, &read), (UnixMs::from_raw(self.now_ms), command));
        self.restored = Machine::restore(&written(&self.restored)).expect("it was written");
        let (mut effects, mut again) = (Effects::default(), Effects::default());
        self.machine.apply(now_ms, &read, &mut effects);
        self.restored.apply(now_ms, command, &mut again);
        assert_eq!(effects, again);
        assert_eq!(written(&self.machine), written(&self.restored));
        let is_purge = matches!(command, Command::Purge { .. } | Command::Remove { .. });
        let expected = sorted(self.model.apply(now_ms.get(), command), is_purge);
        assert_eq!(listed(&effects, is_purge), expected);
        assert!(
            effects.deadline_ms.unwrap_or(UnixMs::from_raw(u64::MAX))
                <= UnixMs::from_raw(self.model.deadline_ms().unwrap_or(u64::MAX))
        );
        self.compare();
    }

    fn compare(&self) {
        let facts = self.machine.facts();
        let notes = MessageNotes::of(facts);
        let model = &self.model;
        assert_eq!(facts.ready().collect::<Vec<_>>(), model.ready());
        assert_eq!(facts.bytes(), model.bytes());
        let live: Vec<u64> = facts.live().iter().flat_map(|range| range.start..range.end).collect();
        assert_eq!(live, model.messages.iter().map(|it| it.position).collect::<Vec<_>>());
        let n = facts.n_ready() + facts.n_held() + facts.n_delayed() + facts.n_departing();
        assert_eq!(n, live.len() as u64);
        for message in &model.messages {
            assert_eq!(facts.counts(message.position), message.counts);
            assert_eq!(notes.at(message.position), message.notes.as_deref());
        }
        assert_eq!(!notes.is_empty(), model.messages.iter().any(|it| it.notes.is_some()));
        for consumer in 0..7 {
            assert_eq!(facts.held(consumer).collect::<Vec<_>>(), model.held(consumer));
        }
        let active = facts.consumers().find(|it| it.is_active).map(|it| it.terms.consumer);
        assert!(!model.settings.is_single_active || active == model.active);
    }
}

proptest! {
    #[test]
    fn a_machine_does_what_the_model_does_and_so_does_one_restored(
        settings in settings(),
        steps in prop::collection::vec((0..30_u64, step()), 1..150),
    ) {
        let mut trio = Trio::new(settings);
        for (wait_ms, step) in &steps {
            trio.now_ms += wait_ms;
            trio.step(step);
        }
    }
}
