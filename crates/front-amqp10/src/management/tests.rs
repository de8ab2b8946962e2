use super::*;
use amqp10::{MapRef, MessageRef, put_list, put_map};
use proptest::prelude::*;
use session::{
    BindingEnds, BindingReport, BindingTarget, Error, ErrorKind, QueueReport, Table, Value,
};

fn request(method: &str, to: &str, body: &[u8]) -> Vec<u8> {
    let properties = Properties {
        message_id: Some(ValueRef::U64(7)),
        to: Some(ValueRef::Str(to)),
        subject: Some(method),
        reply_to: Some(ValueRef::Str("$me")),
        ..Properties::default()
    };
    let mut message = Vec::new();
    Section::Properties(properties).encode(&mut message);
    Section::Value(ValueRef::decode(body).unwrap().0).encode(&mut message);
    message
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

const NULL: &[u8] = &[0x40];

fn parsed(method: &str, to: &str, body: &[u8]) -> Result<Op, RefusedRequest> {
    ManagementRequest::parse(&request(method, to, body), "/").op
}

fn op(method: &str, to: &str, body: &[u8]) -> Op {
    parsed(method, to, body).unwrap_or_else(|refused| panic!("{method} {to}: {refused:?}"))
}

fn name(text: &str) -> ShortString {
    ShortString::new(text).unwrap()
}

#[test]
fn requests_on_queues() {
    let found = op("GET", "/queues/a%2Fb", NULL);
    assert!(
        matches!(found, Op::Manage(ManagementOp::DescribeQueue(queue)) if queue == name("a/b"))
    );
    let arguments = map(&[
        ("x-queue-type", ValueRef::Str("quorum")),
        ("x-max-length", ValueRef::U64(10)),
        ("x-single-active-consumer", ValueRef::Bool(true)),
    ]);
    let (arguments, _) = ValueRef::decode(&arguments).unwrap();
    let body = map(&[
        ("durable", ValueRef::Bool(false)),
        ("exclusive", ValueRef::Bool(true)),
        ("arguments", arguments),
    ]);
    let Op::Manage(ManagementOp::DeclareQueue(declared)) = op("PUT", "/queues/q", &body) else {
        panic!("a queue is declared")
    };
    assert!(!declared.durable && declared.exclusive && !declared.auto_delete && !declared.passive);
    assert_eq!(declared.arguments.get(b"x-queue-type"), Some(&Value::from("quorum")));
    assert_eq!(declared.arguments.get(b"x-max-length"), Some(&Value::I64(10)));
    let Op::Manage(ManagementOp::DeclareQueue(declared)) = op("PUT", "/queues/q", &map(&[])) else {
        panic!("a queue is declared")
    };
    assert!(declared.durable && !declared.exclusive && declared.arguments.is_empty());
    let found = op("DELETE", "/queues/q", NULL);
    assert!(matches!(found, Op::DeleteQueue { queue, .. } if queue == name("q")));
    let found = op("DELETE", "/queues/q/messages", NULL);
    assert!(matches!(found, Op::PurgeQueue { queue } if queue == name("q")));
}

#[test]
fn requests_on_exchanges_and_tokens() {
    let body = map(&[
        ("type", ValueRef::Str("topic")),
        ("internal", ValueRef::Bool(true)),
        ("auto_delete", ValueRef::Bool(true)),
    ]);
    for exchange in ["x", "amq.topic"] {
        let found = op("PUT", &format!("/exchanges/{exchange}"), &body);
        let Op::DeclareExchange(declared) = found else { panic!("an exchange is declared") };
        assert_eq!((declared.exchange, declared.kind), (name(exchange), name("topic")));
        assert!(declared.durable && declared.internal && declared.auto_delete);
    }
    let found = op("DELETE", "/exchanges/x", NULL);
    assert!(matches!(found, Op::DeleteExchange { .. }));
    let mut token = Vec::new();
    ValueRef::Binary(b"secret").encode(&mut token);
    let found = op("PUT", "/auth/tokens", &token);
    assert!(matches!(found, Op::UpdateSecret { secret } if secret == b"secret"));
}

#[test]
fn requests_on_bindings() {
    let ends =
        |destination| BindingEnds { source: name("a b"), destination, routing_key: name("k;/") };
    let to_queue = ends(BindingTarget::Queue(name("q")));
    let to_exchange = ends(BindingTarget::Exchange(name("x")));
    for (query, meant) in
        [("src=a+b&dstq=q&key=k%3B%2F", &to_queue), ("key=k%3B/&dste=x&src=a%20b", &to_exchange)]
    {
        let found = op("GET", &format!("/bindings?{query}"), NULL);
        assert!(matches!(found, Op::Manage(ManagementOp::FindBindings(ends)) if ends == *meant));
    }
    let found = op("DELETE", "/bindings/src=a%20b;dste=x;key=k%3B%2F;args=a-_1", NULL);
    let Op::Manage(ManagementOp::RemoveBinding { ends, arguments_hash }) = found else {
        panic!("a removal")
    };
    assert_eq!((ends, &*arguments_hash), (to_exchange, "a-_1"));
    let body = [
        ("source", ValueRef::Str("a b")),
        ("destination_queue", ValueRef::Str("q")),
        ("binding_key", ValueRef::Str("k")),
        ("arguments", ValueRef::Map(MapRef::EMPTY)),
    ];
    let found = op("POST", "/bindings", &map(&body));
    let Op::BindQueue(bound) = found else { panic!("a binding") };
    assert_eq!((bound.queue, bound.exchange), (name("q"), name("a b")));
    let to_exchange = [body[0], ("destination_exchange", ValueRef::Str("x")), body[2]];
    let found = op("POST", "/bindings", &map(&to_exchange));
    assert!(matches!(found, Op::BindExchange(_)));
    let refused = parsed("POST", "/bindings", &map(&body[1..])).unwrap_err();
    assert_eq!(refused, RefusedRequest::bad("missing binding field 'source'"));
}

#[test]
fn what_cannot_be_asked_is_refused_with_a_status() {
    let empty = map(&[]);
    let unknown = map(&[("size", ValueRef::U8(1))]);
    let of_another_type = map(&[("durable", ValueRef::Str("yes"))]);
    let decimal = map(&[("a", ValueRef::Decimal32([0; 4]))]);
    let with_decimal = map(&[("arguments", ValueRef::decode(&decimal).unwrap().0)]);
    let long = format!("/queues/{}", "q".repeat(256));
    for (method, to, body, status, text) in [
        ("GET", "/", NULL, "404", "path '/' not found"),
        ("GET", "queues/q", NULL, "404", "path 'queues/q' not found"),
        ("GET", "/nodes/a", NULL, "404", "path '/nodes/a' not found"),
        ("POST", "/queues/q", NULL, "405", "method 'POST' not allowed for '/queues/q'"),
        ("GET", "/queues/q/messages", NULL, "405", "method 'GET'"),
        ("PUT", "/bindings", NULL, "405", "method 'PUT'"),
        ("GET", "/auth/tokens", NULL, "405", "method 'GET'"),
        ("PUT", "/queues/", &empty, "400", "declare queue with empty name not allowed"),
        ("PUT", "/queues/%", &empty, "400", "bad name '%'"),
        ("PUT", &long, &empty, "400", "bad name 'q"),
        ("PUT", "/queues/a%0Ab", &empty, "400", "Bad name 'a\nb': line feed and carriage"),
        (
            "PUT",
            "/queues/amq.q",
            &empty,
            "403",
            "queue 'amq.q' in vhost '/' starts with reserved prefix 'amq.'",
        ),
        ("PUT", "/queues/q", NULL, "400", "the request's body is not a map"),
        ("PUT", "/queues/q", &unknown, "400", "bad queue property 'size'"),
        ("PUT", "/queues/q", &of_another_type, "400", "bad queue property 'durable'"),
        ("PUT", "/queues/q", &with_decimal, "400", "bad queue property 'arguments'"),
        ("PUT", "/exchanges/", &empty, "403", "operation not permitted on the default exchange"),
        ("PUT", "/exchanges/amq.x", &empty, "403", "exchange 'amq.x' in vhost '/' starts with"),
        ("DELETE", "/exchanges/amq.topic", NULL, "403", "exchange 'amq.topic' in vhost '/'"),
        ("PUT", "/exchanges/x", &unknown, "400", "bad exchange property 'size'"),
        ("POST", "/bindings", &unknown, "400", "bad binding field 'size'"),
        ("GET", "/bindings?src=x&key=k", NULL, "400", "missing 'dste' or 'dstq' in query: src=x"),
        ("GET", "/bindings", NULL, "400", "missing "),
        ("DELETE", "/bindings/src=x", NULL, "400", "bad binding path segment 'src=x'"),
        ("DELETE", "/bindings/src=;dstq=q;key=;args=", NULL, "403", "operation not permitted"),
        ("PUT", "/auth/tokens", NULL, "400", "the request's body is not a binary token"),
    ] {
        let refused = parsed(method, to, body).unwrap_err();
        assert_eq!(refused.status.as_str(), status, "{method} {to}");
        assert!(refused.text.starts_with(text), "{method} {to}: {}", refused.text);
    }
}

#[test]
fn what_is_no_request_is_refused() {
    let text = |sections: &[u8]| ManagementRequest::parse(sections, "/").op.unwrap_err().text;
    assert!(text(b"\x00\x53").starts_with("failed to parse message: "));
    let mut without = Vec::new();
    Section::Value(ValueRef::Null).encode(&mut without);
    for sections in [without, Vec::new()] {
        assert!(text(&sections).starts_with("a request has a method as subject"));
    }
}

#[test]
fn sections_of_requests_come_in_any_order() {
    let mut sections = Vec::new();
    Section::Value(ValueRef::Null).encode(&mut sections);
    let whole = request("GET", "/queues/q", NULL);
    sections.extend_from_slice(&whole[..whole.len() - sections.len()]);
    let found = ManagementRequest::parse(&sections, "/").op.unwrap();
    assert!(matches!(found, Op::Manage(ManagementOp::DescribeQueue(queue)) if queue == name("q")));
}

/// The response to a request for a queue: status, correlation id and body.
fn response(answer: &ManagementAnswer<'_>) -> (String, Vec<u8>) {
    let request = ManagementRequest::parse(&request("GET", "/queues/q", NULL), "/");
    let mut out = Vec::new();
    request.pending.put(answer, &ManagingNode { vhost: "/", name: "a@b" }, &mut out);
    let message = MessageRef::parse(&out).unwrap();
    let properties = message.properties.unwrap();
    assert_eq!(properties.correlation_id, Some(ValueRef::U64(7)));
    let version = message.application_properties.get("http:response");
    assert_eq!(version, Some(ValueRef::Str("1.1")));
    let Body::Value(value) = message.body else { panic!("a value") };
    let mut body = Vec::new();
    value.encode(&mut body);
    (properties.subject.unwrap().to_owned(), body)
}

#[test]
fn responses_are_those_of_rabbitmq() {
    let arguments: Table = [(name("x-max-length"), Value::I64(9))].into_iter().collect();
    let queue = QueueReport {
        name: "q",
        kind: "quorum",
        durable: true,
        auto_delete: false,
        exclusive: false,
        arguments: &arguments,
        n_ready: 3,
        n_consumers: 2,
    };
    let (status, body) = response(&ManagementAnswer::Queue(queue));
    let Ok((ValueRef::Map(map), _)) = ValueRef::decode(&body) else { panic!("a map") };
    assert_eq!((&*status, map.len()), ("200", 11));
    assert_eq!(map.get("message_count"), Some(ValueRef::U64(3)));
    assert_eq!(map.get("consumer_count"), Some(ValueRef::U32(2)));
    assert_eq!(map.get("leader"), Some(ValueRef::Str("a@b")));
    let Some(ValueRef::Array(replicas)) = map.get("replicas") else { panic!("an array") };
    assert_eq!(replicas.iter().collect::<Vec<_>>(), [ValueRef::Str("a@b")]);
    let Some(ValueRef::Map(told)) = map.get("arguments") else { panic!("a map") };
    assert_eq!(told.get("x-max-length"), Some(ValueRef::I64(9)));
    assert_eq!(response(&ManagementAnswer::Declared(queue)).0, "201");
    assert_eq!(response(&ManagementAnswer::Done), ("204".to_owned(), NULL.to_vec()));
    let (_, body) = response(&ManagementAnswer::Removed { n_messages: 5 });
    assert_eq!(body, map_of("message_count", ValueRef::U64(5)));
}

fn map_of(key: &str, value: ValueRef<'_>) -> Vec<u8> {
    map(&[(key, value)])
}

#[test]
fn the_location_of_a_binding_removes_it() {
    let ends = BindingEnds {
        source: name("a;b"),
        destination: BindingTarget::Exchange(name("ü/")),
        routing_key: name("#.*"),
    };
    let arguments = Table::new();
    let report =
        BindingReport { ends: &ends, arguments: &arguments, arguments_hash: "Zz-_".to_owned() };
    let (_, body) = response(&ManagementAnswer::Bindings(&[report]));
    let Ok((ValueRef::List(list), _)) = ValueRef::decode(&body) else { panic!("a list") };
    let Some(ValueRef::Map(binding)) = list.iter().next() else { panic!("a map") };
    assert_eq!(binding.get("destination_exchange"), Some(ValueRef::Str("ü/")));
    let Some(ValueRef::Str(location)) = binding.get("location") else { panic!("a string") };
    let found = op("DELETE", location, NULL);
    let Op::Manage(ManagementOp::RemoveBinding { ends: told, arguments_hash }) = found else {
        panic!("a removal")
    };
    assert_eq!((told, &*arguments_hash), (ends, "Zz-_"));
}

#[test]
fn errors_of_the_broker_have_rabbitmqs_statuses() {
    let empty = map(&[]);
    let status = |method, to, body: &[u8], kind| {
        let request = ManagementRequest::parse(&request(method, to, body), "/");
        request.pending.refusal(Error::new(kind, "why")).map(|refused| refused.status.as_str())
    };
    let (not_found, unmet) = (ErrorKind::NotFound, ErrorKind::PreconditionFailed);
    assert_eq!(status("GET", "/queues/q", NULL, not_found), Ok("404"));
    assert_eq!(status("DELETE", "/queues/q/messages", NULL, not_found), Ok("404"));
    assert_eq!(status("DELETE", "/queues/q", NULL, not_found), Ok("400"));
    assert_eq!(status("PUT", "/queues/q", &empty, unmet), Ok("409"));
    assert_eq!(status("PUT", "/exchanges/x", &empty, unmet), Ok("409"));
    assert_eq!(status("DELETE", "/exchanges/x", NULL, ErrorKind::ResourceLocked), Ok("400"));
    assert_eq!(status("DELETE", "/exchanges/x", NULL, ErrorKind::InternalError), Ok("503"));
    let fault = status("GET", "/queues/q", NULL, ErrorKind::AccessRefused).unwrap_err();
    assert_eq!(fault.scope, crate::FaultScope::Session);
}

proptest! {
    #[test]
    fn any_request_is_parsed_or_refused(
        method in "GET|PUT|DELETE|POST",
        to in "/(queues|exchanges|bindings|auth)[/a-z?&=;%0-9+]{0,30}",
        key in "[a-z_]{0,9}",
        is_list in any::<bool>(),
    ) {
        let mut body = map_of(&key, ValueRef::Bool(true));
        if is_list {
            body.clear();
            put_list(&mut body, |items| items.put(ValueRef::Str(&key)));
        }
        if let Err(refused) = parsed(&method, &to, &body) {
            prop_assert!(!refused.text.is_empty());
            prop_assert!(["400", "403", "404", "405"].contains(&refused.status.as_str()));
        }
    }
}
