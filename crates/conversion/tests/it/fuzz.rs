//! The check of the fuzz target on the committed corpus and on random input, without a fuzzer.

use amqp10::{Group, Header, Items, Properties, Section, ValueRef};
use proptest::prelude::*;

#[path = "../../../../fuzz/checks/conversion.rs"]
mod checks;
#[path = "../../../../fuzz/checks/inputs.rs"]
mod inputs;

use inputs::{any_input, corpus};

fn every_section() -> Vec<u8> {
    let mut out = Vec::new();
    let header =
        Header { durable: Some(true), priority: Some(5), ttl_ms: Some(7), ..Header::default() };
    Section::Header(header).encode(&mut out);
    amqp10::put_message_annotations(&mut out, |items| {
        items.put_symbol("x-exchange", ValueRef::Str("e"));
        items.put_symbol("x-basic-type", ValueRef::Binary(b"t"));
        items.put(ValueRef::Symbol("x-cc"));
        items.put_list(|list| list.put(ValueRef::Str("c")));
        items.put(ValueRef::Symbol("x-opt-deaths"));
        items.put_maps([1, 2], |death: &mut Items<'_>, n| {
            death.put_symbol("count", ValueRef::U64(n));
            death.put(ValueRef::Symbol("routing-keys"));
            death.put_strings(["k"]);
        });
    });
    let properties = Properties {
        message_id: Some(ValueRef::Uuid([7; 16])),
        correlation_id: Some(ValueRef::U64(7)),
        user_id: Some(b"u"),
        reply_to: Some(ValueRef::Str("/queues/q%20q")),
        content_type: Some("t"),
        creation_time_ms: Some(7),
        group: Group { id: Some("g"), ..Group::default() },
        ..Properties::default()
    };
    Section::Properties(properties).encode(&mut out);
    amqp10::put_application_properties(&mut out, |items| {
        items.put(ValueRef::Str("k"));
        items.put_map(|map| map.put_symbol("nested", ValueRef::Timestamp(7)));
    });
    Section::Data(b"one").encode(&mut out);
    Section::Data(b"two").encode(&mut out);
    out
}

fn any_stored() -> impl Strategy<Value = Vec<u8>> {
    let mut valid = corpus("conversion");
    valid.push(every_section());
    any_input(proptest::sample::select(valid))
}

#[test]
fn the_corpus_is_delivered() {
    for input in corpus("conversion").iter().chain([&every_section()]) {
        checks::stored(input);
        checks::received(input);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_are_delivered(input in any_stored()) {
        checks::stored(&input);
        checks::received(&input);
    }
}
