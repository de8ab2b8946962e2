//! Runs of messages that are answered in any order, against a list of single messages.

use super::*;
use confirm::ConfirmQueue;
use meta::{Name, QueueId, QueueKind};
use session::{ChannelId, Outbox, Sink};
use std::collections::{BTreeMap, BTreeSet};
use testing::Random;

/// An outbox that nothing is put into.
struct Nowhere;

impl Outbox for Nowhere {
    fn batch(&self, _: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker> {
        None
    }
}

/// A waiter that is only counted.
struct Counted;

impl JournalSynced for Counted {
    fn synced(self: Box<Self>) -> Option<Waker> {
        None
    }
}

fn queue() -> Arc<QueueDef> {
    let [vhost, name] = ["/", "q"].map(Name::from);
    Arc::new(QueueDef {
        id: QueueId(1),
        vhost,
        name,
        kind: QueueKind::Classic,
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments: Default::default(),
        home: Default::default(),
    })
}

#[test]
fn each_message_is_answered_once_whatever_the_runs() {
    let mut random = Random::by_chance();
    let queue = queue();
    let publisher = ConfirmQueue::new(Arc::new(Nowhere)).open(ChannelId(1));
    for _ in 0..300 {
        let (mut puts, mut awaited) = (Puts::default(), BTreeMap::new());
        let mut sequence = 1;
        for _ in 0..random.below(8) + 1 {
            let n = random.below(6) as u64 + 1;
            if random.percent(30) {
                puts.note_others(n, None);
                continue;
            }
            let first = puts.next();
            let confirm = Confirm { publisher: Arc::clone(&publisher), sequence };
            puts.note_confirmed(PutRun { queue: Arc::clone(&queue), confirm, n });
            awaited.extend((first..first + n).zip(sequence..));
            sequence += n;
        }
        let mut left: BTreeSet<u64> = (1..=puts.last()).collect();
        let mut answered = BTreeSet::new();
        while let Some(first) = left.iter().copied().nth(random.below(left.len().max(1))) {
            let mut last = first;
            while left.contains(&(last + 1)) && random.percent(70) {
                last += 1;
            }
            (first..=last).for_each(|number| {
                left.remove(&number);
            });
            let mut told = ToldPuts::default();
            puts.answer(AnsweredPuts { first, last, refused: None }, &mut told);
            for (run, _) in &told.runs {
                for sequence in run.confirm.sequence..run.confirm.sequence + run.n {
                    assert!(answered.insert(sequence), "{sequence} is answered twice");
                }
            }
            let expected = awaited.range(first..=last).map(|(_, sequence)| sequence);
            assert!(expected.clone().all(|it| answered.contains(it)));
        }
        assert_eq!(answered.len(), awaited.len());
        assert!(puts.is_done(puts.last(), false) && puts.confirmed.is_empty());
    }
}

#[test]
fn what_is_kept_survives_its_connection_and_its_waiters_with_it() {
    let mut puts = Puts::default();
    puts.note_others(2, None);
    puts.note_others(3, Some(Bytes::from_static(b"frame")));
    assert!(puts.wait(2, false, Box::new(Counted)).is_none());
    assert!(puts.wait(5, true, Box::new(Counted)).is_none());
    let mut told = ToldPuts::default();
    puts.answer(AnsweredPuts { first: 3, last: 3, refused: None }, &mut told);
    puts.lose(&mut told);
    assert_eq!(puts.kept().count(), 1);
    assert!(told.synced.is_empty() && puts.is_done(2, false) && !puts.is_done(5, true));
    assert_eq!(puts.waiters.len(), 1, "the other one hears that it failed");
    assert!(puts.wait(2, false, Box::new(Counted)).is_some_and(|(_, is_done)| !is_done));
    assert_eq!(puts.waiters.len(), 1, "so does one that comes later");
    // The whole frame is answered again.
    puts.answer(AnsweredPuts { first: 4, last: 5, refused: None }, &mut told);
    assert!(!puts.is_done(5, true));
    puts.answer(AnsweredPuts { first: 3, last: 3, refused: None }, &mut told);
    assert_eq!(told.synced.len(), 1);
    assert!(puts.wait(5, true, Box::new(Counted)).is_some());
}

#[test]
fn messages_of_a_lost_connection_are_refused() {
    let mut puts = Puts::default();
    let publisher = ConfirmQueue::new(Arc::new(Nowhere)).open(ChannelId(1));
    let confirm = Confirm { publisher, sequence: 5 };
    puts.note_confirmed(PutRun { queue: queue(), confirm, n: 4 });
    puts.in_flight_bytes = 9;
    let mut told = ToldPuts::default();
    puts.answer(AnsweredPuts { first: 2, last: 2, refused: None }, &mut told);
    puts.lose(&mut told);
    let shown: Vec<_> =
        told.runs.iter().map(|(it, why)| (it.confirm.sequence, it.n, *why)).collect();
    let lost = Some(Refusal::Unavailable);
    assert_eq!(shown, [(6, 1, None), (5, 1, lost), (7, 2, lost)]);
    assert_eq!(puts.in_flight_bytes, 0);
}
