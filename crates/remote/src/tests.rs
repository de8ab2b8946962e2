//! A queue of another node that is down, and the bytes that both nodes exchange.

use super::*;
use crate::commands::{LinkTold, SessionCommand};
use crate::requests::{LinkTerms, SessionRequest, SessionResponse};
use crate::wire::{AnsweredPuts, DeliverFrame, PutFrame, TakenPuts};
use bytes::Bytes;
use message::{Annotations, Body, BodyForm, MessageRef, Refusal};
use meta::{ConnectionId, Name, QueueDef, QueueId, QueueKind};
use queue::{AckMode, Checkout, CreditMode, Return};
use queue_type::{
    AckTimeout, Any, AttachRefused, DeleteConditions, Incoming, Named, Publishes, QueueRefused,
    QueueStat, RefusedItem,
};
use session::{
    Attachment, ChannelId, ConsumerCredit, CreditRequest, Delivery, LinkId, LinkSource,
    MessageChanges, Outcome, Position, ShortString, Table,
};
use std::sync::Arc;
use stdx::UnixMs;
use testing::Random;

fn remote(durable: bool) -> Arc<RemoteQueue> {
    let [vhost, name, home] = ["/", "q", "rabbit@b"].map(Name::from);
    let def = QueueDef {
        id: QueueId(1),
        vhost,
        name,
        kind: QueueKind::Classic,
        durable,
        auto_delete: false,
        exclusive_owner: None,
        arguments: Default::default(),
        home: Default::default(),
    };
    RemoteQueue::new(Arc::new(def), home, &Homes::default())
}

const fn message(body: &[u8]) -> MessageRef<'_> {
    MessageRef {
        exchange: b"",
        routing_key: b"q",
        properties: &[],
        body: Body::Borrowed(body),
        persistent: true,
        annotations: Annotations { deadline_ms: None, dead_lettered: false },
        form: BodyForm::Plain,
    }
}

/// The indexes of the refused ones among two messages.
fn refused(queue: &RemoteQueue) -> Vec<u32> {
    let incoming = Incoming { message: message(b"x"), home: None, confirm: None, named: None };
    let mut refused = Vec::new();
    let messages = &mut [incoming, incoming];
    let publishes = Publishes { messages, any: Any::default(), on_consume: true };
    let awaited = queue.publish(&publishes, &mut refused);
    assert!(awaited.log.is_none() && awaited.journals.is_empty());
    let is_plain = |it: &RefusedItem| it.why == Refusal::Unavailable && it.dead_letter_to.is_none();
    assert!(refused.iter().all(is_plain));
    refused.iter().map(|it| it.item).collect()
}

#[test]
fn each_message_is_refused_until_the_queue_is_deleted() {
    let queue = remote(true);
    assert_eq!(refused(&queue), [0, 1]);
    queue.delete();
    assert!(queue.is_deleted());
    assert!(refused(&queue).is_empty());
}

#[test]
fn refusals_name_the_home_and_the_queue() {
    let text = "home node 'rabbit@b' of durable queue 'q' in vhost '/' is down or inaccessible";
    assert_eq!(remote(true).refuse_attach(), AttachRefused::HomeDown(text.to_owned()));
    assert_eq!(remote(true).refuse(), QueueRefused::HomeDown(text.to_owned()));
    let text = "home node 'rabbit@b' of queue 'q' in vhost '/' is down or inaccessible";
    assert_eq!(remote(false).refuse(), QueueRefused::HomeDown(text.to_owned()));
}

#[tokio::test]
async fn a_delete_needs_no_home_unless_the_queue_is_to_be_empty() {
    let delete = async |if_unused, if_empty| {
        remote(true).begin_delete(DeleteConditions { if_unused, if_empty }).await
    };
    assert_eq!(delete(true, false).await, Ok(0));
    assert_eq!(delete(false, true).await, Err(QueueRefused::NotEmpty));
}

#[test]
fn messages_are_read_as_they_were_put() {
    let named = Named { publisher: (*b"p").into(), id: 9 };
    let mut body = Vec::new();
    wire::begin_put(&mut body, QueueId(7), 40);
    wire::put_message(&mut body, &message(b"one"), None);
    wire::put_message(&mut body, &message(b""), Some(&named));
    let frame = PutFrame::decode(&Bytes::from(body.clone())).unwrap();
    assert_eq!((frame.queue, frame.first, frame.n_bytes()), (QueueId(7), 40, body.len() - 16));
    let items: Vec<_> = frame.items().map(Result::unwrap).collect();
    let shown = items.iter().map(|it| (it.message.body.bytes(), it.named.as_ref()));
    assert_eq!(shown.collect::<Vec<_>>(), [(&b"one"[..], None), (b"", Some(&named))]);
    for cut in 17..body.len() {
        let frame = PutFrame::decode(&Bytes::copy_from_slice(&body[..cut]));
        let n = frame.map(|frame| frame.items().count()).unwrap_or(0);
        assert!(n < 2, "cut at {cut}");
    }
}

#[test]
fn deliveries_and_answers_are_read_as_they_were_put() {
    let delivery = |position, redelivered| Delivery {
        position: Position(position),
        redelivered,
        n_failed: 3,
        settled_by_write: !redelivered,
        message: &const { message(b"body") },
    };
    let mut body = Vec::new();
    wire::begin_deliver(&mut body, 5);
    wire::ask_for_credit(&mut body);
    wire::put_delivery(&mut body, &delivery(1, true));
    wire::put_delivery(&mut body, &delivery(u64::MAX, false));
    let frame = DeliverFrame::decode(&body.into()).unwrap();
    let items: Vec<_> = frame.items().map(Result::unwrap).collect();
    let shown = items.iter().map(|it| format!("{:?}", it.as_ref()));
    let expected = [delivery(1, true), delivery(u64::MAX, false)].map(|it| format!("{it:?}"));
    assert!(frame.asks_for_credit);
    assert_eq!((frame.link, shown.collect::<Vec<_>>()), (5, expected.to_vec()));
    let answers = [
        AnsweredPuts { first: 1, last: 3, refused: None },
        AnsweredPuts { first: 4, last: 4, refused: Some(Refusal::Timeout) },
    ];
    let mut body = Vec::new();
    let taken = TakenPuts { n_bytes: 77, slowed: Some(QueueId(3)) };
    wire::put_answers(&mut body, taken, &answers);
    assert_eq!(wire::read_answers(&body), Ok((taken, answers.to_vec())));
    body.pop();
    assert!(wire::read_answers(&body).is_err());
}

#[test]
fn commands_and_events_are_read_as_they_were_written() {
    let credit = CreditRequest {
        channel: ChannelId(0),
        link: LinkId(3),
        delivery_count: 8,
        credit: 9,
        drain: true,
        echo: false,
    };
    let outcomes = [Outcome::Accepted, Outcome::Modified, Outcome::Released, Outcome::Rejected];
    let positions = vec![Position(4), Position(9)];
    let changes = MessageChanges {
        annotations: Bytes::from_static(b"map"),
        until_ms: Some(UnixMs::from_raw(5)),
    };
    let settle = |outcome| SessionCommand::Settle {
        link: 3,
        outcome,
        positions: positions.clone(),
        changes: (outcome == Outcome::Modified).then(|| changes.clone()),
    };
    let mut commands = outcomes.map(settle).to_vec();
    commands.extend([
        SessionCommand::Credit { link: 3, bytes: 70 },
        SessionCommand::Flow { link: 3, credit },
        SessionCommand::Prefetch { link: 3, prefetch: None },
        SessionCommand::Prefetch { link: 3, prefetch: Some(0) },
        SessionCommand::Detach { links: vec![3, 4], how: Return::Failed },
        SessionCommand::Detach { links: vec![], how: Return::Released },
        SessionCommand::Recover { link: 3, upto: 2, kept: vec![1] },
        SessionCommand::Touch(QueueId(6)),
        SessionCommand::Overdue(AckTimeout {
            connection: ConnectionId(7),
            channel: ChannelId(8),
            timeout_ms: 9,
        }),
        SessionCommand::Reply { token: "1-a.b".to_owned(), record: vec![1, 2] },
    ]);
    for command in commands {
        let mut body = Vec::new();
        command.encode(&mut body);
        assert_eq!(SessionCommand::decode(&body), Ok(command));
    }
    let is_active = Some(true);
    let credit =
        ConsumerCredit { delivery_count: 1, credit: 2, available: 3, drain: true, is_active };
    for told in [
        LinkTold::Attached(None),
        LinkTold::Attached(Some(Bytes::from_static(b"f"))),
        LinkTold::Cancelled,
        LinkTold::TimedOut(positions),
        LinkTold::Flowed(credit),
        LinkTold::Flowed(ConsumerCredit { is_active: None, ..credit }),
    ] {
        let mut body = Vec::new();
        told.encode(12, &mut body);
        assert_eq!(LinkTold::decode(&body), Ok((12, told)));
    }
}

/// Requests of each kind.
fn requests() -> Vec<SessionRequest> {
    let terms = LinkTerms {
        queue: QueueId(1),
        link: 2,
        connection: ConnectionId(3),
        channel: ChannelId(4),
        node_timeout_ms: Some(5),
    };
    let arguments = [(ShortString::from_static("x-priority"), session::Value::from(7_i64))];
    let arguments = Table::from_iter(arguments);
    let asked = Attachment {
        queue: ShortString::from_static("q"),
        consumer_tag: ShortString::from_static("tag"),
        no_ack: true,
        source: Some(LinkSource { filters: b"map".to_vec(), browses: true }),
        exclusive: true,
        arguments,
    };
    let checkout = |credit_mode| Checkout { settling: AckMode::Auto, credit_mode, priority: -1 };
    let attach = |credit_mode| SessionRequest::Attach {
        terms: terms.clone(),
        checkout: checkout(credit_mode),
        asked: asked.clone(),
    };
    let conditions = DeleteConditions { if_unused: true, if_empty: false };
    vec![
        attach(CreditMode::Unlimited),
        attach(CreditMode::Prefetch(9)),
        attach(CreditMode::Link),
        SessionRequest::AttachPassive { terms, settling: AckMode::Manual },
        SessionRequest::Get(8),
        SessionRequest::Cancel(9),
        SessionRequest::Purge(QueueId(10)),
        SessionRequest::BeginDelete(QueueId(11), conditions),
        SessionRequest::Stat(QueueId(12)),
    ]
}

/// Responses of each kind.
fn responses() -> Vec<SessionResponse> {
    let text = || "why".to_owned();
    let attach = [
        AttachRefused::Gone,
        AttachRefused::ExclusiveUse,
        AttachRefused::Unfit(text()),
        AttachRefused::NotImplemented(text()),
        AttachRefused::Locked(text()),
        AttachRefused::HomeDown(text()),
    ];
    let refused = [
        QueueRefused::NotFound,
        QueueRefused::InUse,
        QueueRefused::NotEmpty,
        QueueRefused::NotImplemented(text()),
        QueueRefused::HomeDown(text()),
    ];
    let stat = QueueStat { n_ready: 1, n_unacked: 2, n_consumers: 3, ..QueueStat::default() };
    let mut all = vec![
        SessionResponse::Done,
        SessionResponse::Count(4),
        SessionResponse::Stat(stat),
        SessionResponse::Nothing,
        SessionResponse::Got { delivery: Bytes::from_static(b"d"), n_ready: 6 },
    ];
    all.extend(attach.map(SessionResponse::AttachRefused));
    all.extend(refused.map(SessionResponse::Refused));
    all
}

#[test]
fn requests_and_responses_are_read_as_they_were_written() {
    for request in requests() {
        let mut body = Vec::new();
        request.encode(71, &mut body);
        let (number, read) = SessionRequest::decode(&body).unwrap();
        assert_eq!((number, format!("{read:?}")), (71, format!("{request:?}")));
        for cut in 0..body.len() {
            assert!(SessionRequest::decode(&body[..cut]).is_err(), "{request:?} cut at {cut}");
        }
    }
    for response in responses() {
        let mut body = Vec::new();
        response.encode(72, &mut body);
        let (number, read) = SessionResponse::decode(&body.into()).unwrap();
        assert_eq!((number, format!("{read:?}")), (72, format!("{response:?}")));
    }
}

#[test]
fn damaged_bytes_are_errors() {
    let mut random = Random::by_chance();
    for request in requests() {
        let mut body = Vec::new();
        request.encode(1, &mut body);
        for _ in 0..200 {
            let at = random.below(body.len());
            body[at] = random.bytes(1)[0];
            // Nothing but an error or another request comes of it.
            let _read = SessionRequest::decode(&body).is_ok();
            let _put = PutFrame::decode(&Bytes::copy_from_slice(&body)).is_ok();
            let _delivered = DeliverFrame::decode(&Bytes::copy_from_slice(&body)).is_ok();
            let _command = SessionCommand::decode(&body).is_ok();
            let _told = LinkTold::decode(&body).is_ok();
        }
    }
}
