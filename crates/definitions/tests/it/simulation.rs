//! Random asks, losses and crashes, and what must hold at the end.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::world::{Counts, World};

/// Seeds of a usual run; `DEFINITIONS_SEEDS` asks for others, as `from..to`.
const SEEDS: std::ops::Range<u64> = 0..200;
const STEPS: usize = 600;

/// Runs one seed; those without faults are quiet.
fn run(seed: u64) -> Counts {
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.step(!seed.is_multiple_of(10));
    }
    world.heal();
    world.counts
}

fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("DEFINITIONS_SEEDS").ok();
    given.map_or(SEEDS, |given| {
        let (from, to) = given.split_once("..").unwrap();
        from.parse().unwrap()..to.parse().unwrap()
    })
}

fn add(total: &mut Counts, counts: Counts) {
    total.done += counts.done;
    total.unchanged += counts.unchanged;
    total.was_done += counts.was_done;
    total.refused += counts.refused;
    total.moved += counts.moved;
    total.no_leader += counts.no_leader;
    total.timed_out += counts.timed_out;
    total.crashes += counts.crashes;
    total.images += counts.images;
    total.files += counts.files;
    total.restored += counts.restored;
    total.declined += counts.declined;
}

#[test]
fn nodes_agree_on_definitions_through_crashes_and_cuts() {
    let mut total = Counts::default();
    for seed in seeds() {
        match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(counts) => add(&mut total, counts),
            Err(panic) => {
                println!("DEFINITIONS_SEEDS={seed}..{} fails", seed + 1);
                resume_unwind(panic);
            }
        }
    }
    println!("{total:?}");
    if seeds() == SEEDS {
        assert!(total.done > 500 && total.unchanged > 300 && total.refused > 500, "{total:?}");
        assert!(total.was_done > 2 && total.moved > 100 && total.restored > 10, "{total:?}");
        assert!(total.no_leader > 200 && total.timed_out > 100, "{total:?}");
        assert!(total.crashes > 500 && total.images > 500 && total.files > 100, "{total:?}");
    }
}
