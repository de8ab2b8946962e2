//! Nodes judge each other while processes, networks and disks fail.

use crate::world::World;
use log::NodeNumber;
use peer::{ConnectionKind, Liveness, LivenessEvent, Pulse, Suspicion};
use stdx::{MonotonicMs, Now};

fn whole_world(n_nodes: usize, seed: u64) -> World {
    let mut world = World::new(n_nodes, seed);
    world.run(2_000);
    assert!(world.is_whole(), "seed {seed}");
    assert!(world.since(0, is_suspected).is_empty(), "seed {seed}");
    world
}

fn is_suspected(event: &LivenessEvent) -> bool {
    matches!(event, LivenessEvent::Suspected { .. })
}

fn is_change(event: &LivenessEvent) -> bool {
    is_suspected(event) || matches!(event, LivenessEvent::Alive { .. })
}

fn is_remake(event: &LivenessEvent) -> bool {
    matches!(event, LivenessEvent::Remake { .. })
}

#[test]
fn a_killed_node_is_suspected_after_a_tenth_of_a_second() {
    for seed in 0..20 {
        let mut world = whole_world(3, seed);
        world.run(seed * 10);
        let killed_ms = world.now_ms;
        world.kill(2);
        world.run(1_000);
        let suspected = world.since(killed_ms, is_suspected);
        assert_eq!(suspected.len(), 2, "seed {seed}: {suspected:?}");
        for (after_ms, _, event) in suspected {
            assert!((100..=120).contains(&after_ms), "seed {seed}: {after_ms} ms");
            assert!(matches!(event, LivenessEvent::Suspected { node: NodeNumber(3), .. }));
        }
    }
}

#[test]
fn a_restarted_node_is_alive_again_in_its_new_life() {
    let mut world = whole_world(3, 1);
    let killed_ms = world.now_ms;
    world.kill(0);
    world.run(30);
    // Even if it is back before anybody has noticed.
    world.restart(0);
    world.run(10_000);
    assert!(world.is_whole());
    let seen = world.since(killed_ms, is_change);
    let seen: Vec<_> = seen.into_iter().filter(|(_, node, _)| *node != 0).collect();
    for node in 1..3 {
        let mut of_node = seen.iter().filter(|it| it.1 == node).map(|it| (it.0, it.2));
        assert!(of_node.next().is_some_and(|(_, event)| is_suspected(&event)));
        let alive = LivenessEvent::Alive { node: NodeNumber(1), boot: 2 };
        let (after_ms, event) = of_node.next().unwrap();
        assert_eq!((event, of_node.next()), (alive, None));
        assert!(after_ms < 1_000, "a new life need not be steady for two seconds: {after_ms} ms");
    }
}

#[test]
fn a_frozen_node_is_suspected_within_a_second_and_a_half_and_suspects_nobody_itself() {
    for seed in 0..20 {
        let mut world = whole_world(3, seed);
        world.run(seed * 10);
        let frozen_ms = world.now_ms;
        world.nodes[1].is_frozen = true;
        world.run(7_000);
        let suspected = world.since(frozen_ms, is_suspected);
        assert_eq!(suspected.len(), 2, "seed {seed}");
        for (after_ms, _, _) in suspected {
            // A second since its last pulse.
            assert!((800..=1_500).contains(&after_ms), "seed {seed}: {after_ms} ms");
        }
        let thawed_ms = world.now_ms;
        world.nodes[1].is_frozen = false;
        world.run(10_000);
        assert!(world.is_whole(), "seed {seed}");
        let suspected = world.since(thawed_ms, |event| {
            matches!(event, LivenessEvent::Suspected { suspicion: Suspicion::Silent, .. })
        });
        assert_eq!(suspected, [], "seed {seed}");
    }
}

#[test]
fn a_cut_in_one_direction_is_suspected_on_both_sides() {
    for seed in 0..20 {
        let mut world = whole_world(3, seed);
        let cut_ms = world.now_ms;
        world.cuts.insert((0, 1));
        world.run(3_000);
        let mut suspected = world.since(cut_ms, is_suspected);
        suspected.sort_by_key(|it| it.1);
        let by: Vec<_> = suspected.iter().map(|(_, node, event)| (*node, *event)).collect();
        let event =
            |node, suspicion| LivenessEvent::Suspected { node: NodeNumber(node), suspicion };
        assert_eq!(by, [(0, event(2, Suspicion::Deaf)), (1, event(1, Suspicion::Silent))]);
        assert!(suspected.iter().all(|it| it.0 <= 1_600), "seed {seed}: {suspected:?}");
        world.run(20_000);
        world.cuts.clear();
        let healed_ms = world.now_ms;
        world.run(10_000);
        assert!(world.is_whole(), "seed {seed}");
        assert!(world.since(healed_ms, is_suspected).is_empty(), "seed {seed}");
    }
}

#[test]
fn a_network_that_flaps_settles_within_ten_seconds() {
    for seed in 0..20 {
        let mut world = whole_world(3, seed);
        for _ in 0..=seed * 2 {
            world.set_cut_off(true);
            world.reset_all();
            world.run(43);
            world.set_cut_off(false);
            world.run(43);
        }
        world.run(10_000);
        assert!(world.is_whole(), "seed {seed}");
        let settled_ms = world.now_ms;
        world.run(20_000);
        assert_eq!(world.since(settled_ms, |event| is_change(event) || is_remake(event)), []);
    }
}

#[test]
fn connections_survive_a_short_cut_without_suspicion() {
    let mut world = whole_world(3, 5);
    let cut_ms = world.now_ms;
    world.set_cut_off(true);
    world.run(500);
    world.set_cut_off(false);
    world.run(10_000);
    assert_eq!(world.since(cut_ms, |event| is_change(event) || is_remake(event)), []);
}

#[test]
fn a_stuck_connection_is_made_again_within_six_seconds_and_twice_is_suspicious() {
    for kind in [ConnectionKind::Raft, ConnectionKind::Work] {
        let mut world = whole_world(2, 7);
        let stuck_ms = world.now_ms;
        for it in world.connections.iter_mut().filter(|it| it.kind == kind) {
            it.is_stuck = true;
        }
        world.run(6_000);
        let remakes = world.since(stuck_ms, is_remake);
        assert!(
            remakes
                .iter()
                .all(|it| matches!(it.2, LivenessEvent::Remake { kind: of, .. } if of == kind))
        );
        assert!((1..=2).contains(&remakes.len()), "one side, or both at once: {remakes:?}");
        assert!(world.is_whole());
        assert!(world.since(stuck_ms, is_suspected).is_empty());
        world.sticky = Some(kind);
        for it in world.connections.iter_mut().filter(|it| it.kind == kind) {
            it.is_stuck = true;
        }
        world.run(6_000);
        let suspected = world.since(stuck_ms, is_suspected);
        assert!(!suspected.is_empty());
        for (_, _, event) in suspected {
            assert!(
                matches!(event, LivenessEvent::Suspected { suspicion: Suspicion::Stuck(of), .. } if of == kind)
            );
        }
        world.sticky = None;
        world.connections.iter_mut().for_each(|it| it.is_stuck = false);
        world.run(70_000);
        assert!(world.is_whole());
    }
}

#[test]
fn a_disk_that_does_not_sync_is_suspected() {
    let mut world = whole_world(2, 9);
    let stalled_ms = world.now_ms;
    world.nodes[0].unsynced_age_ms = 1_900;
    world.run(1_000);
    assert!(world.since(stalled_ms, is_suspected).is_empty());
    world.nodes[0].unsynced_age_ms = 2_000;
    world.run(500);
    let node = NodeNumber(1);
    let event = LivenessEvent::Suspected { node, suspicion: Suspicion::DiskStalled };
    let suspected = world.since(stalled_ms, is_suspected);
    assert_eq!(suspected.iter().map(|it| (it.1, it.2)).collect::<Vec<_>>(), [(1, event)]);
    world.nodes[0].unsynced_age_ms = 0;
    world.run(2_000);
    assert!(!world.is_whole(), "alive only after two seconds without a reason");
    world.nodes[0].unsynced_age_ms = 3_000;
    world.run(400);
    world.nodes[0].unsynced_age_ms = 0;
    world.run(1_900);
    assert!(!world.is_whole(), "the two seconds begin again");
    world.run(500);
    assert!(world.is_whole());
}

#[test]
fn a_clock_that_is_wrong_is_told_once_an_hour() {
    let mut world = whole_world(2, 9);
    let is_skew = |event: &LivenessEvent| matches!(event, LivenessEvent::ClockSkew { .. });
    assert!(world.since(0, is_skew).is_empty());
    world.nodes[0].clock_ahead_ms = 5_000;
    world.run(3_500_000);
    let told = world.since(0, is_skew);
    assert_eq!(told.len(), 1, "{told:?}");
    let LivenessEvent::ClockSkew { skew_ms, .. } = told[0].2 else { panic!() };
    assert!((4_950..=5_000).contains(&skew_ms), "{skew_ms}");
    world.run(200_000);
    assert_eq!(world.since(0, is_skew).len(), 2);
}

/// Two nodes run for a day; pulses are up to 20 ms late, and both nodes pause for 300 ms at random, as on a
/// machine that is short of processors.
#[test]
fn nobody_is_suspected_in_a_day_of_jitter_and_pauses() {
    let (node, mut seed) = (NodeNumber(2), 2_026_u64);
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        seed >> 33
    };
    let (mut liveness, mut events) = (Liveness::new(1), Vec::new());
    let at = MonotonicMs::from_raw;
    liveness.add(node, at(0));
    for kind in ConnectionKind::HELD {
        liveness.connected(node, kind, at(0));
    }
    let (mut now_ms, mut next_tick_ms, mut n_pauses) = (0, 0, 0);
    for round in 1..=24 * 3_600 * 5_u64 {
        let sequence = liveness.begin_round(at(now_ms));
        now_ms = round * 200 + random() % 20;
        if random() % 50 == 0 {
            now_ms += 300;
            n_pauses += 1;
        }
        while next_tick_ms < now_ms {
            // This node pauses too.
            let pause_ms = if random() % 200 == 0 { 300 } else { 0 };
            liveness.tick(at(next_tick_ms + pause_ms), &mut events);
            next_tick_ms += 50 + pause_ms;
        }
        let pulse = Pulse { boot: 1, sequence: round, heard: sequence, ..Pulse::default() };
        liveness.hear(node, &pulse, Now::at_ms(now_ms), &mut events);
    }
    assert!(n_pauses > 8_000);
    let is_false = |event: &&LivenessEvent| is_suspected(event);
    assert_eq!(events.iter().filter(is_false).count(), 0);
    assert!(liveness.is_alive(node));
}

#[test]
fn each_failed_attempt_does_not_put_suspicion_off() {
    let (node, at, mut events) = (NodeNumber(2), MonotonicMs::from_raw, Vec::new());
    let mut liveness = Liveness::new(1);
    liveness.add(node, at(0));
    for kind in ConnectionKind::HELD {
        liveness.connected(node, kind, at(0));
    }
    let heard = liveness.begin_round(at(0));
    let pulse = Pulse { boot: 1, sequence: 1, heard, ..Pulse::default() };
    liveness.hear(node, &pulse, Now::at_ms(10), &mut events);
    for now_ms in [50, 100, 150, 200] {
        liveness.tick(at(now_ms), &mut events);
        liveness.disconnected(node, ConnectionKind::Raft, at(now_ms));
    }
    let suspicion = Suspicion::Unconnected(ConnectionKind::Raft);
    let alive = LivenessEvent::Alive { node, boot: 1 };
    assert_eq!(events, [alive, LivenessEvent::Suspected { node, suspicion }]);
}
