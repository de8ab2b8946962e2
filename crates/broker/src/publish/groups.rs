//! The messages of a batch by queue.

use meta::QueueId;
use queues::QueueRef;
use remote::RemoteQueue;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// Publishes for which an empty group keeps memory: more than one read holds.
pub(super) const KEPT_PUBLISHES: usize = 16 * 1024;

/// The messages of a batch that go to one queue.
#[derive(Debug)]
pub(super) struct Group {
    queue: Option<QueueRef>,
    /// Whether the queue answers publishers itself: once a consumer has had a message, or from another node.
    pub(super) on_consume: bool,
    pub(super) items: Vec<u32>,
}

impl Group {
    /// The queue; `None` in a group of an older batch.
    pub(super) const fn queue(&self) -> Option<&QueueRef> {
        self.queue.as_ref()
    }
}

/// The groups that the queues of a remembered route have in a batch.
#[derive(Debug, Default)]
pub(crate) struct BatchGroups {
    /// The number of that batch.
    batch: u64,
    groups: SmallVec<[u32; 2]>,
}

/// Groups of messages, each for a queue.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Rises from batch to batch: tells remembered groups of older batches apart.
    batch: u64,
    /// The groups of the batch, and behind them others whose memory is kept.
    all: Vec<Group>,
    n: usize,
    by_queue: HashMap<QueueId, u32>,
    /// Whether some of the queues are still being read after a start.
    any_loading: bool,
    /// Whether some of the queues confirm once a consumer has had a message.
    any_on_consume: bool,
    /// Whether no queue waits for its consumers, whatever the queues say.
    are_kept_at_once: bool,
}

impl Groups {
    pub(super) fn kept_at_once() -> Self {
        Self { are_kept_at_once: true, ..Self::default() }
    }

    /// Adds a message to the groups of these queues; `remembered` has the groups found before in this batch.
    #[inline]
    pub(super) fn add_remembered(
        &mut self,
        item: u32,
        queues: &[QueueRef],
        remembered: &mut BatchGroups,
    ) {
        // The number of the first batch is 1.
        if remembered.batch != self.batch + 1 {
            remembered.batch = self.batch + 1;
            remembered.groups.clear();
            remembered.groups.extend(queues.iter().map(|queue| self.group_for(queue)));
        }
        for group in &remembered.groups {
            self.add_to_group(item, *group);
        }
    }

    /// Adds a message to the groups of these queues.
    pub(super) fn add(&mut self, item: u32, queues: &[QueueRef]) {
        for queue in queues {
            let group = self.group_for(queue);
            self.add_to_group(item, group);
        }
    }

    #[inline]
    fn add_to_group(&mut self, item: u32, group: u32) {
        if let Some(group) = self.all.get_mut(group as usize) {
            group.items.push(item);
        }
    }

    fn group_for(&mut self, queue: &QueueRef) -> u32 {
        if let Some(group) = self.by_queue.get(&queue.id()) {
            return *group;
        }
        self.any_loading |= queue.is_loading();
        let on_consume = !self.are_kept_at_once
            && (queue.as_remote().is_some() || queue.confirm_on().waits_for_consumers());
        self.any_on_consume |= on_consume;
        if let Some(group) = self.all.get_mut(self.n) {
            group.queue = Some(queue.clone());
            group.on_consume = on_consume;
        } else {
            self.all.push(Group { queue: Some(queue.clone()), on_consume, items: Vec::new() });
        }
        let number = u32::try_from(self.n).expect("fewer than 2^32 queues");
        self.n += 1;
        self.by_queue.insert(queue.id(), number);
        number
    }

    pub(super) fn all(&self) -> &[Group] {
        self.all.get(..self.n).unwrap_or_default()
    }

    fn queues(&self) -> impl Iterator<Item = &QueueRef> {
        self.all().iter().filter_map(Group::queue)
    }

    /// Whether some of the queues confirm once a consumer has had a message.
    pub(super) const fn any_on_consume(&self) -> bool {
        self.any_on_consume
    }

    /// A queue that is still being read after a start.
    pub(super) fn loading(&self) -> Option<&QueueRef> {
        self.queues().filter(|_| self.any_loading).find(|queue| queue.is_loading())
    }

    /// A queue on another node that has not taken what was sent to it.
    pub(super) fn without_room(&self) -> Option<&Arc<RemoteQueue>> {
        let mut remote =
            self.queues().take_while(|_| self.any_on_consume).filter_map(QueueRef::as_remote);
        remote.find(|queue| !queue.has_room())
    }

    /// Whether one of the queues wants its publishers slowed down.
    pub(super) fn is_slowed_down(&self) -> bool {
        self.queues().any(|queue| queue.slows_down())
    }

    /// Ends the batch; what was allocated stays for the next, unless it was very large.
    pub(super) fn clear(&mut self) {
        for group in self.all.iter_mut().take(self.n) {
            group.queue = None;
            group.items.clear();
            group.items.shrink_to(KEPT_PUBLISHES);
        }
        self.n = 0;
        self.by_queue.clear();
        (self.any_loading, self.any_on_consume) = (false, false);
        self.batch += 1;
    }
}
