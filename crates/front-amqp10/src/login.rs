//! The handshake, from the first protocol header to the second: SASL's layer, in which the client chooses a
//! mechanism and proves who it is.

use crate::life::{ConnectionLife, ConnectionPhase, InputReading};
use crate::settings::ConnectionSettings;
use amqp10::{
    FrameType, PROTOCOL_HEADER_BYTES, ProtocolLayer, SaslChallenge, SaslCode, SaslInit,
    SaslMechanisms, SaslOutcome, SaslPerformative, Symbols, decode_frame,
};
use edge::{AuthFailure, Login, Mechanism, Proof, Step, sasl};
use session::Table;

/// The login of a connection, as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct SaslLogin {
    /// The login whose rest the client is asked for.
    challenged: Option<Box<Login>>,
}

/// The next step of a login.
enum LoginStep {
    /// The caller is to check the login.
    Check(Box<Login>),
    /// The client is asked for more.
    Challenged,
    /// The login cannot succeed. The reason is for the log.
    Refused(String),
}

impl SaslLogin {
    /// Reads a protocol header: SASL's, or AMQP's behind a login.
    pub(crate) fn header(
        life: &mut ConnectionLife,
        reading: &mut InputReading<'_>,
    ) -> Option<Step> {
        let Some(header) = reading.rest().first_chunk::<PROTOCOL_HEADER_BYTES>() else {
            reading.wanted = PROTOCOL_HEADER_BYTES;
            return Some(Step::More);
        };
        reading.at += PROTOCOL_HEADER_BYTES;
        match (life.phase, ProtocolLayer::of_header(*header)) {
            (ConnectionPhase::SaslHeader, Some(ProtocolLayer::Sasl)) => {
                life.out.extend_from_slice(&ProtocolLayer::Sasl.header());
                put_mechanisms(&life.settings, &mut life.out);
                life.phase = ConnectionPhase::Sasl;
            }
            (ConnectionPhase::AmqpHeader, Some(ProtocolLayer::Amqp)) => {
                life.out.extend_from_slice(&ProtocolLayer::Amqp.header());
                life.phase = ConnectionPhase::Open;
            }
            // COMPAT: whatever else a client speaks, it is told that SASL comes first.
            _ => {
                life.out.extend_from_slice(&ProtocolLayer::Sasl.header());
                life.turn_away(format!("unsupported protocol header {header:?}"));
            }
        }
        None
    }

    /// Reads a frame of the login.
    pub(crate) fn frame(
        &mut self,
        life: &mut ConnectionLife,
        reading: &mut InputReading<'_>,
    ) -> Option<Step> {
        let found = decode_frame(reading.rest(), FrameType::Sasl, life.frame_bytes_max());
        let (frame, used) = match found {
            Ok(Some(found)) => found,
            Ok(None) => return Some(reading.wait_for_frame()),
            Err(error) => {
                life.turn_away(error.to_string());
                return None;
            }
        };
        reading.at += used;
        let performative = match SaslPerformative::decode(frame.body) {
            Ok(performative) => performative,
            Err(error) => {
                life.turn_away(error.to_string());
                return None;
            }
        };
        match self.receive(life, &performative) {
            LoginStep::Check(login) => {
                life.phase = ConnectionPhase::Authenticating;
                Some(Step::Authenticate(login))
            }
            LoginStep::Challenged => None,
            LoginStep::Refused(reason) => {
                life.refuse(reason);
                None
            }
        }
    }

    fn receive(
        &mut self,
        life: &mut ConnectionLife,
        performative: &SaslPerformative<'_>,
    ) -> LoginStep {
        match (performative, self.challenged.take()) {
            (SaslPerformative::Init(init), None) => self.init(life, init),
            (SaslPerformative::Response(answer), Some(login)) => {
                let proof = sasl::parse_answer(answer.response);
                LoginStep::Check(Box::new(Login { proof, ..*login }))
            }
            _ => LoginStep::Refused("unexpected SASL frame".to_owned()),
        }
    }

    fn init(&mut self, life: &mut ConnectionLife, init: &SaslInit<'_>) -> LoginStep {
        let name = init.mechanism.0;
        let offered = |mechanism: &Mechanism| life.settings.mechanisms.contains(mechanism);
        let Some(mechanism) = Mechanism::from_name(name).filter(offered) else {
            return LoginStep::Refused(format!("unsupported authentication mechanism '{name}'"));
        };
        let (user, proof) = mechanism.parse(init.initial_response.unwrap_or_default());
        let challenge = mechanism.challenge().filter(|_| !matches!(proof, Proof::Malformed));
        let client_properties = Table::new();
        let login =
            Box::new(Login { mechanism: mechanism.as_str(), user, proof, client_properties });
        let Some(challenge) = challenge else { return LoginStep::Check(login) };
        SaslPerformative::Challenge(SaslChallenge { challenge }).encode_frame(&mut life.out);
        self.challenged = Some(login);
        LoginStep::Challenged
    }

    /// The caller's answer to a login.
    pub(crate) fn answer(life: &mut ConnectionLife, result: Result<(), AuthFailure>) {
        if life.phase != ConnectionPhase::Authenticating {
            return;
        }
        let reason = match result {
            Ok(()) => {
                put_outcome(SaslCode::Ok, &mut life.out);
                life.phase = ConnectionPhase::AmqpHeader;
                return;
            }
            Err(AuthFailure::Refused) => "the login was refused".to_owned(),
            Err(AuthFailure::Malformed) => "the response was malformed".to_owned(),
            Err(AuthFailure::Error(error)) => error.text.into_owned(),
        };
        life.refuse(reason);
    }

    /// Tells a client that its login was refused.
    pub(crate) fn tell_refusal(life: &mut ConnectionLife) {
        if life.phase != ConnectionPhase::Refused {
            return;
        }
        put_outcome(SaslCode::Auth, &mut life.out);
        life.end();
    }
}

fn put_mechanisms(settings: &ConnectionSettings, out: &mut Vec<u8>) {
    let names: Vec<&str> = settings.mechanisms.iter().map(|it| it.as_str()).collect();
    let mechanisms = SaslMechanisms { sasl_server_mechanisms: Symbols::Listed(&names) };
    SaslPerformative::Mechanisms(mechanisms).encode_frame(out);
}

/// Appends the outcome of a login.
fn put_outcome(code: SaslCode, out: &mut Vec<u8>) {
    let outcome = SaslOutcome { code, additional_data: None };
    SaslPerformative::Outcome(outcome).encode_frame(out);
}
