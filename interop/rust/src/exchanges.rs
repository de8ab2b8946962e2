//! Exchange types, bindings, and declaring again.

use crate::check::{self, Failure, Outcome};
use crate::lab::*;
use crate::suite::Suite;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, ExchangeKind};
use std::sync::Arc;

pub fn register(suite: &mut Suite) {
    suite.add("exchange-direct", direct);
    suite.add("exchange-fanout", fanout);
    suite.add("exchange-topic", topic);
    suite.add("exchange-headers-all", headers_all);
    suite.add("exchange-headers-any", headers_any);
    suite.add("exchange-headers-all-with-x", headers_all_with_x);
    suite.add("exchange-headers-any-with-x", headers_any_with_x);
    suite.add("exchange-default", default_exchange);
    suite.add("exchange-alternate", alternate);
    suite.add("exchange-internal", internal);
    suite.add("exchange-auto-delete", auto_delete);
    suite.add("exchange-to-exchange", exchange_to_exchange);
    suite.add("passive-missing-404", passive_missing);
    suite.add("redeclare-inequivalent-406", redeclare_inequivalent);
}

async fn direct(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let exchange = lab.exchange(&channel, "x", ExchangeKind::Direct).await?;
    let first = bound_queue(&lab, &channel, "q1", &exchange, &["a"]).await?;
    let second = bound_queue(&lab, &channel, "q2", &exchange, &["a", "b"]).await?;
    publish_keys(&channel, &exchange, &["a", "b", "c"]).await?;
    check::equal(vec!["a"], drain(&channel, &first).await?, "q1")?;
    check::equal(vec!["a", "b"], drain(&channel, &second).await?, "q2")
}

async fn fanout(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let exchange = lab.exchange(&channel, "x", ExchangeKind::Fanout).await?;
    let first = bound_queue(&lab, &channel, "q1", &exchange, &["a"]).await?;
    let second = bound_queue(&lab, &channel, "q2", &exchange, &["b"]).await?;
    publish_keys(&channel, &exchange, &["c", "d"]).await?;
    check::equal(vec!["c", "d"], drain(&channel, &first).await?, "q1")?;
    check::equal(vec!["c", "d"], drain(&channel, &second).await?, "q2")
}

async fn topic(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let exchange = lab.exchange(&channel, "x", ExchangeKind::Topic).await?;
    let one_word = bound_queue(&lab, &channel, "q1", &exchange, &["a.*.c"]).await?;
    let prefix = bound_queue(&lab, &channel, "q2", &exchange, &["a.#"]).await?;
    let all = bound_queue(&lab, &channel, "q3", &exchange, &["#"]).await?;
    let single = bound_queue(&lab, &channel, "q4", &exchange, &["*"]).await?;
    publish_keys(&channel, &exchange, &["a.b.c", "a..c", "a", "a.b.c.d", "", "x"]).await?;
    check::equal(vec!["a.b.c", "a..c"], drain(&channel, &one_word).await?, "a.*.c")?;
    let expected = vec!["a.b.c", "a..c", "a", "a.b.c.d"];
    check::equal(expected, drain(&channel, &prefix).await?, "a.#")?;
    let expected = vec!["a.b.c", "a..c", "a", "a.b.c.d", "", "x"];
    check::equal(expected, drain(&channel, &all).await?, "#")?;
    check::equal(vec!["a", "x"], drain(&channel, &single).await?, "*")
}

async fn headers_all(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let exchange = lab.exchange(&channel, "x", ExchangeKind::Headers).await?;
    let pattern = [("k", AMQPValue::LongInt(1)), ("s", text("v"))];
    let queue = headers_queue(&lab, &channel, &exchange, "all", pattern).await?;
    let one = AMQPValue::LongInt(1);
    publish_headers(
        &channel,
        &exchange,
        vec![
            table([("k", one.clone()), ("s", text("v"))]),
            table([("k", one.clone())]),
            table([("k", text("1")), ("s", text("v"))]),
            table([("k", one), ("s", text("v")), ("more", AMQPValue::Boolean(true))]),
        ],
    )
    .await?;
    check::equal(vec!["0", "3"], drain(&channel, &queue).await?, "matched by all")
}

async fn headers_any(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let exchange = lab.exchange(&channel, "x", ExchangeKind::Headers).await?;
    let pattern = [("k", AMQPValue::LongInt(1)), ("s", text("v"))];
    let queue = headers_queue(&lab, &channel, &exchange, "any", pattern).await?;
    publish_headers(
        &channel,
        &exchange,
        vec![
            table([("k", AMQPValue::LongInt(1))]),
            table([("s", text("v"))]),
            table([("k", AMQPValue::LongInt(2)), ("s", text("w"))]),
            FieldTable::default(),
        ],
    )
    .await?;
    check::equal(vec!["0", "1"], drain(&channel, &queue).await?, "matched by any")
}

fn k_and_tag() -> [(&'static str, AMQPValue); 2] {
    [("k", AMQPValue::LongInt(1)), ("x-tag", text("t"))]
}

async fn headers_all_with_x(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let exchange = lab.exchange(&channel, "x", ExchangeKind::Headers).await?;
    let with_x = headers_queue(&lab, &channel, &exchange, "all-with-x", k_and_tag()).await?;
    let plain = headers_queue(&lab, &channel, &exchange, "all", k_and_tag()).await?;
    let tables = vec![table(k_and_tag()), table([("k", AMQPValue::LongInt(1))])];
    publish_headers(&channel, &exchange, tables).await?;
    check::equal(vec!["0"], drain(&channel, &with_x).await?, "matched by all-with-x")?;
    check::equal(vec!["0", "1"], drain(&channel, &plain).await?, "matched by all")
}

async fn headers_any_with_x(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let exchange = lab.exchange(&channel, "x", ExchangeKind::Headers).await?;
    let with_x = headers_queue(&lab, &channel, &exchange, "any-with-x", k_and_tag()).await?;
    let plain = headers_queue(&lab, &channel, &exchange, "any", k_and_tag()).await?;
    let tables = vec![
        table([("x-tag", text("t"))]),
        table([("k", AMQPValue::LongInt(1))]),
        table([("k", AMQPValue::LongInt(2))]),
    ];
    publish_headers(&channel, &exchange, tables).await?;
    check::equal(vec!["0", "1"], drain(&channel, &with_x).await?, "matched by any-with-x")?;
    check::equal(vec!["1"], drain(&channel, &plain).await?, "matched by any")
}

async fn default_exchange(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    confirm_mode(&channel).await?;
    acked(publish(&channel, "", &queue, "hello").await?).await?;
    check::equal(vec!["hello"], drain(&channel, &queue).await?, "by the default exchange")?;
    peer.channel_closes(
        403,
        "ACCESS_REFUSED - operation not permitted on the default exchange",
        bind(&channel, &queue, "", "key"),
    )
    .await
}

async fn alternate(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let alternate = lab.exchange(&channel, "ae", ExchangeKind::Fanout).await?;
    let arguments = table([("alternate-exchange", text(&alternate))]);
    let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
    let exchange =
        lab.exchange_with(&channel, "x", ExchangeKind::Direct, options, arguments).await?;
    let routed = bound_queue(&lab, &channel, "q1", &exchange, &["a"]).await?;
    let caught = bound_queue(&lab, &channel, "q2", &alternate, &[""]).await?;
    confirm_mode(&channel).await?;
    acked(publish(&channel, &exchange, "a", "one").await?).await?;
    // An ack without a returned message, although mandatory.
    check::equal(Confirmation::Ack(None), mandatory(&channel, &exchange, "b").await?, "confirm")?;
    check::equal(vec!["one"], drain(&channel, &routed).await?, "q1")?;
    let got = get(&channel, &caught, "mandatory", false).await?;
    check::equal(exchange.as_str(), got.exchange.as_str(), "exchange of the delivery")?;
    check::equal("b", got.routing_key.as_str(), "key of the delivery")
}

async fn internal(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let options = ExchangeDeclareOptions { durable: true, internal: true, ..Default::default() };
    let internal = lab
        .exchange_with(&channel, "i", ExchangeKind::Fanout, options, FieldTable::default())
        .await?;
    let exchange = lab.exchange(&channel, "x", ExchangeKind::Direct).await?;
    let queue = bound_queue(&lab, &channel, "q", &internal, &[""]).await?;
    bind_exchange(&channel, &internal, &exchange, "k").await?;
    publish_keys(&channel, &exchange, &["k"]).await?;
    check::equal(vec!["k"], drain(&channel, &queue).await?, "through the internal exchange")?;
    let refusal =
        format!("ACCESS_REFUSED - cannot publish to internal exchange '{internal}' in vhost '/'");
    peer.channel_closes(403, &refusal, publish(&channel, &internal, "k", "direct")).await
}

async fn auto_delete(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let exchange = lab.name("x");
    let options = ExchangeDeclareOptions { auto_delete: true, ..Default::default() };
    channel
        .exchange_declare(
            exchange.as_str().into(),
            ExchangeKind::Fanout,
            options,
            FieldTable::default(),
        )
        .await?;
    let first = bound_queue(&lab, &channel, "q1", &exchange, &[""]).await?;
    let second = bound_queue(&lab, &channel, "q2", &exchange, &[""]).await?;
    unbind(&channel, &first, &exchange).await?;
    passive_exchange(&channel, &exchange).await?;
    unbind(&channel, &second, &exchange).await?;
    let gone = format!("NOT_FOUND - no exchange '{exchange}' in vhost '/'");
    peer.channel_closes(404, &gone, passive_exchange(&channel, &exchange)).await
}

async fn exchange_to_exchange(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let source = lab.exchange(&channel, "s", ExchangeKind::Topic).await?;
    let target = lab.exchange(&channel, "d", ExchangeKind::Fanout).await?;
    bind_exchange(&channel, &target, &source, "a.#").await?;
    bind_exchange(&channel, &source, &target, "a.#").await?;
    let queue = bound_queue(&lab, &channel, "q", &target, &[""]).await?;
    publish_keys(&channel, &source, &["a.b", "z"]).await?;
    check::equal(vec!["a.b"], drain(&channel, &queue).await?, "through both exchanges")?;
    channel
        .exchange_unbind(
            target.as_str().into(),
            source.as_str().into(),
            "a.#".into(),
            ExchangeUnbindOptions::default(),
            FieldTable::default(),
        )
        .await?;
    let confirmation = mandatory(&channel, &source, "a.b").await?;
    let returned = confirmation.take_message().ok_or_else(|| Failure::new("not returned"))?;
    reply(312, "NO_ROUTE", returned.reply_code, returned.reply_text.as_str())
}

async fn passive_missing(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let missing = lab.name("missing");
    let first = peer.channel().await?;
    let no_queue = format!("NOT_FOUND - no queue '{missing}' in vhost '/'");
    peer.channel_closes(404, &no_queue, passive(&first, &missing)).await?;
    let second = peer.channel().await?;
    let no_exchange = format!("NOT_FOUND - no exchange '{missing}' in vhost '/'");
    peer.channel_closes(404, &no_exchange, passive_exchange(&second, &missing)).await
}

async fn redeclare_inequivalent(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let ttl = |ms| table([("x-message-ttl", AMQPValue::LongInt(ms))]);
    let queue = lab.queue_with(&channel, "q", ttl(60_000)).await?;
    let declare = |arguments| {
        channel.queue_declare(queue.as_str().into(), QueueDeclareOptions::durable(), arguments)
    };
    declare(ttl(60_000)).await?;
    // The same number in another integer width is the same argument.
    declare(table([("x-message-ttl", AMQPValue::LongLongInt(60_000))])).await?;
    let refusal = format!(
        "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '{queue}' in vhost '/': \
         received '70000' but current is '60000'"
    );
    peer.channel_closes(406, &refusal, declare(ttl(70_000))).await?;
    let next = peer.channel().await?;
    let exchange = lab.exchange(&next, "x", ExchangeKind::Direct).await?;
    lab.exchange(&next, "x", ExchangeKind::Direct).await?;
    let refusal = format!(
        "PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{exchange}' in vhost '/': \
         received 'fanout' but current is 'direct'"
    );
    let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
    let redeclare = next.exchange_declare(
        exchange.as_str().into(),
        ExchangeKind::Fanout,
        options,
        FieldTable::default(),
    );
    peer.channel_closes(406, &refusal, redeclare).await
}

pub async fn bind(channel: &Channel, queue: &str, exchange: &str, key: &str) -> lapin::Result<()> {
    let options = QueueBindOptions::default();
    channel
        .queue_bind(queue.into(), exchange.into(), key.into(), options, FieldTable::default())
        .await
}

pub async fn bind_exchange(
    channel: &Channel,
    destination: &str,
    source: &str,
    key: &str,
) -> lapin::Result<()> {
    let options = ExchangeBindOptions::default();
    channel
        .exchange_bind(
            destination.into(),
            source.into(),
            key.into(),
            options,
            FieldTable::default(),
        )
        .await
}

pub async fn passive_exchange(channel: &Channel, exchange: &str) -> lapin::Result<()> {
    let options = ExchangeDeclareOptions { passive: true, ..Default::default() };
    channel
        .exchange_declare(exchange.into(), ExchangeKind::Direct, options, FieldTable::default())
        .await
}

async fn unbind(channel: &Channel, queue: &str, exchange: &str) -> lapin::Result<()> {
    channel.queue_unbind(queue.into(), exchange.into(), "".into(), FieldTable::default()).await
}

async fn bound_queue(
    lab: &Lab,
    channel: &Channel,
    what: &str,
    exchange: &str,
    keys: &[&str],
) -> Outcome<String> {
    let queue = lab.queue(channel, what).await?;
    for key in keys {
        bind(channel, &queue, exchange, key).await?;
    }
    Ok(queue)
}

async fn headers_queue(
    lab: &Lab,
    channel: &Channel,
    exchange: &str,
    matching: &str,
    pattern: [(&str, AMQPValue); 2],
) -> Outcome<String> {
    let queue = lab.queue(channel, matching).await?;
    let mut arguments = table(pattern);
    arguments.insert("x-match".into(), text(matching));
    let options = QueueBindOptions::default();
    channel
        .queue_bind(queue.as_str().into(), exchange.into(), "".into(), options, arguments)
        .await?;
    Ok(queue)
}

/// Publishes one message per key, with the key as its body, and waits for the acks.
async fn publish_keys(channel: &Channel, exchange: &str, keys: &[&str]) -> Outcome {
    confirm_mode(channel).await?;
    for key in keys {
        acked(publish(channel, exchange, key, key).await?).await?;
    }
    Ok(())
}

/// Publishes one message per header table, with its position as body, and waits for the acks.
async fn publish_headers(channel: &Channel, exchange: &str, tables: Vec<FieldTable>) -> Outcome {
    confirm_mode(channel).await?;
    for (i, headers) in tables.into_iter().enumerate() {
        let confirm = channel
            .basic_publish(
                exchange.into(),
                "".into(),
                BasicPublishOptions::default(),
                i.to_string().as_bytes(),
                BasicProperties::default().with_headers(headers),
            )
            .await?;
        acked(confirm).await?;
    }
    Ok(())
}

/// Publishes with the mandatory flag in confirm mode.
async fn mandatory(channel: &Channel, exchange: &str, key: &str) -> lapin::Result<Confirmation> {
    let options = BasicPublishOptions { mandatory: true, ..Default::default() };
    channel
        .basic_publish(exchange.into(), key.into(), options, b"mandatory", persistent())
        .await?
        .await
}
