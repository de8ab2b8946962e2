//! `sim --seed N` replays one simulation with its trace; `sim --seeds N` looks for failures in many.
#![expect(clippy::print_stdout, reason = "a tool for people")]

use clap::Parser;
use sim::{Show, run};
use std::process::ExitCode;

/// Simulates a node, its clients and its disk from a seed.
#[derive(Parser)]
struct Args {
    /// Replay this seed and print what happens.
    #[arg(long)]
    seed: Option<u64>,
    /// Run so many seeds.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run only every so many-th of them; 4 has it stay with one kind of world.
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Run each twice and compare the traces.
    #[arg(long)]
    twice: bool,
    /// Print for each a number that is the same for the same trace: a change of the simulator alone
    /// must leave them as they were.
    #[arg(long)]
    digests: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    // What is wrong is said below, without the place in the simulator that noticed it.
    if args.seed.is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let failures = match args.seed {
        Some(seed) => u64::from(is_wrong(seed, Show::Printed, args.digests)),
        None => {
            let seeds = args.from..args.from.saturating_add(args.seeds);
            let is_wrong = |seed| is_wrong(seed, Show::Kept, args.digests);
            let wrong = |seed| is_wrong(seed) || (args.twice && differs(seed));
            seeds.step_by(args.every.max(1)).map(|seed| u64::from(wrong(seed))).sum()
        }
    };
    println!("{failures} failed");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_wrong(seed: u64, show: Show, with_digest: bool) -> bool {
    let report = run(seed, show);
    if with_digest {
        println!("seed {seed}: {:016x}", report.hash);
    }
    if let Some(failure) = &report.failure {
        println!("seed {seed}: {failure}");
    }
    report.failure.is_some()
}

fn differs(seed: u64) -> bool {
    let (first, second) = (run(seed, Show::Kept), run(seed, Show::Kept));
    let mut lines = first.trace.iter().zip(&second.trace);
    if first.hash != second.hash {
        println!("seed {seed} is not the same again: {:?}", lines.find(|(a, b)| a != b));
    }
    first.hash != second.hash
}
