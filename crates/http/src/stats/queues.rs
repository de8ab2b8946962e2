//! Queues as they were at the last look, and the sums of each virtual host's. Only those that were used since
//! are looked at.

use super::{QueueLook, QueueSums, READY, of_queue};
use broker::Broker;
use control::View;
use meta::{Name, QueueId, QueueKind};
use queues::QueueRef;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

/// All queues that were ever used, as they were last.
#[derive(Debug, Default)]
pub(super) struct Queues {
    known: HashMap<QueueId, Known>,
    sums: BTreeMap<Name, QueueSums>,
    /// Queues that have changed since the last [`Self::take_changed`].
    changed: HashSet<QueueId>,
    streams: Vec<QueueRef>,
    /// The version of the view at the last look.
    version: u64,
    /// Queues up to an id were there by a time: ids rise.
    there: Vec<(QueueId, u64)>,
}

/// Times that are told apart by which queues came.
const TIMES_MAX: usize = 1_024;

#[derive(Debug)]
struct Known {
    vhost: Name,
    kind: QueueKind,
    look: QueueLook,
    changed_ms: u64,
}

/// A queue as a look saw it.
pub(super) struct SeenQueue {
    pub(super) id: QueueId,
    pub(super) kind: QueueKind,
    pub(super) look: QueueLook,
}

impl Queues {
    pub(super) fn look(&mut self, broker: &Broker, now_ms: u64) {
        let view = broker.view();
        if self.version != view.version() {
            self.follow(&view);
            self.note_there(view.queues().map(QueueRef::id).max(), now_ms);
        }
        let used = broker.figures().used_queues(&view);
        let streams = std::mem::take(&mut self.streams);
        for queue in used.iter().chain(&streams) {
            let def = queue.def();
            if !def.is_internal() {
                let (id, kind, look) = (queue.id(), def.kind, of_queue(&queue.local_stat()));
                self.note(&def.vhost, SeenQueue { id, kind, look }, now_ms);
            }
        }
        self.streams = streams;
    }

    fn note(&mut self, vhost: &Name, seen: SeenQueue, now_ms: u64) {
        let SeenQueue { id, kind, look: now } = seen;
        let nothing = QueueLook::default();
        let known = match self.known.entry(id) {
            Entry::Vacant(_) if now == nothing => return,
            Entry::Vacant(it) => {
                it.insert(Known { vhost: vhost.clone(), kind, look: nothing, changed_ms: now_ms })
            }
            Entry::Occupied(it) => it.into_mut(),
        };
        if known.look == now {
            return;
        }
        let sums = self.sums.entry(vhost.clone()).or_default();
        subtract(sums, &summed(kind, &known.look));
        super::add(sums, &summed(kind, &now));
        (known.look, known.changed_ms) = (now, now_ms);
        self.changed.insert(id);
    }

    /// Notes the highest id of a queue now.
    fn note_there(&mut self, id: Option<QueueId>, now_ms: u64) {
        if id > self.there.last().map(|(upto, _)| *upto) {
            self.there.extend(id.map(|id| (id, now_ms)));
        }
        if self.there.len() > TIMES_MAX {
            // The later of two times counts.
            let every_other = std::mem::take(&mut self.there).into_iter().step_by(2);
            self.there.extend(every_other);
        }
    }

    /// Since when nothing of a queue has changed, or it is there: at the latest, and to a second as a rule.
    pub(super) fn idle_since_ms(&self, id: QueueId) -> Option<u64> {
        let n_before = self.there.partition_point(|(upto, _)| *upto < id);
        let there_ms = self.there.get(n_before).map(|(_, at_ms)| *at_ms);
        self.known.get(&id).map(|it| it.changed_ms).or(there_ms)
    }

    /// Follows a change of definitions: forgets queues and virtual hosts that are gone.
    fn follow(&mut self, view: &View) {
        self.version = view.version();
        self.streams = view.streams().cloned().map(QueueRef::from).collect();
        let sums = &mut self.sums;
        self.known.retain(|id, known| {
            let is_there = view.queue_by_id(*id).is_some();
            if !is_there && let Some(sums) = sums.get_mut(&known.vhost) {
                subtract(sums, &summed(known.kind, &known.look));
            }
            is_there
        });
        sums.retain(|vhost, _| view.meta.vhost(vhost).is_some());
    }

    pub(super) fn sums(&self) -> impl Iterator<Item = (&Name, &QueueSums)> {
        self.sums.iter()
    }

    pub(super) fn has(&self, id: QueueId) -> bool {
        self.known.contains_key(&id)
    }

    /// Takes the queues that have changed since the last call.
    pub(super) fn take_changed(&mut self) -> Vec<SeenQueue> {
        let changed = std::mem::take(&mut self.changed).into_iter();
        let seen = |id| {
            let Known { kind, look, .. } = *self.known.get(&id)?;
            Some(SeenQueue { id, kind, look })
        };
        changed.filter_map(seen).collect()
    }
}

/// A queue's part of the sums.
fn summed(kind: QueueKind, look: &QueueLook) -> QueueSums {
    let [a, b, c, d, e, f, g, h, ready, unacked] = *look;
    let in_stream = if kind == QueueKind::Stream { ready } else { 0 };
    [a, b, c, d, e, f, g, h, ready, unacked, in_stream]
}

fn subtract(sums: &mut QueueSums, less: &QueueSums) {
    sums.iter_mut().zip(less).for_each(|(sum, less)| *sum -= less);
}

/// Messages that a queue holds.
pub(super) fn n_messages(look: &QueueLook) -> u64 {
    look.get(READY..).unwrap_or_default().iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever changes, the sums are those of the last looks.
        #[test]
        fn sums_follow_what_changes(
            steps in prop::collection::vec((0..5u64, 0..3u8, any::<[u8; 10]>()), 1..100),
        ) {
            let (mut queues, mut model) = (Queues::default(), HashMap::new());
            let mut changed_ms = HashMap::new();
            let kind = |id| if id == 0 { QueueKind::Stream } else { QueueKind::Classic };
            for (now_ms, (id, vhost, look)) in (1..).zip(steps) {
                let vhost = Name::from(format!("{id}{vhost}").get(..1).unwrap());
                let look = look.map(u64::from);
                queues.note_there(Some(QueueId(id)), now_ms);
                queues.note(&vhost, SeenQueue { id: QueueId(id), kind: kind(id), look }, now_ms);
                if model.insert(id, look) != Some(look) {
                    changed_ms.insert(id, now_ms);
                }
                for (id, at_ms) in &changed_ms {
                    prop_assert_eq!(queues.idle_since_ms(QueueId(*id)), Some(*at_ms));
                }
                let mut expected = QueueSums::default();
                for (id, look) in &model {
                    super::super::add(&mut expected, &summed(kind(*id), look));
                }
                let mut sums = QueueSums::default();
                queues.sums().for_each(|(_, look)| super::super::add(&mut sums, look));
                prop_assert_eq!(sums, expected);
            }
            let n_changed = queues.take_changed().len();
            prop_assert!(n_changed <= model.len() && queues.take_changed().is_empty());
        }
    }
}
