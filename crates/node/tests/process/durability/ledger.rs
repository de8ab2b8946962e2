//! The clients' knowledge of their messages, and what a restarted node must therefore hold.

use amqp091::{Properties, ShortString};
use std::collections::{BTreeMap, BTreeSet};

/// Queues `durable-0` and on.
pub(super) const N_QUEUES: usize = 20;
/// Whatever is published to [`FANOUT`] goes to these.
pub(super) const COPIES: [usize; 4] = [10, 11, 12, 13];
/// The exchange bound to them.
pub(super) const FANOUT: &str = "durable-copies";
/// Emptied now and then.
pub(super) const PURGED: usize = 14;
/// Queues below have consumers now and then, the others get deep.
pub(super) const N_CONSUMED: usize = 12;

/// Sizes of most bodies: around the limit from which bodies are kept apart from their queues.
const SIZES: [usize; 7] = [0, 12, 4095, 4096, 4097, 5000, 70_000];

pub(super) fn queue_name(queue: usize) -> String {
    format!("durable-{queue}")
}

/// Publisher (over all rounds) and number.
pub(super) type Id = (u32, u64);

/// A body that no other message has at any byte offset.
pub(super) fn body(id: Id, size: usize) -> Vec<u8> {
    let mut word = (u64::from(id.0) << 40 ^ id.1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut body = Vec::with_capacity(size + 8);
    while body.len() < size {
        body.extend_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(0xBF58_476D_1CE4_E5B9);
    }
    body.truncate(size);
    body
}

/// The size of a body, large ones rarely.
pub(super) fn size(random: &mut super::Random) -> usize {
    match random.below(40) {
        0..4 => random.below(20_000) >> random.below(12),
        4 => SIZES[6],
        _ => SIZES[random.below(6)],
    }
}

pub(super) fn properties(id: Id, persistent: bool) -> Properties {
    let message_id = ShortString::new(format!("{}.{}", id.0, id.1)).unwrap();
    let delivery_mode = Some(if persistent { 2 } else { 1 });
    Properties { message_id: Some(message_id), delivery_mode, ..Properties::default() }
}

fn id_of(properties: &[u8]) -> Id {
    let properties = amqp091::PropertiesRef::parse(properties).unwrap();
    let id = std::str::from_utf8(properties.message_id().unwrap()).unwrap();
    let (publisher, number) = id.split_once('.').unwrap();
    (publisher.parse().unwrap(), number.parse().unwrap())
}

/// A message in one queue.
#[expect(clippy::struct_excessive_bools, reason = "each is true or not, whatever the others are")]
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    size: usize,
    persistent: bool,
    /// Came over AMQP 1.0: consumers of AMQP 0-9-1 see its properties converted.
    is_of_amqp10: bool,
    confirmed: bool,
    /// Acknowledged by a consumer; the node may not have read it, or not have kept it.
    acked: bool,
    /// Given to a client.
    delivered: bool,
    /// The number of times its queue's purging had begun or ended.
    purges: u64,
}

/// A delivery, as far as the ledger is concerned.
pub(super) struct Delivery<'a> {
    pub(super) queue: usize,
    pub(super) redelivered: bool,
    pub(super) properties: &'a [u8],
    pub(super) body: &'a [u8],
}

/// Counts over all rounds.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) published: u64,
    pub(super) confirmed: u64,
    pub(super) delivered: u64,
    pub(super) acked: u64,
    pub(super) requeued: u64,
    pub(super) purges: u64,
    /// Messages read back after restarts, and their bytes.
    pub(super) read_back: u64,
    pub(super) read_back_bytes: u64,
    /// Acknowledged before the end and there after it: allowed, since nobody confirms an ack.
    pub(super) acks_lost: u64,
}

/// Published and not known to be gone, by queue.
#[derive(Default)]
pub(super) struct Ledger {
    queues: [BTreeMap<Id, Entry>; N_QUEUES],
    /// Odd while a purge is under way.
    purges: u64,
    /// The node has been told to end: it may leave acks unread, and give what they were for to others.
    pub(super) is_ending: bool,
    /// Every second queue is a quorum queue.
    pub(super) any_quorum: bool,
    pub(super) counts: Counts,
}

impl Ledger {
    /// Whether the queue keeps transient messages too, gives those that came back first, and counts them.
    pub(super) const fn is_quorum(&self, queue: usize) -> bool {
        self.any_quorum && queue.is_multiple_of(2)
    }

    /// Before it is sent.
    pub(super) fn published(&mut self, queues: &[usize], id: Id, size: usize, persistent: bool) {
        self.insert(queues, id, Entry { size, persistent, ..Entry::default() });
    }

    /// As [`Self::published`], over AMQP 1.0.
    pub(super) fn published_sections(
        &mut self,
        queues: &[usize],
        id: Id,
        size: usize,
        persistent: bool,
    ) {
        let is_of_amqp10 = true;
        self.insert(queues, id, Entry { size, persistent, is_of_amqp10, ..Entry::default() });
    }

    fn insert(&mut self, queues: &[usize], id: Id, entry: Entry) {
        self.counts.published += 1;
        let entry = Entry { purges: self.purges, ..entry };
        for &queue in queues {
            assert!(self.queues[queue].insert(id, entry).is_none(), "{id:?} is published twice");
        }
    }

    pub(super) fn confirmed(&mut self, queues: &[usize], id: Id) {
        self.counts.confirmed += 1;
        for &queue in queues {
            self.queues[queue].get_mut(&id).unwrap().confirmed = true;
        }
    }

    /// Checks a delivery between restarts. Which message it is.
    pub(super) fn delivered(&mut self, delivery: &Delivery<'_>) -> Id {
        let is_ending = self.is_ending;
        let (id, entry) = self.find(delivery);
        let is_back = std::mem::take(&mut entry.acked);
        assert!(is_ending || !is_back, "{id:?} is delivered though it was acknowledged");
        // Connections end in any order: who was given it first may read it last, or never.
        let is_marked = is_ending || delivery.redelivered == entry.delivered;
        assert!(is_marked, "{id:?}: the mark of a redelivery is {}", delivery.redelivered);
        entry.delivered = true;
        self.counts.delivered += 1;
        self.counts.acks_lost += u64::from(is_back);
        id
    }

    /// Before the ack is sent.
    pub(super) fn acked(&mut self, queue: usize, id: Id) {
        self.counts.acked += 1;
        self.queues[queue].get_mut(&id).unwrap().acked = true;
    }

    /// Before the purge is sent, and once it is answered.
    pub(super) fn purges(&mut self) {
        self.purges += 1;
        self.counts.purges += self.purges % 2;
    }

    fn find(&mut self, delivery: &Delivery<'_>) -> (Id, &mut Entry) {
        let id = id_of(delivery.properties);
        let (queue, is_quorum) = (delivery.queue, self.is_quorum(delivery.queue));
        let Some(entry) = self.queues[queue].get_mut(&id) else {
            panic!("a phantom in queue {queue}: {id:?}")
        };
        let are_the_same = delivery.properties == properties(id, entry.persistent).to_bytes();
        let may_differ = entry.is_of_amqp10 || (is_quorum && delivery.redelivered);
        assert!(are_the_same || may_differ, "{id:?}");
        let is_whole = delivery.body == body(id, entry.size);
        assert!(is_whole, "{id:?} of {} bytes is damaged in queue {queue}", entry.size);
        (id, entry)
    }

    /// The content of a queue after a restart is being read.
    pub(super) fn read_back(&mut self, queue: usize) -> ReadBack<'_> {
        ReadBack { queue, found: BTreeSet::new(), last: BTreeMap::new(), ledger: self }
    }
}

/// One queue's content after a restart, in order.
pub(super) struct ReadBack<'a> {
    ledger: &'a mut Ledger,
    queue: usize,
    found: BTreeSet<Id>,
    last: BTreeMap<u32, u64>,
}

impl ReadBack<'_> {
    pub(super) fn found(&mut self, delivery: &Delivery<'_>) {
        let queue = self.queue;
        let is_quorum = self.ledger.is_quorum(queue);
        let (id, entry) = self.ledger.find(delivery);
        assert!(entry.persistent || is_quorum, "{id:?} in queue {queue} is transient and survived");
        let is_marked = delivery.redelivered || !entry.delivered;
        assert!(is_marked, "{id:?} in queue {queue} is not marked as redelivered");
        let is_back = std::mem::take(&mut entry.acked);
        // It was read from the disk, so it stays there.
        (entry.confirmed, entry.delivered) = (true, true);
        assert!(self.found.insert(id), "{id:?} is twice in queue {queue}");
        let before = self.last.insert(id.0, id.1);
        let is_behind = before.is_some_and(|before| before > id.1);
        assert!(!is_behind || is_quorum, "{id:?} is behind {before:?}");
        let counts = &mut self.ledger.counts;
        counts.read_back += 1;
        counts.read_back_bytes += delivery.body.len() as u64;
        counts.acks_lost += u64::from(is_back);
    }

    /// Everything is read: how many are lost. What was not found is forgotten.
    pub(super) fn end(self, is_kept: bool) -> usize {
        let purges = if self.queue == PURGED { Some(self.ledger.purges) } else { None };
        let keeps_all = self.ledger.is_quorum(self.queue);
        let must_be_there = |entry: &Entry| {
            let may_be_purged = purges.is_some_and(|now| entry.purges != now || now % 2 > 0);
            let is_kept = entry.persistent || keeps_all;
            is_kept && entry.confirmed && !entry.acked && !may_be_purged
        };
        let entries = &mut self.ledger.queues[self.queue];
        let missing = entries.iter().filter(|(id, _)| !self.found.contains(id));
        let lost: Vec<_> = missing.filter(|(_, entry)| must_be_there(entry)).collect();
        if !lost.is_empty() {
            let some: Vec<_> = lost.iter().take(5).collect();
            eprintln!("queue {}: {} lost, the first: {some:?}", self.queue, lost.len());
        }
        let n_lost = lost.len();
        entries.retain(|id, _| self.found.contains(id));
        if !is_kept {
            // Nobody is told when it is durable that they were taken: a journal is synced 200 ms later.
            entries.values_mut().for_each(|entry| entry.acked = true);
        }
        n_lost
    }
}
