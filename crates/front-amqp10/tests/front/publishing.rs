//! Links on which the client publishes.

use crate::harness::{M, Talk, id, key, message, publisher, whole};
use amqp10::{
    Attach, DeliveryOutcome, DeliveryState, Detach, LinkTarget, Performative, ReceiverSettleMode,
    SenderSettleMode, SerialNumber, Symbols, TargetTerminus, Transfer, ValueRef,
};
use front_amqp10::{AttachedLink, ConnectionSettings, LinkRequest, ProtocolFault};
use message::Refusal;
use session::{ChannelId, Confirmation, Error, ErrorKind, LinkId, RefusedBy};
use testing::amqp10_client::{message_to, publisher_to};

const SESSION: ChannelId = ChannelId(0);

fn attached() -> Talk {
    attached_with(publisher(0))
}

fn attached_with(attach: Attach<'_>) -> Talk {
    let mut talk = Talk::begun();
    talk.says(&Performative::Attach(Box::new(attach)));
    talk.hears();
    talk.takes_asked();
    talk
}

#[test]
fn a_link_leads_to_the_queue_that_was_made_for_it() {
    let dynamic = || {
        let publisher = publisher_to(0, None);
        let Some(LinkTarget::Terminus(target)) = publisher.target else { panic!("a publisher") };
        let capabilities = Symbols::One("temporary-queue");
        let target = TargetTerminus { dynamic: true, capabilities, ..target };
        Attach { target: Some(LinkTarget::Terminus(target)), ..publisher }
    };
    let Some(LinkTarget::Terminus(target)) = dynamic().target else { panic!("a publisher") };
    let address = Some(ValueRef::Str("/queues/made"));
    let target = Some(LinkTarget::Terminus(TargetTerminus { address, ..target }));
    let made = AttachedLink { link: LinkId(100), source: None, target, filters: None };
    let mut talk = Talk::begun();
    talk.attaches = false;
    talk.says(&Performative::Attach(Box::new(dynamic())));
    talk.front.attached(key(0), Ok(made), &mut Vec::new());
    talk.transfers(whole(0, 0), M);
    talk.says(&Performative::Detach(Detach { handle: 0, closed: true, error: None }));
    // The broker deletes the queue with the link.
    assert_eq!(talk.takes_asked()[1..], ["publish '' 'made' inline 6", "detach 100"]);
}

fn part(handle: u32, n: Option<u32>, more: bool) -> Transfer<'static> {
    Transfer { delivery_id: n.map(id), more, ..whole(handle, 0) }
}

#[test]
fn an_attach_is_answered_with_credit() {
    let mut talk = Talk::begun();
    let attach = Attach { initial_delivery_count: Some(id(u32::MAX)), ..publisher(3) };
    talk.says(&Performative::Attach(Box::new(attach)));
    assert_eq!(talk.takes_asked(), ["attach 3 link Sender"]);
    assert_eq!(
        talk.hears(),
        ["attach 3 Receiver source true target true", "flow 0+400 link 3 4294967295+170"]
    );
}

#[test]
fn messages_are_answered_in_ranges() {
    let mut talk = attached_with(publisher_to(0, Some("/exchanges/x/q")));
    for n in 0..6 {
        talk.transfers(whole(0, n), &message(b"message"));
    }
    talk.transfers(Transfer { settled: Some(true), ..whole(0, 6) }, &message(b"message"));
    let asked = talk.takes_asked();
    assert_eq!((asked.len(), &*asked[0]), (7, "publish 'x' 'q' inline 12"));
    assert_eq!(asked[6], asked[0]);
    assert!(talk.published.iter().all(|it| *it == message(b"message")));
    assert_eq!(talk.hears(), [""; 0]);
    talk.front.answer(SESSION, 4, 4, Confirmation::Unroutable);
    talk.front.answer(SESSION, 2, 3, Confirmation::Accepted);
    talk.front.answer(SESSION, 1, 1, Confirmation::Accepted);
    talk.front.answer(SESSION, 5, 7, Confirmation::Accepted);
    assert_eq!(
        talk.hears(),
        [
            "disposition Receiver 0..=2 true Accepted",
            "disposition Receiver 3..=3 true Released",
            "disposition Receiver 4..=5 true Accepted",
        ]
    );
    // An answer that comes twice has nothing to answer.
    talk.front.answer(SESSION, 1, 7, Confirmation::Accepted);
    assert_eq!(talk.hears(), [""; 0]);
}

#[test]
fn a_refusal_names_queue_and_reason() {
    let mut talk = attached();
    talk.transfers(whole(0, 0), M);
    let by = RefusedBy { queue: "q", why: Refusal::MaxLen };
    talk.front.answer(SESSION, 1, 1, Confirmation::Refused(by));
    let mut info = Vec::new();
    talk.hears_each(|_, performative, _| {
        let text = format!("{performative:?}");
        let Performative::Disposition(it) = performative else { panic!("{text}") };
        let Some(DeliveryState::Outcome(DeliveryOutcome::Rejected(rejected))) = it.state else {
            panic!("{text}")
        };
        let error = rejected.error.unwrap();
        info.push(format!("{:?} {:?}", error.info.get("queue"), error.info.get("reason")));
        info.push(format!("{} {}", error.condition.0, error.description.unwrap()));
    });
    let described = "amqp:resource-limit-exceeded queue 'q' exceeded maximum length";
    assert_eq!(info, [r#"Some(Str("q")) Some(Symbol("maxlen"))"#, described]);
}

#[test]
fn a_message_whose_queue_was_deleted_is_released() {
    let mut talk = attached();
    talk.transfers(whole(0, 0), M);
    let by = RefusedBy { queue: "q", why: Refusal::Deleted };
    talk.front.answer(SESSION, 1, 1, Confirmation::Refused(by));
    assert_eq!(talk.hears(), ["disposition Receiver 0..=0 true Released"]);
}

#[test]
fn deliveries_arrive_in_parts_interleaved_over_links() {
    let mut talk = attached();
    talk.says(&Performative::Attach(Box::new(publisher(1))));
    talk.hears();
    let (ab, xyz) = (message(b"ab"), message(b"xyz"));
    talk.transfers(part(0, Some(0), true), &ab[..1]);
    talk.transfers(part(1, Some(1), true), &xyz[..1]);
    talk.transfers(part(0, None, true), &ab[1..]);
    assert_eq!(talk.front.unfinished_bytes(), 1 + ab.len());
    talk.transfers(part(1, Some(1), false), &xyz[1..]);
    talk.transfers(part(0, None, false), b"");
    assert_eq!(talk.published, [xyz, ab]);
    assert_eq!(talk.front.unfinished_bytes(), 0);
    talk.front.answer(SESSION, 1, 2, Confirmation::Accepted);
    assert_eq!(talk.hears(), ["disposition Receiver 0..=1 true Accepted"]);
}

#[test]
fn an_aborted_delivery_is_dropped() {
    let mut talk = attached();
    talk.transfers(part(0, Some(0), true), b"a");
    talk.transfers(Transfer { aborted: true, ..part(0, None, false) }, b"");
    talk.transfers(whole(0, 1), M);
    assert_eq!(talk.published, [M.to_vec()]);
    assert_eq!(talk.front.unfinished_bytes(), 0);
}

#[test]
fn credit_is_renewed_at_half_while_few_publishes_are_unanswered() {
    let mut talk = attached();
    (0..84).for_each(|n| talk.transfers(whole(0, n), M));
    assert_eq!(talk.hears(), [""; 0]);
    talk.transfers(whole(0, 84), M);
    assert_eq!(talk.hears(), ["flow 85+315 link 0 85+170"]);
    // 170 more, and none is answered: the window of the session opens, the credit does not.
    (85..255).for_each(|n| talk.transfers(whole(0, n), M));
    assert_eq!(talk.hears(), ["flow 200+400"]);
    talk.transfers(whole(0, 255), M);
    assert_eq!(talk.hears(), ["detach 0 amqp:link:transfer-limit-exceeded"]);
}

#[test]
fn answers_renew_credit() {
    let mut talk = attached();
    (0..255).for_each(|n| talk.transfers(whole(0, n), M));
    talk.hears();
    talk.front.answer(SESSION, 1, 85, Confirmation::Accepted);
    assert_eq!(talk.hears(), ["disposition Receiver 0..=84 true Accepted"]);
    talk.front.answer(SESSION, 86, 86, Confirmation::Accepted);
    assert_eq!(
        talk.hears(),
        ["flow 255+345 link 0 255+170", "disposition Receiver 85..=85 true Accepted"]
    );
}

#[test]
fn faults_of_publishers() {
    let settled = SenderSettleMode::Settled;
    let unsettled = SenderSettleMode::Unsettled;
    let invalid = "detach 0 amqp:invalid-field";
    let cases: [(Attach<'_>, Transfer<'_>, String); 5] = [
        (
            publisher(0),
            Transfer { delivery_id: None, ..whole(0, 0) },
            format!("{invalid} 'the first transfer of a delivery has no delivery-id'"),
        ),
        (
            Attach { snd_settle_mode: settled, ..publisher(0) },
            whole(0, 0),
            format!(
                "{invalid} 'sender settle mode is 'settled' but transfer settled flag is interpreted as being 'false''"
            ),
        ),
        (
            Attach { snd_settle_mode: unsettled, ..publisher(0) },
            Transfer { settled: Some(true), ..whole(0, 0) },
            format!(
                "{invalid} 'sender settle mode is 'unsettled' but transfer settled flag is interpreted as being 'true''"
            ),
        ),
        (
            publisher(0),
            Transfer { rcv_settle_mode: Some(ReceiverSettleMode::Second), ..whole(0, 0) },
            "detach 0 amqp:not-implemented 'rcv-settle-mode second not supported'".to_owned(),
        ),
        (
            publisher(0),
            whole(9, 0),
            "end amqp:session:unattached-handle 'Unattached link handle: 9'".to_owned(),
        ),
    ];
    for (attach, transfer, heard) in cases {
        let mut talk = attached_with(attach);
        talk.transfers(transfer, M);
        assert_eq!(talk.hears(), [heard.as_str()]);
        assert_eq!(talk.published.len(), 0);
    }
}

#[test]
fn fields_that_change_within_a_delivery_detach_the_link() {
    for (is_settled, second, text) in [
        (
            true,
            part(0, Some(1), false),
            "delivery-id of continuation transfer (1) differs from delivery-id on first transfer (0)",
        ),
        (
            true,
            Transfer { settled: Some(false), ..part(0, None, false) },
            "field 'settled' of continuation transfer (false) differs from (interpreted) field 'settled' \
             on first transfer (true)",
        ),
        (
            false,
            Transfer { settled: Some(true), ..part(0, None, false) },
            "field 'settled' of continuation transfer (true) differs from (interpreted) field 'settled' \
             on first transfer (false)",
        ),
    ] {
        let mut talk = attached();
        talk.transfers(Transfer { settled: Some(is_settled), ..part(0, Some(0), true) }, b"a");
        talk.transfers(second, b"b");
        assert_eq!(talk.hears(), [format!("detach 0 amqp:invalid-field '{text}'")]);
        assert_eq!(talk.takes_asked(), ["detach 100"]);
        assert_eq!(talk.front.unfinished_bytes(), 0);
        // What the client had sent by then is passed over, until it answers.
        talk.transfers(whole(0, 2), b"c");
        talk.says(&Performative::Detach(Detach { handle: 0, closed: true, error: None }));
        assert_eq!(talk.hears(), [""; 0]);
        talk.says(&Performative::Attach(Box::new(publisher(0))));
        assert_eq!(talk.takes_asked(), ["attach 0 link Sender"]);
    }
}

#[test]
fn what_is_no_message_detaches_the_link_and_is_not_counted() {
    let malformed = |text: &str| format!("amqp:decode-error 'failed to parse message: {text}'");
    for (sections, told) in [
        (b"".to_vec(), malformed("it has no body")),
        (M[..5].to_vec(), malformed("the data ends before the value does")),
        ([M, b"\x00\x53\x70\x45"].concat(), malformed("a section is unknown or not in its place")),
        (
            [b"\x00\x53\x72\xc1\x06\x02\xa3\x02my\x41", M].concat(),
            malformed("the key of a message annotation does not begin with 'x-'"),
        ),
        (
            [b"\x00\x53\x72\xc1\x08\x02\xa3\x04x-cc\x41", M].concat(),
            "amqp:invalid-field 'bad value for 'x-cc' message-annotation: not a list of routing keys'"
                .to_owned(),
        ),
    ] {
        let mut talk = attached();
        talk.says(&Performative::Attach(Box::new(publisher(1))));
        talk.hears();
        talk.takes_asked();
        talk.transfers(whole(0, 0), M);
        talk.transfers(whole(0, 1), &sections);
        // The next publish has the next number.
        talk.transfers(whole(1, 2), M);
        let heard = talk.hears();
        assert_eq!(heard.last(), Some(&format!("detach 0 {told}")));
        let is_message = told.starts_with("amqp:invalid-field");
        assert_eq!(is_message, heard[0] == "disposition Receiver 1..=1 true Released");
        let published = "publish '' 'q' inline 6";
        assert_eq!(talk.takes_asked(), [published, "detach 100", published]);
        talk.front.answer(SESSION, 1, 2, Confirmation::Accepted);
        assert_eq!(talk.hears(), ["disposition Receiver 2..=2 true Accepted"]);
    }
}

#[test]
fn a_link_is_detached_when_its_queue_is_gone() {
    let mut talk = attached();
    talk.transfers(whole(0, 0), &message(b"message"));
    talk.front.answer(SESSION, 1, 1, Confirmation::Unroutable);
    assert_eq!(talk.hears(), ["detach 0 amqp:resource-deleted 'no queue 'q' in vhost '/''"]);
    let mut replies = attached_with(publisher_to(0, Some("/queues/amq.rabbitmq.reply-to.t")));
    replies.transfers(whole(0, 0), &message(b"message"));
    replies.front.answer(SESSION, 1, 1, Confirmation::Unroutable);
    assert_eq!(replies.hears(), ["disposition Receiver 0..=0 true Released"]);
}

/// A link whose messages say where each of them goes to.
fn anonymous() -> Talk {
    attached_with(publisher_to(0, None))
}

/// The error of the first rejection or detach that the client hears, with its info.
fn told_error(talk: &mut Talk) -> String {
    let mut told = String::new();
    talk.hears_each(|_, performative, _| {
        let (what, error) = if let Performative::Detach(it) = performative {
            ("detach", it.error)
        } else if let Performative::Disposition(it) = performative
            && let Some(DeliveryState::Outcome(DeliveryOutcome::Rejected(it))) = it.state
        {
            ("rejected", it.error)
        } else {
            return;
        };
        let error = error.unwrap();
        let tag = error.info.get("delivery-tag");
        told = format!("{what} {} {:?} {tag:?}", error.condition.0, error.description.unwrap());
    });
    told
}

#[test]
fn messages_say_where_they_go_to() {
    let mut talk = anonymous();
    talk.transfers(whole(0, 0), &message_to("/queues/a%2Fb", b"m"));
    talk.transfers(whole(0, 1), &message_to("/exchanges/x/k", b"m"));
    talk.transfers(part(0, Some(2), true), &message_to("/exchanges/x", b"m")[..9]);
    talk.transfers(part(0, None, false), &message_to("/exchanges/x", b"m")[9..]);
    let n_bytes = |to| message_to(to, b"m").len();
    assert_eq!(
        talk.takes_asked(),
        [
            format!("publish '' 'a/b' inline {}", n_bytes("/queues/a%2Fb")),
            format!("publish 'x' 'k' inline {}", n_bytes("/exchanges/x/k")),
            format!("publish 'x' '' owned {}", n_bytes("/exchanges/x")),
        ]
    );
    talk.front.answer(SESSION, 1, 3, Confirmation::Accepted);
    assert_eq!(talk.hears(), ["disposition Receiver 0..=2 true Accepted"]);
}

#[test]
fn messages_that_go_nowhere_are_rejected_and_not_counted() {
    let mut talk = anonymous();
    let unmet = "amqp:precondition-failed";
    let cc =
        [b"\x00\x53\x72\xc1\x08\x02\xa3\x04x-cc\x41", &*message_to("/queues/q", b"m")].concat();
    for (n, sections, told) in [
        (0, M.to_vec(), format!(r#"{unmet} "anonymous terminus requires 'to' address to be set""#)),
        (1, message_to("q", b"m"), format!(r#"{unmet} "bad 'to' address string: q""#)),
        (
            2,
            cc,
            r#"amqp:invalid-field "bad value for 'x-cc' message-annotation: not a list of routing keys""#
                .to_owned(),
        ),
    ] {
        talk.transfers(whole(0, n), &sections);
        assert_eq!(told_error(&mut talk), format!("rejected {told} None"));
    }
    talk.transfers(whole(0, 3), &message_to("/queues/q", b"m"));
    assert_eq!(talk.takes_asked().len(), 1);
    talk.front.answer(SESSION, 1, 1, Confirmation::Accepted);
    assert_eq!(talk.hears(), ["disposition Receiver 3..=3 true Accepted"]);
    // Nobody hears of a rejection: the link ends.
    talk.transfers(Transfer { settled: Some(true), ..whole(0, 4) }, M);
    let told = told_error(&mut talk);
    assert!(told.starts_with("detach amqp:precondition-failed"), "{told}");
    assert!(told.ends_with("Some(Binary([116]))"), "{told}");
    assert_eq!(talk.takes_asked(), ["detach 100"]);
}

/// Rejected messages do not count as unanswered ones: the credit is renewed.
#[test]
fn rejections_renew_credit() {
    let mut talk = anonymous();
    for n in 0..500 {
        talk.transfers(whole(0, n), M);
    }
    let heard = talk.hears();
    assert_eq!(heard.iter().filter(|it| it.contains("Rejected")).count(), 500);
    assert!(heard.iter().any(|it| it.contains("link 0 85+170")), "{heard:?}");
}

#[test]
fn the_broker_refuses_single_publishes() {
    let missing = || Error::new(ErrorKind::NotFound, "no exchange 'x' in vhost '/'");
    let mut requests = Vec::new();
    let to_x = message_to("/exchanges/x", b"m");
    // Without a target of the link: rejected, or the link ends.
    let mut talk = anonymous();
    talk.transfers(whole(0, 0), &to_x);
    talk.transfers(Transfer { settled: Some(true), ..whole(0, 1) }, &to_x);
    talk.front.refuse_publish(SESSION, 1, missing(), &mut requests);
    let told = r#"amqp:not-found "no exchange 'x' in vhost '/'""#;
    assert_eq!(told_error(&mut talk), format!("rejected {told} None"));
    assert_eq!(requests.len(), 0);
    talk.front.refuse_publish(SESSION, 2, missing(), &mut requests);
    assert_eq!(told_error(&mut talk), format!("detach {told} Some(Binary([116]))"));
    assert!(matches!(requests.pop(), Some(LinkRequest::Detach { .. })));
    // With one: released, and the link ends; also for other reasons, without an outcome.
    let mut talk = attached();
    talk.transfers(whole(0, 0), M);
    talk.transfers(whole(0, 1), M);
    talk.front.answer(SESSION, 1, 1, Confirmation::Accepted);
    talk.front.refuse_publish(SESSION, 2, missing(), &mut requests);
    assert_eq!(
        talk.hears(),
        [
            "disposition Receiver 1..=1 true Released",
            "disposition Receiver 0..=0 true Accepted",
            "detach 0 amqp:not-found 'no exchange 'x' in vhost '/''"
        ]
    );
    for kind in [ErrorKind::ForeignUserId, ErrorKind::InternalExchange] {
        let mut talk = attached();
        talk.transfers(whole(0, 0), M);
        talk.front.refuse_publish(SESSION, 1, Error::new(kind, "no"), &mut requests);
        assert_eq!(talk.hears(), ["detach 0 amqp:unauthorized-access 'no'"]);
        // What was refused once is answered.
        talk.front.refuse_publish(SESSION, 1, Error::new(kind, "no"), &mut requests);
        assert_eq!(talk.hears(), [""; 0]);
    }
}

#[test]
fn a_message_that_is_too_large_ends_the_session() {
    let settings = ConnectionSettings { message_bytes_max: 100, ..ConnectionSettings::default() };
    let mut talk = Talk::begun_with(settings, crate::harness::open(), crate::harness::begin());
    talk.says(&Performative::Attach(Box::new(publisher(0))));
    talk.hears();
    talk.transfers(part(0, Some(0), true), &[0; 60]);
    talk.transfers(part(0, None, false), &[0; 41]);
    assert_eq!(
        talk.hears(),
        ["end amqp:link:message-size-exceeded \
             'message size (101 bytes) > maximum message size (100 bytes)'"]
    );
    assert_eq!(talk.front.unfinished_bytes(), 0);
}

#[test]
fn refused_attaches_have_no_terminus() {
    let refused = ["attach 0 Receiver source true target false"];
    let cases: [(Attach<'_>, &str); 4] = [
        (
            Attach { incomplete_unsettled: true, ..publisher(0) },
            "detach 0 amqp:not-implemented 'Link recovery not supported'",
        ),
        (
            Attach { rcv_settle_mode: ReceiverSettleMode::Second, ..publisher(0) },
            "detach 0 amqp:not-implemented 'rcv-settle-mode second not supported'",
        ),
        (
            Attach { initial_delivery_count: None::<SerialNumber>, ..publisher(0) },
            "detach 0 amqp:invalid-field 'Attach refused: no initial-delivery-count'",
        ),
        (
            Attach { target: None, ..publisher(0) },
            "detach 0 amqp:invalid-field 'Attach refused: no target'",
        ),
    ];
    for (attach, detach) in cases {
        let mut talk = Talk::begun();
        talk.says(&Performative::Attach(Box::new(attach)));
        assert_eq!(talk.hears(), [refused[0], detach]);
        assert_eq!(talk.takes_asked(), [""; 0]);
    }
}

#[test]
fn the_broker_refuses_links_and_ends_them() {
    let mut talk = Talk::begun();
    talk.attaches = false;
    talk.says(&Performative::Attach(Box::new(publisher(0))));
    assert_eq!(talk.hears(), [""; 0]);
    let error = Error::new(ErrorKind::NotFound, "no exchange 'x' in vhost '/'");
    let refusal = Err(ProtocolFault::of_refusal(error));
    talk.front.attached(key(0), refusal, &mut Vec::new());
    assert_eq!(
        talk.hears(),
        [
            "attach 0 Receiver source true target false",
            "detach 0 amqp:not-found 'no exchange 'x' in vhost '/''"
        ]
    );
    // A missing permission ends the session.
    talk.says(&Performative::Attach(Box::new(publisher(1))));
    let error = Error::new(ErrorKind::AccessRefused, "write access refused");
    let refusal = Err(ProtocolFault::of_refusal(error));
    talk.takes_asked();
    talk.front.attached(key(1), refusal, &mut Vec::new());
    assert_eq!(talk.hears(), ["end amqp:unauthorized-access 'write access refused'"]);
    // A link whose queue is deleted.
    let mut talk = attached();
    let deleted = ProtocolFault::link(amqp10::Condition::ResourceDeleted, "");
    talk.front.broker_ends(key(0), &deleted);
    assert_eq!(talk.hears(), ["detach 0 amqp:resource-deleted"]);
    assert_eq!(talk.takes_asked(), [""; 0]);
}

#[test]
fn a_handle_belongs_to_one_link() {
    let mut talk = attached();
    talk.says(&Performative::Attach(Box::new(publisher(0))));
    assert_eq!(
        talk.hears(),
        ["end amqp:session:handle-in-use 'handle 0 is already associated with a link'"]
    );
    let mut talk = Talk::begun();
    talk.says(&Performative::Attach(Box::new(publisher(256))));
    assert_eq!(
        talk.hears(),
        ["end amqp:connection:framing-error \
             'link handle value (256) exceeds maximum link handle value (255)'"]
    );
}

#[test]
fn a_transfer_before_the_attach_detaches_behind_it() {
    let mut talk = Talk::begun();
    talk.attaches = false;
    talk.says(&Performative::Attach(Box::new(publisher(0))));
    talk.transfers(whole(0, 0), M);
    assert_eq!(talk.hears(), [""; 0]);
    talk.attach(key(0));
    assert_eq!(
        talk.hears(),
        [
            "attach 0 Receiver source true target true",
            "flow 1+399 link 0 0+170",
            "detach 0 amqp:link:transfer-limit-exceeded"
        ]
    );
    assert_eq!(talk.takes_asked(), ["attach 0 link Sender", "detach 100"]);
}

#[test]
fn a_detach_before_the_attach_is_answered_behind_it() {
    let mut talk = Talk::begun();
    talk.attaches = false;
    talk.says(&Performative::Attach(Box::new(publisher(0))));
    talk.says(&Performative::Detach(Detach { handle: 0, closed: true, error: None }));
    assert_eq!(talk.hears(), [""; 0]);
    talk.attach(key(0));
    assert_eq!(
        talk.hears(),
        ["attach 0 Receiver source true target true", "flow 0+400 link 0 0+170", "detach 0"]
    );
    assert_eq!(talk.takes_asked(), ["attach 0 link Sender", "detach 100"]);
}
