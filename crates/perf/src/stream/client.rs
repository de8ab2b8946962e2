//! A connection of the stream protocol that asks and waits: log in, create, declare, subscribe. What
//! runs the load takes the socket over when all is set up.

use anyhow::{Context as _, bail};
use streamproto::command::{
    Close, Heartbeat, Open, PeerProperties, Property, SaslAuthenticate, SaslHandshake, Tune,
};
use streamproto::{CommandId, Key, List, ResponseCode, ToClient, decode_frame, split_id};

use client::Link;
use client::Transport;
use client::Uri;
use client::{Unreachable, lesser, open};

/// The broker refused what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {code}")]
pub(super) struct Refused {
    /// The request, in words.
    pub(super) what: String,
    /// The broker's answer.
    pub(super) code: ResponseCode,
}

/// An open connection.
#[derive(Debug)]
pub(super) struct StreamClient {
    transport: Transport,
    input: Vec<u8>,
    /// Frames that came while others were awaited, whole.
    held: Vec<u8>,
    next_id: u32,
    /// Bytes; 0 is no limit.
    pub(super) frame_max: u32,
    /// Seconds; 0 is none.
    pub(super) heartbeat_s: u16,
    /// The broker's product and version, as it tells them.
    pub(super) product: String,
    pub(super) version: String,
}

impl StreamClient {
    /// Connects and logs in. `name` is what the broker's lists show.
    ///
    /// # Errors
    /// [`Unreachable`], whatever the cause.
    pub(super) fn connect(uri: &Uri, link: &Link, name: &str) -> anyhow::Result<Self> {
        let unreachable = |error: anyhow::Error| {
            Unreachable(format!("no connection to {}:{}: {error:#}", uri.host, uri.port))
        };
        let mut client = Self {
            transport: open(uri, link).map_err(unreachable)?,
            input: Vec::new(),
            held: Vec::new(),
            next_id: 1,
            frame_max: 0,
            heartbeat_s: 0,
            product: String::new(),
            version: String::new(),
        };
        client.log_in(uri, link, name).map_err(unreachable)?;
        Ok(client)
    }

    fn log_in(&mut self, uri: &Uri, link: &Link, name: &str) -> anyhow::Result<()> {
        let properties = [
            Property { key: "product", value: "leveret perf" },
            Property { key: "version", value: env!("CARGO_PKG_VERSION") },
            Property { key: "connection_name", value: name },
        ];
        let answer = self.call("peer properties", |correlation_id| PeerProperties {
            correlation_id,
            properties: List::of(&properties),
        })?;
        if let ToClient::PeerPropertiesResponse(peer) = ToClient::decode(&answer)? {
            let text = |name: &str| {
                let found = peer.properties.iter().find(|property| property.key == name);
                found.map(|property| property.value.to_owned()).unwrap_or_default()
            };
            (self.product, self.version) = (text("product"), text("version"));
        }
        self.call("the SASL handshake", |correlation_id| SaslHandshake { correlation_id })?;
        let secret = format!("\0{}\0{}", uri.user, uri.password);
        self.call("the login", |correlation_id| SaslAuthenticate {
            correlation_id,
            mechanism: "PLAIN",
            data: secret.as_bytes(),
        })?;
        self.tune(link)?;
        let what = format!("virtual host '{}'", uri.vhost);
        self.call(&what, |correlation_id| Open { correlation_id, virtual_host: &uri.vhost })?;
        Ok(())
    }

    fn tune(&mut self, link: &Link) -> anyhow::Result<()> {
        let frame = self.await_frame(|id| id.known_key() == Some(Key::Tune))?;
        let ToClient::Tune(tune) = ToClient::decode(&frame)? else {
            bail!("it answers with something else");
        };
        self.frame_max = lesser(tune.frame_max, link.frame_max);
        let heartbeat_secs = match link.heartbeat_s {
            0 => 0,
            asked => lesser(tune.heartbeat_secs, asked.into()),
        };
        self.heartbeat_s = u16::try_from(heartbeat_secs).unwrap_or(u16::MAX);
        self.send(&Tune { frame_max: self.frame_max, heartbeat_secs })
    }

    /// Sends a request and waits for its answer, whose frame it gives back. `what` is named if it is
    /// refused.
    ///
    /// # Errors
    /// [`Refused`] for any code but OK, else what went wrong with the connection.
    pub(super) fn call<'a, C: streamproto::Command<'a>>(
        &mut self,
        what: &str,
        request: impl FnOnce(u32) -> C,
    ) -> anyhow::Result<Vec<u8>> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.send(&request(id))?;
        let key = C::ID.known_key();
        let frame = self.await_frame(|id| id.is_response() && id.known_key() == key)?;
        match answer_code(&frame) {
            Some(ResponseCode::OK) | None => Ok(frame),
            Some(code) => Err(Refused { what: what.to_owned(), code }.into()),
        }
    }

    /// Sends a command that has no answer.
    pub(super) fn send<'a>(
        &mut self,
        command: &impl streamproto::Command<'a>,
    ) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        command.encode_frame(&mut bytes);
        self.send_bytes(&bytes)
    }

    /// Sends frames that are encoded.
    pub(super) fn send_bytes(&mut self, frames: &[u8]) -> anyhow::Result<()> {
        self.transport.send_all(frames).context("writing")
    }

    /// The first frame that is `wanted`; others are held for whoever takes the connection over.
    ///
    /// # Errors
    /// The broker closes the connection, or says what cannot be read.
    pub(super) fn await_frame(
        &mut self,
        wanted: impl Fn(CommandId) -> bool,
    ) -> anyhow::Result<Vec<u8>> {
        loop {
            let Some((frame, used)) = decode_frame(&self.input, self.frame_max)? else {
                self.transport.read_more(&mut self.input)?;
                continue;
            };
            let (id, _) = split_id(frame)?;
            let frame = frame.to_vec();
            let whole: Vec<u8> = self.input.drain(..used).collect();
            if wanted(id) {
                return Ok(frame);
            }
            let command = ToClient::decode(&frame)?;
            if let ToClient::Close(close) = command {
                bail!("the broker closes: {} {}", close.code, close.reason);
            }
            if command != ToClient::Heartbeat(Heartbeat {}) {
                self.held.extend_from_slice(&whole);
            }
        }
    }

    /// The transport, and what was read from it but not used.
    pub(super) fn into_parts(mut self) -> (Transport, Vec<u8>) {
        self.held.append(&mut self.input);
        (self.transport, self.held)
    }

    /// Whether the broker, or what stands in front of it, is on this machine.
    pub(super) fn is_local(&self) -> bool {
        let socket = self.transport.socket();
        let (here, there) = (socket.local_addr(), socket.peer_addr());
        here.ok().zip(there.ok()).is_some_and(|(here, there)| here.ip() == there.ip())
    }

    /// Says goodbye. Errors do not matter any more.
    pub(super) fn close(mut self) {
        drop(self.call("close", |correlation_id| Close {
            correlation_id,
            code: ResponseCode::OK,
            reason: "OK",
        }));
    }
}

/// The code of an answer, behind key, version and correlation id; `None` for those without one.
fn answer_code(frame: &[u8]) -> Option<ResponseCode> {
    let (id, fields) = split_id(frame).ok()?;
    if id.known_key() == Some(Key::Metadata) {
        return None;
    }
    let code = fields.get(4..)?.first_chunk()?;
    Some(ResponseCode(u16::from_be_bytes(*code)))
}
