//! A collector of OpenTelemetry is told of figures and of messages with a trace.

use super::support::node::Node;
use super::support::stream_client::Client as StreamClient;
use amqp091::method::BasicAck;
use amqp091::{Properties, PropertiesRef, ShortString, Table, Value as Field};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;
use streamproto::command::{Publish, PublishedMessage};
use streamproto::{Entry, List};
use testing::client::{Client, DEADLINE};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// A collector: its address, and what it is sent, each with its path.
fn collector() -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("otel.endpoint=http://{}", listener.local_addr().unwrap());
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut reader = BufReader::new(socket.unwrap());
            let (mut path, mut n_bytes) = (String::new(), 0);
            for line in reader.by_ref().lines().map(Result::unwrap).take_while(|it| !it.is_empty())
            {
                if let Some(rest) = line.strip_prefix("POST ") {
                    path = rest.split(' ').next().unwrap().to_owned();
                }
                if let Some(length) = line.strip_prefix("content-length: ") {
                    n_bytes = length.parse().unwrap();
                }
            }
            let mut body = vec![0; n_bytes];
            reader.read_exact(&mut body).unwrap();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
            reader.get_mut().write_all(answer).unwrap();
            if tell.send((path, serde_json::from_slice(&body).unwrap())).is_err() {
                return;
            }
        }
    });
    (endpoint, told)
}

fn header(value: &str) -> Properties {
    let mut headers = Table::new();
    headers.push(ShortString::from_static("traceparent"), Field::LongString(value.into()));
    Properties { headers: Some(headers), ..Properties::default() }
}

/// Spans as they come, until there are so many: name, trace, parent and kind.
fn spans(told: &Receiver<(String, Value)>, n: usize) -> Vec<(String, String, String, u64)> {
    let mut spans = Vec::new();
    let started = Instant::now();
    while spans.len() < n {
        assert!(started.elapsed() < DEADLINE, "{spans:?}");
        let (path, document) = told.recv_timeout(DEADLINE).unwrap();
        if path != "/v1/traces" {
            continue;
        }
        let of_node = &document["resourceSpans"][0];
        assert_eq!(of_node["resource"]["attributes"][0]["value"]["stringValue"], "leveret");
        for span in of_node["scopeSpans"][0]["spans"].as_array().unwrap() {
            let text = |key: &str| span[key].as_str().unwrap().to_owned();
            let time = |key: &str| text(key).parse::<u64>().unwrap();
            assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span}");
            let kind = span["kind"].as_u64().unwrap();
            spans.push((text("name"), text("traceId"), text("parentSpanId"), kind));
        }
    }
    spans
}

#[test]
fn a_message_of_a_trace_has_spans_for_its_way() {
    let (endpoint, told) = collector();
    let node = Node::start(&[&endpoint, "otel.interval=1"]);
    let mut client = Client::guest(node.address());
    client.declare("hutch");
    client.put_message("", "hutch", &header(&format!("00-{TRACE}-00f067aa0ba902b7-00")), b"no");
    client.put_message("", "hutch", &Properties::default(), b"neither");
    client.put_message("", "hutch", &header(&format!("00-{TRACE}-00f067aa0ba902b7-01")), b"yes");
    client.round_trip();
    (0..3).for_each(|_| drop(client.get_to_ack("hutch").unwrap()));
    client.say(1, BasicAck { delivery_tag: 0, multiple: true });
    client.round_trip();
    let mut spans = spans(&told, 5);
    assert!(spans.iter().all(|(_, trace, ..)| trace == TRACE), "{spans:?}");
    spans.sort();
    let names: Vec<(&str, u64)> = spans.iter().map(|it| (it.0.as_str(), it.3)).collect();
    let expected = [
        ("deliver hutch", 5),
        ("publish amq.default", 4),
        ("route amq.default", 1),
        ("settle hutch", 5),
        ("store amq.default", 1),
    ];
    assert_eq!(names, expected);
    assert!(spans.iter().filter(|it| it.2 == "00f067aa0ba902b7").count() == 3, "{spans:?}");
    let metric = loop {
        let (path, document) = told.recv_timeout(DEADLINE).unwrap();
        if path == "/v1/metrics" {
            let metrics = &document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
            let name = "rabbitmq_global_messages_received_total";
            let all = metrics.as_array().unwrap().clone();
            break all.into_iter().find(|metric| metric["name"] == name).unwrap();
        }
    };
    let point = &metric["sum"]["dataPoints"][0];
    assert_eq!(metric["sum"]["isMonotonic"], true);
    assert!(point["asDouble"].as_f64() >= Some(3.0), "{metric}");
    client.close();
    node.stop();
}

/// A message in the encoding of AMQP 1.0 with a `traceparent` among its application's properties.
fn stream_message(parent: &str) -> Vec<u8> {
    let mut message = b"\x00\x53\x74\xc1".to_vec();
    let map = [&[2, 0xa1, 11][..], b"traceparent", &[0xa1, 55], parent.as_bytes()].concat();
    message.push(u8::try_from(map.len()).unwrap());
    message.extend(map);
    message.extend(b"\x00\x53\x75\xa0\x02hi");
    message
}

#[test]
fn a_message_of_a_stream_has_spans_for_its_way() {
    let (endpoint, told) = collector();
    let node = Node::start(&[&endpoint, "otel.interval=1"]);
    let mut client = StreamClient::open(node.stream_address(), "/");
    client.create("creek");
    client.declare_publisher(1, "creek");
    let [no, yes] =
        ["00", "01"].map(|it| stream_message(&format!("00-{TRACE}-00f067aa0ba902b7-{it}")));
    let messages = [(1, &no[..]), (2, b"neither"), (3, &yes)]
        .map(|(id, it)| PublishedMessage { publishing_id: id, entry: Entry::Message(it) });
    client.says(&Publish { publisher_id: 1, messages: List::of(&messages) });
    let mut spans = spans(&told, 2);
    spans.sort();
    let shown: Vec<_> = spans.iter().map(|it| (it.0.as_str(), it.1.as_str(), it.3)).collect();
    assert_eq!(shown, [("publish creek", TRACE, 4), ("store creek", TRACE, 1)]);
    assert_eq!(spans[0].2, "00f067aa0ba902b7");
    node.stop();
}

#[test]
fn a_share_of_messages_without_a_trace_begins_one() {
    let (endpoint, told) = collector();
    let node = Node::start(&[&endpoint, "otel.sample_new=1.0", "default_queue_type=quorum"]);
    let mut client = Client::guest(node.address());
    client.declare("hutch");
    client.put_publish("hutch", true, b"hello");
    client.round_trip();
    let message = client.get("hutch").unwrap();
    let headers = PropertiesRef::parse(&message.properties).unwrap().headers().unwrap();
    let parent = headers.get(b"traceparent").unwrap();
    let parent = parent.as_str().unwrap().to_owned();
    // The client itself has published something else before.
    let spans = spans(&told, 8);
    let delivered = spans.iter().find(|(name, ..)| name == "deliver hutch").unwrap();
    assert!(
        parent.contains(delivered.1.as_str()) && parent.contains(delivered.2.as_str()),
        "{parent}"
    );
    client.close();
    node.stop();
}

#[test]
fn an_address_that_is_none_keeps_the_node_from_starting() {
    let told = Node::try_start(&["otel.endpoint=https://127.0.0.1"]).err().unwrap();
    assert!(told.contains("otel.endpoint") && told.contains("`http://`"), "{told}");
}
