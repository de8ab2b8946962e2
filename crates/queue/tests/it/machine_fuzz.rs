//! The checks of the fuzz targets on the committed corpus and on random input, without a fuzzer.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::path::Path;

#[path = "../../../../fuzz/checks/machine.rs"]
mod checks;

/// The committed inputs of one target.
#[expect(clippy::disallowed_methods, reason = "the corpus is files")]
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&dir).expect("every target has a corpus");
    let paths = entries.map(|entry| entry.expect("a readable entry").path());
    let inputs: Vec<Vec<u8>> = paths.map(|path| std::fs::read(path).expect("a file")).collect();
    assert!(!inputs.is_empty(), "{} is empty", dir.display());
    inputs
}

/// Runs `check` on the corpus, on random bytes, and on the corpus with bytes changed.
fn run(target: &str, check: fn(&[u8])) {
    let inputs = corpus(target);
    inputs.iter().for_each(|input| check(input));
    let byte = prop_oneof![Just(0_u8), Just(1), Just(255), any::<u8>()];
    let changes = vec((any::<usize>(), byte), 0..6);
    let changed = (proptest::sample::select(inputs), changes).prop_map(|(mut bytes, changes)| {
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes.splice(at..=at, [byte]);
        }
        bytes
    });
    let config = Config { cases: 3_000, failure_persistence: None, ..Config::default() };
    let any_input = prop_oneof![1 => vec(any::<u8>(), 0..80), 9 => changed];
    let outcome = TestRunner::new(config).run(&any_input, |input| {
        check(&input);
        Ok(())
    });
    assert_eq!(outcome, Ok(()));
}

#[test]
fn commands() {
    run("machine_command", checks::command);
}

#[test]
fn written_forms() {
    run("machine_form", checks::form);
}
