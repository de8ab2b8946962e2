//! A connection that asks and waits: log in, declare, open channels. What runs the load takes the
//! socket over when all is set up.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use amqp091::method::{
    ChannelClose, ChannelCloseOk, ChannelOpen, ChannelOpenOk, ConnectionCloseOk, ConnectionOpen,
    ConnectionOpenOk, ConnectionStart, ConnectionStartOk, ConnectionTune, ConnectionTuneOk,
    peek_id,
};
use amqp091::spec::{CHANNEL_MAX_DEFAULT, FRAME_MIN_BYTES};
use amqp091::{
    FrameKind, Method, MethodId, ProtocolHeader, ShortString, Table, Value, decode_frame,
};
use anyhow::{Context as _, bail};

use crate::transport::{Encryption, Session, Transport, Trust};
use crate::uri::Uri;

/// The longest wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest wait for a connection to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between attempts while the broker starts.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The broker cannot be reached, or does not let us in.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(pub String);

/// The broker closed the channel or the connection instead of answering.
#[derive(Debug, thiserror::Error)]
#[error("the broker says {code} {text}")]
pub struct Closed {
    /// The reply code.
    pub code: u16,
    /// The broker's words.
    pub text: String,
}

/// The settings of a connection.
#[derive(Clone, Debug)]
pub struct Link {
    /// The heartbeat interval in seconds; 0 is none.
    pub heartbeat_s: u16,
    /// The largest frame in bytes; 0 is what the broker offers.
    pub frame_max: u32,
    /// Whether small writes are sent at once.
    pub no_delay: bool,
    /// The bytes of the socket's receive buffer, if not the system's.
    pub receive_buffer_bytes: Option<usize>,
    /// The bytes of the socket's send buffer, if not the system's.
    pub send_buffer_bytes: Option<usize>,
    /// The time to wait for a broker that does not listen yet.
    pub startup_timeout_ns: u64,
    /// The encryption, for brokers that speak TLS.
    pub encryption: Encryption,
}

impl Link {
    /// Creates settings: no heartbeats, the broker's frame size, no waiting, certificates as `trust` says.
    #[must_use]
    pub fn trusting(trust: Trust) -> Self {
        Self {
            heartbeat_s: 0,
            frame_max: 0,
            no_delay: true,
            receive_buffer_bytes: None,
            send_buffer_bytes: None,
            startup_timeout_ns: 0,
            encryption: Encryption::new(trust, None),
        }
    }
}

impl Default for Link {
    /// Creates the settings of [`Self::trusting`] everyone.
    fn default() -> Self {
        Self::trusting(Trust::Everyone)
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Client {
    transport: Transport,
    input: Vec<u8>,
    output: Vec<u8>,
    /// The broker's `server-properties`: product, version, capabilities.
    pub server_properties: Table,
    /// Bytes; 0 is no limit.
    pub frame_max: u32,
    /// Seconds; 0 is none.
    pub heartbeat_s: u16,
}

impl Client {
    /// Connects and logs in. `name` is what the broker's lists show.
    ///
    /// # Errors
    /// [`Unreachable`], whatever the cause.
    pub fn connect(uri: &Uri, link: &Link, name: &str) -> anyhow::Result<Self> {
        let unreachable = |error: anyhow::Error| {
            Unreachable(format!("no connection to {}:{}: {error:#}", uri.host, uri.port))
        };
        let transport = open(uri, link).map_err(unreachable)?;
        let mut client = Self {
            transport,
            input: Vec::new(),
            output: Vec::new(),
            server_properties: Table::new(),
            frame_max: FRAME_MIN_BYTES,
            heartbeat_s: 0,
        };
        client.log_in(uri, link, name).map_err(unreachable)?;
        Ok(client)
    }

    fn log_in(&mut self, uri: &Uri, link: &Link, name: &str) -> anyhow::Result<()> {
        self.transport.send_all(&ProtocolHeader::encode_amqp([0, 0, 9, 1]))?;
        let payload = self.await_answer(0, ConnectionStart::ID)?;
        if let Method::ConnectionStart(start) = Method::decode(&payload)? {
            self.server_properties = start.server_properties.to_owned()?;
        }
        let properties = client_properties(name).to_bytes();
        let response = format!("\0{}\0{}", uri.user, uri.password);
        let start_ok = ConnectionStartOk {
            client_properties: amqp091::TableRef::parse(&properties)?,
            mechanism: b"PLAIN",
            response: response.as_bytes(),
            locale: b"en_US",
        };
        let payload = self.call(0, start_ok.into(), ConnectionTune::ID)?;
        let Method::ConnectionTune(tune) = Method::decode(&payload)? else {
            bail!("it answers with something else");
        };
        self.frame_max = lesser(tune.frame_max, link.frame_max);
        self.heartbeat_s = match link.heartbeat_s {
            0 => 0,
            asked => u16::try_from(lesser(tune.heartbeat.into(), asked.into()))?,
        };
        let channel_max =
            if tune.channel_max == 0 { CHANNEL_MAX_DEFAULT } else { tune.channel_max };
        let tune_ok = ConnectionTuneOk {
            channel_max,
            frame_max: self.frame_max,
            heartbeat: self.heartbeat_s,
        };
        self.send(0, tune_ok.into())?;
        let open = ConnectionOpen { virtual_host: uri.vhost.as_bytes(), ..Default::default() };
        self.call(0, open.into(), ConnectionOpenOk::ID)?;
        Ok(())
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn open_channel(&mut self, channel: u16) -> anyhow::Result<()> {
        self.call(channel, ChannelOpen::default().into(), ChannelOpenOk::ID).map(drop)
    }

    /// Closes a channel.
    pub fn close_channel(&mut self, channel: u16) -> anyhow::Result<()> {
        let close = ChannelClose { reply_code: 200, ..ChannelClose::default() };
        self.call(channel, close.into(), ChannelCloseOk::ID).map(drop)
    }

    /// Sends a method and waits for the answer; gives back its payload.
    ///
    /// # Errors
    /// [`Closed`] if the broker closes the channel or the connection, else what went wrong with the
    /// socket.
    pub fn call(
        &mut self,
        channel: u16,
        request: Method<'_>,
        answer: MethodId,
    ) -> anyhow::Result<Vec<u8>> {
        self.send(channel, request)?;
        self.await_answer(channel, answer)
    }

    /// Sends a method that has no answer, or whose answer is awaited later.
    ///
    /// # Errors
    /// What went wrong with the socket.
    pub fn send(&mut self, channel: u16, method: Method<'_>) -> anyhow::Result<()> {
        self.output.clear();
        method.encode_frame(channel, &mut self.output);
        self.transport.send_all(&self.output).context("writing")
    }

    /// Sends frames that are encoded already.
    pub(crate) fn send_bytes(&mut self, frames: &[u8]) -> anyhow::Result<()> {
        self.transport.send_all(frames).context("writing")
    }

    fn await_answer(&mut self, channel: u16, answer: MethodId) -> anyhow::Result<Vec<u8>> {
        loop {
            let found = self.next_method(|its_channel, method, payload| {
                if let Some(closed) = closed(method) {
                    return Err(closed.into());
                }
                let is_answer = its_channel == channel && peek_id(payload)? == answer;
                Ok(is_answer.then(|| payload.to_vec()))
            })?;
            if let Some(payload) = found {
                return Ok(payload);
            }
        }
    }

    /// Waits for the next method, and shows its channel, itself and its payload.
    pub(crate) fn next_method<T>(
        &mut self,
        mut look: impl FnMut(u16, &Method<'_>, &[u8]) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        loop {
            let Some((frame, used)) = decode_frame(&self.input, self.frame_max)? else {
                self.transport.read_more(&mut self.input)?;
                continue;
            };
            let looked = (frame.kind == FrameKind::Method)
                .then(|| look(frame.channel, &Method::decode(frame.payload)?, frame.payload));
            self.input.drain(..used);
            if let Some(looked) = looked {
                return looked;
            }
        }
    }

    /// The transport and what was read from it but not used.
    pub fn into_parts(self) -> (Transport, Vec<u8>) {
        (self.transport, self.input)
    }

    /// A text the broker says about itself, such as its product; empty if it does not.
    #[must_use]
    pub fn server_text(&self, name: &str) -> String {
        let value = self.server_properties.get(name.as_bytes());
        let bytes = value.and_then(Value::as_bytes).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Whether the broker, or what stands in front of it, is on this machine.
    pub fn is_local(&self) -> bool {
        let socket = self.transport.socket();
        let (here, there) = (socket.local_addr(), socket.peer_addr());
        here.ok().zip(there.ok()).is_some_and(|(here, there)| here.ip() == there.ip())
    }

    /// Says goodbye. Errors do not matter any more.
    pub fn close(mut self) {
        let close = amqp091::method::ConnectionClose { reply_code: 200, ..Default::default() };
        drop(self.call(0, close.into(), ConnectionCloseOk::ID));
    }
}

/// The code and text of a `channel.close` or `connection.close`; `None` for any other method.
pub fn closed(method: &Method<'_>) -> Option<Closed> {
    let (code, text) = if let Method::ChannelClose(close) = method {
        (close.reply_code, close.reply_text)
    } else if let Method::ConnectionClose(close) = method {
        (close.reply_code, close.reply_text)
    } else {
        return None;
    };
    Some(Closed { code, text: String::from_utf8_lossy(text).into_owned() })
}

/// The lesser of two limits, of which 0 is none.
pub fn lesser(offered: u32, asked: u32) -> u32 {
    match (offered, asked) {
        (0, other) | (other, 0) => other,
        (offered, asked) => offered.min(asked),
    }
}

fn client_properties(name: &str) -> Table {
    let mut capabilities = Table::new();
    for capability in
        ["basic.nack", "publisher_confirms", "consumer_cancel_notify", "connection.blocked"]
    {
        capabilities.push(ShortString::from_static(capability), true);
    }
    capabilities.push(ShortString::from_static("authentication_failure_close"), true);
    let mut properties = Table::new();
    properties.push(ShortString::from_static("product"), "Leveret");
    properties.push(ShortString::from_static("version"), env!("CARGO_PKG_VERSION"));
    properties.push(ShortString::from_static("connection_name"), name);
    properties.push(ShortString::from_static("capabilities"), capabilities);
    properties
}

/// Connects, with TLS or without.
pub fn open(uri: &Uri, link: &Link) -> anyhow::Result<Transport> {
    let socket = dial(uri, link)?;
    if !uri.is_encrypted {
        return Ok(Transport::Plain(socket));
    }
    let session = Session::open(socket, &uri.host, &link.encryption)?;
    Ok(Transport::Tls(Box::new(session)))
}

fn dial(uri: &Uri, link: &Link) -> anyhow::Result<TcpStream> {
    let deadline = Instant::now() + Duration::from_nanos(link.startup_timeout_ns);
    loop {
        match dial_once(uri) {
            Ok(socket) => return prepared(socket, link),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => std::thread::sleep(RETRY_PAUSE),
        }
    }
}

fn dial_once(uri: &Uri) -> anyhow::Result<TcpStream> {
    let mut last = anyhow::anyhow!("the name has no address");
    for address in (uri.host.as_str(), uri.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

fn prepared(socket: TcpStream, link: &Link) -> anyhow::Result<TcpStream> {
    socket.set_nodelay(link.no_delay)?;
    if let Some(bytes) = link.receive_buffer_bytes {
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    }
    if let Some(bytes) = link.send_buffer_bytes {
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, bytes)?;
    }
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    socket.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lesser_limit_counts_and_0_is_none() {
        assert_eq!(lesser(131_072, 0), 131_072);
        assert_eq!(lesser(0, 8192), 8192);
        assert_eq!(lesser(0, 0), 0);
        assert_eq!(lesser(131_072, 8192), 8192);
    }
}
