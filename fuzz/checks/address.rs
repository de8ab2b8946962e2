//! What must hold for any address of a terminus. Shared by the fuzz target and by an ordinary test of the crate,
//! which needs no fuzzer.

use amqp10::{
    LinkTarget, SourceTerminus, TargetTerminus, ValueRef, percent_decoded, put_percent_encoded,
};
use front_amqp10::{SourceAddress, TargetAddress};

/// An address is a node's or refused in words, in both versions; a name that is encoded comes back.
pub(crate) fn address(input: &[u8]) {
    let mut encoded = String::new();
    put_percent_encoded(input, &mut encoded);
    assert_eq!(percent_decoded(&encoded).as_deref(), Some(input));
    named(&format!("/queues/{encoded}"), input);
    let Ok(text) = std::str::from_utf8(input) else { return };
    for version_1 in [false, true] {
        let source = SourceAddress::of_source(&source(text), version_1);
        let target = TargetAddress::of_target(&target(text), version_1);
        let faults = [source.err(), target.err()];
        assert!(faults.iter().flatten().all(|fault| !format!("{fault:?}").is_empty()));
    }
}

fn named(address: &str, name: &[u8]) {
    let source = SourceAddress::of_source(&source(address), false);
    let target = TargetAddress::of_target(&target(address), false);
    match (source, target) {
        (Ok(SourceAddress::Queue(of_source)), Ok(TargetAddress::Queue(of_target))) => {
            assert_eq!((&of_source[..], &of_target[..]), (name, name));
        }
        // No queue has that name.
        (Err(_), Err(_)) => {
            assert!(name.is_empty() || name.len() > 255 || std::str::from_utf8(name).is_err())
        }
        other => panic!("{other:?}"),
    }
}

fn source(address: &str) -> SourceTerminus<'_> {
    SourceTerminus { address: Some(ValueRef::Str(address)), ..SourceTerminus::default() }
}

fn target(address: &str) -> LinkTarget<'_> {
    LinkTarget::Terminus(TargetTerminus {
        address: Some(ValueRef::Str(address)),
        ..TargetTerminus::default()
    })
}
