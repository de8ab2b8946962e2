//! A client of the stream protocol.

use super::DEADLINE;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use streamproto::command::{
    Create, DeclarePublisher, Open, PeerProperties, Property, Publish, PublishedMessage,
    SaslAuthenticate, SaslHandshake, Subscribe, Tune,
};
use streamproto::list::Trailing;
use streamproto::{
    CodeResponse, Command, Entry, Key, List, OffsetSpec, ResponseCode, ToClient, decode_frame,
};

/// A client.
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    input: Vec<u8>,
}

/// An answer that is a code, in words.
pub(crate) fn code(key: Key, correlation_id: u32, code: ResponseCode) -> String {
    format!("{:?}", ToClient::Code(CodeResponse { key, correlation_id, code }))
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket, input: Vec::new() }
    }

    /// Up to the answer to a login.
    pub(crate) fn login(address: SocketAddr, user: &str, password: &str) -> (Self, String) {
        let mut client = Self::connect(address);
        let property = [Property { key: "connection_name", value: "hare" }];
        client.says(&PeerProperties { correlation_id: 1, properties: List::of(&property) });
        assert!(client.hears().contains("PeerPropertiesResponse"));
        client.says(&SaslHandshake { correlation_id: 2 });
        assert!(client.hears().contains("PLAIN"));
        client.authenticate(user, password);
        let answer = client.hears();
        (client, answer)
    }

    /// As `guest`, with a virtual host open.
    pub(crate) fn open(address: SocketAddr, vhost: &str) -> Self {
        Self::open_as(address, ("guest", "guest"), vhost)
    }

    /// With a virtual host open.
    pub(crate) fn open_as(
        address: SocketAddr,
        (user, password): (&str, &str),
        vhost: &str,
    ) -> Self {
        let (mut client, answer) = Self::login(address, user, password);
        assert_eq!(answer, code(Key::SaslAuthenticate, 3, ResponseCode::OK));
        assert!(client.hears().contains("Tune { frame_max: 1048576, heartbeat_secs: 60 }"));
        client.says(&Tune { frame_max: 0, heartbeat_secs: 0 });
        client.says(&Open { correlation_id: 4, virtual_host: vhost });
        let opened = client.hears();
        let port = format!("key: \"advertised_port\", value: \"{}\"", address.port());
        assert!(opened.contains("code: ResponseCode(1)") && opened.contains(&port), "{opened}");
        client
    }

    /// Logs in, the first time or again.
    pub(crate) fn authenticate(&mut self, user: &str, password: &str) {
        let data = format!("\0{user}\0{password}");
        let (mechanism, data) = ("PLAIN", data.as_bytes());
        self.says(&SaslAuthenticate { correlation_id: 3, mechanism, data });
    }

    pub(crate) fn create(&mut self, stream: &str) {
        self.says(&Create { correlation_id: 5, stream, arguments: List::default() });
        assert_eq!(self.hears(), code(Key::Create, 5, ResponseCode::OK));
    }

    pub(crate) fn declare_publisher(&mut self, publisher_id: u8, stream: &str) {
        let reference = "";
        self.says(&DeclarePublisher { correlation_id: 6, publisher_id, reference, stream });
        assert_eq!(self.hears(), code(Key::DeclarePublisher, 6, ResponseCode::OK));
    }

    /// Publishes a message, and does not wait for its confirm.
    pub(crate) fn publish(&mut self, publisher_id: u8, publishing_id: u64) {
        let messages = [PublishedMessage { publishing_id, entry: Entry::Message(b"hi") }];
        self.says(&Publish { publisher_id, messages: List::of(&messages) });
    }

    pub(crate) fn subscribe(
        &mut self,
        subscription_id: u8,
        stream: &str,
        offset: OffsetSpec,
        credit: u16,
    ) {
        let (correlation_id, properties) = (7, Trailing(List::default()));
        self.says(&Subscribe {
            correlation_id,
            subscription_id,
            stream,
            offset,
            credit,
            properties,
        });
        assert_eq!(self.hears(), code(Key::Subscribe, 7, ResponseCode::OK));
    }

    pub(crate) fn says<'a>(&mut self, command: &impl Command<'a>) {
        let mut out = Vec::new();
        command.encode_frame(&mut out);
        self.socket.write_all(&out).unwrap();
    }

    /// Sends commands that are encoded already, if the connection is there still.
    pub(crate) fn try_send(&mut self, commands: &[u8]) -> std::io::Result<()> {
        self.socket.write_all(commands)
    }

    /// The next frame; none once the connection has ended.
    pub(crate) fn try_frame(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some((frame, used)) = decode_frame(&self.input, 0).unwrap() {
                let frame = frame.to_vec();
                self.input.drain(..used);
                return Some(frame);
            }
            let mut buffer = [0; 65_536];
            let n = self.socket.read(&mut buffer).ok().filter(|n| *n > 0)?;
            self.input.extend_from_slice(&buffer[..n]);
        }
    }

    /// The next command, in words; empty at the end of the stream.
    pub(crate) fn hears(&mut self) -> String {
        self.try_hear().unwrap()
    }

    /// As [`Self::hears`]; none if nothing comes in time.
    pub(crate) fn try_hear(&mut self) -> Option<String> {
        loop {
            if let Some((frame, used)) = decode_frame(&self.input, 0).unwrap() {
                let heard = format!("{:?}", ToClient::decode(frame).unwrap());
                self.input.drain(..used);
                return Some(heard);
            }
            let mut buffer = [0; 4096];
            let n = self.socket.read(&mut buffer).ok()?;
            if n == 0 {
                assert_eq!(self.input, b"");
                return Some(String::new());
            }
            self.input.extend_from_slice(&buffer[..n]);
        }
    }
}
