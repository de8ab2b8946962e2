//! Random faults, and what must hold after each step and at the end.

use std::rc::Rc;

use testing::cluster_world::{WorldOptions, simulate};
use testing::run::Show;

use crate::cluster::Cluster;
use crate::ledger::Counts;

/// Seeds of a usual run; `MEMBER_SEEDS` asks for others, as `from..to`.
const SEEDS: std::ops::Range<u64> = 0..40;

fn run(seed: u64) -> Counts {
    let n_nodes = if seed.is_multiple_of(3) { 5 } else { 3 };
    let options = WorldOptions {
        n_nodes,
        n_steps: 6_000,
        ticks_ms: vec![3, 10, 30],
        settle_ms_max: 40_000,
        faults_permille: 4,
        ..WorldOptions::default()
    };
    let cluster = Cluster::new(seed, n_nodes);
    let ledger = Rc::clone(&cluster.ledger);
    let report = simulate(seed, options, cluster, Show::Kept);
    report.assert_passed(&format!("MEMBER_SEEDS={seed}..{}", seed + 1));
    ledger.borrow().counts
}

fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("MEMBER_SEEDS").ok();
    given.map_or(SEEDS, |given| {
        let (from, to) = given.split_once("..").unwrap();
        from.parse().unwrap()..to.parse().unwrap()
    })
}

#[test]
fn nodes_agree_through_faults_of_processes_disks_and_networks() {
    let mut total = Counts::default();
    for seed in seeds() {
        total.add(run(seed));
    }
    println!("{total:?}");
    if seeds() == SEEDS {
        let (Counts { starts, elections, .. }, least) = (total, SEEDS.end);
        assert!(
            starts > 6 * least && elections > 5 * least && total.images > 10 * least,
            "{total:?}"
        );
        assert!(total.links_made > 30 * least && total.suspected > least, "{total:?}");
        assert!(total.acked > 20 * least && total.done > 20 * least, "{total:?}");
        assert!(total.stuck > 2 && total.restored > 9 && total.was_done > 2, "{total:?}");
        assert!(total.no_leader > least && total.timed_out > least, "{total:?}");
    }
}
