//! A conversation with a node, in words.

use super::super::support::node::Node;
use amqp091::method::{
    BasicAck, BasicConsume, BasicGet, BasicNack, BasicPublish, ChannelCloseOk, ChannelOpen,
    ExchangeDeclare, QueueBind, QueueDeclare,
};
use amqp091::{
    ContentHeader, FrameKind, Method, Properties, PropertiesRef, ShortString, Table, TableRef,
    Value, content,
};
use testing::client::{Client, Login};

/// A connection whose channel 1 is open.
pub(super) struct Script {
    pub(super) client: Client,
    /// The content that came last.
    pub(super) last: Content,
}

/// The content of a delivery, a get-ok or a return.
#[derive(Default)]
pub(super) struct Content {
    pub(super) exchange: String,
    pub(super) key: String,
    /// As they came, see [`PropertiesRef`].
    pub(super) properties: Vec<u8>,
}

/// The flags of a queue's declaration.
#[derive(Clone, Copy, Default)]
pub(super) struct Kind {
    pub(super) durable: bool,
    pub(super) exclusive: bool,
    pub(super) auto_delete: bool,
}

/// A table of arguments, encoded.
pub(super) fn table(arguments: &[(&'static str, Value)]) -> Vec<u8> {
    let entry =
        |(name, value): &(&'static str, Value)| (ShortString::from_static(name), value.clone());
    arguments.iter().map(entry).collect::<Table>().to_bytes()
}

pub(super) fn text(text: &str) -> Value {
    Value::LongString(text.into())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Script {
    pub(super) fn to(node: &Node) -> Self {
        Self::of(Client::guest(node.address()))
    }

    /// As who logs in like this.
    pub(super) fn with(node: &Node, login: Login<'_>) -> Self {
        let mut client = Client::login(node.address(), login);
        client.open_channel(1);
        Self::of(client)
    }

    fn of(client: Client) -> Self {
        Self { client, last: Content::default() }
    }

    pub(super) fn say<'a>(&mut self, method: impl Into<Method<'a>>) {
        self.client.say(1, method);
    }

    /// Says something and gives what comes next.
    pub(super) fn ask<'a>(&mut self, method: impl Into<Method<'a>>) -> String {
        self.say(method);
        self.next()
    }

    /// The next frame, in words.
    pub(super) fn next(&mut self) -> String {
        let frame = self.client.next();
        let multiple = |multiple| if multiple { " multiple" } else { "" };
        let again = |redelivered| if redelivered { " again" } else { "" };
        match frame.method() {
            Method::QueueDeclareOk(it) => {
                format!("declared {} {} {}", lossy(it.queue), it.message_count, it.consumer_count)
            }
            Method::QueuePurgeOk(it) => format!("purged {}", it.message_count),
            Method::QueueDeleteOk(it) => format!("deleted {}", it.message_count),
            Method::BasicAck(it) => format!("ack {}{}", it.delivery_tag, multiple(it.multiple)),
            Method::BasicNack(it) => format!("nack {}{}", it.delivery_tag, multiple(it.multiple)),
            Method::BasicConsumeOk(it) => format!("consuming {}", lossy(it.consumer_tag)),
            Method::BasicCancelOk(it) => format!("cancelled {}", lossy(it.consumer_tag)),
            Method::BasicCancel(it) => format!("lost {}", lossy(it.consumer_tag)),
            Method::BasicGetEmpty(_) => "empty".to_owned(),
            Method::BasicDeliver(it) => {
                let body = self.content(it.exchange, it.routing_key);
                let (tag, to) = (it.delivery_tag, lossy(it.consumer_tag));
                format!("{to} {tag}{} {body}", again(it.redelivered))
            }
            Method::BasicGetOk(it) => {
                let body = self.content(it.exchange, it.routing_key);
                let (tag, left) = (it.delivery_tag, it.message_count);
                format!("got {tag}{} {body} left {left}", again(it.redelivered))
            }
            Method::BasicReturn(it) => {
                let body = self.content(it.exchange, it.routing_key);
                format!("returned {} {} {body}", it.reply_code, lossy(it.reply_text))
            }
            _ => frame.show(),
        }
    }

    /// Reads the content that follows, and gives its body.
    fn content(&mut self, exchange: &[u8], key: &[u8]) -> String {
        let header = self.client.next();
        assert_eq!(header.kind, FrameKind::Header);
        let header = ContentHeader::decode(&header.payload).unwrap();
        let properties = header.properties.as_bytes().to_vec();
        self.last = Content { exchange: lossy(exchange), key: lossy(key), properties };
        let size = usize::try_from(header.body_size).unwrap();
        let mut body = Vec::new();
        while body.len() < size {
            let frame = self.client.next();
            assert_eq!(frame.kind, FrameKind::Body);
            body.extend_from_slice(&frame.payload);
        }
        lossy(&body)
    }

    /// The headers of the content that came last.
    pub(super) fn headers(&self) -> Table {
        let properties = PropertiesRef::parse(&self.last.properties).unwrap();
        properties.headers().map(|headers| headers.to_owned().unwrap()).unwrap_or_default()
    }

    /// Nothing has come, and nothing was on its way.
    #[track_caller]
    pub(super) fn quiet(&mut self) {
        assert_eq!(self.exchange("amq.direct", "direct", true), "exchange.declare-ok");
    }

    /// Says something that closes the channel, and opens it anew. Code and text.
    #[track_caller]
    pub(super) fn refused<'a>(&mut self, method: impl Into<Method<'a>>) -> String {
        self.say(method);
        self.failed()
    }

    /// The channel is closed, and opened anew. Code and text.
    #[track_caller]
    pub(super) fn failed(&mut self) -> String {
        let told = self.next();
        let why = told.strip_prefix("channel.close ");
        let why = why.unwrap_or_else(|| panic!("not refused but: {told}")).to_owned();
        self.say(ChannelCloseOk {});
        assert_eq!(self.ask(ChannelOpen::default()), "channel.open-ok");
        why
    }

    /// Declares a queue.
    pub(super) fn queue(
        &mut self,
        name: &str,
        kind: Kind,
        arguments: &[(&'static str, Value)],
    ) -> String {
        let arguments = table(arguments);
        self.ask(declaration(name, kind, &arguments))
    }

    /// Declares a queue that is not durable and has no arguments.
    #[track_caller]
    pub(super) fn plain(&mut self, name: &str) {
        assert_eq!(self.queue(name, Kind::default(), &[]), format!("declared {name} 0 0"));
    }

    /// The answer to a passive declaration.
    pub(super) fn look_up(&mut self, name: &str) -> String {
        self.ask(QueueDeclare { queue: name.as_bytes(), passive: true, ..QueueDeclare::default() })
    }

    /// Declares an exchange that is durable.
    pub(super) fn exchange(&mut self, name: &str, kind: &str, passive: bool) -> String {
        let (exchange, kind) = (name.as_bytes(), kind.as_bytes());
        self.ask(ExchangeDeclare {
            exchange,
            kind,
            passive,
            durable: true,
            ..ExchangeDeclare::default()
        })
    }

    pub(super) fn bind(&mut self, queue: &str, exchange: &str, key: &str) -> String {
        self.bind_with(queue, exchange, key, &[])
    }

    pub(super) fn bind_with(
        &mut self,
        queue: &str,
        exchange: &str,
        key: &str,
        arguments: &[(&'static str, Value)],
    ) -> String {
        let arguments = table(arguments);
        self.ask(QueueBind {
            queue: queue.as_bytes(),
            exchange: exchange.as_bytes(),
            routing_key: key.as_bytes(),
            arguments: TableRef::trusted(&arguments),
            ..QueueBind::default()
        })
    }

    pub(super) fn publish(&mut self, exchange: &str, key: &str, body: &str) {
        self.publish_with(exchange, key, false, &Properties::default(), body);
    }

    pub(super) fn publish_with(
        &mut self,
        exchange: &str,
        key: &str,
        mandatory: bool,
        properties: &Properties,
        body: &str,
    ) {
        let properties = properties.to_bytes();
        self.publish_bytes(exchange, key, mandatory, &properties, body.as_bytes());
    }

    pub(super) fn publish_bytes(
        &mut self,
        exchange: &str,
        key: &str,
        mandatory: bool,
        properties: &[u8],
        body: &[u8],
    ) {
        let (exchange, routing_key) = (exchange.as_bytes(), key.as_bytes());
        let publish = BasicPublish { exchange, routing_key, mandatory, ..BasicPublish::default() };
        publish.encode_frame(1, &mut self.client.out);
        let properties = PropertiesRef::parse(properties).unwrap();
        content::encode_content(1, properties, body, 131_072, &mut self.client.out);
        self.client.flush();
    }

    /// Consumes as `tag`.
    pub(super) fn consume(&mut self, queue: &str, tag: &str, no_ack: bool) -> String {
        let (queue, consumer_tag) = (queue.as_bytes(), tag.as_bytes());
        self.ask(BasicConsume { queue, consumer_tag, no_ack, ..BasicConsume::default() })
    }

    pub(super) fn get(&mut self, queue: &str) -> String {
        self.ask(BasicGet { queue: queue.as_bytes(), ..BasicGet::default() })
    }

    /// Gets everything in a queue, settled; the bodies.
    pub(super) fn drain(&mut self, queue: &str) -> Vec<String> {
        let mut bodies = Vec::new();
        while let Some(message) = self.client.get(queue) {
            bodies.push(lossy(&message.body));
        }
        bodies
    }

    pub(super) fn ack(&mut self, delivery_tag: u64, multiple: bool) {
        self.say(BasicAck { delivery_tag, multiple });
    }

    /// Gives one back.
    pub(super) fn requeue(&mut self, delivery_tag: u64) {
        self.say(BasicNack { delivery_tag, multiple: false, requeue: true });
    }

    /// Refuses one.
    pub(super) fn discard(&mut self, delivery_tag: u64) {
        self.say(BasicNack { delivery_tag, multiple: false, requeue: false });
    }

    /// The confirms of the next `n` publishes, by their numbers: whether each was acked.
    pub(super) fn confirms(&mut self, first: u64, n: u64) -> Vec<bool> {
        let mut told = vec![None; usize::try_from(n).unwrap()];
        while told.contains(&None) {
            let words = self.next();
            let mut words = words.split(' ');
            let is_ack = words.next() == Some("ack");
            let tag: u64 = words.next().unwrap().parse().unwrap();
            let from = if words.next().is_some() { first } else { tag };
            for number in from..=tag {
                let place = &mut told[usize::try_from(number - first).unwrap()];
                assert!(place.is_none() || from != tag, "{number} is settled twice");
                place.get_or_insert(is_ack);
            }
        }
        told.into_iter().flatten().collect()
    }
}

/// The declaration of a queue.
pub(super) fn declaration<'a>(name: &'a str, kind: Kind, arguments: &'a [u8]) -> QueueDeclare<'a> {
    QueueDeclare {
        queue: name.as_bytes(),
        durable: kind.durable,
        exclusive: kind.exclusive,
        auto_delete: kind.auto_delete,
        arguments: TableRef::trusted(arguments),
        ..QueueDeclare::default()
    }
}
