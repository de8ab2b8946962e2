//! The model of publishes: a list of who has which message, and what each publish waits for.

use session::{LinkId, Position};
use std::collections::BTreeMap;

pub(crate) const N_QUEUES: usize = 4;

/// The event a queue confirms upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Enqueue,
    Ack,
    AckDirect,
}

/// A queue as it is declared.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) on: On,
    pub(crate) durable: bool,
    pub(crate) max_pending: Option<u64>,
    pub(crate) max_pending_bytes: Option<u64>,
    /// Publishes are refused while nobody consumes.
    pub(crate) wants_consumer: bool,
    /// The queue its dead letters go to, which has none itself.
    pub(crate) letters_to: Option<usize>,
}

/// A message in a queue: its number, and whether it came as a dead letter.
pub(crate) type Name = (u64, bool);

/// Where a message that a client holds was given to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) peer: usize,
    pub(crate) channel: u16,
    pub(crate) link: LinkId,
    pub(crate) position: Position,
    pub(crate) by_write: bool,
    /// The queue has a record of it, whatever its mode.
    pub(crate) is_recorded: bool,
    /// Settled in a transaction that goes on.
    pub(crate) is_in_tx: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Copy {
    bytes: u64,
    /// Its publish waits for it to be consumed.
    is_awaited: bool,
    /// None if it is ready.
    pub(crate) holder: Option<Holder>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) spec: Spec,
    pub(crate) is_there: bool,
    pub(crate) n_consumers: usize,
    pub(crate) copies: BTreeMap<Name, Copy>,
}

impl Queue {
    pub(crate) fn waits_for_consumers(&self) -> bool {
        self.spec.on != On::Enqueue
    }

    /// Publishes that wait, and bytes of their bodies.
    pub(crate) fn pending(&self) -> (u64, u64) {
        let awaited = self.copies.values().filter(|copy| copy.is_awaited);
        awaited.fold((0, 0), |(n, bytes), copy| (n + 1, bytes + copy.bytes))
    }

    pub(crate) fn n_ready(&self) -> u64 {
        self.copies.values().filter(|copy| copy.holder.is_none()).count() as u64
    }

    fn has_room_for(&self, bytes: u64) -> bool {
        let (n, pending_bytes) = self.pending();
        let is_within = |limit: Option<u64>, n| limit.is_none_or(|limit| n <= limit);
        is_within(self.spec.max_pending, n + 1)
            && is_within(self.spec.max_pending_bytes, pending_bytes + bytes)
            && !(self.spec.wants_consumer && self.n_consumers == 0)
    }
}

/// A publish that is to be answered.
#[derive(Debug)]
pub(crate) struct Publish {
    /// Messages in queues that consumers must have.
    n_awaited: usize,
    is_refused: bool,
    /// It waits for the disk, too, until everything is done that there is to do.
    pub(crate) is_on_its_way: bool,
    /// Its channel is gone.
    pub(crate) is_forgotten: bool,
    pub(crate) answer: Option<bool>,
}

impl Publish {
    /// The answer there must be; none as long as it waits.
    pub(crate) fn expected(&self) -> Option<bool> {
        match (self.is_refused, self.n_awaited) {
            (true, _) => Some(false),
            (false, 0) => Some(true),
            (false, _) => None,
        }
    }
}

/// A publish as it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    pub(crate) persistent: bool,
    /// One queue, or all.
    pub(crate) to: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) queues: Vec<Queue>,
    /// Those of channels with confirms, by number.
    pub(crate) publishes: BTreeMap<u64, Publish>,
}

impl Model {
    pub(crate) fn new(specs: Vec<Spec>) -> Self {
        let queue = |spec| Queue { spec, is_there: true, n_consumers: 0, copies: BTreeMap::new() };
        Self { queues: specs.into_iter().map(queue).collect(), publishes: BTreeMap::new() }
    }

    pub(crate) fn put_in(&mut self, sent: Sent, is_confirmed: bool) {
        let Sent { id, bytes, persistent, to } = sent;
        let mut publish = Publish {
            n_awaited: 0,
            is_refused: false,
            is_on_its_way: false,
            is_forgotten: false,
            answer: None,
        };
        let queues = self.queues.iter_mut().enumerate();
        for (_, queue) in queues.filter(|(at, _)| to.is_none_or(|to| to == *at)) {
            let is_awaited = is_confirmed && queue.waits_for_consumers();
            if !queue.is_there {
                continue;
            }
            if is_awaited && !queue.has_room_for(bytes) {
                publish.is_refused = true;
                continue;
            }
            publish.n_awaited += usize::from(is_awaited);
            publish.is_on_its_way |=
                !queue.waits_for_consumers() && queue.spec.durable && persistent;
            queue.copies.insert((id, false), Copy { bytes, is_awaited, holder: None });
        }
        if is_confirmed {
            self.publishes.insert(id, publish);
        }
    }

    fn take(&mut self, queue: usize, name: Name) -> Copy {
        self.queues[queue].copies.remove(&name).unwrap()
    }

    /// One of those has answered who have to.
    fn answer(&mut self, id: u64, copy: &Copy, is_ack: bool) {
        if copy.is_awaited {
            let publish = self.publishes.get_mut(&id).unwrap();
            publish.n_awaited -= 1;
            publish.is_refused |= !is_ack;
        }
    }

    /// A consumer has had it.
    pub(crate) fn accept(&mut self, queue: usize, name: Name) {
        let copy = self.take(queue, name);
        self.answer(name.0, &copy, true);
    }

    /// Nobody will have it.
    fn lose(&mut self, queue: usize, name: Name) {
        let copy = self.take(queue, name);
        self.answer(name.0, &copy, false);
    }

    /// A consumer does not want it.
    pub(crate) fn reject(&mut self, queue: usize, name: Name) {
        let Some(to) = self.queues[queue].spec.letters_to else { return self.lose(queue, name) };
        let copy = self.take(queue, name);
        let target = &mut self.queues[to];
        let is_awaited = copy.is_awaited && target.waits_for_consumers();
        if !target.is_there || (is_awaited && !target.has_room_for(copy.bytes)) {
            return self.answer(name.0, &copy, false);
        }
        target.copies.insert((name.0, true), Copy { is_awaited, holder: None, ..copy });
        if !is_awaited {
            self.answer(name.0, &copy, true);
        }
    }

    fn lose_all(&mut self, queue: usize, which: impl Fn(&Copy) -> bool) {
        let copies = self.queues[queue].copies.iter().filter(|(_, copy)| which(copy));
        let names: Vec<Name> = copies.map(|(name, _)| *name).collect();
        names.into_iter().for_each(|name| self.lose(queue, name));
    }

    pub(crate) fn purge(&mut self, queue: usize) {
        self.lose_all(queue, |copy| copy.holder.is_none());
    }

    pub(crate) fn delete(&mut self, queue: usize) {
        self.lose_all(queue, |_| true);
        (self.queues[queue].is_there, self.queues[queue].n_consumers) = (false, 0);
    }

    /// Deliveries that clients hold for which this is so, in order.
    pub(crate) fn held(&self, which: impl Fn(&Holder) -> bool) -> Vec<(usize, Name, Holder)> {
        let mut held = Vec::new();
        for (at, queue) in self.queues.iter().enumerate() {
            for (name, copy) in &queue.copies {
                held.extend(copy.holder.filter(|it| which(it)).map(|holder| (at, *name, holder)));
            }
        }
        held.sort_by_key(|(_, _, holder)| (holder.link, holder.position));
        held
    }

    pub(crate) fn holder(&mut self, queue: usize, name: Name) -> &mut Option<Holder> {
        &mut self.queues[queue].copies.get_mut(&name).unwrap().holder
    }

    /// Queues have a record now of what clients hold for which this is so.
    pub(crate) fn record(&mut self, which: impl Fn(&Holder) -> bool) {
        let copies = self.queues.iter_mut().flat_map(|queue| queue.copies.values_mut());
        for holder in copies.filter_map(|copy| copy.holder.as_mut()).filter(|it| which(it)) {
            holder.is_recorded = true;
        }
    }

    /// Deliveries that clients hold for which this is so are ready again.
    pub(crate) fn give_back(&mut self, which: impl Fn(&Holder) -> bool) {
        for copy in self.queues.iter_mut().flat_map(|queue| queue.copies.values_mut()) {
            copy.holder = copy.holder.filter(|holder| !which(holder));
        }
    }
}
