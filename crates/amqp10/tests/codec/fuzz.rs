//! The checks of the fuzz targets on the committed corpus and on random input, without a fuzzer.

use amqp10::{FrameType, MessageRef, Performative, decode_frame};
use proptest::prelude::*;
use std::path::Path;

use crate::generated::any_parts;
use crate::values::any_value;

#[path = "../../../../fuzz/checks/amqp10.rs"]
mod checks;
#[path = "../../../../fuzz/checks/inputs.rs"]
mod inputs;
#[path = "../../../../fuzz/checks/amqp10_oracle.rs"]
mod oracle;

use inputs::{any_input, corpus};

fn frame_of(performative: &Performative<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    performative.encode_frame(1, &mut out);
    out
}

/// Frames of the corpus and valid ones, some of whose bytes are changed.
fn any_frames() -> impl Strategy<Value = Vec<u8>> {
    let valid = any_parts().prop_map(|parts| {
        let mut bytes = Vec::new();
        parts.with(|performative| bytes = frame_of(performative));
        bytes
    });
    let seeds = prop_oneof![proptest::sample::select(corpus("amqp10_frame")), valid];
    any_input(seeds)
}

#[test]
fn the_corpus_holds() {
    corpus("amqp10_frame").iter().for_each(|input| checks::frame(input));
    corpus("amqp10_value").iter().for_each(|input| checks::value(input));
    corpus("amqp10_sections").iter().for_each(|input| checks::sections(input));
    corpus("amqp10_value").iter().for_each(|input| oracle::value(input));
    corpus("amqp10_sections").iter().for_each(|input| oracle::sections(input));
}

/// Sessions of Qpid Proton, rhea and go-amqp as they were recorded: everything in them is known.
#[test]
#[expect(clippy::disallowed_methods, reason = "the corpus is files")]
fn all_frames_of_recorded_clients_are_understood() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/amqp10_frame");
    for (client, n_frames) in [("proton", 12), ("rhea", 10), ("go-amqp", 15), ("go-amqp-second", 8)]
    {
        let bytes = std::fs::read(dir.join(client)).expect("a recording");
        let (mut rest, mut n) = (&bytes[..], 0);
        while let Some((frame, used)) = decode_frame(rest, FrameType::Amqp, 8192).unwrap() {
            let (performative, payload) = Performative::decode(frame.body).unwrap();
            let is_transfer = matches!(performative, Performative::Transfer(_));
            assert_eq!(is_transfer, !payload.is_empty());
            if is_transfer {
                assert!(MessageRef::parse(payload).is_ok(), "{client}");
            }
            (rest, n) = (&rest[used..], n + 1);
        }
        assert_eq!((rest, n), (&b""[..], n_frames), "{client}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn changed_frames_hold(bytes in any_frames()) {
        checks::frame(&bytes);
        checks::performative(bytes.get(8..).unwrap_or_default());
        checks::value(bytes.get(11..).unwrap_or_default());
    }

    #[test]
    fn changed_sections_hold(bytes in any_input(proptest::sample::select(corpus("amqp10_sections")))) {
        checks::sections(&bytes);
        oracle::sections(&bytes);
    }

    #[test]
    fn changed_values_hold(bytes in any_input(prop_oneof![
        proptest::sample::select(corpus("amqp10_value")), any_value(),
    ])) {
        checks::value(&bytes);
        oracle::value(&bytes);
    }

    #[test]
    fn random_frames_hold(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        checks::frame(&bytes);
        checks::value(&bytes);
        oracle::value(&bytes);
        checks::performative(&[&b"\x00\x53"[..], &bytes].concat());
    }
}
