//! A connection that asks and waits: log in, open, begin, attach. What runs the load takes the socket over
//! when all is set up.

use amqp10::{
    Attach, Begin, FrameType, MapRef, Open, PROTOCOL_HEADER_BYTES, Performative, ProtocolLayer,
    Role, SaslCode, SaslInit, SaslPerformative, SerialNumber, Symbol, decode_frame,
};
use anyhow::{Context as _, bail, ensure};

use super::links::{Receiving, Sources, put_attach};
use super::session::{INCOMING_WINDOW, Session, told};
use client::{Link, Transport, Unreachable, Uri, lesser, open};

/// The largest frame that is offered if nothing else is said, bytes.
const FRAME_MAX: u32 = 131_072;

/// An open connection with a session.
#[derive(Debug)]
pub(crate) struct Client {
    transport: Transport,
    input: Vec<u8>,
    /// The largest frame either way.
    pub(crate) frame_max: u32,
    /// Seconds after which the broker takes us for gone; 0 for never.
    pub(crate) heartbeat_s: u16,
    /// The number of the broker's first transfer.
    next_incoming: SerialNumber,
    /// Transfers that the broker takes.
    window: u32,
}

impl Client {
    /// Connects, logs in and begins a session. `name` is the container's.
    ///
    /// # Errors
    /// [`Unreachable`], whatever the cause.
    pub(crate) fn connect(uri: &Uri, link: &Link, name: &str) -> anyhow::Result<Self> {
        let unreachable = |error: anyhow::Error| {
            Unreachable(format!("no connection to {}:{}: {error:#}", uri.host, uri.port))
        };
        let mut client = Self {
            transport: open(uri, link).map_err(unreachable)?,
            input: Vec::new(),
            frame_max: lesser(FRAME_MAX, link.frame_max),
            heartbeat_s: 0,
            next_incoming: SerialNumber::default(),
            window: 0,
        };
        client.log_in(uri).and_then(|()| client.begin(uri, name)).map_err(unreachable)?;
        Ok(client)
    }

    fn log_in(&mut self, uri: &Uri) -> anyhow::Result<()> {
        self.exchange_headers(ProtocolLayer::Sasl)?;
        // The mechanisms: PLAIN is tried whether it is among them or not.
        self.next_frame(FrameType::Sasl)?;
        let response = format!("\0{}\0{}", uri.user, uri.password);
        let mut out = Vec::new();
        let (mechanism, initial_response) = (Symbol("PLAIN"), Some(response.as_bytes()));
        let init = SaslInit { mechanism, initial_response, hostname: Some(&uri.host) };
        SaslPerformative::Init(init).encode_frame(&mut out);
        self.transport.send_all(&out)?;
        let outcome = self.next_frame(FrameType::Sasl)?;
        let outcome = SaslPerformative::decode(&outcome)?;
        let is_in = matches!(&outcome, SaslPerformative::Outcome(it) if it.code == SaslCode::Ok);
        ensure!(is_in, "the login is refused: {outcome:?}");
        self.exchange_headers(ProtocolLayer::Amqp)
    }

    fn exchange_headers(&mut self, layer: ProtocolLayer) -> anyhow::Result<()> {
        self.transport.send_all(&layer.header())?;
        while self.input.len() < PROTOCOL_HEADER_BYTES {
            self.transport.read_more(&mut self.input)?;
        }
        let header: Vec<u8> = self.input.drain(..PROTOCOL_HEADER_BYTES).collect();
        ensure!(header == layer.header(), "the broker does not speak AMQP 1.0");
        Ok(())
    }

    fn begin(&mut self, uri: &Uri, name: &str) -> anyhow::Result<()> {
        let mut out = Vec::new();
        let open = Open {
            container_id: name,
            hostname: Some(&format!("vhost:{}", uri.vhost)),
            max_frame_size: self.frame_max,
            channel_max: 0,
            ..Open::default()
        };
        Performative::Open(Box::new(open)).encode_frame(0, &mut out);
        let begin = Begin {
            incoming_window: INCOMING_WINDOW,
            outgoing_window: u32::MAX,
            handle_max: 0,
            ..Begin::default()
        };
        Performative::Begin(Box::new(begin)).encode_frame(0, &mut out);
        self.transport.send_all(&out)?;
        loop {
            let frame = self.next_frame(FrameType::Amqp)?;
            let (performative, _) = Performative::decode(&frame)?;
            if let Performative::Open(open) = performative {
                self.frame_max = self.frame_max.min(open.max_frame_size);
                let idle_s = open.idle_time_out.unwrap_or(0) / 1000;
                self.heartbeat_s = u16::try_from(idle_s).unwrap_or(u16::MAX);
            } else if let Performative::Begin(begin) = performative {
                self.window = begin.incoming_window;
                self.next_incoming = begin.next_outgoing_id;
                return Ok(());
            } else {
                bail!(told(&performative));
            }
        }
    }

    /// Attaches the session's link, as a publisher's.
    ///
    /// # Errors
    /// The broker refuses.
    pub(crate) fn attach_target(&mut self, address: &str, is_settled: bool) -> anyhow::Result<()> {
        let mut attach = Vec::new();
        put_attach(address, is_settled, &mut attach);
        self.attach(address, &attach, |_| Ok(()))
    }

    /// Attaches the session's link, as that of the consumer with this number.
    ///
    /// # Errors
    /// The broker refuses, or leaves out a filter.
    pub(crate) fn attach_source(
        &mut self,
        sources: &Sources,
        at: usize,
        is_settled: bool,
    ) -> anyhow::Result<()> {
        let address = sources.addresses.get(at).context("no address")?;
        let mut attach = Vec::new();
        sources.put_attach(address, is_settled, &mut attach);
        self.attach(address, &attach, |attached| {
            let granted = attached.source.and_then(|source| source.filter).unwrap_or(MapRef::EMPTY);
            match sources.missing_filter(granted) {
                Some(name) => bail!("the broker does not take the filter '{name}'"),
                None => Ok(()),
            }
        })
    }

    fn attach(
        &mut self,
        address: &str,
        attach: &[u8],
        attached: impl FnOnce(&Attach<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.transport.send_all(attach)?;
        loop {
            let frame = self.next_frame(FrameType::Amqp)?;
            let (performative, _) = Performative::decode(&frame)?;
            if let Performative::Attach(attach) = performative {
                if has_terminus(&attach) {
                    return attached(&attach);
                }
                // A refusal, which is explained by the detach behind it.
            } else if !matches!(performative, Performative::Flow(_)) {
                bail!("attaching to '{address}': {}", told(&performative));
            }
        }
    }

    /// The body of the next frame that has one.
    fn next_frame(&mut self, kind: FrameType) -> anyhow::Result<Vec<u8>> {
        loop {
            let Some((frame, used)) = decode_frame(&self.input, kind, self.frame_max)? else {
                self.transport.read_more(&mut self.input).context("waiting for an answer")?;
                continue;
            };
            let body = frame.body.to_vec();
            self.input.drain(..used);
            if !body.is_empty() {
                return Ok(body);
            }
        }
    }

    /// The session, once its link is attached.
    pub(crate) fn session(&self, receiving: Receiving) -> Session {
        Session::new(receiving, self.next_incoming, self.window)
    }

    /// The transport, and what was read from it but not used.
    pub(crate) fn into_parts(self) -> (Transport, Vec<u8>) {
        (self.transport, self.input)
    }
}

/// Whether the broker's end of a link is there.
fn has_terminus(attach: &Attach<'_>) -> bool {
    match attach.role {
        Role::Sender => attach.source.is_some(),
        Role::Receiver => attach.target.is_some(),
    }
}
