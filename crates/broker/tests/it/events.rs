//! Messages of the broker's own: the firehose, and events.

use crate::client::{Client, Kind, block_on, short, start, start_set, table};
use broker::{Alarm, Broker, BrokerOptions, Interceptors, LogLine, Overwrite};
use message::Properties;
use meta::{
    ApplyTo, Command, EVENT_EXCHANGE, Json, LOG_EXCHANGE, PasswordHash, PolicyScope, PolicySpec,
    VhostLimits,
};
use session::{ExchangeDeclaration, Op, Outcome, Table, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stdx::Now;
use testing::MemoryDisk;

const TRACE: &str = "amq.rabbitmq.trace";

fn new_node() -> (Arc<Broker>, Client) {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let client = Client::connect(&broker);
    (broker, client)
}

/// A client that gets what an exchange tells, and what it is told.
struct Listener(Client);

impl Listener {
    fn new(broker: &Arc<Broker>, exchange: &str, queue: &str, key: &str) -> Self {
        let mut client = Client::connect(broker);
        client.declare(queue, false);
        client.bind(exchange, queue, key);
        Self(client)
    }

    /// The routing key, headers and body of the next message.
    fn next(&mut self, queue: &str) -> (String, Table, String) {
        let heard = self.0.get_soon(queue);
        let body = heard.strip_prefix("got ").unwrap().rsplit_once(" left ").unwrap().0.to_owned();
        let last = self.0.last();
        let headers = message::View::of(&last.properties).headers().unwrap();
        self.0.settle(1, Outcome::Accepted);
        (String::from_utf8(last.key).unwrap(), headers.to_owned().unwrap(), body)
    }
}

fn text(table: &Table, name: &str) -> String {
    let bytes = table.get(name.as_bytes()).and_then(Value::as_bytes);
    String::from_utf8_lossy(bytes.unwrap_or(b"(none)")).into_owned()
}

/// Publishes and deliveries are copied, with who and where, until that is ended; copies
/// are not copied.
#[test]
fn the_firehose_copies_what_goes_in_and_out() {
    let (broker, mut client) = new_node();
    let mut listener = Listener::new(&broker, TRACE, "traces", "#");
    client.declare("q", false);
    client.publish("q", &["before"], Kind::Transient);
    assert_eq!(client.get("q"), ["got before left 0"]);
    assert!(!broker.firehose().start("none", None) && !broker.firehose().is_on("none"));
    assert!(broker.firehose().start("/", None) && broker.firehose().is_on("/"));
    let properties = Properties {
        message_id: Some(short("id")),
        priority: Some(3),
        headers: Some(table(&[("h", 1.into())])),
        ..Properties::default()
    };
    client.publish_with("", "q", &[(properties, "traced")]);
    let (key, headers, body) = listener.next("traces");
    assert_eq!((key.as_str(), body.as_str()), ("publish.", "traced"));
    for (name, expected) in
        [("exchange_name", ""), ("vhost", "/"), ("connection", "test"), ("user", "guest")]
    {
        assert_eq!(text(&headers, name), expected, "{name}");
    }
    assert_eq!(headers.get(b"channel"), Some(&Value::I32(1)));
    let names = |name: &str| Some(Value::Array(vec![Value::LongString(name.as_bytes().to_vec())]));
    assert_eq!(headers.get(b"routed_queues").cloned(), names("q"));
    assert_eq!(headers.get(b"routing_keys").cloned(), names("q"));
    let found = headers.get(b"properties").and_then(Value::as_table).unwrap();
    assert_eq!(
        (text(found, "message_id").as_str(), found.get(b"priority")),
        ("id", Some(&Value::I32(3)))
    );
    assert!(found.get(b"headers").and_then(Value::as_table).unwrap().get(b"h").is_some());
    // By `get`, again after it was given back, and to a consumer from the read buffer and from a page.
    client.get("q");
    client.settle(2, Outcome::Modified);
    client.get("q");
    for redelivered in [0, 1] {
        let (key, headers, _) = listener.next("traces");
        assert_eq!(key, "deliver.q");
        assert_eq!(headers.get(b"redelivered"), Some(&Value::I32(redelivered)));
        assert!(headers.get(b"routed_queues").is_none());
    }
    client.consume("q", true);
    client.publish("q", &["a", "b"], Kind::Transient);
    let mut keys: Vec<String> = (0..5).map(|_| listener.next("traces").0).collect();
    keys.sort();
    assert_eq!(keys, ["deliver.q", "deliver.q", "deliver.q", "publish.", "publish."]);
    // Another user's are left alone.
    assert!(broker.firehose().stop("/", None) && !broker.firehose().is_on("/"));
    assert!(broker.firehose().start("/", Some("ada")));
    client.publish("q", &["untraced"], Kind::Transient);
    assert!(
        broker.firehose().stop("/", Some("ada")) && broker.firehose().start("/", Some("guest"))
    );
    client.publish("nowhere", &["last"], Kind::Transient);
    let (key, headers, body) = listener.next("traces");
    assert_eq!((key.as_str(), body.as_str()), ("publish.", "last"));
    assert_eq!(headers.get(b"routed_queues"), Some(&Value::Array(Vec::new())));
    assert_eq!(listener.0.get("traces"), ["get empty"]);
}

/// A queue that took everything copied would never end taking; what is too much is dropped.
#[test]
fn copies_that_are_too_many_are_dropped_and_nobody_waits() {
    let (broker, mut client) = new_node();
    let _listener = Listener::new(&broker, TRACE, "traces", "publish.#");
    client.declare("q", false);
    assert!(broker.firehose().start("/", None));
    let large = "x".repeat(1 << 20);
    client.publish("q", &vec![large.as_str(); 64], Kind::Transient);
    assert_eq!(client.ask_ready("q"), 64);
    assert!(broker.firehose().stop("/", None));
    let create = Command::CreateVhost { vhost: "gone".into(), metadata: Default::default() };
    block_on(broker.apply_definition(create.clone())).unwrap();
    assert!(broker.firehose().start("gone", None));
    block_on(broker.apply_definition(Command::DeleteVhost { vhost: "gone".into() })).unwrap();
    block_on(broker.apply_definition(create)).unwrap();
    assert!(!broker.firehose().is_on("gone"), "a new one of that name is not traced");
    // What fits comes; the node goes on.
    let deadline = Instant::now() + Duration::from_secs(20);
    while client.ask_ready("traces") < 7 {
        assert!(Instant::now() < deadline, "nothing is copied");
        std::thread::yield_now();
    }
}

fn events(broker: &Arc<Broker>) -> Listener {
    block_on(broker.events().tell_in("/")).unwrap();
    Listener::new(broker, EVENT_EXCHANGE, "events", "#")
}

fn policy() -> PolicySpec {
    PolicySpec {
        name: "p".into(),
        pattern: "^q".to_owned(),
        apply_to: ApplyTo::Queues,
        definition: Json::parse("{\"max-length\":5}").unwrap(),
        priority: 2,
    }
}

type Step = (Command, &'static str, &'static str);

/// Carries out commands, each of which is told as an event with this fact.
fn expect_told(steps: Vec<Step>, broker: &Arc<Broker>, listener: &mut Listener) {
    for (command, event, fact) in steps {
        block_on(broker.apply_definition(command)).unwrap();
        let mut told = listener.next("events");
        // A virtual host goes with all that is in it.
        while told.0 == "exchange.deleted" {
            told = listener.next("events");
        }
        let (key, headers, body) = told;
        assert_eq!((key.as_str(), body.as_str()), (event, ""));
        let (name, value) = fact.split_once('=').unwrap();
        assert_eq!(text(&headers, name), value, "{event}");
        assert_eq!(text(&headers, "user_who_performed_action"), "rmq-cli", "{event}");
        assert!(headers.get(b"timestamp_in_ms").is_some(), "{event}");
    }
}

fn new_vhost() -> Command {
    Command::CreateVhost { vhost: "v".into(), metadata: Default::default() }
}

fn new_user() -> Command {
    let password = PasswordHash::new(Default::default(), "x");
    Command::CreateUser { user: "ada".into(), password, tags: Vec::new() }
}

/// Events of users and virtual hosts.
#[test]
fn events_tell_of_users_and_virtual_hosts() {
    let (broker, _client) = new_node();
    let mut listener = events(&broker);
    let user = || "ada".into();
    let limits = VhostLimits { max_queues: Some(7), max_connections: None };
    let set_limits = |limits| Command::SetVhostLimits { vhost: "v".into(), limits };
    let password = |password| Command::SetPassword { user: user(), password };
    // What the listener itself has set off.
    assert_eq!(listener.next("events").0, "binding.created");
    let steps = vec![
        (new_vhost(), "vhost.created", "name=v"),
        (set_limits(limits), "vhost.limits.set", "name=v"),
        (set_limits(VhostLimits::default()), "vhost.limits.cleared", "name=v"),
        (new_user(), "user.created", "name=ada"),
        (password(PasswordHash::new(Default::default(), "y")), "user.password.changed", "name=ada"),
        (password(PasswordHash::default()), "user.password.cleared", "name=ada"),
        (
            Command::SetUserTags { user: user(), tags: vec!["t".into()] },
            "user.tags.set",
            "name=ada",
        ),
        (Command::DeleteUser { user: user() }, "user.deleted", "name=ada"),
        (Command::DeleteVhost { vhost: "v".into() }, "vhost.deleted", "name=v"),
    ];
    expect_told(steps, &broker, &mut listener);
}

/// Events of permissions, policies and parameters.
#[test]
fn events_tell_of_permissions_and_settings() {
    let (broker, _client) = new_node();
    let mut listener = events(&broker);
    assert_eq!(listener.next("events").0, "binding.created");
    let (user, vhost) = (|| "ada".into(), || "v".into());
    let scope = PolicyScope::User;
    let (configure, write, read) = ("c".to_owned(), "w".to_owned(), "r".to_owned());
    let topic = Command::SetTopicPermissions {
        user: user(),
        vhost: vhost(),
        exchange: "x".into(),
        write: write.clone(),
        read: read.clone(),
    };
    let set = Command::SetPermissions { user: user(), vhost: vhost(), configure, write, read };
    let clear_topic =
        Command::ClearTopicPermissions { user: user(), vhost: vhost(), exchange: None };
    let clear = Command::ClearPermissions { user: user(), vhost: vhost() };
    let value = Json::parse("1").unwrap();
    let steps = vec![
        (new_vhost(), "vhost.created", "name=v"),
        (new_user(), "user.created", "name=ada"),
        (set, "permission.created", "configure=c"),
        (topic, "topic.permission.created", "exchange=x"),
        (clear_topic, "topic.permission.deleted", "user=ada"),
        (clear, "permission.deleted", "vhost=v"),
        (
            Command::SetPolicy { scope, vhost: vhost(), policy: policy() },
            "policy.set",
            "definition={\"max-length\":5}",
        ),
        (
            Command::ClearPolicy { scope, vhost: vhost(), name: "p".into() },
            "policy.cleared",
            "name=p",
        ),
        (Command::SetGlobalParameter { name: "g".into(), value }, "parameter.set", "value=1"),
        (Command::ClearGlobalParameter { name: "g".into() }, "parameter.cleared", "name=g"),
    ];
    expect_told(steps, &broker, &mut listener);
}

/// Events of the node.
#[test]
fn events_tell_of_alarms_and_logins() {
    let (broker, _client) = new_node();
    let mut listener = events(&broker);
    assert_eq!(listener.next("events").0, "binding.created");
    assert!(broker.set_alarm(Alarm::Disk, true) && !broker.set_alarm(Alarm::Disk, true));
    assert!(broker.set_alarm(Alarm::Disk, false));
    let (connection, protocol) = ("a -> b", "{'AMQP',\"0-9-1\"}");
    broker.events().login("eve", connection, protocol, Some("no"));
    broker.events().login("bob", connection, protocol, None);
    for (event, name, value) in [
        ("alarm.set", "resource", "disk"),
        ("alarm.cleared", "resource", "disk"),
        ("user.authentication.failure", "error", "no"),
        ("user.authentication.success", "name", "bob"),
    ] {
        let (key, headers, _) = listener.next("events");
        assert_eq!((key.as_str(), text(&headers, name).as_str()), (event, value));
    }
}

/// Events of clients.
#[test]
fn events_tell_of_clients() {
    let (broker, _client) = new_node();
    let mut listener = events(&broker);
    assert_eq!(listener.next("events").0, "binding.created");
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    client.bind("amq.direct", "q", "key");
    client.consume_with("q", "tag", true, &[]);
    client.ask(Op::Detach { consumer_tag: short("tag") });
    client.consume_with("q", "other", false, &[]);
    let x = ExchangeDeclaration {
        exchange: short("x"),
        kind: short("fanout"),
        passive: false,
        durable: false,
        auto_delete: false,
        internal: false,
        arguments: Table::default(),
    };
    client.ask(Op::DeclareExchange(x));
    client.ask(Op::DeleteExchange { exchange: short("x"), if_unused: false });
    client.disconnect();
    block_on(broker.operations().delete_queue("/", "q", Default::default())).unwrap();
    for (event, name, value) in [
        ("connection.created", "user", "guest"),
        ("channel.created", "vhost", "/"),
        ("queue.created", "name", "q"),
        ("binding.created", "routing_key", "key"),
        ("consumer.created", "consumer_tag", "tag"),
        ("consumer.deleted", "queue", "q"),
        ("consumer.created", "consumer_tag", "other"),
        ("exchange.created", "type", "fanout"),
        ("exchange.deleted", "name", "x"),
        ("consumer.deleted", "consumer_tag", "other"),
        ("channel.closed", "name", "test (1)"),
        ("connection.closed", "name", "test"),
    ] {
        let (key, headers, _) = listener.next("events");
        assert_eq!((key.as_str(), text(&headers, name).as_str()), (event, value));
        assert_eq!(text(&headers, "user_who_performed_action"), "guest", "{event}");
    }
    let (key, headers, _) = listener.next("events");
    assert_eq!(key, "binding.deleted");
    assert_eq!(
        (text(&headers, "destination_name"), text(&headers, "source_name")),
        ("q".to_owned(), "amq.direct".to_owned())
    );
    assert_eq!(listener.next("events").0, "queue.deleted");
}

/// The last events are kept where no exchange is told of them, but for what may be a secret.
#[test]
fn the_last_events_are_kept() {
    let (broker, _client) = new_node();
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    client.bind("amq.direct", "q", "key");
    block_on(broker.operations().delete_queue("/", "q", Default::default())).unwrap();
    let value = Json::parse("\"secret\"").unwrap();
    let set = Command::SetGlobalParameter { name: "g".into(), value };
    block_on(broker.apply_definition(set)).unwrap();
    let kept = broker.events().read().after(0);
    let kept = kept.items.iter().rev().map(|(_, event)| (event.name, event.headers()));
    let kept: Vec<_> = kept.take(4).collect();
    for ((name, headers), (event, header, value)) in kept.iter().zip([
        ("parameter.set", "name", "g"),
        ("queue.deleted", "name", "q"),
        ("binding.deleted", "destination_name", "q"),
        ("binding.created", "routing_key", "key"),
    ]) {
        assert_eq!((*name, text(headers, header).as_str()), (event, value));
    }
    assert!(kept[0].1.get(b"value").is_none(), "{:?}", kept[0]);
}

/// Events of channels are kept for who reads events, not before and not for ever.
#[test]
fn events_of_channels_are_kept_while_somebody_reads() {
    let (broker, _client) = new_node();
    let at = |ms| broker.tick(Now::at_ms(ms));
    let mut n_seen = Vec::new();
    for ms in [1_000, 2_000, 70_000] {
        at(ms);
        Client::connect(&broker).disconnect();
        let kept = broker.events().read().after(0);
        let of_channels = kept.items.iter().filter(|(_, event)| event.name.starts_with("channel."));
        n_seen.push(of_channels.count());
        at(ms + 500);
    }
    assert_eq!(n_seen, [0, 2, 2]);
}

/// Nobody but the broker makes the exchange, and without listeners nothing is told.
#[test]
fn the_exchange_for_events_is_the_brokers_own() {
    let (broker, mut client) = new_node();
    let x = || {
        Op::DeclareExchange(ExchangeDeclaration {
            exchange: short(EVENT_EXCHANGE),
            kind: short("topic"),
            passive: false,
            durable: true,
            auto_delete: false,
            internal: true,
            arguments: Table::default(),
        })
    };
    let heard = client.ask(x());
    assert!(heard[0].starts_with("channel failed AccessRefused"), "{heard:?}");
    assert!(block_on(broker.events().tell_in("nowhere")).is_err());
    block_on(broker.events().tell_in("/")).unwrap();
    client.ask(Op::OpenChannel);
    assert_eq!(client.ask(x()), ["done"], "it is there now");
    let heard = client.publish_to(EVENT_EXCHANGE, "k", &["forged"], Kind::Transient);
    assert!(heard[0].starts_with("channel failed InternalExchange"), "{heard:?}");
}

/// A line goes to those who have bound a queue for its level, in RabbitMQ's form.
#[test]
fn lines_of_the_log_are_published() {
    let (broker, mut client) = new_node();
    let line = |level, text: &str| LogLine { level, text: text.into(), unix_s: 1_700_000_000 };
    assert!(block_on(broker.declare_log_exchange("nowhere")).is_err());
    broker.publish_log_line("/", &line("info", "nobody listens"));
    block_on(broker.declare_log_exchange("/")).unwrap();
    block_on(broker.declare_log_exchange("/")).unwrap();
    let mut listener = Listener::new(&broker, LOG_EXCHANGE, "errors", "error");
    broker.publish_log_line("/", &line("info", "all is well"));
    broker.publish_log_line("nowhere", &line("error", "elsewhere"));
    broker.publish_log_line("/", &line("error", "it burns\n"));
    let (key, headers, body) = listener.next("errors");
    assert_eq!((key.as_str(), body.as_str()), ("error", "it burns\n"));
    assert!(headers.get(b"node").is_some());
    let properties =
        amqp091::PropertiesRef::parse(&listener.0.last().properties).unwrap().to_owned().unwrap();
    assert_eq!(properties.content_type, Some(short("text/plain")));
    assert_eq!(properties.timestamp, Some(1_700_000_000));
    assert_eq!(properties.delivery_mode, None);
    let heard = client.publish_to(LOG_EXCHANGE, "error", &["forged"], Kind::Transient);
    assert!(heard[0].starts_with("channel failed InternalExchange"), "{heard:?}");
}

fn start_stamping(interceptors: Interceptors) -> Arc<Broker> {
    let settings = BrokerOptions { interceptors, ..BrokerOptions::default() };
    start_set(Arc::new(MemoryDisk::new()), settings)
}

/// Each message is stamped, whatever it has of its own, and goes the same ways.
#[test]
fn messages_are_stamped_as_they_come() {
    let interceptors = Interceptors {
        new_traces: 0,
        timestamp: Some(Overwrite::No),
        routing_node: Some(Overwrite::Yes),
        sent_time: false,
    };
    let broker = start_stamping(interceptors);
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    client.ask(Op::EnableConfirms);
    let stamped = |client: &mut Client| {
        assert!(client.get_soon("q").contains("got m"));
        let properties = client.last().properties;
        amqp091::PropertiesRef::parse(&properties).unwrap().to_owned().unwrap()
    };
    client.publish("q", &["m"], Kind::Persistent);
    let plain = stamped(&mut client);
    let headers = plain.headers.unwrap();
    assert_eq!(plain.timestamp, Some(0), "in seconds");
    assert_eq!(headers.get(b"timestamp_in_ms"), Some(&Value::I64(1)));
    assert!(headers.get(b"x-routed-by").is_some());
    let own = Properties {
        timestamp: Some(77),
        headers: Some(table(&[("x-routed-by", 5.into()), ("mine", 6.into())])),
        message_id: Some(short("id")),
        ..Properties::default()
    };
    client.publish_with("", "q", &[(own, "m")]);
    let given = stamped(&mut client);
    let headers = given.headers.unwrap();
    assert_eq!((given.timestamp, given.message_id), (Some(77), Some(short("id"))));
    assert_eq!(headers.get(b"mine"), Some(&Value::I32(6)));
    assert_eq!(text(&headers, "x-routed-by"), "");
    let heard = client.publish("nowhere", &["lost"], Kind::Mandatory);
    assert!(heard.contains(&"returned lost".to_owned()), "{heard:?}");
}

/// Each delivery says when it was made, a later one of the same message too; what comes back
/// to its publisher does not.
#[test]
fn deliveries_are_stamped_as_they_go() {
    let broker = start_stamping(Interceptors { sent_time: true, ..Interceptors::default() });
    let mut client = Client::connect(&broker);
    client.declare("q", false);
    let sent = |client: &Client| {
        let properties = client.last().properties;
        let properties = amqp091::PropertiesRef::parse(&properties).unwrap().to_owned().unwrap();
        assert_eq!(properties.message_id, Some(short("id")));
        let headers = properties.headers.unwrap();
        headers.get(b"x-opt-rabbitmq-sent-time").cloned()
    };
    let own = Properties {
        message_id: Some(short("id")),
        headers: Some(table(&[("x-opt-rabbitmq-sent-time", "mine".into())])),
        ..Properties::default()
    };
    client.publish_with("", "q", &[(own.clone(), "m")]);
    assert_eq!(client.get("q"), ["got m left 0"]);
    assert_eq!(sent(&client), Some(Value::I64(1)));
    broker.tick(Now::at_ms(7));
    client.settle(1, Outcome::Modified);
    assert_eq!(client.consume("q", true), ["consuming", "deliver m again"]);
    assert_eq!(sent(&client), Some(Value::I64(7)));
    let properties = Properties { message_id: Some(short("id")), ..Properties::default() };
    assert_eq!(client.publish_with("", "q", &[(properties, "n")]), ["deliver n"]);
    assert_eq!(sent(&client), Some(Value::I64(7)), "straight from the read buffer too");
    let heard = client.publish_as("", "nowhere", &[(own, "lost")], Kind::Mandatory);
    assert_eq!(heard, ["returned lost"]);
}
