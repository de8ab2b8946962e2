//! The checks of the fuzz targets on the committed corpus and on random input, without a fuzzer.

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::grammar::{TO_CLIENT, TO_SERVER, any_frame};

#[path = "../../../../fuzz/checks/streamproto.rs"]
mod checks;

/// The committed inputs of one target.
#[expect(clippy::disallowed_methods, reason = "the corpus is files")]
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let inputs: Vec<Vec<u8>> = std::fs::read_dir(&dir)
        .expect("every target has a corpus")
        .map(|entry| std::fs::read(entry.expect("a readable entry").path()).expect("a file"))
        .collect();
    assert!(!inputs.is_empty(), "{} is empty", dir.display());
    inputs
}

/// Runs `check` on the corpus, on random bytes, and on valid inputs with bytes changed.
fn run(target: &str, check: fn(&[u8]), valid: impl Strategy<Value = Vec<u8>> + 'static) {
    let inputs = corpus(target);
    inputs.iter().for_each(|input| check(input));
    let seeds = prop_oneof![proptest::sample::select(inputs), valid];
    let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let changed = (seeds, changes).prop_map(|(mut bytes, changes)| {
        for (at, byte) in changes {
            let at = at.index(bytes.len().max(1));
            if let Some(old) = bytes.get_mut(at) {
                *old = byte;
            }
        }
        bytes
    });
    let config = Config { cases: 2000, failure_persistence: None, ..Config::default() };
    let any_input = prop_oneof![1 => vec(any::<u8>(), 0..80), 3 => changed];
    let outcome = TestRunner::new(config).run(&any_input, |input| {
        check(&input);
        Ok(())
    });
    assert_eq!(outcome, Ok(()));
}

fn sized(frame: &[u8]) -> Vec<u8> {
    [&u32::try_from(frame.len()).expect("small").to_be_bytes()[..], frame].concat()
}

#[test]
fn frame() {
    let any = prop_oneof![any_frame(TO_SERVER), any_frame(TO_CLIENT)];
    run("streamproto_frame", checks::frame, any.prop_map(|frame| sized(&frame)));
}

#[test]
fn chunk() {
    run("streamproto_chunk", checks::chunk, Just(vec![0x50; 60]));
}
