//! The record of all nodes of a world: what they said and did, checked after each step and at the end.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cluster::{Committed, Message, MessageBody, PeerId, RaftGroup};
use definitions::{AskError, Decision, DefinitionsChange, Reply, RequestId};
use log::{NodeNumber, Owner};
use meta::{Command, Done, Fact, SnapshotOf, State};

/// The group of the definitions.
pub(crate) const DEFINITIONS: Owner = Owner(0);

/// Counts of events, to see that they happen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) starts: u64,
    pub(crate) links_made: u64,
    pub(crate) suspected: u64,
    pub(crate) stuck: u64,
    pub(crate) elections: u64,
    pub(crate) images: u64,
    pub(crate) restored: u64,
    pub(crate) acked: u64,
    pub(crate) done: u64,
    pub(crate) was_done: u64,
    pub(crate) no_leader: u64,
    pub(crate) timed_out: u64,
}

impl Counts {
    /// Adds the counts of another run.
    pub(crate) const fn add(&mut self, other: Self) {
        self.starts += other.starts;
        self.links_made += other.links_made;
        self.suspected += other.suspected;
        self.stuck += other.stuck;
        self.elections += other.elections;
        self.images += other.images;
        self.restored += other.restored;
        self.acked += other.acked;
        self.done += other.done;
        self.was_done += other.was_done;
        self.no_leader += other.no_leader;
        self.timed_out += other.timed_out;
    }
}

/// A group's history.
#[derive(Debug, Default)]
struct GroupHistory {
    /// Entries as they were first applied.
    entries: BTreeMap<u64, (u64, Bytes)>,
    leaders: BTreeMap<u64, PeerId>,
    votes: BTreeMap<(PeerId, u64), PeerId>,
    /// The highest term that others have heard of a replica.
    told_terms: BTreeMap<PeerId, u64>,
    acked: BTreeSet<u64>,
}

/// The world's memory.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    groups: BTreeMap<Owner, GroupHistory>,
    changes: BTreeMap<u64, Vec<(RequestId, Vec<Fact>)>>,
    pub(crate) told: Vec<(RequestId, Result<Reply, AskError>)>,
    /// The newest life of each node.
    boots: BTreeMap<NodeNumber, u32>,
    /// The highest index that a client was told when an ask was made: its answer is not older.
    floors: BTreeMap<RequestId, u64>,
    told_index: u64,
    pub(crate) counts: Counts,
}

impl Ledger {
    /// Begins a life of a node.
    pub(crate) fn start(&mut self, node: NodeNumber) -> u32 {
        let boot = self.boots.entry(node).or_default();
        *boot += 1;
        self.counts.starts += 1;
        *boot
    }

    /// A client has asked for a change.
    pub(crate) fn asked(&mut self, request: RequestId) {
        self.floors.insert(request, self.told_index);
    }

    /// A replica goes on after a start.
    pub(crate) fn recovered(&self, owner: Owner, group: &RaftGroup) {
        let told = self.groups.get(&owner).and_then(|it| it.told_terms.get(&group.me()));
        assert!(group.term() >= told.copied().unwrap_or(0), "{:?} forgot its term", group.me());
    }

    /// A message has arrived.
    pub(crate) fn heard(&mut self, owner: Owner, message: &Message) {
        let history = self.groups.entry(owner).or_default();
        let Message { from, to, term, body } = message;
        let is_pre = matches!(
            body,
            MessageBody::Vote { is_pre: true, .. } | MessageBody::Voted { is_pre: true, .. }
        );
        if is_pre {
            return;
        }
        if matches!(body, MessageBody::Append { .. } | MessageBody::Heartbeat { .. }) {
            self.counts.elections += u64::from(!history.leaders.contains_key(term));
            let leader = history.leaders.entry(*term).or_insert(*from);
            assert_eq!(leader, from, "two lead {owner:?} in term {term}");
        }
        if matches!(body, MessageBody::Voted { is_granted: true, .. }) {
            let vote = history.votes.entry((*from, *term)).or_insert(*to);
            assert_eq!(vote, to, "{from:?} votes twice in term {term}");
        }
        let told = history.told_terms.entry(*from).or_default();
        *told = term.max(told).to_owned();
    }

    /// A replica has applied an entry.
    pub(crate) fn applied(&mut self, owner: Owner, entry: &Committed) {
        let history = self.groups.entry(owner).or_default();
        let here = (entry.term, entry.commands.clone());
        let there = history.entries.entry(entry.index).or_insert_with(|| here.clone());
        assert_eq!(*there, here, "entry {} of {owner:?} is committed twice", entry.index);
    }

    /// A proposal was answered as committed.
    pub(crate) fn acked(&mut self, owner: Owner, proposal: u64) {
        self.counts.acked += 1;
        let history = self.groups.entry(owner).or_default();
        assert!(history.acked.insert(proposal), "proposal {proposal} is answered twice");
    }

    /// A node has applied changes of definitions.
    pub(crate) fn changed(&mut self, changes: Vec<DefinitionsChange>) {
        let mut by_index: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for DefinitionsChange { index, request, facts, .. } in changes {
            by_index.entry(index).or_default().push((request, facts));
        }
        for (index, here) in by_index {
            let there = self.changes.entry(index).or_insert_with(|| here.clone());
            assert_eq!(*there, here, "definitions differ at {index}");
        }
    }

    /// A client was given a result.
    pub(crate) fn tell_client(&mut self, request: RequestId, result: Result<Reply, AskError>) {
        let counter = match &result {
            Ok(Reply { decision: Decision::WasDone, .. }) => &mut self.counts.was_done,
            Ok(_) => &mut self.counts.done,
            Err(AskError::NoLeader) => &mut self.counts.no_leader,
            Err(_) => &mut self.counts.timed_out,
        };
        *counter += 1;
        if let Ok(Reply { index, .. }) = &result {
            assert!(*index >= self.floors[&request], "{request:?} has an answer of an old state");
            self.told_index = self.told_index.max(*index);
        }
        self.told.push((request, result));
    }

    /// Checks a machine at the end, when all are equal.
    pub(crate) fn check_machine(&self, owner: Owner, machine: &[u64]) {
        let there: BTreeSet<_> = machine.iter().copied().collect();
        assert_eq!(there.len(), machine.len(), "a proposal of {owner:?} is there twice");
        let acked = self.groups.get(&owner).map(|it| &it.acked).into_iter().flatten();
        let lost: Vec<_> = acked.filter(|it| !there.contains(it)).collect();
        assert!(
            lost.is_empty(),
            "{owner:?}: {lost:?} were answered as committed, there is {machine:?}"
        );
    }

    /// Checks the definitions at the end, when all are equal.
    pub(crate) fn check_definitions(&self, definitions: &State) {
        let (mut replayed, mut done) = (State::new(), BTreeSet::new());
        for (request, facts) in self.changes.values().flatten() {
            assert!(done.insert(*request), "{request:?} is done twice");
            for Fact { command, .. } in facts {
                replayed.replay(command).unwrap();
            }
        }
        assert_eq!(everything(&replayed), everything(definitions));
        for (request, result) in &self.told {
            let is_done = done.contains(request);
            match result {
                Ok(Reply { decision: Decision::Done(what), .. }) => {
                    let is_change = what.iter().any(Done::is_change);
                    assert_eq!(is_done, is_change, "{request:?} was told {what:?}");
                }
                Ok(Reply { decision: Decision::WasDone, .. }) => assert!(is_done, "{request:?}"),
                Ok(Reply { decision: Decision::Refused(refusal), .. }) => {
                    assert!(!is_done, "{request:?} was refused: {refusal}");
                }
                Err(AskError::NoLeader | AskError::Full) => {
                    assert!(!is_done, "{request:?} is done without a leader");
                }
                Err(AskError::TimedOut) => {}
            }
        }
    }

    /// How often the changes of definitions contain a queue of this name.
    pub(crate) fn n_declared(&self, name: &str) -> usize {
        let facts = self.changes.values().flatten().flat_map(|(_, facts)| facts);
        let is_it =
            |fact: &&Fact| matches!(&fact.command, Command::DeclareQueue(it) if &*it.name == name);
        facts.filter(is_it).count()
    }
}

pub(crate) fn everything(state: &State) -> Vec<u8> {
    let mut out = Vec::new();
    state.snapshot(SnapshotOf::Everything, &mut out);
    out
}
