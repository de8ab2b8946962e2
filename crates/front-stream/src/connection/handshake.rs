//! The handshake, from a client's properties to an open virtual host, and credentials that are renewed later.
//!
//! COMPAT: before a virtual host is open RabbitMQ closes the socket without a word for everything that may
//! not come then.

use super::{Lifecycle, Phase, smaller};
use crate::outbox::AdvertisedAddress;
use edge::{AuthFailure, Login, Mechanism, Proof, Step, sasl};
use session::{Error, ShortString, Table, Value};
use stdx::{Now, RABBITMQ_VERSION};
use streamproto::command::{
    OpenResponse, PeerProperties, PeerPropertiesResponse, Property, SaslAuthenticate,
    SaslAuthenticateResponse, SaslHandshakeResponse, Tune,
};
use streamproto::{CodeResponse, Command as _, Key, List, ResponseCode, ToServer};

/// The login of a connection, as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    client_properties: Table,
    /// The mechanism and the user of the login, once there was one.
    logged_in: Option<(Mechanism, String)>,
    /// The login whose rest the client is asked for.
    challenged: Option<Box<Login>>,
    /// The id of the request that is being answered.
    correlation_id: u32,
    /// The name that the cluster was given.
    pub(super) cluster_name: Option<String>,
}

impl Handshake {
    /// Handles a command before the virtual host is open.
    pub(super) fn command(
        &mut self,
        life: &mut Lifecycle,
        now: Now,
        command: &ToServer<'_>,
    ) -> Option<Step> {
        match (life.phase, command) {
            (Phase::PeerProperties, ToServer::PeerProperties(properties)) => {
                self.peer_properties(life, properties);
                None
            }
            (Phase::SaslHandshake, ToServer::SaslHandshake(asked)) => {
                put_mechanisms(life, asked.correlation_id);
                life.phase = Phase::Authenticate;
                None
            }
            (Phase::Authenticate, ToServer::SaslAuthenticate(login)) => {
                self.authenticate(life, login)
            }
            (Phase::Tune, ToServer::Tune(tune)) => {
                tuned(life, now, tune.frame_max, tune.heartbeat_secs);
                None
            }
            (Phase::Tune, ToServer::TuneResponse(tune)) => {
                tuned(life, now, tune.frame_max, tune.heartbeat_secs);
                None
            }
            (Phase::Open, ToServer::Open(open)) => {
                self.correlation_id = open.correlation_id;
                life.phase = Phase::Opening;
                Some(Step::Open { vhost: open.virtual_host.to_owned() })
            }
            (_, command) => {
                life.turn_away(format!(
                    "unexpected {} before the connection is open",
                    command.id()
                ));
                None
            }
        }
    }

    fn peer_properties(&mut self, life: &mut Lifecycle, properties: &PeerProperties<'_>) {
        self.client_properties = properties
            .properties
            .iter()
            .map(|property| (ShortString::truncated(property.key), Value::from(property.value)))
            .collect();
        self.put_server_properties(life, properties.correlation_id);
        life.phase = Phase::SaslHandshake;
    }

    fn put_server_properties(&self, life: &Lifecycle, correlation_id: u32) {
        let property = |key, value| Property { key, value };
        let properties = [
            property(
                "cluster_name",
                self.cluster_name.as_ref().unwrap_or(&life.settings.cluster_name),
            ),
            property("copyright", "Copyright (c) the Leveret authors"),
            property("information", "Licensed under the Apache License 2.0"),
            property("leveret_version", &life.settings.version),
            property("platform", "Leveret"),
            // COMPAT: clients look at product and version to know what they may use.
            property("product", "RabbitMQ"),
            property("version", RABBITMQ_VERSION),
        ];
        let (code, properties) = (ResponseCode::OK, List::of(&properties));
        let response = PeerPropertiesResponse { correlation_id, code, properties };
        life.outbox.lock().put(|out| response.encode_frame(out));
    }

    fn authenticate(
        &mut self,
        life: &mut Lifecycle,
        request: &SaslAuthenticate<'_>,
    ) -> Option<Step> {
        self.correlation_id = request.correlation_id;
        let offered = |mechanism: &Mechanism| life.settings.mechanisms.contains(mechanism);
        let Some(mechanism) = Mechanism::from_name(request.mechanism).filter(offered) else {
            put_login_answer(life, self.correlation_id, ResponseCode::SASL_MECHANISM_NOT_SUPPORTED);
            let name = request.mechanism;
            life.turn_away(format!("unsupported authentication mechanism '{name}'"));
            return None;
        };
        if let Some(login) = self.challenged.take().filter(|it| it.mechanism == mechanism.as_str())
        {
            let proof = sasl::parse_answer(request.data);
            return Some(self.check(life, mechanism, Login { proof, ..*login }));
        }
        let (user, proof) = mechanism.parse(request.data);
        let challenge = mechanism.challenge().filter(|_| !matches!(proof, Proof::Malformed));
        let client_properties = self.client_properties.clone();
        let login = Login { mechanism: mechanism.as_str(), user, proof, client_properties };
        if let Some(challenge) = challenge {
            let correlation_id = self.correlation_id;
            let code = ResponseCode::SASL_CHALLENGE;
            let answer = SaslAuthenticateResponse { correlation_id, code, data: challenge };
            put_counted(life, code, |out| answer.encode_frame(out));
            self.challenged = Some(Box::new(login));
            return None;
        }
        Some(self.check(life, mechanism, login))
    }

    fn check(&mut self, life: &mut Lifecycle, mechanism: Mechanism, login: Login) -> Step {
        self.logged_in = Some((mechanism, login.user.clone()));
        life.phase = Phase::Authenticating;
        Step::Authenticate(Box::new(login))
    }

    pub(super) fn answer_login(
        &self,
        life: &mut Lifecycle,
        now: Now,
        result: Result<(), AuthFailure>,
    ) {
        match result {
            Ok(()) => {
                put_login_answer(life, self.correlation_id, ResponseCode::OK);
                let (frame_max, heartbeat_secs) =
                    (life.settings.frame_max, life.settings.heartbeat_s);
                let tune = Tune { frame_max, heartbeat_secs };
                life.outbox.lock().put(|out| tune.encode_frame(out));
                life.phase = Phase::Tune;
            }
            Err(failure) => self.refuse_login(life, now, failure),
        }
    }

    fn refuse_login(&self, life: &mut Lifecycle, now: Now, failure: AuthFailure) {
        let (code, reason) = match failure {
            AuthFailure::Refused => {
                (ResponseCode::AUTHENTICATION_FAILURE, "the login was refused".to_owned())
            }
            AuthFailure::Malformed => {
                (ResponseCode::SASL_ERROR, "the response was malformed".to_owned())
            }
            AuthFailure::Error(error) => {
                (ResponseCode::VIRTUAL_HOST_ACCESS_FAILURE, error.text.to_string())
            }
        };
        let answer = login_answer(self.correlation_id, code);
        life.refuse(now, code, reason, |out| answer.encode_frame(out));
    }

    /// A client that runs brings new credentials: the same mechanism, the same user.
    pub(super) fn renew(
        &mut self,
        life: &mut Lifecycle,
        now: Now,
        request: &SaslAuthenticate<'_>,
    ) -> Option<Step> {
        let Some((mechanism, user)) = self.logged_in.clone() else { return Some(Step::Close) };
        self.correlation_id = request.correlation_id;
        if request.mechanism != mechanism.as_str() {
            let code = ResponseCode::SASL_CANNOT_CHANGE_MECHANISM;
            let answer = login_answer(self.correlation_id, code);
            let reason = format!("the mechanism {} cannot be changed", mechanism.as_str());
            life.refuse(now, code, reason, |out| answer.encode_frame(out));
            return None;
        }
        life.phase = Phase::Authenticate;
        let step = self.authenticate(life, request);
        match step {
            Some(Step::Authenticate(login))
                if login.user != user && !matches!(login.proof, Proof::Malformed) =>
            {
                let code = ResponseCode::SASL_CANNOT_CHANGE_USERNAME;
                let answer = login_answer(self.correlation_id, code);
                let reason = "the user cannot be changed".to_owned();
                life.refuse(now, code, reason, |out| answer.encode_frame(out));
                None
            }
            Some(step) => {
                life.phase = Phase::Renewing;
                Some(step)
            }
            None => {
                if life.phase == Phase::Authenticate {
                    life.phase = Phase::Running;
                }
                None
            }
        }
    }

    pub(super) fn answer_renewal(
        &self,
        life: &mut Lifecycle,
        now: Now,
        result: Result<(), AuthFailure>,
    ) {
        match result {
            Ok(()) => {
                put_login_answer(life, self.correlation_id, ResponseCode::OK);
                life.phase = Phase::Running;
            }
            Err(failure) => self.refuse_login(life, now, failure),
        }
    }

    pub(super) fn answer_open(&self, life: &mut Lifecycle, now: Now, result: Result<(), Error>) {
        let correlation_id = self.correlation_id;
        if let Err(error) = result {
            let code = ResponseCode::VIRTUAL_HOST_ACCESS_FAILURE;
            let response = OpenResponse { correlation_id, code, properties: List::default() };
            life.refuse(now, code, error.text.to_string(), |out| response.encode_frame(out));
            return;
        }
        let mut locked = life.outbox.lock();
        let AdvertisedAddress { host, port } = locked.advertised();
        let (host, port) = (host.clone(), port.to_string());
        let properties = [
            Property { key: "advertised_host", value: &host },
            Property { key: "advertised_port", value: &port },
        ];
        let properties = List::of(&properties);
        let response = OpenResponse { correlation_id, code: ResponseCode::OK, properties };
        locked.put(|out| response.encode_frame(out));
        drop(locked);
        life.frame_max = smaller(life.negotiated.frame_max, 0);
        life.phase = Phase::Running;
        life.timers.handshake_is_done();
        life.timers.heartbeats(now, life.negotiated.heartbeat_s);
    }
}

/// Takes the client's limits. Frames are as small as before until the virtual host is open.
fn tuned(life: &mut Lifecycle, now: Now, frame_max: u32, heartbeat_secs: u32) {
    let ours = life.settings.frame_max;
    life.negotiated.frame_max = match (frame_max, ours) {
        (0, other) | (other, 0) => other,
        (client, ours) => client.min(ours),
    };
    life.negotiated.heartbeat_s = u16::try_from(heartbeat_secs).unwrap_or(u16::MAX);
    life.timers.heartbeats(now, life.negotiated.heartbeat_s);
    life.phase = Phase::Open;
}

const fn login_answer(correlation_id: u32, code: ResponseCode) -> CodeResponse {
    CodeResponse { key: Key::SaslAuthenticate, correlation_id, code }
}

fn put_login_answer(life: &Lifecycle, correlation_id: u32, code: ResponseCode) {
    let answer = login_answer(correlation_id, code);
    put_counted(life, code, |out| answer.encode_frame(out));
}

fn put_counted(life: &Lifecycle, code: ResponseCode, encode: impl FnOnce(&mut Vec<u8>)) {
    let mut locked = life.outbox.lock();
    locked.note_refused(code);
    locked.put(encode);
}

fn put_mechanisms(life: &Lifecycle, correlation_id: u32) {
    let names: Vec<&str> = life.settings.mechanisms.iter().map(|it| it.as_str()).collect();
    let (code, mechanisms) = (ResponseCode::OK, List::of(&names));
    let response = SaslHandshakeResponse { correlation_id, code, mechanisms };
    life.outbox.lock().put(|out| response.encode_frame(out));
}
