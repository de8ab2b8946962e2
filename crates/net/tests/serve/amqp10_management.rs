//! The management node of AMQP 1.0, asked over a socket.

use crate::site::Site;
use amqp10::{
    Attach, Body, Flow, FrameType, MapRef, MessageRef, Performative, Properties, Section,
    SenderSettleMode, SerialNumber, Transfer, ValueRef, put_frame, put_map,
};
use front_amqp091::Settings;
use testing::amqp10_client::{consumer, publisher, transfer};
use testing::amqp10_peer::Peer;
use testing::client::{Client, Login};

const NODE: &str = "/management";
const REQUESTS: u32 = 0;
const RESPONSES: u32 = 1;

/// A client with a pair of links to the management node.
struct Manager {
    peer: Peer,
    n_asked: u32,
}

fn paired() -> MapRef<'static> {
    match ValueRef::decode(b"\xc1\x0a\x02\xa3\x06paired\x41") {
        Ok((ValueRef::Map(map), _)) => map,
        other => panic!("{other:?}"),
    }
}

fn map(entries: &[(&str, ValueRef<'_>)]) -> Vec<u8> {
    let mut out = Vec::new();
    put_map(&mut out, |items| {
        for (key, value) in entries {
            items.put(ValueRef::Str(key));
            items.put(*value);
        }
    });
    out
}

/// A value in words.
fn shown(value: ValueRef<'_>) -> String {
    #[expect(clippy::wildcard_enum_match_arm, reason = "others are shown as they are debugged")]
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Str(text) => text.to_owned(),
        ValueRef::U64(n) => n.to_string(),
        ValueRef::U32(n) => n.to_string(),
        ValueRef::Bool(is_set) => is_set.to_string(),
        ValueRef::Map(map) => {
            let entries = map.iter().map(|(key, value)| format!("{}={}", shown(key), shown(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(" "))
        }
        ValueRef::List(list) => {
            format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        ValueRef::Array(array) => {
            format!("[{}]", array.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    }
}

impl Manager {
    fn attached(site: &Site) -> Self {
        let mut peer = Peer::begun(site.address, b"\0guest\0guest", "/");
        let settled = SenderSettleMode::Settled;
        let requests = publisher(REQUESTS, NODE);
        for attach in [
            Attach { name: "pair", snd_settle_mode: settled, properties: paired(), ..requests },
            Attach { name: "pair", properties: paired(), ..consumer(RESPONSES, NODE) },
        ] {
            peer.says(&Performative::Attach(Box::new(attach)));
            assert!(peer.hears().starts_with("attach"));
        }
        let seen = SerialNumber::new(0);
        let session = Flow::of_session(seen, 1000, seen, 1000);
        let credit = Some(1000);
        let flow = Flow { handle: Some(RESPONSES), link_credit: credit, ..session };
        peer.says(&Performative::Flow(Flow { delivery_count: Some(seen), ..flow }));
        Self { peer, n_asked: 0 }
    }

    fn sends(&mut self, method: &str, to: &str, body: &[u8]) {
        let n = self.n_asked;
        self.n_asked += 1;
        let mut bytes = Vec::new();
        put_frame(&mut bytes, FrameType::Amqp, 0, |out| {
            Transfer { settled: Some(true), ..transfer(REQUESTS, n) }.encode(out);
            let properties = Properties {
                message_id: Some(ValueRef::U64(n.into())),
                to: Some(ValueRef::Str(to)),
                subject: Some(method),
                reply_to: Some(ValueRef::Str("$me")),
                ..Properties::default()
            };
            Section::Properties(properties).encode(out);
            Section::Value(ValueRef::decode(body).unwrap().0).encode(out);
        });
        self.peer.sends(&bytes);
    }

    /// The next response: id, status and body.
    fn hears(&mut self) -> String {
        loop {
            let frame = self.peer.frame(FrameType::Amqp);
            let (performative, payload) = Performative::decode(&frame).unwrap();
            if matches!(performative, Performative::Flow(_)) {
                continue;
            }
            assert!(matches!(performative, Performative::Transfer(_)), "{performative:?}");
            let message = MessageRef::parse(payload).unwrap();
            let properties = message.properties.unwrap();
            let Body::Value(body) = message.body else { panic!("{message:?}") };
            let id = properties.correlation_id.map_or(String::new(), shown);
            return format!("{id}: {} {}", properties.subject.unwrap(), shown(body));
        }
    }

    /// Asks, and returns status and body of the response.
    fn asks(&mut self, method: &str, to: &str, body: &[u8]) -> String {
        self.sends(method, to, body);
        let heard = self.hears();
        let (id, response) = heard.split_once(": ").unwrap();
        assert_eq!(id, (self.n_asked - 1).to_string(), "{response}");
        response.to_owned()
    }
}

const NULL: &[u8] = &[0x40];

fn site() -> Site {
    Site::start_with(Settings::default(), |_| {})
}

fn queue(name: &str, kind: &str, n_ready: u64, arguments: &str) -> String {
    format!(
        "{{message_count={n_ready} consumer_count=0 name={name} vhost=/ durable=true \
         auto_delete=false exclusive=false type={kind} arguments={{{arguments}}} \
         replicas=[leveret] leader=leveret}}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_are_declared_described_purged_and_deleted() {
    let site = site();
    let mut manager = Manager::attached(&site);
    let kind = map(&[("x-queue-type", ValueRef::Str("quorum"))]);
    let quorum = map(&[("arguments", ValueRef::decode(&kind).unwrap().0)]);
    let described = queue("a/b", "quorum", 0, "x-queue-type=quorum");
    assert_eq!(manager.asks("PUT", "/queues/a%2Fb", &quorum), format!("201 {described}"));
    assert_eq!(manager.asks("PUT", "/queues/a%2Fb", &quorum), format!("200 {described}"));
    assert_eq!(manager.asks("GET", "/queues/a%2Fb", NULL), format!("200 {described}"));
    let conflict = manager.asks("PUT", "/queues/a%2Fb", &map(&[]));
    assert!(conflict.starts_with("409 inequivalent arg 'x-queue-type' for queue 'a/b'"));
    let mut old = Client::guest(site.address);
    old.declare("q");
    for _ in 0..3 {
        old.put_publish("q", true, b"m");
    }
    old.select_confirms();
    old.put_publish("q", true, b"m");
    old.wait_for_confirms();
    assert_eq!(manager.asks("DELETE", "/queues/q/messages", NULL), "200 {message_count=4}");
    assert_eq!(manager.asks("DELETE", "/queues/q", NULL), "200 {message_count=0}");
    assert_eq!(manager.asks("DELETE", "/queues/q", NULL), "200 {message_count=0}");
    assert_eq!(manager.asks("GET", "/queues/q", NULL), "404 queue 'q' in vhost '/' not found");
    let gone = "404 no queue 'q' in vhost '/'";
    assert_eq!(manager.asks("DELETE", "/queues/q/messages", NULL), gone);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exchanges_and_bindings_are_made_found_and_removed() {
    let site = site();
    let mut manager = Manager::attached(&site);
    let topic = map(&[("type", ValueRef::Str("topic"))]);
    assert_eq!(manager.asks("PUT", "/exchanges/x", &topic), "204 ");
    assert_eq!(manager.asks("PUT", "/exchanges/x", &topic), "204 ");
    let conflict = manager.asks("PUT", "/exchanges/x", &map(&[]));
    assert!(conflict.starts_with("409 inequivalent arg 'type' for exchange 'x'"), "{conflict}");
    let unknown = manager.asks("PUT", "/exchanges/y", &map(&[("type", ValueRef::Str("none"))]));
    assert_eq!(unknown, "400 unknown exchange type 'none'");
    assert!(manager.asks("PUT", "/queues/q", &map(&[])).starts_with("201"));
    let of_queue = [
        ("source", ValueRef::Str("x")),
        ("destination_queue", ValueRef::Str("q")),
        ("binding_key", ValueRef::Str("k.#")),
    ];
    let arguments = map(&[("n", ValueRef::I32(1))]);
    let with = ("arguments", ValueRef::decode(&arguments).unwrap().0);
    assert_eq!(manager.asks("POST", "/bindings", &map(&of_queue)), "204 ");
    let of_queue_with = map(&[of_queue[0], of_queue[1], of_queue[2], with]);
    assert_eq!(manager.asks("POST", "/bindings", &of_queue_with), "204 ");
    let nowhere = map(&[("source", ValueRef::Str("none")), of_queue[1], of_queue[2]]);
    let heard = manager.asks("POST", "/bindings", &nowhere);
    assert_eq!(heard, "400 no exchange 'none' in vhost '/'");
    let query = "/bindings?src=x&dstq=q&key=k.%23";
    let found = manager.asks("GET", query, NULL);
    let one = "{source=x destination_queue=q binding_key=k.# arguments={} \
               location=/bindings/src=x;dstq=q;key=k.%23;args=}";
    assert!(found.contains(one), "{found}");
    assert_eq!(found.matches("source=x").count(), 2, "{found}");
    let location = found.split("location=").find(|it| !it.contains("args=}")).unwrap();
    assert!(location.starts_with("200 ["), "{location}");
    let with_arguments = found
        .split(['{', '}', ' '])
        .find(|it| it.starts_with("location=") && !it.ends_with("args="));
    let location = with_arguments.unwrap().trim_start_matches("location=").to_owned();
    assert_eq!(manager.asks("DELETE", &location, NULL), "204 ");
    assert_eq!(manager.asks("DELETE", &location, NULL), "204 ", "it is gone already");
    assert_eq!(manager.asks("GET", query, NULL), format!("200 [{one}]"));
    assert_eq!(manager.asks("DELETE", "/exchanges/x", NULL), "204 ");
    assert_eq!(manager.asks("GET", query, NULL), "200 []");
    assert_eq!(manager.asks("DELETE", "/exchanges/x", NULL), "204 ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_requests_end_nothing_and_are_answered_in_order() {
    let site = site();
    let mut owner = Client::login(site.address, Login::default());
    owner.open_channel(1);
    owner.ask(
        1,
        amqp091::method::QueueDeclare {
            queue: b"mine",
            exclusive: true,
            ..amqp091::method::QueueDeclare::default()
        },
    );
    let mut manager = Manager::attached(&site);
    manager.sends("PUT", "/queues/q", &map(&[]));
    manager.sends("GET", "/nowhere", NULL);
    manager.sends("DELETE", "/queues/mine", NULL);
    manager.sends("PATCH", "/queues/q", NULL);
    manager.sends("PUT", "/queues/q", NULL);
    manager.sends("PUT", "/auth/tokens", b"\xa0\x01t");
    assert!(manager.hears().starts_with("0: 201"));
    assert_eq!(manager.hears(), "1: 404 path '/nowhere' not found");
    let locked = manager.hears();
    assert!(locked.starts_with("2: 400 cannot obtain exclusive access"), "{locked}");
    assert_eq!(manager.hears(), "3: 405 method 'PATCH' not allowed for '/queues/q'");
    assert_eq!(manager.hears(), "4: 400 the request's body is not a map");
    assert_eq!(manager.hears(), "5: 204 ");
    assert!(manager.asks("GET", "/queues/q", NULL).starts_with("200"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_that_is_missing_ends_the_session() {
    let site = site();
    let command = meta::Command::SetPermissions {
        vhost: "/".into(),
        user: "guest".into(),
        configure: "^mine$".to_owned(),
        write: ".*".to_owned(),
        read: ".*".to_owned(),
    };
    site.broker.apply_definition(command).await.unwrap();
    let mut manager = Manager::attached(&site);
    assert!(manager.asks("PUT", "/queues/mine", &map(&[])).starts_with("201"));
    manager.sends("PUT", "/queues/yours", &map(&[]));
    manager.sends("PUT", "/queues/mine", &map(&[]));
    assert_eq!(manager.peer.hears(), "end amqp:unauthorized-access");
    assert!(site.broker.view().queue("/", "yours").is_none());
}

/// A new token has the rights of all links looked at, whether they do anything or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_ends_sessions_whose_links_are_not_permitted_any_more() {
    let site = site();
    let mut manager = Manager::attached(&site);
    let mut idle = Attach { handle: 5, ..publisher(5, "/exchanges/amq.topic/orders.new") };
    idle.name = "idle";
    manager.peer.says(&Performative::Attach(Box::new(idle)));
    assert_eq!(manager.peer.hears(), "attach Receiver");
    let token = || {
        let mut token = Vec::new();
        ValueRef::Binary(b"token").encode(&mut token);
        token
    };
    assert_eq!(manager.asks("PUT", "/auth/tokens", &token()), "204 ");
    let command = meta::Command::SetTopicPermissions {
        vhost: "/".into(),
        user: "guest".into(),
        exchange: "amq.topic".into(),
        write: "^invoices".to_owned(),
        read: ".*".to_owned(),
    };
    site.broker.apply_definition(command).await.unwrap();
    assert_eq!(manager.asks("PUT", "/auth/tokens", &token()), "204 ");
    assert_eq!(manager.peer.hears(), "end amqp:unauthorized-access");
}
