use super::*;
use amqp10::TargetTerminus;
use proptest::prelude::*;

fn source(address: &str) -> Result<SourceAddress<'_>, ProtocolFault> {
    source_of(address, false)
}

fn source_of(address: &str, version_1: bool) -> Result<SourceAddress<'_>, ProtocolFault> {
    let address = Some(ValueRef::Str(address));
    SourceAddress::of_source(&SourceTerminus { address, ..SourceTerminus::default() }, version_1)
}

fn target(address: Option<&str>) -> Result<TargetAddress<'_>, ProtocolFault> {
    target_of(address, false)
}

fn target_of(address: Option<&str>, version_1: bool) -> Result<TargetAddress<'_>, ProtocolFault> {
    let target = LinkTarget::Terminus(TargetTerminus {
        address: address.map(ValueRef::Str),
        ..TargetTerminus::default()
    });
    TargetAddress::of_target(&target, version_1)
}

fn queue(name: &str) -> TargetAddress<'_> {
    TargetAddress::Queue(Cow::Borrowed(name.as_bytes()))
}

fn exchange<'a>(exchange: &'a str, key: &'a str) -> TargetAddress<'a> {
    let [exchange, routing_key] = [exchange, key].map(named);
    TargetAddress::Exchange { exchange, routing_key: Some(routing_key) }
}

fn named(name: &str) -> NodeName<'_> {
    Cow::Borrowed(name.as_bytes())
}

#[test]
fn addresses_of_version_2() {
    for (address, meant) in [
        ("/queues/q", queue("q")),
        ("/queues/a%2Fb%20%C3%BC+", queue("a/b ü+")),
        ("/exchanges/x/key", exchange("x", "key")),
        ("/exchanges/x", exchange("x", "")),
        ("/exchanges/x/", exchange("x", "")),
        ("/exchanges/%2F/%2f.%23", exchange("/", "/.#")),
        ("/management", TargetAddress::Management),
    ] {
        assert_eq!(target(Some(address)), Ok(meant), "{address}");
    }
    assert_eq!(target(None), Ok(TargetAddress::Anonymous));
    assert_eq!(source("/queues/%25"), Ok(SourceAddress::Queue(Cow::Borrowed(b"%"))));
    assert_eq!(source("/management"), Ok(SourceAddress::Management));
}

#[test]
fn bad_addresses_are_refused_in_words() {
    let long = format!("/queues/{}", "q".repeat(256));
    for address in [
        "/queues/",
        "/queues/%",
        "/exchanges/",
        "/exchanges//key",
        "/exchanges/amq.default/key",
        "/exchanges/x/a/b",
        "/exchanges/x/%4",
        "/queues/a/b",
        "/queues/a b",
        "/nodes/q",
        &long,
    ] {
        let fault = target(Some(address)).unwrap_err();
        assert_eq!(fault.condition, Condition::InvalidField);
        assert!(fault.text.starts_with("Attach refused: bad address '/"), "{}", fault.text);
        assert!(fault.text.len() < 300);
    }
    let fault = source("/exchanges/x/key").unwrap_err();
    assert!(fault.text.ends_with("sources are queues, '/queues/QUEUE'"), "{}", fault.text);
    let none = SourceAddress::of_source(&SourceTerminus::default(), true).unwrap_err();
    assert_eq!(none.text, "Attach refused: the source has no address");
    let dynamic = SourceTerminus { dynamic: true, ..SourceTerminus::default() };
    let fault = SourceAddress::of_source(&dynamic, true).unwrap_err();
    assert_eq!(fault.condition, Condition::NotImplemented);
}

#[test]
fn addresses_of_version_1_are_refused_with_what_to_write_instead() {
    for (address, instead) in [
        ("/queue/q", "'/queues/q'"),
        ("/amq/queue/a b", "'/queues/a%20b'"),
        ("q", "'/queues/q'"),
        ("/exchange/x/a%2Fb", "'/exchanges/x/a%2Fb'"),
        ("/exchange/x", "'/exchanges/x'"),
        ("/topic/a.#", "'/exchanges/amq.topic/a.%23'"),
        ("/queue", "no address, and '/queues/QUEUE' in each message's property 'to'"),
    ] {
        let fault = target(Some(address)).unwrap_err();
        let expected =
            format!("Attach refused: {VERSION_1} Instead of '{address}' write {instead}.");
        assert_eq!(fault, invalid(expected));
    }
    let fault = source("/exchange/x/k").unwrap_err();
    let expected = "write '/queues/QUEUE', with a queue that is bound to exchange 'x'.";
    assert!(fault.text.ends_with(expected), "{}", fault.text);
}

#[test]
fn addresses_of_version_1_where_they_are_permitted() {
    let by_subject =
        |exchange| TargetAddress::Exchange { exchange: named(exchange), routing_key: None };
    let bound =
        |exchange, key| SourceAddress::Bound { exchange: named(exchange), routing_key: named(key) };
    for (address, as_target, as_source) in [
        (
            "/queue/a%2Fb%20",
            TargetAddress::Declared(named("a/b%20")),
            Some(SourceAddress::Declared(named("a/b%20"))),
        ),
        ("q", TargetAddress::Declared(named("q")), Some(SourceAddress::Declared(named("q")))),
        ("/amq/queue/q", queue("q"), Some(SourceAddress::Queue(named("q")))),
        ("/exchange/x/k", exchange("x", "k"), Some(bound("x", "k"))),
        ("/exchange/x", by_subject("x"), Some(bound("x", ""))),
        ("/exchange/x/", by_subject("x"), Some(bound("x", ""))),
        ("/topic/a.#", exchange("amq.topic", "a.#"), Some(bound("amq.topic", "a.#"))),
        ("/queue", by_subject(""), None),
    ] {
        assert_eq!(target_of(Some(address), true), Ok(as_target), "{address}");
        assert_eq!(source_of(address, true).ok(), as_source, "{address}");
    }
    for bad in
        ["", "/", "/queue/", "/queue/a/b", "/topic/a/b", "/exchange//k", "/exchange/x/a/b", "a/b"]
    {
        for version_1 in [false, true] {
            let refused = refused_as_bad(bad);
            assert_eq!(target_of(Some(bad), version_1), Err(refused.clone()), "{bad}");
            assert_eq!(source_of(bad, version_1), Err(refused), "{bad}");
        }
    }
    // Those of version 2 are the same.
    assert_eq!(target_of(Some("/queues/q"), true), Ok(queue("q")));
    assert_eq!(source_of("/queues/q", true), Ok(SourceAddress::Queue(named("q"))));
    assert_eq!(target_of(None, true), Ok(TargetAddress::Anonymous));
}

#[test]
fn nodes_of_other_brokers_are_refused_in_words() {
    for (address, words) in [
        ("$cbs", "'$cbs' is not supported: tokens are put to '/management'"),
        ("$management", "'$management' is not supported: the management node is '/management'"),
        ("topic/$management", "'$management' is not supported"),
    ] {
        for version_1 in [false, true] {
            let target = target_of(Some(address), version_1).unwrap_err();
            let source = source_of(address, version_1).unwrap_err();
            assert_eq!(source, target);
            assert_eq!(source.condition, Condition::NotImplemented);
            assert!(source.text.contains(words), "{}", source.text);
        }
    }
    assert_eq!(source("/queues/$cbs"), Ok(SourceAddress::Queue(named("$cbs"))));
}

#[test]
fn a_message_says_where_it_goes_to() {
    let of = |to| {
        let mut out = Vec::new();
        let exchange_bytes = put_target_of_message(Some(ValueRef::Str(to)), &mut out)?;
        let (exchange, key) = out.split_at(exchange_bytes);
        Ok::<_, ProtocolFault>([exchange, key].map(|it| String::from_utf8_lossy(it).into_owned()))
    };
    assert_eq!(of("/queues/a%2Fb").unwrap(), ["", "a/b"]);
    assert_eq!(of("/exchanges/x/key").unwrap(), ["x", "key"]);
    assert_eq!(of("/exchanges/%78").unwrap(), ["x", ""]);
    for (to, text) in [
        (Some(ValueRef::Str("/management")), "bad 'to' address string: /management"),
        (Some(ValueRef::Str("q")), "bad 'to' address string: q"),
        (Some(ValueRef::Str("/queues/%")), "bad 'to' address string: /queues/%"),
        (Some(ValueRef::Str("/queues/")), "bad 'to' address string: /queues/"),
        (Some(ValueRef::U64(1)), "bad 'to' address: not a string"),
        (None, "anonymous terminus requires 'to' address to be set"),
    ] {
        let fault = ProtocolFault::link(Condition::PreconditionFailed, text);
        assert_eq!(put_target_of_message(to, &mut Vec::new()), Err(fault));
    }
}

proptest! {
    #[test]
    fn any_name_has_an_address(name in prop::collection::vec(any::<u8>(), 1..=255)) {
        let mut address = QUEUES.to_owned();
        put_percent_encoded(&name, &mut address);
        prop_assert_eq!(source(&address), Ok(SourceAddress::Queue(Cow::Borrowed(&name[..]))));
        prop_assert_eq!(target(Some(&address)), Ok(TargetAddress::Queue(Cow::Borrowed(&name[..]))));
    }

    #[test]
    fn any_text_is_an_address_or_refused_shortly(address in "[/a-z%0-9ü]{0,600}") {
        for fault in [source(&address).err(), target(Some(&address)).err()].into_iter().flatten() {
            prop_assert_eq!(fault.condition, Condition::InvalidField);
            prop_assert!(fault.text.len() < 800);
        }
    }
}
