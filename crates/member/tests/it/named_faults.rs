//! Faults by name: what a cluster does about each of them, by itself and in time.

use cluster::Role;
use definitions::{AskError, Decision, Reply, RequestId};
use log::Owner;
use peer::ConnectionKind;
use testing::cluster_world::{World, WorldOptions};
use testing::net::{Address, Death, Speed};
use testing::run::Show;

use crate::cluster::{Cluster, create_vhost, declare};
use crate::ledger::DEFINITIONS;
use crate::node::node_at;

type TestWorld = World<Cluster>;

/// The time that a cluster has to be as it was before.
const RECOVERY_MS: u64 = 10_000;
const SEEDS: u64 = 4;

/// A world of nodes that have been connected for a while.
fn whole_world(seed: u64) -> TestWorld {
    whole_world_of(seed, Cluster::new(seed, 3))
}

fn whole_world_of(seed: u64, cluster: Cluster) -> TestWorld {
    let options = WorldOptions {
        start_faults_percent: 0,
        down_ms_max: 3_000,
        skew_ms_max: 100,
        ..WorldOptions::default()
    };
    let mut world = World::new(seed, options, cluster, Show::Kept);
    world.run_ms(5_000);
    assert_settled(&world);
    ask(&mut world, 0, vec![create_vhost()]);
    world.run_ms(1_000);
    world
}

fn assert_settled(world: &TestWorld) {
    let unsettled =
        world.scenario.owners().find_map(|it| world.scenario.unsettled(it, &world.hosts));
    assert_eq!(unsettled, None);
}

fn ask(world: &mut TestWorld, at: usize, commands: Vec<meta::Command>) -> RequestId {
    let asked = world
        .hosts
        .with(Address(at), |node, port| node.client_asks(commands, 4_000, port.now.monotonic_ms));
    asked.unwrap()
}

/// The result that a client was given.
fn told(world: &TestWorld, request: RequestId) -> Option<Result<Reply, AskError>> {
    let ledger = world.scenario.ledger.borrow();
    ledger.told.iter().find(|(it, _)| *it == request).map(|(_, result)| result.clone())
}

/// Has clients propose and change definitions everywhere for a while.
fn run_with_clients(world: &mut TestWorld, span_ms: u64) {
    for n in 0..span_ms / 200 {
        for owner in world.scenario.owners().skip(1) {
            world.scenario.propose(&mut world.hosts, owner);
        }
        for at in world.hosts.addresses() {
            ask(world, at.0, vec![declare(&format!("{n} of {at}"))]);
        }
        world.run_ms(200);
    }
}

/// Checks that all is as before: what clients ask for is done at once.
fn assert_works(world: &mut TestWorld) {
    world.run_ms(1_000);
    assert_settled(world);
    for at in 0..3 {
        let request = ask(world, at, vec![declare(&format!("last of {at}"))]);
        world.run_ms(200);
        assert!(matches!(told(world, request), Some(Ok(_))), "{:?}", told(world, request));
    }
}

fn owners(world: &TestWorld, at: Address) -> Vec<(Address, Owner)> {
    world.scenario.owners().map(|owner| (at, owner)).collect()
}

fn terms(world: &TestWorld) -> Vec<u64> {
    let nodes = world.hosts.nodes();
    let groups = nodes
        .flat_map(|(_, node)| world.scenario.owners().filter_map(|owner| node.groups.group(owner)));
    groups.map(cluster::RaftGroup::term).collect()
}

fn leader_of(world: &TestWorld, owner: Owner) -> Option<usize> {
    world.hosts.nodes().find(|(_, node)| node.groups.leads(owner)).map(|(at, _)| at.0)
}

#[test]
fn a_connection_that_stands_still_is_made_again_within_ten_seconds() {
    for kind in ConnectionKind::HELD {
        for seed in 0..SEEDS {
            let mut world = whole_world(seed);
            let of_link = |world: &TestWorld| {
                let node = world.hosts.node(Address(0)).unwrap();
                node.sockets.of_link(node_at(1), kind)
            };
            let stuck = of_link(&world).unwrap();
            world.hosts.net.set_speed(stuck, Speed::Stuck);
            run_with_clients(&mut world, RECOVERY_MS);
            assert_ne!(of_link(&world), Some(stuck), "{kind:?}, seed {seed}");
            assert_works(&mut world);
        }
    }
}

#[test]
fn links_that_flap_for_43_ms_leave_nothing_behind() {
    for seed in 0..SEEDS {
        let mut world = whole_world(seed);
        for _ in 0..=seed {
            run_with_clients(&mut world, 200);
            for at in 0..3 {
                ask(&mut world, at, vec![declare(&format!("under way from {at}"))]);
            }
            world.run_pieces(3);
            let now_ms = world.hosts.now_ms();
            for (from, to) in [(0, 1), (0, 2), (1, 2)] {
                world.hosts.net.cut(Address(from), Address(to));
                world.hosts.net.cut(Address(to), Address(from));
            }
            for connection in world.hosts.net.connections() {
                world.hosts.net.lose(now_ms, connection, None);
            }
            world.run_ms(43);
            world.hosts.heal();
        }
        world.run_ms(RECOVERY_MS);
        let failed = world.scenario.ledger.borrow().counts.timed_out;
        assert_eq!(failed, 0, "clients wait in vain, seed {seed}");
        assert_works(&mut world);
    }
}

#[test]
fn one_leads_though_two_others_do_not_hear_each_other_and_nobody_elects_for_ever() {
    for seed in 0..SEEDS {
        let mut world = whole_world(seed);
        world.hosts.net.cut(Address(1), Address(2));
        world.hosts.net.cut(Address(2), Address(1));
        // While nobody writes, all logs are good enough to be elected.
        world.run_ms(RECOVERY_MS);
        let before = terms(&world);
        world.run_ms(RECOVERY_MS);
        run_with_clients(&mut world, RECOVERY_MS);
        assert_eq!(terms(&world), before, "seed {seed}");
        for owner in world.scenario.owners() {
            let groups = world.hosts.nodes().filter_map(|(_, node)| node.groups.group(owner));
            let groups: Vec<_> = groups.collect();
            let n_leaders = groups.iter().filter(|it| it.role() == Role::Leader).count();
            assert!(n_leaders == 1 || groups.len() == 2, "seed {seed}, {owner:?}: {n_leaders}");
        }
        let leader = leader_of(&world, DEFINITIONS).unwrap();
        for at in [0, leader] {
            let request = ask(&mut world, at, vec![declare(&format!("amid {at}"))]);
            world.run_ms(2_000);
            assert!(matches!(told(&world, request), Some(Ok(_))), "{:?}", told(&world, request));
        }
        world.hosts.heal();
        world.run_ms(RECOVERY_MS);
        assert_works(&mut world);
    }
}

#[test]
fn a_minority_answers_that_there_is_no_leader_after_its_time() {
    for seed in 0..SEEDS {
        let mut world = whole_world(seed);
        let alone = leader_of(&world, DEFINITIONS).unwrap();
        for other in (0..3).filter(|other| *other != alone) {
            world.hosts.net.cut(Address(alone), Address(other));
            world.hosts.net.cut(Address(other), Address(alone));
        }
        world.run_ms(3_000);
        let in_minority = ask(&mut world, alone, vec![declare("minority")]);
        let in_majority = ask(&mut world, (alone + 1) % 3, vec![declare("majority")]);
        world.run_ms(3_900);
        assert_eq!(told(&world, in_minority), None);
        assert!(matches!(told(&world, in_majority), Some(Ok(_))), "seed {seed}");
        world.run_ms(200);
        assert_eq!(told(&world, in_minority), Some(Err(AskError::NoLeader)), "seed {seed}");
        world.hosts.heal();
        world.run_ms(RECOVERY_MS);
        assert_works(&mut world);
        assert_eq!(world.scenario.ledger.borrow().n_declared("minority"), 0);
    }
}

#[test]
fn a_change_is_done_once_or_not_at_all_when_the_leader_dies_amid_it() {
    let (mut n_done, mut n_was_done, mut n_failed) = (0, 0, 0);
    for n_pieces in 0..60 {
        let mut world = whole_world(n_pieces % SEEDS);
        let leader = leader_of(&world, DEFINITIONS).unwrap();
        let request = ask(&mut world, (leader + 1) % 3, vec![declare("once")]);
        world.run_pieces(usize::try_from(n_pieces).unwrap());
        let death = if n_pieces % 2 == 0 { Death::Machine } else { Death::Process };
        world.hosts.crash(Address(leader), death);
        world.run_ms(RECOVERY_MS);
        let n_declared = world.scenario.ledger.borrow().n_declared("once");
        match told(&world, request).unwrap() {
            Ok(Reply { decision: Decision::WasDone, .. }) => {
                assert_eq!(n_declared, 1, "{n_pieces} pieces");
                n_was_done += 1;
            }
            Ok(_) => {
                assert_eq!(n_declared, 1, "{n_pieces} pieces");
                n_done += 1;
            }
            Err(_) => {
                assert!(n_declared <= 1, "{n_pieces} pieces");
                n_failed += 1;
            }
        }
        assert_works(&mut world);
    }
    println!("done {n_done}, was done {n_was_done}, failed {n_failed}");
    assert!(n_done > 0 && n_was_done > 0, "done {n_done}, was done {n_was_done}");
}

#[test]
fn half_a_second_after_the_leader_was_killed_changes_are_done_again() {
    for n in 0..80 {
        let mut world = whole_world(n % SEEDS);
        let leader = leader_of(&world, DEFINITIONS).unwrap();
        for change in 0..n % 2 * 5 {
            // The logs of the two that are left differ.
            ask(&mut world, leader, vec![declare(&format!("under way {change}"))]);
            world.run_pieces(2);
        }
        world.run_pieces(usize::try_from(n).unwrap());
        world.hosts.crash(Address(leader), Death::Process);
        let others = [1, 2].map(|after| (leader + after) % 3);
        let requests = others.map(|at| ask(&mut world, at, vec![declare(&format!("by {at}"))]));
        world.run_ms(500);
        for request in requests {
            let told = told(&world, request);
            assert!(matches!(told, Some(Ok(_))), "{n} pieces: {told:?}");
        }
    }
}

#[test]
fn a_node_whose_disk_is_lost_joins_anew_and_gets_all() {
    for seed in 0..SEEDS {
        let cluster = Cluster::new(seed, 3).with_members_everywhere();
        let mut world = whole_world_of(seed, cluster);
        run_with_clients(&mut world, 2_000);
        // What was done so far comes as an image, the rest as entries.
        let all: Vec<_> = world.hosts.addresses().flat_map(|at| owners(&world, at)).collect();
        for (at, owner) in all {
            world.hosts.with(at, |node, port| node.take_image(owner, port.now.monotonic_ms));
        }
        run_with_clients(&mut world, 1_000);
        let lost = usize::try_from(seed % 3).unwrap();
        world.scenario.lose_disk(&mut world.hosts, lost);
        world.run_ms(1_000);
        Cluster::replace(&mut world.hosts, lost, [node_at(lost), node_at(3)]);
        for _ in 0..20 {
            world.run_ms(500);
            world.scenario.change_members(&mut world.hosts);
        }
        assert_works(&mut world);
        world.scenario.check_end(&world.hosts);
        let joined = world.hosts.node(Address(lost)).unwrap();
        for owner in world.scenario.owners() {
            let group = joined.groups.group(owner).unwrap();
            assert!(group.members().has_voter(group.me()), "seed {seed}, {owner:?}");
        }
    }
}
