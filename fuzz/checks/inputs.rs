//! Inputs of the fuzz targets for ordinary tests, which need no fuzzer: the committed ones, and random ones
//! like them.
#![allow(dead_code, reason = "not every test has a use for all of it")]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::path::Path;

/// The committed inputs of one target.
#[allow(clippy::disallowed_methods, reason = "the corpus is files")]
pub(crate) fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&dir).expect("every target has a corpus");
    let files = files.map(|file| std::fs::read(file.expect("a file").path()).expect("a file"));
    let inputs: Vec<Vec<u8>> = files.collect();
    assert!(!inputs.is_empty(), "{} is empty", dir.display());
    inputs
}

/// Runs `check` on inputs whose first byte is the size of the pieces that they come in, each in pieces of
/// several sizes.
pub(crate) fn run_in_pieces(inputs: &[Vec<u8>], check: impl Fn(&[u8])) {
    for input in inputs {
        for size in [0, 6, 255] {
            check(&[&[size], input.get(1..).unwrap_or_default()].concat());
        }
    }
}

/// Random bytes, and seeds of which a few bytes are changed.
pub(crate) fn any_input(
    seeds: impl Strategy<Value = Vec<u8>> + 'static,
) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(1), Just(255), any::<u8>()];
    let changes = vec((any::<prop::sample::Index>(), byte), 0..6);
    let changed = (seeds, changes).prop_map(|(mut bytes, changes)| {
        for (at, byte) in changes {
            let at = at.index(bytes.len().max(1));
            if let Some(old) = bytes.get_mut(at) {
                *old = byte;
            }
        }
        bytes
    });
    prop_oneof![1 => vec(any::<u8>(), 0..80), 4 => changed]
}

/// Runs `check` on the corpus, on random bytes, and on inputs of the corpus and valid ones with bytes changed.
pub(crate) fn run(target: &str, check: fn(&[u8]), valid: impl Strategy<Value = Vec<u8>> + 'static) {
    let inputs = corpus(target);
    inputs.iter().for_each(|input| check(input));
    let seeds = prop_oneof![prop::sample::select(inputs), valid];
    let config = Config { cases: 3_000, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&any_input(seeds), |input| {
        check(&input);
        Ok(())
    });
    assert_eq!(outcome, Ok(()));
}
