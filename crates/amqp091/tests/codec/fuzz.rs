//! The checks of the fuzz targets on the committed corpus and on random input, without a fuzzer.

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::strategy::{frame_of, method_payload, properties, table};

#[path = "../../../../fuzz/checks/amqp091.rs"]
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
    let changed = (seeds, vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)).prop_map(
        |(mut bytes, changes)| {
            for (at, byte) in changes {
                if let Some(old) = at.get_mut_opt(&mut bytes) {
                    *old = byte;
                }
            }
            bytes
        },
    );
    let config = Config { cases: 2000, failure_persistence: None, ..Config::default() };
    let any_input = prop_oneof![1 => vec(any::<u8>(), 0..80), 3 => changed];
    let outcome = TestRunner::new(config).run(&any_input, |input| {
        check(&input);
        Ok(())
    });
    assert_eq!(outcome, Ok(()));
}

/// An element of a slice that may be empty.
trait GetMutOpt {
    fn get_mut_opt<'a>(&self, bytes: &'a mut [u8]) -> Option<&'a mut u8>;
}

impl GetMutOpt for prop::sample::Index {
    fn get_mut_opt<'a>(&self, bytes: &'a mut [u8]) -> Option<&'a mut u8> {
        let len = bytes.len();
        if len == 0 { None } else { bytes.get_mut(self.index(len)) }
    }
}

fn any_method() -> impl Strategy<Value = Vec<u8>> {
    proptest::sample::select(amqp091::MethodId::ALL)
        .prop_flat_map(|id| method_payload(id, |_| false))
}

fn any_content_header() -> impl Strategy<Value = Vec<u8>> {
    properties().prop_map(|properties| {
        [b"\0\x3c\0\0\0\0\0\0\0\0\0\x07", &properties.to_bytes()[..]].concat()
    })
}

#[test]
fn frame() {
    run("amqp091_frame", checks::frame, any_method().prop_map(|payload| frame_of(1, 1, &payload)));
}

#[test]
fn method() {
    run("amqp091_method", checks::method, any_method());
}

#[test]
fn content_header() {
    run("amqp091_content_header", checks::content_header, any_content_header());
}

#[test]
fn table_entries() {
    run("amqp091_table", checks::table, table().prop_map(|table| table.to_bytes()));
}

#[test]
fn protocol_header() {
    run("amqp091_protocol_header", checks::protocol_header, Just(b"AMQP\0\0\x09\x01".to_vec()));
}
