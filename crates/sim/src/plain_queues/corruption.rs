//! Corruption: one bit of a file is flipped. No client gets anything that was not published; the loss
//! is one message or one page, and is reported.

use super::PlainQueues;
use crate::harness::FIRST;
use crate::model::Found;
use crate::node::{Node, SingleClient};
use std::collections::{BTreeMap, BTreeSet};
use testing::run::fail;
use testing::{CrashOutcome, MemoryDisk};

/// Words of which a refused start's error has at least one.
const REASONS: &[&str] =
    &["corrupt", "format version", "not a snapshot", "was refused", "are lost", "is missing"];

/// The messages of each queue, in order.
type Content = BTreeMap<String, Vec<u64>>;

/// The loss that one flipped bit may cause.
enum Cost {
    /// A start may refuse the log or the definitions, or take the end of the log for a write that
    /// power was lost in.
    Anything,
    /// Neighbours in one queue, or those of them that are nowhere else.
    Page,
    /// In all queues that have it.
    Message,
}

impl PlainQueues {
    /// Looks at a start on a damaged copy of a disk, on which the queues have what was `found`.
    pub(super) fn damage_start(&mut self, disk: &MemoryDisk, found: &BTreeMap<String, Found>) {
        let copy = disk.survive(CrashOutcome::Everything);
        let Some(cost) = self.flip_some_bit(&copy, &["swap/"]) else { return };
        let node = match Node::open_loaded(&copy, &self.harness.host(FIRST).options) {
            Ok(node) => node,
            Err(error) if REASONS.iter().any(|reason| error.contains(reason)) => {
                return self.harness.note(format!("the start says: {error}"));
            }
            Err(error) => fail(format!("damage is told as: {error}")),
        };
        let Ok(mut client) = SingleClient::new(node) else {
            // What was changed last is taken for a write that power was lost in: also the first user.
            return self.harness.note("nobody may log in");
        };
        let ids = |found: &Found| found.iter().map(|(id, _)| *id).collect();
        let before = found.iter().map(|(name, found)| (name.clone(), ids(found))).collect();
        self.check_damaged(&mut client, &cost, &before);
    }

    /// The end of a run: a bit is flipped under the running node, then everything is taken out.
    pub(super) fn damage_end(&mut self) {
        if !self.leave_all() {
            return;
        }
        if self.harness.random.percent(70) {
            self.page_all();
        }
        let disk = self.harness.host(FIRST).disk.clone();
        let Some(cost) = self.flip_some_bit(&disk, &["wal/", "definitions"]) else { return };
        let ids = |queue: &crate::model::Queue| queue.messages.values().map(|one| one.id).collect();
        let queues = self.model.queues.iter();
        let before = queues.map(|(name, queue)| (name.clone(), ids(queue))).collect();
        let Some(node) = self.harness.host_mut(FIRST).node.take() else { return };
        let failed = std::sync::Arc::clone(&node.failed);
        let has_failed = || failed.load(std::sync::atomic::Ordering::SeqCst);
        match SingleClient::new(node) {
            Ok(mut client) => self.check_damaged(&mut client, &cost, &before),
            Err(_) if has_failed() => {}
            Err(error) => fail(error),
        }
    }

    /// Flips a bit of any file that has something in it and is none of `spared`.
    fn flip_some_bit(&mut self, disk: &MemoryDisk, spared: &[&str]) -> Option<Cost> {
        let is_spared = |name: &str| spared.iter().any(|spared| name.starts_with(spared));
        let file = self.harness.flip_some_bit(disk, |name| !is_spared(name))?;
        Some(match file.split('/').next() {
            Some("pages" | "swap" | "queues") => Cost::Page,
            Some("vhosts") => Cost::Message,
            Some(_) | None => Cost::Anything,
        })
    }

    /// Takes everything out, and compares with what was there `before`.
    fn check_damaged(&mut self, client: &mut SingleClient, cost: &Cost, before: &Content) {
        let mut lost = BTreeMap::new();
        for (name, before) in before {
            let Some(left) = self.take_damaged(client, name) else { return };
            let gone: Vec<usize> = (0..before.len())
                .filter(|at| before.get(*at).is_some_and(|id| !left.contains(id)))
                .collect();
            if !gone.is_empty() {
                lost.insert(name, gone);
            }
        }
        if lost.is_empty() || matches!(cost, Cost::Anything) {
            return;
        }
        self.harness.note(format!("lost: {lost:?}"));
        let broker = &client.node.broker;
        let losses = broker.figures().losses();
        if losses.of_queues.n_messages + losses.of_queues.n_unreadable == 0 {
            fail(format!("nobody is told what is lost: {lost:?}"));
        }
        let is_little = match cost {
            Cost::Anything => true,
            Cost::Page => {
                let is_page = |(name, gone): (&&String, &Vec<usize>)| {
                    before.get(*name).is_some_and(|before| self.is_page(before, gone))
                };
                lost.len() == 1 && lost.iter().all(is_page)
            }
            Cost::Message => {
                let id = |name: &str, at: &usize| before.get(name)?.get(*at).copied();
                let ids = lost.iter().flat_map(|(name, gone)| gone.iter().map(|at| id(name, at)));
                ids.collect::<BTreeSet<_>>().len() == 1
            }
        };
        if !is_little {
            fail(format!("one bit has cost {lost:?}"));
        }
    }

    /// The messages of a queue, each as it was published. `None` if the disk fails meanwhile.
    fn take_damaged(&mut self, client: &mut SingleClient, name: &str) -> Option<BTreeSet<u64>> {
        let mut left = BTreeSet::new();
        loop {
            let given = match client.get(name) {
                Ok(Some(given)) => given,
                Ok(None) => return Some(left),
                Err(_) if client.node.failed.load(std::sync::atomic::Ordering::SeqCst) => {
                    return None;
                }
                Err(error) => fail(error),
            };
            let published = given.content.id().and_then(|id| self.model.published.get(&id));
            if published != Some(&given.content) {
                fail(format!("{name} gives what nobody published: {:?}", given.content));
            }
            left.extend(given.content.id());
        }
    }
}

impl PlainQueues {
    /// Whether what is gone were neighbours, but for persistent ones, which a journal may have too.
    fn is_page(&self, before: &[u64], gone: &[usize]) -> bool {
        let [first, .., last] = gone else { return true };
        let is_kept_twice =
            |id: &u64| self.model.published.get(id).is_some_and(|one| one.persistent);
        (*first..=*last)
            .filter(|at| !gone.contains(at))
            .all(|at| before.get(at).is_some_and(is_kept_twice))
    }
}
