//! Messages of one read: each is published as if it were alone.

use super::*;
use amqp10::{Header, Section, SenderSettleMode, SerialNumber, put_message_annotations};
use proptest::collection::vec;
use proptest::prelude::*;

/// A message with a header, if it is durable, an annotation, if it has a delay, and this body.
fn message(durable: Option<bool>, delay: Option<u8>, body: &[Section<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    if durable.is_some() {
        Header { durable, ..Header::default() }.encode(&mut out);
    }
    if let Some(delay) = delay {
        put_message_annotations(&mut out, |items| {
            items.put_symbol("x-delay", ValueRef::U8(delay));
        });
    }
    body.iter().for_each(|section| section.encode(&mut out));
    out
}

/// Messages that have their heads in common, and others that only begin alike.
fn messages() -> Vec<Vec<u8>> {
    let data = Section::Data;
    let large = [7; 300];
    let bodies: [&[Section<'_>]; 5] = [
        &[data(b"one")],
        &[data(b"two, which is longer")],
        &[data(&large)],
        &[data(b"in"), data(b" parts")],
        &[Section::Value(ValueRef::Str("value"))],
    ];
    let heads = [(None, None), (Some(true), None), (Some(true), Some(5)), (Some(true), Some(6))];
    let mut all: Vec<Vec<u8>> = heads
        .into_iter()
        .flat_map(|(durable, delay)| bodies.map(|body| message(durable, delay, body)))
        .collect();
    let cut_off = |mut message: Vec<u8>| {
        message.pop();
        message
    };
    all.extend([message(Some(true), None, &[]), cut_off(message(Some(true), None, bodies[0]))]);
    all
}

fn link(n: u64) -> IncomingLink {
    let names = if n == 0 { ["x", "one"] } else { ["another", "key"] };
    let [exchange, routing_key] = names.map(ShortString::from_static);
    let target = PublishTarget { exchange, routing_key: Some(routing_key) };
    IncomingLink::new(LinkId(n), SenderSettleMode::Mixed, SerialNumber::new(0)).to(Some(target))
}

/// The publish of a message, in words; none if it is refused.
fn published(heads: &mut PublishedHeads, message: &[u8], link: &IncomingLink) -> Option<String> {
    let payload = Payload { bytes: message, start: 10 };
    let publish = heads.publish(ChannelId(1), payload, None, link).ok()?;
    let Publish { exchange, routing_key, properties, content, .. } = &publish.publish;
    let texts = [exchange, routing_key, properties].map(|it| it.of(heads.bytes()).to_vec());
    Some(format!(
        "{texts:?} {content:?} {} {}",
        publish.publish.persistent, publish.publish.inspect
    ))
}

proptest! {
    #[test]
    fn a_message_is_published_as_if_it_were_alone(
        picks in vec((any::<prop::sample::Index>(), 0..2_u64, 1..4_u8), 1..40),
    ) {
        let (messages, mut heads) = (messages(), PublishedHeads::default());
        for (pick, n, n_times) in picks {
            let (message, link) = (pick.get(&messages), link(n));
            for _ in 0..n_times {
                let alone = published(&mut PublishedHeads::default(), message, &link);
                prop_assert_eq!(published(&mut heads, message, &link), alone);
            }
        }
    }
}
