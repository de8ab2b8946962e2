//! Publishers that wait for consumers, and the answers they are to be told. Never when an answer is due.

use confirm::{AnsweredRun, Publisher};
use message::Refusal;
use queue::{Awaiting, ConfirmWaiters};
use queue_type::{Confirm, ConfirmRef, Wakes};
use session::{Confirmation, RefusedBy};
use std::collections::HashMap;
use std::sync::Arc;

/// Publishers that wait for a queue's consumers, with answers that they were not told yet.
#[derive(Debug, Default)]
pub struct Answers {
    publishers: Publishers,
    untold: Vec<Untold>,
}

/// The answer to a publish that its publisher was not told yet.
#[derive(Clone, Copy, Debug)]
struct Untold {
    /// Number of the publisher.
    publisher: u32,
    /// Number of its publish.
    sequence: u64,
    /// Reason of a refusal; none for a message that a consumer had.
    refusal: Option<Refusal>,
}

/// Publishers that wait, by the numbers that `ConfirmWaiters` knows them by.
#[derive(Debug, Default)]
struct Publishers {
    known: Vec<Option<Waiting>>,
    free: Vec<u32>,
    by_address: HashMap<usize, u32>,
    /// Number of the publisher that came last.
    last: u32,
}

#[derive(Debug)]
struct Waiting {
    publisher: Arc<Publisher>,
    n: u64,
}

fn address(publisher: &Arc<Publisher>) -> usize {
    Arc::as_ptr(publisher).addr()
}

impl Publishers {
    /// The number of a publisher that waits for one more.
    fn add(&mut self, publisher: &Arc<Publisher>) -> u32 {
        let is_it = |known: &Waiting| Arc::ptr_eq(&known.publisher, publisher);
        let is_last = self.get_mut(self.last).is_some_and(|known| is_it(known));
        if !is_last {
            self.last = self.number_of(publisher);
        }
        let number = self.last;
        if let Some(known) = self.get_mut(number) {
            known.n += 1;
        }
        number
    }

    fn number_of(&mut self, publisher: &Arc<Publisher>) -> u32 {
        let Self { known, free, by_address, .. } = self;
        *by_address.entry(address(publisher)).or_insert_with(|| {
            let waiting = Some(Waiting { publisher: Arc::clone(publisher), n: 0 });
            let number = free.pop().unwrap_or_else(|| {
                known.push(None);
                u32::try_from(known.len() - 1).expect("fewer than 2^32 publishers")
            });
            if let Some(place) = known.get_mut(number as usize) {
                assert!(place.is_none(), "a number is that of one publisher");
                *place = waiting;
            }
            number
        })
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Waiting> {
        self.known.get_mut(number as usize)?.as_mut()
    }

    /// The publisher, which waits for `n` less.
    fn less(&mut self, number: u32, n: u64) -> Option<Arc<Publisher>> {
        let known = self.get_mut(number)?;
        assert!(known.n >= n, "a publisher waits for what it is answered");
        known.n -= n;
        let publisher = Arc::clone(&known.publisher);
        if known.n == 0 {
            self.by_address.remove(&address(&publisher));
            self.free.push(number);
            if let Some(place) = self.known.get_mut(number as usize) {
                *place = None;
            }
        }
        Some(publisher)
    }
}

impl Answers {
    /// Adds a publish that waits, whose body has so many bytes.
    #[inline]
    pub fn awaiting(&mut self, confirm: ConfirmRef<'_>, bytes: usize) -> Awaiting {
        Awaiting {
            publisher: self.publishers.add(confirm.publisher),
            sequence: confirm.sequence,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        }
    }

    /// Accepts a publish that waits: a consumer has had its message.
    #[inline]
    pub fn accept(&mut self, awaiting: Awaiting) {
        self.add(awaiting, None);
    }

    /// Refuses a publish that waits: no consumer will have its message.
    #[inline]
    pub fn refuse(&mut self, awaiting: Awaiting, why: Refusal) {
        self.add(awaiting, Some(why));
    }

    fn add(&mut self, Awaiting { publisher, sequence, .. }: Awaiting, refusal: Option<Refusal>) {
        self.untold.push(Untold { publisher, sequence, refusal });
    }

    /// Hands a publish on that waits: its publisher is answered elsewhere.
    pub fn hand_on(&mut self, awaiting: Awaiting) -> Option<Confirm> {
        let publisher = self.publishers.less(awaiting.publisher, 1)?;
        Some(Confirm { publisher, sequence: awaiting.sequence })
    }

    /// The place of the first of a publisher's publishes among those that are `pending`.
    #[must_use]
    pub fn first_of(&self, publisher: &Arc<Publisher>, pending: &ConfirmWaiters) -> Option<u64> {
        let number = *self.publishers.by_address.get(&address(publisher))?;
        pending.iter().find(|(_, awaiting)| awaiting.publisher == number).map(|(at, _)| at)
    }

    /// Tells publishers the answers of this queue, after every operation.
    pub fn send(&mut self, queue: &str, wakes: &mut Wakes) {
        let place = |it: &Untold| (it.publisher, it.sequence);
        if !self.untold.is_sorted_by_key(place) {
            self.untold.sort_unstable_by_key(place);
        }
        for of_publisher in self.untold.chunk_by(|a, b| a.publisher == b.publisher) {
            let Some(Untold { publisher, .. }) = of_publisher.first() else { continue };
            let publisher = self.publishers.less(*publisher, of_publisher.len() as u64);
            let follows =
                |a: &Untold, b: &Untold| a.sequence + 1 == b.sequence && a.refusal == b.refusal;
            let runs = of_publisher.chunk_by(follows).filter_map(|run| {
                let (first, last) = (run.first()?, run.last()?.sequence);
                let answer = match first.refusal {
                    None => Confirmation::Accepted,
                    Some(why) => Confirmation::Refused(RefusedBy { queue, why }),
                };
                Some(AnsweredRun { first: first.sequence, last, answer })
            });
            wakes.extend(publisher.and_then(|publisher| publisher.answer(runs)));
        }
        self.untold.clear();
    }
}
