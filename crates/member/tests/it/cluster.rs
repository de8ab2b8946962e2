//! The scenario: clients that change definitions and propose numbers, and what must hold.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use amqp091::Table;
use bytes::Bytes;
use cluster::{GroupStep, Members, RaftGroup, Role, Ticket};
use log::{NodeNumber, Owner};
use meta::{Command, Name, NamedBy, QueueDeclare, QueueHome, VhostMetadata};
use testing::Random;
use testing::cluster_world::{Hosts, Scenario, Seat};
use testing::net::Address;

use crate::groups::{PlainGroup, Plan, peer_id};
use crate::ledger::{DEFINITIONS, Ledger, everything};
use crate::node::{MemberNode, node_at};

/// Groups beside that of the definitions.
const N_PLAIN: u64 = 8;
/// Names of queues, so few that clients meet.
const N_NAMES: usize = 6;

/// A cluster and its clients.
pub(crate) struct Cluster {
    n_nodes: usize,
    plan: Plan,
    pub(crate) ledger: Rc<RefCell<Ledger>>,
    next_proposal: u64,
    /// The number of checks there were: each looks at another group.
    n_checks: u64,
}

pub(crate) fn declare(name: &str) -> Command {
    Command::DeclareQueue(QueueDeclare {
        vhost: Name::from("/"),
        name: Name::from(name),
        named_by: NamedBy::Client,
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments: Table::new(),
        id: None,
        home: QueueHome::default(),
    })
}

pub(crate) fn create_vhost() -> Command {
    Command::CreateVhost { vhost: Name::from("/"), metadata: VhostMetadata::default() }
}

fn some_command(random: &mut Random) -> Command {
    let name = format!("q{}", random.below(N_NAMES));
    match random.below(10) {
        0..6 => declare(&name),
        6..9 => Command::DeleteQueue { vhost: Name::from("/"), name: Name::from(&*name), by: None },
        _ => create_vhost(),
    }
}

impl Cluster {
    /// A cluster whose nodes are all members of the definitions' group, and of others by chance.
    pub(crate) fn new(seed: u64, n_nodes: usize) -> Self {
        let (mut random, mut groups) = (Random::new(seed), BTreeMap::new());
        let numbers: Vec<_> = (0..n_nodes).map(node_at).collect();
        let all: Vec<_> = numbers.iter().copied().map(peer_id).collect();
        groups.insert(DEFINITIONS, Members { voters: all.clone(), ..Members::default() });
        for owner in 1..=N_PLAIN {
            let (mut voters, mut rest) = (Vec::new(), all.clone());
            let n = random.choose(&[1, 2, 3, 3, 3, n_nodes]).unwrap_or(3);
            while voters.len() < n {
                voters.push(rest.remove(random.below(rest.len())));
            }
            groups.insert(Owner(owner), Members { voters, ..Members::default() });
        }
        let plan = Plan { numbers, groups };
        Self { n_nodes, plan, ledger: Rc::default(), next_proposal: 1, n_checks: 0 }
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = Owner> + use<> {
        self.plan.groups.keys().copied().collect::<Vec<_>>().into_iter()
    }

    fn some_plain(random: &mut Random) -> Owner {
        Owner(1 + random.next() % N_PLAIN)
    }

    /// Has a node propose a number, the leader if one is there.
    pub(crate) fn propose(&mut self, hosts: &mut Hosts<MemberNode>, owner: Owner) {
        let leader = hosts.nodes().find(|(_, node)| node.groups.leads(owner)).map(|(at, _)| at);
        let at = leader.unwrap_or_else(|| hosts.any_address());
        let proposal = self.next_proposal;
        self.next_proposal += 1;
        hosts.with(at, |node, port| {
            let commands = Bytes::copy_from_slice(&proposal.to_le_bytes());
            let step = GroupStep::Propose(Ticket(proposal), commands);
            node.step_group(owner, step, port.now.monotonic_ms);
        });
    }

    /// Has all nodes be members of all groups, from the start.
    pub(crate) fn with_members_everywhere(mut self) -> Self {
        let all: Vec<_> = self.plan.numbers.iter().copied().map(peer_id).collect();
        self.plan.groups.values_mut().for_each(|members| members.voters.clone_from(&all));
        self
    }

    /// A node loses its disk: it is forgotten, and joins under a number that nobody had.
    pub(crate) fn lose_disk(&mut self, hosts: &mut Hosts<MemberNode>, place: usize) {
        let new = node_at(self.n_nodes);
        let old = std::mem::replace(&mut self.plan.numbers[place], new);
        for members in self.plan.groups.values_mut() {
            let voters = members.voters.iter_mut().filter(|voter| **voter == peer_id(old));
            voters.for_each(|voter| *voter = peer_id(new));
        }
        hosts.lose_disk(Address(place));
    }

    /// Has nodes know who has taken whose place.
    pub(crate) fn replace(hosts: &mut Hosts<MemberNode>, place: usize, numbers: [NodeNumber; 2]) {
        let [old, new] = numbers;
        for at in hosts.addresses().filter(|at| at.0 != place) {
            hosts.with(at, |node, port| node.replace(old, new, place, port.now.monotonic_ms));
        }
    }

    /// Has each group's leader take a step towards the members that it should have.
    pub(crate) fn change_members(&self, hosts: &mut Hosts<MemberNode>) {
        for owner in self.owners() {
            let leader = hosts.nodes().find(|(_, node)| node.groups.leads(owner));
            let next = leader.and_then(|(at, node)| {
                let members = node.groups.group(owner)?.members();
                Some((at, self.plan.next_change(owner, &members)?))
            });
            let Some((at, change)) = next else { continue };
            hosts.with(at, |node, port| {
                let step = GroupStep::Member(Ticket(0), change);
                node.step_group(owner, step, port.now.monotonic_ms);
            });
        }
    }

    /// Compares the logs of a group's replicas.
    fn check_logs(owner: Owner, hosts: &Hosts<MemberNode>) {
        let groups: Vec<&RaftGroup> =
            hosts.nodes().filter_map(|(_, node)| node.groups.group(owner)).collect();
        for (at, one) in groups.iter().enumerate() {
            for other in &groups[..at] {
                let (p, q) = (one.progress(), other.progress());
                let mut agree = false;
                for index in (p.image.max(q.image).max(1)..=p.last.min(q.last)).rev() {
                    let is_same = one.term_at(index) == other.term_at(index);
                    assert!(is_same || !agree, "logs of {owner:?} differ at {index}");
                    agree |= is_same;
                }
            }
        }
    }

    /// The reason why a group has not settled.
    pub(crate) fn unsettled(&self, owner: Owner, hosts: &Hosts<MemberNode>) -> Option<String> {
        let groups: Vec<&RaftGroup> =
            hosts.nodes().filter_map(|(_, node)| node.groups.group(owner)).collect();
        let n_leaders = groups.iter().filter(|group| group.role() == Role::Leader).count();
        let leader = groups.first().and_then(|group| group.leader());
        let is_known = leader.is_some() && groups.iter().all(|group| group.leader() == leader);
        let progress: Vec<_> = groups.iter().map(|group| group.progress()).collect();
        let first = progress.first()?;
        let is_same = progress.iter().all(|it| (it.applied, it.last) == (first.last, first.last));
        let has_settled = n_leaders == 1 && is_known && is_same;
        (!has_settled).then(|| {
            let leaders: Vec<_> =
                groups.iter().map(|group| (group.leader(), group.term())).collect();
            format!("{owner:?}: {n_leaders} leaders, {leaders:?}, {progress:?}")
        })
    }

    pub(crate) fn check_end(&self, hosts: &Hosts<MemberNode>) {
        let ledger = self.ledger.borrow();
        let states: Vec<_> =
            hosts.nodes().map(|(_, node)| node.groups.definitions.definitions()).collect();
        let equal = states.iter().all(|state| everything(state) == everything(states[0]));
        assert!(equal, "definitions differ");
        ledger.check_definitions(states[0]);
        for owner in self.owners().filter(|owner| *owner != DEFINITIONS) {
            let mut plain = hosts.nodes().filter_map(|(_, node)| node.groups.plain.get(&owner));
            let PlainGroup { machine, .. } = plain.next().unwrap();
            assert!(plain.all(|it| it.machine == *machine), "machines of {owner:?} differ");
            ledger.check_machine(owner, machine);
        }
    }
}

impl Scenario for Cluster {
    type Node = MemberNode;

    fn start(&mut self, seat: &Seat<'_>) -> Result<MemberNode, String> {
        MemberNode::start(seat, &self.plan, &self.ledger)
    }

    fn act(&mut self, hosts: &mut Hosts<MemberNode>) {
        let (at, owner) = (hosts.any_address(), Self::some_plain(&mut hosts.random));
        let what = hosts.random.below(100);
        match what {
            0..50 => self.propose(hosts, owner),
            50..85 => {
                let n = 1 + hosts.random.below(2);
                let commands = (0..n).map(|_| some_command(&mut hosts.random)).collect();
                let wait_ms = 500 + hosts.random.below(10_000) as u64;
                hosts.with(at, |node, port| {
                    node.client_asks(commands, wait_ms, port.now.monotonic_ms)
                });
            }
            _ => {
                let owner = Owner(hosts.random.next() % (N_PLAIN + 1));
                let to = peer_id(node_at(hosts.random.below(self.n_nodes)));
                hosts.with(at, |node, port| match what {
                    85..91 => node.take_image(owner, port.now.monotonic_ms),
                    91..95 => node.step_group(owner, GroupStep::Tick, port.now.monotonic_ms),
                    95..97 => {
                        node.step_group(owner, GroupStep::Transfer(to), port.now.monotonic_ms);
                    }
                    _ => node.step_group(owner, GroupStep::Campaign, port.now.monotonic_ms),
                });
            }
        }
    }

    fn check(&mut self, hosts: &Hosts<MemberNode>) -> Result<(), String> {
        self.n_checks += 1;
        Self::check_logs(Owner(self.n_checks % (N_PLAIN + 1)), hosts);
        Ok(())
    }

    fn check_settled(&mut self, hosts: &Hosts<MemberNode>) -> Result<(), String> {
        if hosts.nodes().count() < self.n_nodes {
            return Err("nodes are down".to_owned());
        }
        if let Some((at, _)) = hosts.nodes().find(|(_, node)| node.n_waiting > 0) {
            return Err(format!("clients of {at} wait"));
        }
        if let Some(lack) = self.owners().find_map(|owner| self.unsettled(owner, hosts)) {
            return Err(lack);
        }
        self.check_end(hosts);
        Ok(())
    }
}
