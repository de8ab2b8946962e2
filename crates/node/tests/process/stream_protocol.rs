//! Clients of the stream protocol over real sockets.

use crate::support::node::Node;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use streamproto::command::{
    Close, ConsumerUpdateResponse, Create, DeclarePublisher, Metadata, Open, PeerProperties,
    Property, Publish, PublishedMessage, SaslAuthenticate, SaslHandshake, Subscribe, Tune,
};
use streamproto::list::Trailing;
use streamproto::{
    CodeResponse, Command, Entry, FinalOffset, Key, List, OffsetSpec, ResponseCode, ToClient,
    decode_frame,
};

/// The time everything has to happen in.
const DEADLINE: Duration = Duration::from_secs(20);

/// A client.
struct Client {
    socket: TcpStream,
    input: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Self { socket, input: Vec::new() }
    }

    /// Up to the answer to a login as `guest`.
    fn login(address: SocketAddr, password: &str) -> (Self, String) {
        let mut client = Self::connect(address);
        let property = [Property { key: "connection_name", value: "hare" }];
        client.says(&PeerProperties { correlation_id: 1, properties: List::of(&property) });
        assert!(client.hears().contains("PeerPropertiesResponse"));
        client.says(&SaslHandshake { correlation_id: 2 });
        assert!(client.hears().contains("PLAIN"));
        let data = format!("\0guest\0{password}");
        let (mechanism, data) = ("PLAIN", data.as_bytes());
        client.says(&SaslAuthenticate { correlation_id: 3, mechanism, data });
        let answer = client.hears();
        (client, answer)
    }

    /// With a virtual host open.
    fn open(address: SocketAddr, vhost: &str) -> Self {
        let (mut client, answer) = Self::login(address, "guest");
        assert_eq!(answer, code(Key::SaslAuthenticate, 3, ResponseCode::OK));
        assert!(client.hears().contains("Tune { frame_max: 1048576, heartbeat_secs: 60 }"));
        client.says(&Tune { frame_max: 0, heartbeat_secs: 0 });
        client.says(&Open { correlation_id: 4, virtual_host: vhost });
        let opened = client.hears();
        let port = format!("key: \"advertised_port\", value: \"{}\"", address.port());
        assert!(opened.contains("code: ResponseCode(1)") && opened.contains(&port), "{opened}");
        client
    }

    fn says<'a>(&mut self, command: &impl Command<'a>) {
        let mut out = Vec::new();
        command.encode_frame(&mut out);
        self.socket.write_all(&out).unwrap();
    }

    /// The next command, in words; empty at the end of the stream.
    fn hears(&mut self) -> String {
        loop {
            if let Some((frame, used)) = decode_frame(&self.input, 0).unwrap() {
                let heard = format!("{:?}", ToClient::decode(frame).unwrap());
                self.input.drain(..used);
                return heard;
            }
            let mut buffer = [0; 4096];
            let n = self.socket.read(&mut buffer).unwrap();
            if n == 0 {
                assert_eq!(self.input, b"");
                return String::new();
            }
            self.input.extend_from_slice(&buffer[..n]);
        }
    }
}

/// Subscribes as a single active consumer of the group `g`.
fn join(client: &mut Client, subscription_id: u8) {
    let property = |key, value| Property { key, value };
    let properties = [property("name", "g"), property("single-active-consumer", "true")];
    let (correlation_id, stream, credit) = (20, "s", 10);
    let (offset, properties) = (OffsetSpec::First, Trailing(List::of(&properties)));
    client.says(&Subscribe { correlation_id, subscription_id, stream, offset, credit, properties });
    assert_eq!(client.hears(), code(Key::Subscribe, 20, ResponseCode::OK));
}

/// Answers the update that it is told next.
fn answer(client: &mut Client, offset: OffsetSpec) {
    let told = client.hears();
    assert!(told.contains("ConsumerUpdate") && told.contains("active: true"), "{told}");
    let number = told.split("correlation_id: ").nth(1).unwrap().split(',').next().unwrap();
    let (correlation_id, code) = (number.parse().unwrap(), ResponseCode::OK);
    client.says(&ConsumerUpdateResponse { correlation_id, code, offset: FinalOffset(offset) });
}

#[test]
fn one_of_a_group_is_given_messages_and_the_next_when_it_dies() {
    let node = Node::start(&[]);
    let mut first = Client::open(node.stream_address(), "/");
    first.says(&Create { correlation_id: 5, stream: "s", arguments: List::default() });
    assert_eq!(first.hears(), code(Key::Create, 5, ResponseCode::OK));
    let (reference, stream) = ("", "s");
    first.says(&DeclarePublisher { correlation_id: 6, publisher_id: 1, reference, stream });
    assert_eq!(first.hears(), code(Key::DeclarePublisher, 6, ResponseCode::OK));
    for publishing_id in [1, 2] {
        let messages = [PublishedMessage { publishing_id, entry: Entry::Message(b"hi") }];
        first.says(&Publish { publisher_id: 1, messages: List::of(&messages) });
        assert!(first.hears().contains("PublishConfirm"));
    }
    join(&mut first, 1);
    let mut second = Client::open(node.stream_address(), "/");
    join(&mut second, 2);
    answer(&mut first, OffsetSpec::None);
    assert!([first.hears(), first.hears()].iter().all(|heard| heard.contains("Deliver")));
    drop(first);
    answer(&mut second, OffsetSpec::Offset(1));
    assert!(second.hears().contains("Deliver"));
    node.stop();
}

fn code(key: Key, correlation_id: u32, code: ResponseCode) -> String {
    format!("{:?}", ToClient::Code(CodeResponse { key, correlation_id, code }))
}

#[test]
fn a_client_comes_in_is_listed_and_goes() {
    let node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    let listed = node.ctl(&["-q", "list_connections", "user", "vhost", "protocol", "state"]);
    assert!(listed.contains("guest\t/\tstream\trunning\n"), "{listed}");
    client.says(&Metadata { correlation_id: 5, streams: List::of(&["s"]) });
    assert!(client.hears().contains("{ stream: \"s\", code: ResponseCode(2), leader: 65535"));
    let stream = "amq.s";
    client.says(&Create { correlation_id: 6, stream, arguments: List::default() });
    assert_eq!(client.hears(), code(Key::Create, 6, ResponseCode::PRECONDITION_FAILED));
    client.says(&DeclarePublisher {
        correlation_id: 7,
        publisher_id: 1,
        reference: "",
        stream: "s",
    });
    let missing = ResponseCode::STREAM_DOES_NOT_EXIST;
    assert_eq!(client.hears(), code(Key::DeclarePublisher, 7, missing));
    let entry = Entry::Message(b"hi");
    let messages = [7, 8].map(|publishing_id| PublishedMessage { publishing_id, entry });
    client.says(&Publish { publisher_id: 1, messages: List::of(&messages) });
    let heard = client.hears();
    assert!(heard.contains("PublishError") && heard.contains("publishing_id: 8"), "{heard}");
    client.says(&Close { correlation_id: 9, code: ResponseCode::OK, reason: "done" });
    assert_eq!(client.hears(), code(Key::Close, 9, ResponseCode::OK));
    drop(client);
    node.expect_logged(1, "closing stream connection");
    node.stop();
}

#[test]
fn a_wrong_password_a_missing_vhost_and_a_full_node_are_answered() {
    let node = Node::start(&["stream.max_connections=1"]);
    let (_client, answer) = Client::login(node.stream_address(), "wrong");
    assert_eq!(answer, code(Key::SaslAuthenticate, 3, ResponseCode::AUTHENTICATION_FAILURE));
    let open = |vhost| {
        let (mut client, _answer) = Client::login(node.stream_address(), "guest");
        client.hears();
        client.says(&Tune::default());
        client.says(&Open { correlation_id: 4, virtual_host: vhost });
        (client.hears(), client)
    };
    let refused = "code: ResponseCode(12), properties: []";
    assert!(open("nowhere").0.contains(refused));
    let first = open("/");
    assert!(first.0.contains("code: ResponseCode(1),"), "{}", first.0);
    assert!(open("/").0.contains(refused));
    node.stop();
}

#[test]
fn operators_close_connections_and_vhosts_go_with_theirs() {
    let node = Node::start(&[]);
    let closed = |client: &mut Client| {
        let heard = client.hears();
        assert!(heard.starts_with("Close("), "{heard}");
        let mut out = Vec::new();
        CodeResponse { key: Key::Close, correlation_id: 1, code: ResponseCode::OK }
            .encode_frame(&mut out);
        client.socket.write_all(&out).unwrap();
        assert_eq!(client.hears(), "");
        heard
    };
    let mut client = Client::open(node.stream_address(), "/");
    node.ctl(&["close_all_connections", "enough"]);
    assert!(closed(&mut client).contains("enough"));
    node.ctl(&["add_vhost", "burrow"]);
    node.ctl(&["set_permissions", "-p", "burrow", "guest", ".*", ".*", ".*"]);
    let mut client = Client::open(node.stream_address(), "burrow");
    node.ctl(&["delete_vhost", "burrow"]);
    closed(&mut client);
    node.stop();
}

#[test]
fn frames_that_are_too_large_or_unknown_end_the_connection_alone() {
    let node = Node::start(&["stream.frame_max=8192", "stream.heartbeat=60"]);
    let address = node.stream_address();
    let mut other = {
        let (mut client, _answer) = Client::login(address, "guest");
        assert!(client.hears().contains("frame_max: 8192"));
        client.says(&Tune::default());
        client.says(&Open { correlation_id: 4, virtual_host: "/" });
        client.hears();
        client
    };
    for (bytes, code) in [(&8193_u32.to_be_bytes()[..], 14), (b"\0\0\0\x04\0\x63\0\x01", 13)] {
        let (mut client, _answer) = Client::login(address, "guest");
        client.hears();
        client.says(&Tune::default());
        client.says(&Open { correlation_id: 4, virtual_host: "/" });
        client.hears();
        client.socket.write_all(bytes).unwrap();
        let heard = client.hears();
        assert!(heard.starts_with("Close(") && heard.contains(&format!("ResponseCode({code})")));
    }
    // No word is said to those who have not come in.
    let mut stranger = Client::connect(address);
    stranger.socket.write_all(b"AMQP\0\0\x09\x01").unwrap();
    assert_eq!(stranger.hears(), "");
    other.says(&Metadata { correlation_id: 5, streams: List::default() });
    assert!(other.hears().contains("MetadataResponse"));
    node.stop();
}
