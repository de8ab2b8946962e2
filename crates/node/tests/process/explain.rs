//! Reasons that the HTTP API gives, against what then happens.

use super::http_api::{Api, ask};
use super::support::wait_until;
use amqp10::{Role, Section, ValueRef, put_application_properties};
use amqp091::method::{BasicAck, BasicCancel, BasicConsume, BasicQos};
use serde_json::{Value, json};
use testing::amqp10_peer::Peer;
use testing::client::Client;

#[test]
fn settings_have_their_origins_and_policies_their_reasons() {
    let api = Api::start();
    let arguments = r#"{"arguments":{"x-max-length":50,"x-message-ttl":1000}}"#;
    api.expect(201, "PUT /queues/%2F/q.one", arguments);
    let policy = r#"{"pattern":"^q","definition":{"max-length":10,"expires":60000},"priority":1}"#;
    let foretold = api.expect(200, "POST /explain/policy/%2F/short", policy);
    assert_eq!(foretold["changed_count"], 1);
    let [change] = &foretold["changes"].as_array().unwrap()[..] else { panic!("{foretold}") };
    assert_eq!(change["name"], "q.one");
    let before = &api.expect(200, "GET /queues/%2F/q.one", "")["effective_policy_definition"];
    assert_eq!(*before, change["before"]);
    api.expect(201, "PUT /policies/%2F/short", policy);
    let after = &api.expect(200, "GET /queues/%2F/q.one", "")["effective_policy_definition"];
    assert_eq!(*after, change["after"]);
    let other = r#"{"pattern":"^x","definition":{"max-length":1}}"#;
    api.expect(201, "PUT /policies/%2F/other", other);
    api.expect(
        201,
        "PUT /operator-policies/%2F/op",
        r#"{"pattern":"","definition":{"expires":50000}}"#,
    );

    let told = api.expect(200, "GET /explain/queue/%2F/q.one", "");
    let of = |name: &str| {
        let settings = told["settings"].as_array().unwrap();
        let found = settings.iter().find(|it| it["name"] == name).unwrap();
        (found["value"].clone(), found["origin"].clone())
    };
    assert_eq!(of("max-length"), (json!(10), json!("policy")));
    assert_eq!(of("message-ttl"), (json!(1000), json!("argument")));
    assert_eq!(of("expires"), (json!(50_000), json!("operator policy")));
    let applies: Vec<_> = (told["policies"].as_array().unwrap().iter())
        .map(|it| (it["name"].clone(), it["applies"].clone()))
        .collect();
    assert_eq!(applies, [(json!("short"), json!(true)), (json!("other"), json!(false))]);
    assert_eq!(told["policies"][1]["reason"], "the pattern does not match the name");
    let listed = api.0.ctl(&["-q", "explain_queue", "q.one"]);
    assert!(listed.contains("max-length\t10\tpolicy\t50\t10\t\n"), "{listed}");
    api.expect(404, "GET /explain/queue/%2F/none", "");
    let wrong = r#"{"pattern":"(","definition":{"max-length":1}}"#;
    api.expect(400, "POST /explain/policy/%2F/p", wrong);
}

#[test]
fn permissions_are_explained_as_they_are() {
    let api = Api::start();
    api.expect(201, "PUT /users/u", r#"{"password":"p","tags":"management"}"#);
    let explained =
        |query: &str| api.expect(200, &format!("GET /explain/permission/%2F/u?{query}"), "");
    let declare = "PUT /queues/%2F/mine.q";
    let at = api.0.http_address();
    let told = explained("name=mine.q&operation=configure");
    assert_eq!(told["reason"], "the user has no permissions in the virtual host");
    assert_eq!(ask(at, "u:p", declare, "{}").status, 401);
    let permissions = r#"{"configure":"^mine","write":"","read":".*"}"#;
    api.expect(201, "PUT /permissions/%2F/u", permissions);
    let told = explained("name=mine.q&operation=configure");
    assert_eq!((&told["allowed"], &told["pattern"]), (&json!(true), &json!("^mine")));
    assert_eq!(ask(at, "u:p", declare, "{}").status, 201);
    let told = explained("kind=exchange&name=amq.topic&operation=write&routing_key=k");
    assert_eq!((&told["allowed"], &told["pattern"]), (&json!(false), &json!("")));
    api.expect(400, "GET /explain/permission/%2F/u?name=q&operation=fly", "");
    api.expect(400, "GET /explain/permission/%2F/u?name=q&operation=read&kind=user", "");
    assert_eq!(ask(at, "u:p", "GET /explain/permission/%2F/u?operation=read", "").status, 401);
}

#[test]
fn the_way_of_a_message_is_told() {
    let api = Api::start();
    for (name, body) in [
        ("first", r#"{"type":"topic","arguments":{"alternate-exchange":"spare"}}"#),
        ("second", r#"{"type":"headers"}"#),
        ("spare", r#"{"type":"fanout"}"#),
    ] {
        api.expect(201, &format!("PUT /exchanges/%2F/{name}"), body);
    }
    api.expect(
        201,
        "PUT /queues/%2F/full",
        r#"{"arguments":{"x-max-length":1,"x-overflow":"reject-publish"}}"#,
    );
    api.expect(201, "PUT /queues/%2F/rest", "{}");
    api.expect(201, "POST /bindings/%2F/e/first/e/second", r#"{"routing_key":"a.*"}"#);
    api.expect(
        201,
        "POST /bindings/%2F/e/second/q/full",
        r#"{"arguments":{"x-match":"all","n":1}}"#,
    );
    api.expect(201, "POST /bindings/%2F/e/spare/q/rest", "{}");
    let told = |key: &str, n: i64| {
        let body = json!({"routing_key": key, "properties": {"headers": {"n": n}}});
        api.expect(200, "POST /explain/publish/%2F/first", &body.to_string())
    };
    // What is told, and what comes of the same message.
    let publish = |key: &str, n: i64| {
        let body = json!({"routing_key": key, "properties": {"headers": {"n": n}}, "payload": "x",
            "payload_encoding": "string"});
        api.expect(200, "POST /exchanges/%2F/first/publish", &body.to_string())["routed"] == true
    };
    let to_full = told("a.b", 1);
    let way: Vec<_> =
        to_full["steps"].as_array().unwrap().iter().map(|it| &it["exchange"]).collect();
    assert_eq!(way, [&json!("first"), &json!("second")]);
    assert_eq!(
        (&to_full["queues"][0]["name"], &to_full["queues"][0]["fate"]),
        (&json!("full"), &json!("stored"))
    );
    assert!(publish("a.b", 1));
    assert_eq!(told("a.b", 1)["queues"][0]["fate"], "rejected: the queue is full");
    assert!(told("a.b", 2)["outcome"].as_str().unwrap().starts_with("unroutable"));
    assert!(!publish("a.b", 2));
    let spare = told("b", 1);
    assert_eq!(spare["steps"][0]["alternate_exchange"], "spare");
    assert_eq!((&spare["queues"][0]["name"], &spare["allowed"]), (&json!("rest"), &json!(true)));
    assert!(publish("b", 1));
    let other = r#"{"routing_key":"b","user":"nobody"}"#;
    let told = api.expect(200, "POST /explain/publish/%2F/first", other);
    assert_eq!(
        (&told["allowed"], &told["permission"]),
        (&json!(false), &json!("the user does not exist"))
    );
    let none = api.expect(200, "POST /explain/publish/%2F/none", r#"{"routing_key":""}"#);
    assert_eq!(none["outcome"], "the exchange does not exist");
    api.expect(400, "POST /explain/publish/%2F/first", "{}");
}

/// A message of AMQP 1.0, as browsing shows what came of it.
#[test]
fn the_way_of_sections_is_told_as_they_go() {
    let api = Api::start();
    api.expect(201, "PUT /exchanges/%2F/jms", r#"{"type":"x-jms-topic"}"#);
    api.expect(201, "PUT /exchanges/%2F/all", r#"{"type":"headers"}"#);
    api.expect(201, "PUT /queues/%2F/ours", "{}");
    api.expect(201, "PUT /queues/%2F/other", "{}");
    for (queue, exchange, arguments) in [
        ("ours", "jms", r#"{"rabbitmq_jms_selector":"JMSType = 'a' AND n > 1"}"#),
        ("other", "jms", r#"{"rabbitmq_jms_selector":"JMSType = 'b'"}"#),
        ("ours", "all", r#"{"x-match":"all","n":2}"#),
        ("other", "all", r#"{"x-match":"all","n":3}"#),
    ] {
        let binding = format!(r#"{{"arguments":{arguments}}}"#);
        api.expect(201, &format!("POST /bindings/%2F/e/{exchange}/q/{queue}"), &binding);
    }
    let mut peer = Peer::begun(api.0.address(), b"\0guest\0guest", "/");
    peer.attaches(Role::Sender, "/exchanges/jms");
    assert_eq!(peer.hears(), "attach Receiver");
    peer.transfers_sections(0, false, |out| {
        let properties = amqp10::Properties { subject: Some("a"), ..Default::default() };
        Section::Properties(properties).encode(out);
        put_application_properties(out, |items| {
            items.put(ValueRef::Str("n"));
            items.put(ValueRef::I64(2));
        });
        Section::Data(b"x").encode(out);
    });
    assert_eq!(peer.hears(), "settled 0..=0 accepted true");
    let browsed = api.expect(200, "POST /queues/%2F/ours/browse", r#"{"payload_bytes":9}"#);
    let mut message = browsed["messages"][0].clone();
    assert_eq!(message["sections"]["properties"]["subject"], "a", "{browsed}");
    for exchange in ["jms", "all"] {
        let path = format!("POST /explain/publish/%2F/{exchange}");
        let told = api.expect(200, &path, &message.to_string());
        let names: Vec<_> =
            told["queues"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
        assert_eq!(names, ["ours"], "{told}");
    }
    message["sections"]["properties"]["subject"] = json!(["a"]);
    api.expect(400, "POST /explain/publish/%2F/jms", &message.to_string());
}

/// Delays and deduplication, against what comes of the same message. `true` of a header is no number.
#[test]
fn what_an_exchange_holds_back_is_told() {
    let api = Api::start();
    let delays = r#"{"type":"x-delayed-message","arguments":{"x-delayed-type":"fanout"}}"#;
    api.expect(201, "PUT /exchanges/%2F/later", delays);
    let once = json!({"type": "x-message-deduplication", "arguments": {"x-cache-size": 9}});
    api.expect(201, "PUT /exchanges/%2F/once", &once.to_string());
    api.expect(201, "PUT /queues/%2F/q", "{}");
    for exchange in ["later", "once"] {
        api.expect(201, &format!("POST /bindings/%2F/e/{exchange}/q/q"), "{}");
    }
    let mut n_ready = 0;
    let ready = || {
        let queue = api.expect(200, "GET /queues/%2F/q", "");
        queue["messages_ready"].as_u64().unwrap()
    };
    for (exchange, header, value, outcome) in [
        ("later", "x-delay", json!(3_600_000), "delayed by an exchange"),
        ("later", "x-delay", json!(true), "routed"),
        ("later", "x-delay", json!(-1), "routed"),
        ("once", "x-deduplication-header", json!("a"), "routed"),
        ("once", "x-deduplication-header", json!("b"), "routed"),
        ("once", "x-deduplication-header", json!("a"), "dropped by an exchange"),
        ("once", "other", json!("a"), "routed"),
    ] {
        let body = json!({"routing_key": "", "properties": {"headers": {header: value}},
            "payload": "x", "payload_encoding": "string"})
        .to_string();
        let address = format!("POST /explain/publish/%2F/{exchange}");
        let told = api.expect(200, &address, &body);
        let again = api.expect(200, &address, &body);
        assert_eq!(told["outcome"], again["outcome"], "asking changes nothing");
        let said = told["outcome"].as_str().unwrap();
        assert!(said.starts_with(outcome), "{exchange} {value}: {told}");
        assert_eq!(told["held_by"][0]["due_at"].is_u64(), said.starts_with("delayed"));
        api.expect(200, &format!("POST /exchanges/%2F/{exchange}/publish"), &body);
        n_ready += u64::from(outcome == "routed");
        assert_eq!(ready(), n_ready, "{exchange} {value}");
    }
}

/// From a queue that is empty to one whose consumer has all it may.
#[test]
fn a_queue_that_does_not_drain_says_why() {
    let api = Api::start();
    let mut client = Client::guest(api.0.address());
    client.declare("stuck");
    let why = || api.expect(200, "GET /explain/why/%2F/stuck", "");
    assert_eq!(why()["reasons"], json!(["the queue is empty"]));
    client.select_confirms();
    (0..3).for_each(|_| client.put_publish("stuck", true, b"x"));
    client.wait_for_confirms();
    assert_eq!(why()["reasons"], json!(["there are no consumers"]));
    assert_eq!(api.0.ctl(&["-q", "why", "stuck"]), "there are no consumers\n");
    let qos = BasicQos { prefetch_count: 1, ..BasicQos::default() };
    assert_eq!(client.ask(1, qos), "basic.qos-ok");
    client.consume("stuck", false);
    let delivery_tag = client.message().unwrap().tag;
    let told = why();
    let full = "all consumers are at their prefetch limit";
    assert_eq!(told["reasons"], json!([full]));
    let consumer = &told["consumers"][0];
    assert_eq!(consumer["messages_held_by_channel"], 1);
    assert_eq!(consumer["state"], "at its prefetch limit");
    // Lists tell the same, by the same rule.
    let columns = "columns=state,messages_held_by_channel,oldest_held_seconds";
    let listed = api.expect(200, &format!("GET /consumers?{columns}"), "");
    assert_eq!(listed[0]["state"], consumer["state"]);
    assert_eq!(listed[0]["messages_held_by_channel"], 1);
    assert!(listed[0]["oldest_held_seconds"].is_f64(), "{listed}");
    let channels = api.expect(200, "GET /channels?columns=consumer_state,oldest_held_seconds", "");
    assert_eq!(channels[0]["consumer_state"], consumer["state"]);
    assert!(channels[0]["oldest_held_seconds"].is_f64(), "{channels}");
    for (state, n) in [("limit", 1), ("hung", 0)] {
        let found = api.expect(200, &format!("GET /consumers?page=1&where=state:{state}"), "");
        assert_eq!(found["filtered_count"], n, "{state}");
        assert_eq!(found["items"][0]["state"], Value::Null, "not among the columns by itself");
    }
    // It has held it for longer than it takes to look, and the queue has had one for longer still.
    let seconds = |of: &Value| of["oldest_held_seconds"].as_f64().unwrap();
    wait_until("its age is known", || seconds(&why()["consumers"][0]) > 1.0);
    let listed = |verb, columns: &[&str]| {
        api.0.ctl(&[&["-q", "--no-table-headers", verb], columns].concat())
    };
    let columns = ["queue_name", "messages_held_by_channel", "state", "oldest_held_seconds"];
    let consumers = listed("list_consumers", &columns);
    let held = consumers.trim_end().strip_prefix("stuck\t1\tat its prefetch limit\t");
    assert!(held.is_some_and(|held| held.parse::<f64>().unwrap() > 1.0), "{consumers}");
    assert_eq!(listed("list_channels", &["consumer_state"]), "at its prefetch limit\n");
    for verb in ["list_consumers", "list_channels"] {
        let usual = listed(verb, &[]);
        assert!(!usual.contains("limit"), "not in the columns that are shown by default: {usual}");
    }
    let age = || api.expect(200, "GET /queues/%2F", "")[0]["oldest_message_age_seconds"].as_f64();
    wait_until("the queue's age is known", || age().is_some_and(|age| age > 1.0));
    let listed = || api.0.ctl(&["-q", "list_queues", "name", "oldest_message_age_seconds"]);
    let shown =
        listed().lines().last().and_then(|line| line.split_once('\t')?.1.parse::<f64>().ok());
    assert!(shown.is_some_and(|age| age > 1.0), "{}", listed());
    // All of them with the consumer.
    client.say(1, BasicAck { delivery_tag, multiple: false });
    client.message().unwrap();
    client.open_channel(2);
    client.say(2, BasicConsume { queue: b"stuck", ..BasicConsume::default() });
    wait_until("all messages are with consumers", || why()["messages_ready"] == 0);
    let reasons = &why()["reasons"];
    assert_eq!(*reasons, json!(["all messages are unacknowledged"]));
}

/// Clients that do not read, that have all they may, that are gone, that an alarm blocks.
#[test]
fn clients_that_cannot_go_on_are_told() {
    let api = Api::start();
    let mut client = Client::guest(api.0.address());
    api.expect(201, "PUT /queues/%2F/many", r#"{"arguments":{"x-queue-type":"quorum"}}"#);
    let why = |queue: &str| api.expect(200, &format!("GET /explain/why/%2F/{queue}"), "");
    let state = |queue: &str| why(queue)["consumers"][0]["state"].clone();
    client.declare("long");
    client.select_confirms();
    let body = vec![b'x'; 100_000];
    // More than the buffers between the queue and a client that does not read.
    for queue in ["long", "many"] {
        (0..400).for_each(|_| client.put_publish(queue, false, &body));
        client.wait_for_confirms();
    }
    let deaf: Vec<Client> = ["long", "many"]
        .into_iter()
        .map(|queue| {
            let mut deaf = Client::guest(api.0.address());
            deaf.consume(queue, false);
            deaf
        })
        .collect();
    for queue in ["long", "many"] {
        let unread = "client does not read its deliveries";
        wait_until("the client is behind", || state(queue) == unread);
        let reason = json!("consumers' clients do not read their deliveries");
        assert!(why(queue)["reasons"].as_array().unwrap().contains(&reason));
    }
    drop(deaf);
    // One that holds what it may, and is gone then.
    let qos = BasicQos { prefetch_count: 1, ..BasicQos::default() };
    client.open_channel(2);
    assert_eq!(client.ask(2, qos), "basic.qos-ok");
    wait_until("all came back", || why("long")["messages_unacknowledged"] == 0);
    let consume = BasicConsume { queue: b"long", consumer_tag: b"one", ..BasicConsume::default() };
    client.say(2, consume);
    let full = "at its prefetch limit";
    wait_until("its limit is used up", || state("long") == full);
    client.say(2, BasicCancel { consumer_tag: b"one", no_wait: true });
    let holders = || why("long")["other_holders"].as_array().unwrap().len();
    wait_until("it is no consumer any more", || holders() == 1);
    let reasons = why("long")["reasons"].clone();
    let left = "channels without consumers have unacknowledged messages";
    assert_eq!(reasons, json!(["there are no consumers", left]));
    // An alarm stops the publisher, and what it acknowledges as well.
    client.say(2, consume);
    api.0.ctl(&["set_vm_memory_high_watermark", "absolute", "1"]);
    client.put_publish("long", false, b"x");
    client.flush();
    let waiting = || why("long")["publishers_waiting"][0]["state"].clone();
    wait_until("the publisher waits", || waiting() == "blocked");
    let blocked = "blocked by an alarm: acknowledgements on its connection are not read";
    assert_eq!(state("long"), blocked);
    assert_eq!(why("long")["publishers_wait_for"], json!(["memory"]));
}

#[test]
fn an_import_is_foretold() {
    let api = Api::start();
    api.expect(201, "PUT /queues/%2F/there", "{}");
    let document = json!({
        "queues": [
            {"name": "there", "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}},
            {"name": "new", "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}},
        ],
        "policies": [{"name": "p", "vhost": "/", "pattern": "", "definition": {"expires": 60_000}, "apply-to": "queues", "priority": 0}],
    })
    .to_string();
    let told = api.expect(200, "POST /explain/definitions", &document);
    let objects = |told: &Value| -> Vec<Value> {
        told["changes"].as_array().unwrap().iter().map(|it| it["object"].clone()).collect()
    };
    assert_eq!(objects(&told), ["policy 'p' in vhost '/'", "queue 'new' in vhost '/'"]);
    assert_eq!(told["changes"][0]["before"], Value::Null);
    let promised = told["changes"][0]["after"].clone();
    api.expect(404, "GET /queues/%2F/new", "");
    api.expect(204, "POST /definitions", &document);
    assert_eq!(api.expect(200, "GET /policies/%2F/p", ""), promised);
    let other = document.replace("60000", "70000");
    let told = api.expect(200, "POST /explain/definitions", &other);
    assert_eq!(objects(&told), ["policy 'p' in vhost '/'"]);
    assert_eq!(told["changes"][0]["before"], promised);
    assert_eq!(told["changes"][0]["after"]["definition"]["expires"], 70_000);
    let again = api.expect(200, "POST /explain/definitions", &document);
    assert_eq!((&again["changed_count"], &again["changes"]), (&json!(0), &json!([])));
    api.expect(400, "POST /explain/definitions", r#"{"queues":[{"name":"x","vhost":"none"}]}"#);
}
