//! The life of a connection: its phase, what its client has opened it with, its times, and why it ends.

use crate::fault::ProtocolFault;
use crate::incoming::Payload;
use crate::links::error_of;
use crate::open::{ClientOpen, put_open};
use crate::published_heads::PublishedHeads;
use crate::requests::LinkRequest;
use crate::settings::ConnectionSettings;
use amqp10::{Close, FRAME_BYTES_MIN_MAX, Open, Performative};
use edge::{CloseMode, Step};
use std::sync::Arc;

/// The largest frame before the connection is open, in bytes. COMPAT: RabbitMQ's.
const INITIAL_FRAME_BYTES_MAX: u32 = 8_192;
/// Milliseconds for what was written to arrive at a client whose connection ends.
const LINGER_MS: u64 = 1_000;

/// The progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionPhase {
    /// The protocol header of SASL's layer is awaited.
    SaslHeader,
    /// The client's part of the login is awaited.
    Sasl,
    /// The caller checks the login.
    Authenticating,
    /// The protocol header of AMQP's layer is awaited.
    AmqpHeader,
    /// The client's open is awaited.
    Open,
    /// The caller opens the virtual host.
    Opening,
    Running,
    /// Refused, and not told so yet.
    Refused,
    /// The client has said its close; the caller gives back what the connection held.
    ClosingForClient,
    /// The server has said its close; the client's is awaited.
    Closing,
    Ended,
}

/// The life of a connection.
#[derive(Debug)]
pub(crate) struct ConnectionLife {
    pub(crate) settings: Arc<ConnectionSettings>,
    /// The name that the cluster was given.
    pub(crate) cluster_name: Option<String>,
    pub(crate) phase: ConnectionPhase,
    pub(crate) client: Option<ClientOpen>,
    /// Bytes for the client.
    pub(crate) out: Vec<u8>,
    pub(crate) close_mode: Option<CloseMode>,
    /// The reason, for the log, why the connection ended without a broker's doing.
    pub(crate) failure: Option<String>,
    /// The number of reads of the socket.
    pub(crate) n_reads: u64,
    /// The heads of what the read in progress, or the last one, has published.
    pub(crate) heads: PublishedHeads,
}

impl ConnectionLife {
    pub(crate) const fn new(settings: Arc<ConnectionSettings>) -> Self {
        Self {
            settings,
            cluster_name: None,
            phase: ConnectionPhase::SaslHeader,
            client: None,
            out: Vec::new(),
            close_mode: None,
            failure: None,
            n_reads: 0,
            heads: PublishedHeads::NONE,
        }
    }

    /// Whether one side has said its close.
    pub(crate) const fn is_closing(&self) -> bool {
        matches!(
            self.phase,
            ConnectionPhase::Closing | ConnectionPhase::ClosingForClient | ConnectionPhase::Ended
        )
    }

    /// The largest frame that is taken now, in bytes.
    pub(crate) fn frame_bytes_max(&self) -> u32 {
        let max = self.settings.frame_bytes_max;
        if matches!(self.phase, ConnectionPhase::Running | ConnectionPhase::Closing) {
            max
        } else {
            max.min(INITIAL_FRAME_BYTES_MAX)
        }
    }

    /// The largest frame that the client takes, in bytes.
    pub(crate) fn client_frame_bytes_max(&self) -> u32 {
        self.client.as_ref().map_or(FRAME_BYTES_MIN_MAX, |client| client.frame_bytes_max)
    }

    pub(crate) fn channel_max(&self) -> u16 {
        self.client.as_ref().map_or(0, |client| client.channel_max)
    }

    pub(crate) fn put_open(&mut self, is_refused: bool) {
        let cluster_name = self.cluster_name.as_ref().unwrap_or(&self.settings.node_name);
        put_open(&self.settings, cluster_name, self.channel_max(), is_refused, &mut self.out);
    }

    /// Takes a client's open.
    pub(crate) fn open(&mut self, open: &Open<'_>) -> Option<Step> {
        let client = ClientOpen::new(open, &self.settings);
        let checked = client.check();
        let vhost = client.vhost.clone();
        self.client = Some(client);
        if let Err(fault) = checked {
            self.refuse_open(&fault);
            return None;
        }
        self.phase = ConnectionPhase::Opening;
        Some(Step::Open { vhost })
    }

    /// Refuses an open: with the server's open, and its close.
    pub(crate) fn refuse_open(&mut self, fault: &ProtocolFault) {
        self.put_open(true);
        self.failure = Some(fault.text.to_string());
        self.close(fault);
    }

    /// Refuses a client's login. COMPAT: as with RabbitMQ the client is told so in a while, and not listened
    /// to until then.
    pub(crate) fn refuse(&mut self, reason: String) {
        self.failure = Some(reason);
        self.phase = ConnectionPhase::Refused;
    }

    /// Says the server's close; only the client's answer counts from here on.
    pub(crate) fn close(&mut self, fault: &ProtocolFault) {
        let close = Close { error: Some(error_of(fault)) };
        Performative::Close(close).encode_frame(0, &mut self.out);
        self.phase = ConnectionPhase::Closing;
    }

    /// Ends a connection before it is open, without a word for which there is none.
    pub(crate) fn turn_away(&mut self, reason: String) {
        self.failure = Some(reason);
        self.end();
    }

    pub(crate) const fn end(&mut self) {
        self.phase = ConnectionPhase::Ended;
        self.close_mode = Some(CloseMode::Linger(LINGER_MS));
    }
}

/// A read in progress.
pub(crate) struct InputReading<'a> {
    pub(crate) input: &'a [u8],
    /// The number of bytes consumed.
    pub(crate) at: usize,
    pub(crate) wanted: usize,
    pub(crate) requests: &'a mut Vec<LinkRequest>,
}

impl<'a> InputReading<'a> {
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    /// The payload that the frame ends with which was read last.
    #[inline]
    pub(crate) fn payload<'p>(&self, bytes: &'p [u8]) -> Payload<'p> {
        Payload { bytes, start: u32::try_from(self.at - bytes.len()).unwrap_or(u32::MAX) }
    }

    /// Waits for the rest of this frame.
    pub(crate) fn wait_for_frame(&mut self) -> Step {
        self.wanted = amqp10::frame_size(self.rest()).unwrap_or(0);
        Step::More
    }
}
