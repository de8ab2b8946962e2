//! The fate that each message may have had, by what clients were told and which faults there were.

use super::node::{home_of, letters_of};
use session::Outcome;
use std::collections::BTreeMap;
use testing::run::fail;

/// A moment between two nodes, or at one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    nodes: (usize, usize),
    epoch: u64,
    was_settled: bool,
}

/// The faults between nodes so far: an epoch ends with each.
#[derive(Default)]
pub(super) struct Faults {
    epochs: BTreeMap<(usize, usize), u64>,
    settled: BTreeMap<(usize, usize), bool>,
    crashes: BTreeMap<usize, u64>,
}

impl Faults {
    pub(super) fn mark(&self, a: usize, b: usize) -> Mark {
        let nodes = (a.min(b), a.max(b));
        let epoch = self.epochs.get(&nodes).copied().unwrap_or_default();
        let was_settled = a == b || self.settled.get(&nodes) == Some(&true);
        Mark { nodes, epoch, was_settled }
    }

    /// Whether there has been no fault since.
    pub(super) fn is_clean(&self, mark: Mark) -> bool {
        mark.was_settled && !self.is_over(mark)
    }

    /// Whether there has been a fault since.
    pub(super) fn is_over(&self, mark: Mark) -> bool {
        self.epochs.get(&mark.nodes).copied().unwrap_or_default() != mark.epoch
    }

    pub(super) fn note(&mut self, a: usize, b: usize) {
        *self.epochs.entry((a.min(b), a.max(b))).or_default() += 1;
    }

    pub(super) fn note_crash(&mut self, node: usize, n: usize) {
        *self.crashes.entry(node).or_default() += 1;
        (0..n).for_each(|other| self.note(node, other));
    }

    pub(super) fn set_settled(&mut self, a: usize, b: usize, is_settled: bool) {
        let was_settled = self.settled.insert((a.min(b), a.max(b)), is_settled);
        if was_settled != Some(is_settled) {
            self.note(a, b);
        }
    }

    fn n_crashes(&self, node: usize) -> u64 {
        self.crashes.get(&node).copied().unwrap_or_default()
    }
}

/// The end of a message in a queue, as its client asked for it.
struct Taken {
    mark: Mark,
    is_sealed: bool,
    is_rejected: bool,
}

impl Taken {
    fn may_return(&self, faults: &Faults) -> bool {
        !self.is_sealed && !faults.is_clean(self.mark)
    }
}

/// A message in a queue.
#[expect(clippy::struct_excessive_bools, reason = "each is known by itself")]
struct Copy {
    home: usize,
    persistent: bool,
    put: Mark,
    crashes_at_put: u64,
    /// Whether it was in its queue for sure.
    is_in: bool,
    /// Whether a purge may have taken it.
    may_be_purged: bool,
    is_letter: bool,
    n_letters: u32,
    /// Whether a letter was sent while its queue's home could be reached.
    is_sent: bool,
    n_seen: u32,
    /// The home's crashes before it was seen last; none if that cannot be said.
    crashes_at_sight: Option<u64>,
    taken: Option<Taken>,
}

impl Copy {
    fn may_be_double(&self, faults: &Faults) -> bool {
        self.is_letter && (self.n_letters > 1 || !faults.is_clean(self.put))
    }
}

/// A message as it is published.
#[derive(Clone, Copy)]
pub(super) struct Published {
    pub(super) id: u64,
    pub(super) persistent: bool,
    pub(super) from: usize,
}

/// A delivery, as its client sees it.
pub(super) struct Sight {
    pub(super) redelivered: bool,
    /// Whether another client has the message, and no fault has taken it away.
    pub(super) is_held: bool,
}

/// All messages.
#[derive(Default)]
pub(super) struct Model {
    pub(super) faults: Faults,
    pub(super) n_nodes: usize,
    copies: BTreeMap<(String, u64), Copy>,
    /// Purges that are not answered, by queue.
    purges: BTreeMap<String, u32>,
}

impl Model {
    pub(super) fn new(n_nodes: usize) -> Self {
        Self { n_nodes, ..Self::default() }
    }

    pub(super) fn put(&mut self, message: Published, queues: &[String]) {
        for queue in queues {
            let home = home_of(queue);
            self.add(queue, message, self.faults.mark(message.from, home), false);
        }
    }

    fn add(&mut self, queue: &str, message: Published, put: Mark, is_letter: bool) {
        let home = home_of(queue);
        let copy = Copy {
            home,
            persistent: message.persistent,
            put,
            crashes_at_put: self.faults.n_crashes(home),
            is_in: false,
            may_be_purged: self.purges.contains_key(queue),
            is_letter,
            n_letters: u32::from(is_letter),
            is_sent: false,
            n_seen: 0,
            crashes_at_sight: None,
            taken: None,
        };
        self.copies.insert((queue.to_owned(), message.id), copy);
    }

    /// A publisher is told that all queues have its message.
    pub(super) fn confirmed(&mut self, id: u64) {
        self.of(id).filter(|copy| !copy.is_letter).for_each(|copy| copy.is_in = true);
    }

    /// A publisher is told that a queue may not have its message.
    pub(super) fn refused(&mut self, id: u64) {
        let faults = &self.faults;
        if self.copies.iter().all(|((_, it), copy)| *it != id || faults.is_clean(copy.put)) {
            fail(format!("m{id} is refused without a fault"));
        }
    }

    fn of(&mut self, id: u64) -> impl Iterator<Item = &mut Copy> {
        self.copies.iter_mut().filter(move |((_, it), _)| *it == id).map(|(_, copy)| copy)
    }

    /// A client is given a message over a way between nodes.
    pub(super) fn seen(
        &mut self,
        (queue, id): (&str, u64),
        by: Mark,
        Sight { redelivered, is_held }: Sight,
    ) {
        let faults = &self.faults;
        let Some(copy) = self.copies.get_mut(&(queue.to_owned(), id)) else {
            fail(format!("m{id} was never in {queue}"));
        };
        let n_crashes = faults.n_crashes(copy.home);
        // A delivery that was on its way when its connection ended is out of date.
        if !copy.may_be_double(faults) && faults.is_clean(by) {
            if copy.taken.as_ref().is_some_and(|taken| !taken.may_return(faults)) {
                fail(format!("m{id} of {queue} was settled and comes again"));
            }
            if is_held {
                fail(format!("m{id} of {queue} is held and comes again"));
            }
            if !redelivered && copy.crashes_at_sight == Some(n_crashes) {
                fail(format!("m{id} of {queue} comes again as if it were new"));
            }
        }
        copy.n_seen += 1;
        copy.crashes_at_sight = faults.is_clean(by).then_some(n_crashes);
        copy.taken = None;
    }

    /// A client ends a message that it was given at `mark`.
    pub(super) fn settled(&mut self, queue: &str, id: u64, mark: Mark, outcome: Outcome) {
        let is_rejected = outcome == Outcome::Rejected;
        if !is_rejected && outcome != Outcome::Accepted {
            return;
        }
        let copy = self.copies.get_mut(&(queue.to_owned(), id)).unwrap();
        copy.taken = Some(Taken { mark, is_sealed: false, is_rejected });
        let message = Published { id, persistent: copy.persistent, from: copy.home };
        let letters = letters_of(queue, self.n_nodes).filter(|_| is_rejected);
        let Some(letters) = letters else { return };
        let put = self.faults.mark(message.from, home_of(&letters));
        match self.copies.get_mut(&(letters.clone(), id)) {
            Some(letter) => {
                letter.n_letters += 1;
                letter.put = put;
                letter.is_sent = false;
            }
            None => self.add(&letters, message, put, true),
        }
    }

    pub(super) fn begin_purge(&mut self, queue: &str) {
        *self.purges.entry(queue.to_owned()).or_default() += 1;
        self.note_purge(queue);
    }

    pub(super) fn end_purge(&mut self, queue: &str) {
        self.note_purge(queue);
        let n = self.purges.get_mut(queue).unwrap();
        *n -= 1;
        if *n == 0 {
            self.purges.remove(queue);
        }
    }

    fn note_purge(&mut self, queue: &str) {
        let of_queue = self.copies.iter_mut().filter(|((it, _), _)| it == queue);
        of_queue.for_each(|(_, copy)| copy.may_be_purged = true);
    }

    /// Everything is done that was on its way.
    pub(super) fn all_is_idle(&mut self) {
        for queue in std::mem::take(&mut self.purges).into_keys() {
            self.note_purge(&queue);
        }
        let faults = &self.faults;
        for copy in self.copies.values_mut() {
            let is_seen = copy.crashes_at_sight == Some(faults.n_crashes(copy.home));
            copy.is_in |= is_seen || (!copy.is_letter && faults.is_clean(copy.put));
            copy.is_sent |= faults.is_clean(copy.put);
            if let Some(taken) = &mut copy.taken {
                taken.is_sealed |= faults.is_clean(taken.mark);
            }
        }
    }

    /// Compares with the messages that are in the queues in the end.
    pub(super) fn check(&self, present: &BTreeMap<(String, u64), u32>) {
        for (queue, id) in present.keys() {
            if !self.copies.contains_key(&(queue.clone(), *id)) {
                fail(format!("m{id} was never in {queue} and is there"));
            }
        }
        for ((queue, id), copy) in &self.copies {
            let n = present.get(&(queue.clone(), *id)).copied().unwrap_or_default();
            if n > 1 && !copy.may_be_double(&self.faults) {
                fail(format!("m{id} is in {queue} {n} times"));
            }
            if n == 0 {
                self.check_absent(queue, *id, copy, present);
            } else if copy.taken.as_ref().is_some_and(|it| !it.may_return(&self.faults))
                && !copy.may_be_double(&self.faults)
            {
                fail(format!("m{id} was settled and is in {queue}"));
            }
        }
    }

    fn check_absent(
        &self,
        queue: &str,
        id: u64,
        copy: &Copy,
        present: &BTreeMap<(String, u64), u32>,
    ) {
        let is_lost = !copy.persistent && self.faults.n_crashes(copy.home) > copy.crashes_at_put;
        if !copy.is_in || copy.may_be_purged || is_lost || queue.ends_with(".n") {
            return;
        }
        match &copy.taken {
            None => fail(format!("m{id} of {queue} is lost")),
            Some(taken) if taken.is_rejected => {
                let Some(letters) = letters_of(queue, self.n_nodes) else { return };
                let letter = &self.copies[&(letters.clone(), id)];
                let is_lost = !letter.persistent
                    && self.faults.n_crashes(letter.home) > letter.crashes_at_put;
                let is_there = letter.n_seen > 0 || present.contains_key(&(letters.clone(), id));
                if !is_there && letter.is_sent && !letter.may_be_purged && !is_lost {
                    fail(format!("m{id} of {queue} was rejected and is not in {letters}"));
                }
            }
            Some(_) => {}
        }
    }
}
