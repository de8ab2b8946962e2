use super::*;
use amqp10::{LinkTarget, TargetTerminus};
use testing::amqp10_client::{consumer, publisher};

fn attachment() -> Attachment {
    Attachment {
        queue: ShortString::default(),
        consumer_tag: ShortString::default(),
        no_ack: false,
        source: None,
        exclusive: false,
        arguments: session::Table::new(),
    }
}

/// The subscription that an attach asks for, and its queue; or the refusal.
fn asked(name: &str, source: SourceTerminus<'_>) -> Result<(Subscription, String), String> {
    let address = source.address.or(Some(ValueRef::Str("news")));
    let source = Some(SourceTerminus { address, ..source });
    let attach = Attach { name, source, ..consumer(0, "") };
    match topic_op(&attach, "me/1", attachment) {
        Ok(Some(TopicOp::Subscribe(it))) => {
            assert!(it.consumer.source.is_some_and(|source| source.filters.is_empty()));
            Ok((it.subscription, it.queue.unwrap_or_default().to_text().into_owned()))
        }
        Ok(op) => panic!("{op:?}"),
        Err(fault) => Err(format!("{:?} {}", fault.condition, fault.text)),
    }
}

fn with<'a>(capabilities: &'a [&'a str], expiry_policy: &'a str) -> SourceTerminus<'a> {
    let capabilities = Symbols::Listed(capabilities);
    SourceTerminus {
        capabilities,
        expiry_policy: Symbol(expiry_policy),
        ..SourceTerminus::default()
    }
}

#[test]
fn subscriptions_are_named_by_container_and_link() {
    for (link, capabilities, policy, kind, queue) in [
        ("l", &["topic"][..], "link-detach", SubscriptionKind::Own, ""),
        ("sub", &["topic"], "never", SubscriptionKind::Durable, "jms.durable.me%2F1/sub"),
        (
            "a/b|2",
            &["shared", "topic"],
            "never",
            SubscriptionKind::SharedDurable,
            "jms.durable.me%2F1/a%2Fb",
        ),
        (
            "s|volatile1",
            &["topic", "shared"],
            "link-detach",
            SubscriptionKind::Shared,
            "jms.shared.me%2F1/s",
        ),
        (
            "s|global-volatile2",
            &["topic", "shared", "global"],
            "",
            SubscriptionKind::Shared,
            "jms.shared./s",
        ),
        (
            "s|global",
            &["topic", "shared", "global"],
            "never",
            SubscriptionKind::SharedDurable,
            "jms.durable./s",
        ),
        // It is nobody's who does not share it.
        ("s", &["topic", "global"], "never", SubscriptionKind::Durable, "jms.durable.me%2F1/s"),
    ] {
        let (subscription, name) = asked(link, with(capabilities, policy)).unwrap();
        assert_eq!((subscription.kind, &*name), (kind, queue), "{link}");
        assert_eq!(subscription.topic.as_bytes(), b"news");
        assert_eq!((subscription.selector, subscription.no_local), (None, false));
    }
}

#[test]
fn filters_of_subscriptions_are_told_by_number_or_name() {
    let mut filters = Vec::new();
    let subscription = Subscription {
        topic: ShortString::from_static("news"),
        kind: SubscriptionKind::SharedDurable,
        selector: Some("n = 1".to_owned()),
        no_local: true,
    };
    let source = source_of(&subscription, &mut filters);
    assert_eq!(source.expiry_policy, NEVER);
    let (again, _) = asked("s", source).unwrap();
    assert_eq!(again, subscription, "what is told is what was asked for");
    let mut named = vec![0x00];
    ValueRef::Symbol(SELECTOR.name).encode(&mut named);
    ValueRef::Str("n = 2").encode(&mut named);
    let (named, _) = ValueRef::decode(&named).unwrap();
    let mut wrong = Vec::new();
    put_described(&mut wrong, SELECTOR.code);
    ValueRef::U32(7).encode(&mut wrong);
    let (wrong, _) = ValueRef::decode(&wrong).unwrap();
    for (filter, selector) in [(named, Some("n = 2")), (wrong, None), (ValueRef::Null, None)] {
        let mut filters = Vec::new();
        put_map(&mut filters, |items| items.put_symbol("any", filter));
        let Ok((ValueRef::Map(filters), _)) = ValueRef::decode(&filters) else { panic!("a map") };
        let source = SourceTerminus { filter: Some(filters), ..with(&["topic"], "") };
        assert_eq!(asked("s", source).unwrap().0.selector.as_deref(), selector);
    }
}

#[test]
fn what_cannot_be_a_subscription_is_refused() {
    let long = "n".repeat(250);
    for (link, source, told) in [
        ("|x", with(&["topic"], "never"), "has no name"),
        (&*long, with(&["topic"], "never"), "too long"),
        ("s", with(&["temporary-topic"], "never"), "have no names"),
        ("s", with(&["temporary-topic", "shared"], ""), "have no names"),
    ] {
        let refused = asked(link, source).unwrap_err();
        assert!(refused.starts_with("InvalidField") && refused.contains(told), "{refused}");
    }
    let topic = "t".repeat(256);
    for (address, is_bad) in [("", true), (&*topic, true), (&topic[1..], false)] {
        let address = Some(ValueRef::Str(address));
        let source = SourceTerminus { address, ..with(&["topic"], "") };
        assert_eq!(SourceAddress::of_source(&source, true).is_err(), is_bad);
    }
}

#[test]
fn other_links_are_not_about_topics() {
    let op = |attach: &Attach<'_>| topic_op(attach, "me", attachment).unwrap();
    assert!(op(&consumer(0, "news")).is_none());
    let capabilities = Symbols::One("topic");
    for address in ["/queues/news", "/exchanges/amq.topic/news", "/management"] {
        let address = Some(ValueRef::Str(address));
        let source = SourceTerminus { address, capabilities, ..SourceTerminus::default() };
        assert!(op(&Attach { source: Some(source), ..consumer(0, "") }).is_none());
        let attach = publisher(0, "");
        let Some(LinkTarget::Terminus(target)) = attach.target else { unreachable!("it has one") };
        let target = LinkTarget::Terminus(TargetTerminus { address, capabilities, ..target });
        assert!(op(&Attach { target: Some(target), ..attach }).is_none());
    }
    let names = |desired_capabilities| {
        let attach = Attach { name: "s|global", source: None, ..consumer(0, "") };
        match op(&Attach { desired_capabilities, ..attach }) {
            Some(TopicOp::LookUp { queue, .. }) => queue.to_text().into_owned(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(names(Symbols::NONE), "jms.durable.me/s");
    assert_eq!(names(Symbols::Listed(&["shared", "global"])), "jms.durable./s");
}
