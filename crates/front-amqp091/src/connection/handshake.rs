//! The handshake, from the protocol header to `connection.open`.

use super::{Lifecycle, Phase, Reading, closing_ms, loses_frame_borders, unexpected};
use crate::outbox::events::LINGER_MS;
use crate::outbox::{Capabilities, SILENT_CLOSE_DELAY_MS};
use crate::{Settings, reply};
use amqp091::method::{
    ConnectionOpen, ConnectionSecure, ConnectionSecureOk, ConnectionStart, ConnectionStartOk,
    ConnectionTune, ConnectionTuneOk,
};
use amqp091::{
    Frame, FrameKind, Method, MethodId, ProtocolHeader, ShortString, Table, TableRef, Value,
    ValueRef, decode_frame, spec,
};
use edge::{AuthFailure, CloseMode, Login, Mechanism, Proof, Step, sasl};
use session::{Error, ErrorKind};
use stdx::{Now, RABBITMQ_VERSION};

/// The capabilities told to clients.
const CAPABILITIES: [&str; 9] = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
];

/// The login of a connection, as far as it has come.
#[derive(Debug)]
pub(super) struct Handshake {
    mechanism: Mechanism,
    /// The login whose rest the client is asked for.
    challenged: Option<Box<Login>>,
    authentication_failure_close: bool,
    /// The name that the cluster was given.
    pub(super) cluster_name: Option<String>,
    /// Whether clients of AMQP 1.0 are served on the port, too.
    pub(super) is_beside_amqp10: bool,
}

/// The protocol id and version of AMQP 1.0 with SASL.
const AMQP_1_0: [u8; 4] = [3, 1, 0, 0];

impl Handshake {
    pub(super) const fn new() -> Self {
        Self {
            mechanism: Mechanism::Plain,
            challenged: None,
            authentication_failure_close: false,
            cluster_name: None,
            is_beside_amqp10: false,
        }
    }

    fn start_properties(&self, settings: &Settings) -> Table {
        let text = |name, value: &str| (ShortString::from_static(name), Value::from(value));
        let capabilities: Table = CAPABILITIES
            .into_iter()
            .map(|name| (ShortString::from_static(name), Value::Bool(true)))
            .collect();
        [
            (ShortString::from_static("capabilities"), Value::Table(capabilities)),
            text("cluster_name", self.cluster_name.as_ref().unwrap_or(&settings.cluster_name)),
            text("copyright", "Copyright (c) the Leveret authors"),
            text("information", "Licensed under the Apache License 2.0"),
            text("leveret_version", &settings.version),
            text("platform", "Leveret"),
            // COMPAT: clients look at product and version to know what they may use.
            text("product", "RabbitMQ"),
            text("version", RABBITMQ_VERSION),
        ]
        .into_iter()
        .collect()
    }

    pub(super) fn read_header(&self, reading: &mut Reading<'_>) -> Option<Step> {
        let Some(header) = ProtocolHeader::decode(reading.rest()) else {
            reading.wanted = ProtocolHeader::BYTES;
            return Some(Step::More);
        };
        if self.is_beside_amqp10 && header == ProtocolHeader::Amqp(AMQP_1_0) {
            return Some(Step::SpeaksOther);
        }
        reading.at += ProtocolHeader::BYTES;
        let mut locked = reading.life.outbox.lock();
        if header.is_supported() {
            let start = self.start_properties(&reading.life.settings).to_bytes();
            let mechanisms = mechanism_names(&reading.life.settings.mechanisms);
            locked.put(|out| put_start(&start, &mechanisms, out));
            drop(locked);
            reading.life.phase = Phase::Start;
        } else {
            let ours = ProtocolHeader::encode_amqp(self.version_for(header));
            locked.put(|out| out.extend_from_slice(&ours));
            drop(locked);
            reading.life.failure = Some(match header {
                ProtocolHeader::TlsClientHello => "TLS on a port without TLS".to_owned(),
                ProtocolHeader::Amqp(_) | ProtocolHeader::HttpGet | ProtocolHeader::Unknown(_) => {
                    format!("unsupported protocol header {header:?}")
                }
            });
            reading.life.end(CloseMode::Linger(LINGER_MS));
        }
        None
    }

    /// The version that a client is told which speaks none that is served. COMPAT: where AMQP 1.0 is, only
    /// clients of its predecessors are told of one.
    const fn version_for(&self, header: ProtocolHeader) -> [u8; 4] {
        let is_of_0_x = matches!(header, ProtocolHeader::Amqp(version)
            if !matches!(version, [2 | 3, ..] | [_, 1, 0, 0]));
        if self.is_beside_amqp10 && !is_of_0_x { AMQP_1_0 } else { [0, 0, 9, 1] }
    }

    /// Reads one frame of the handshake.
    pub(super) fn read_handshake(&mut self, reading: &mut Reading<'_>) -> Option<Step> {
        let (frame, used) = match decode_frame(reading.rest(), reading.life.negotiated.frame_max) {
            Ok(Some(found)) => found,
            Ok(None) => return Some(reading.wait_for_frame()),
            Err(error) => {
                debug_assert!(loses_frame_borders(&error), "only borders are checked here");
                reading.life.refuse_handshake(&reply::wire_refusal(error), NO_METHOD);
                return None;
            }
        };
        reading.at += used;
        match self.handshake_frame(reading, frame) {
            Ok(step) => step,
            Err((error, method)) => {
                reading.life.refuse_handshake(&error, method);
                None
            }
        }
    }

    fn handshake_frame(
        &mut self,
        reading: &mut Reading<'_>,
        frame: Frame<'_>,
    ) -> Result<Option<Step>, (Error, MethodId)> {
        match (frame.kind, frame.channel) {
            (FrameKind::Method, 0) => {}
            (FrameKind::Heartbeat, 0) => return Ok(None),
            _ => return Err((unexpected("the connection is not open yet"), NO_METHOD)),
        }
        let method = Method::decode(frame.payload)
            .map_err(|error| (reply::wire_refusal(error), error.method().unwrap_or(NO_METHOD)))?;
        match (reading.life.phase, method) {
            (Phase::Start, Method::ConnectionStartOk(start_ok)) => {
                self.start_ok(reading.life, &start_ok)
            }
            (Phase::Secure, Method::ConnectionSecureOk(secure_ok)) => {
                self.secure_ok(reading.life, &secure_ok)
            }
            (Phase::Tune, Method::ConnectionTuneOk(tune_ok)) => {
                Self::tune_ok(reading.life, reading.now, tune_ok);
                Ok(None)
            }
            (Phase::Open, Method::ConnectionOpen(open)) => {
                Ok(Some(Self::open(reading.life, &open)))
            }
            (_, Method::ConnectionClose(_)) => {
                reading.life.outbox.lock().put_connection_close_ok();
                reading.life.phase = Phase::Ended;
                Ok(None)
            }
            (phase, method) => {
                let text = format!("unexpected method in connection state {}", state_name(phase));
                Err((Error::new(ErrorKind::ChannelError, text), method.id()))
            }
        }
    }

    fn start_ok(
        &mut self,
        life: &mut Lifecycle,
        start_ok: &ConnectionStartOk<'_>,
    ) -> Result<Option<Step>, (Error, MethodId)> {
        let refuse = |kind, text: String| Err((Error::new(kind, text), ConnectionStartOk::ID));
        let capabilities = capabilities_of(start_ok.client_properties);
        life.outbox.lock().set_capabilities(capabilities);
        self.authentication_failure_close = capabilities.authentication_failure_close;
        let name = String::from_utf8_lossy(start_ok.mechanism);
        let offered = |mechanism: &Mechanism| life.settings.mechanisms.contains(mechanism);
        let known = Mechanism::from_name(&name);
        let Some(mechanism) = known.filter(offered) else {
            let what = if known.is_some() { "invalid" } else { "unknown" };
            let text = format!("{what} authentication mechanism '{name}'");
            return refuse(ErrorKind::CommandInvalid, text);
        };
        self.mechanism = mechanism;
        let (user, proof) = mechanism.parse(start_ok.response);
        let Ok(client_properties) = start_ok.client_properties.to_owned() else {
            return refuse(ErrorKind::SyntaxError, "malformed client properties".to_owned());
        };
        let challenge = mechanism.challenge().filter(|_| !matches!(proof, Proof::Malformed));
        let login =
            Box::new(Login { mechanism: mechanism.as_str(), user, proof, client_properties });
        if let Some(challenge) = challenge {
            life.outbox.lock().put(|out| ConnectionSecure { challenge }.encode_frame(0, out));
            self.challenged = Some(login);
            life.phase = Phase::Secure;
            return Ok(None);
        }
        life.phase = Phase::Authenticating;
        Ok(Some(Step::Authenticate(login)))
    }

    fn secure_ok(
        &mut self,
        life: &mut Lifecycle,
        secure_ok: &ConnectionSecureOk<'_>,
    ) -> Result<Option<Step>, (Error, MethodId)> {
        let Some(login) = self.challenged.take() else {
            return Err((unexpected("unexpected 'connection.secure-ok'"), ConnectionSecureOk::ID));
        };
        life.phase = Phase::Authenticating;
        let proof = sasl::parse_answer(secure_ok.response);
        Ok(Some(Step::Authenticate(Box::new(Login { proof, ..*login }))))
    }

    pub(super) fn answer_login(&self, life: &mut Lifecycle, result: Result<(), AuthFailure>) {
        match result {
            Ok(()) => {
                let tune = ConnectionTune {
                    channel_max: life.settings.channel_max,
                    frame_max: life.settings.frame_max,
                    heartbeat: life.settings.heartbeat_s,
                };
                life.outbox.lock().put(|out| tune.encode_frame(0, out));
                life.phase = Phase::Tune;
            }
            // COMPAT: who cannot even ask is told nothing.
            Err(AuthFailure::Malformed) => life.end(CloseMode::Hold(SILENT_CLOSE_DELAY_MS)),
            Err(AuthFailure::Refused) if !self.authentication_failure_close => {
                life.end(CloseMode::Hold(SILENT_CLOSE_DELAY_MS));
            }
            Err(AuthFailure::Refused) => {
                let text = format!(
                    "Login was refused using authentication mechanism {}. \
                     For details see the broker logfile.",
                    self.mechanism.as_str()
                );
                life.refuse_handshake(&Error::new(ErrorKind::AccessRefused, text), NO_METHOD);
            }
            Err(AuthFailure::Error(error)) => life.refuse_handshake(&error, NO_METHOD),
        }
    }

    /// COMPAT: a value out of range is answered by silence and the end of the socket.
    fn tune_ok(life: &mut Lifecycle, now: Now, tune_ok: ConnectionTuneOk) {
        let Settings { channel_max, frame_max, .. } = *life.settings;
        let checked =
            check_negotiated("channel_max", tune_ok.channel_max.into(), 1, channel_max.into())
                .and_then(|()| {
                    let min = spec::FRAME_MIN_BYTES;
                    check_negotiated("frame_max", tune_ok.frame_max, min, frame_max)
                });
        if let Err(text) = checked {
            life.failure = Some(text);
            life.end(CloseMode::Hold(SILENT_CLOSE_DELAY_MS));
            return;
        }
        life.negotiated.channel_max = tune_ok.channel_max;
        life.negotiated.frame_max = tune_ok.frame_max;
        life.negotiated.heartbeat_s = tune_ok.heartbeat;
        life.outbox.lock().tuned(tune_ok.frame_max, closing_ms(&life.negotiated));
        life.timers.heartbeats(now, tune_ok.heartbeat);
        life.phase = Phase::Open;
    }

    fn open(life: &mut Lifecycle, open: &ConnectionOpen<'_>) -> Step {
        life.phase = Phase::Opening;
        Step::Open { vhost: String::from_utf8_lossy(open.virtual_host).into_owned() }
    }
}

/// The method id of an error that no method caused.
pub(super) const NO_METHOD: MethodId = MethodId { class: 0, method: 0 };

/// 0 means no limit, which is above any limit.
fn check_negotiated(name: &str, client: u32, min: u32, server: u32) -> Result<(), String> {
    if client != 0 && client < min {
        return Err(format!(
            "negotiated {name} = {client} is lower than the minimum allowed value ({min})"
        ));
    }
    if server != 0 && (client == 0 || client > server) {
        return Err(format!(
            "negotiated {name} = {client} is higher than the maximum allowed value ({server})"
        ));
    }
    Ok(())
}

const fn state_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Header | Phase::Start => "starting",
        Phase::Secure | Phase::Authenticating => "securing",
        Phase::Tune => "tuning",
        Phase::Open | Phase::Opening => "opening",
        Phase::Running => "running",
        Phase::Closing => "closing",
        Phase::Ended => "closed",
    }
}

fn capabilities_of(client_properties: TableRef<'_>) -> Capabilities {
    let capabilities = client_properties.get(b"capabilities");
    let has = |name: &[u8]| {
        let table = capabilities.and_then(|value| value.as_table());
        table.and_then(|table| table.get(name)).and_then(|value| ValueRef::as_bool(&value))
            == Some(true)
    };
    Capabilities {
        cancel_notify: has(b"consumer_cancel_notify"),
        blocked: has(b"connection.blocked"),
        authentication_failure_close: has(b"authentication_failure_close"),
    }
}

fn mechanism_names(mechanisms: &[Mechanism]) -> String {
    let names: Vec<&str> = mechanisms.iter().map(|mechanism| mechanism.as_str()).collect();
    names.join(" ")
}

fn put_start(properties: &[u8], mechanisms: &str, out: &mut Vec<u8>) {
    ConnectionStart {
        version_major: 0,
        version_minor: 9,
        server_properties: TableRef::trusted(properties),
        mechanisms: mechanisms.as_bytes(),
        locales: b"en_US",
    }
    .encode_frame(0, out);
}
