//! The exchange between a connection's task and its front, turn by turn.

use session::{Error, Table};
use stdx::MonotonicMs;

/// The outcome of a read.
#[derive(Debug)]
pub struct Progress {
    /// The number of bytes of the input that may be dropped, once the requests are worked off.
    pub consumed: usize,
    /// Bytes of input, counted after the consumed ones, without which a further read is in vain;
    /// 0 when that is not known.
    pub wanted: usize,
    /// The step to take after the requests are worked off.
    pub step: Step,
}

/// The event that the connection waits for.
#[derive(Debug)]
pub enum Step {
    /// More input.
    More,
    /// Another call with the rest of the input.
    Again,
    /// A login to be checked; the front is told the outcome.
    Authenticate(Box<Login>),
    /// A virtual host to be opened; the front is told the outcome.
    Open {
        /// The virtual host the client asks for.
        vhost: String,
    },
    /// The client speaks the other protocol of its port: nothing was consumed, and nothing said to it.
    SpeaksOther,
    /// The end: input is dropped from here on. The outbox says when and how to close.
    Close,
}

/// The client's login.
pub struct Login {
    /// The name of its SASL mechanism.
    pub mechanism: &'static str,
    /// The user; empty for anonymous.
    pub user: String,
    /// The client's proof of being that user.
    pub proof: Proof,
    /// The client's own description.
    pub client_properties: Table,
}

/// A client's proof of being a user.
pub enum Proof {
    /// No proof, where no password is asked for.
    Nothing,
    /// A password.
    Password(Vec<u8>),
    /// A response that the mechanism does not have: the login fails, whatever it may have meant.
    Malformed,
}

impl Proof {
    /// The password, if there is one.
    #[must_use]
    pub fn password(&self) -> Option<&[u8]> {
        match self {
            Self::Password(password) => Some(password),
            Self::Nothing | Self::Malformed => None,
        }
    }
}

stdx::debug_of!(|it: Login| mechanism = it.mechanism, user = it.user);

/// The reason why a login fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthFailure {
    /// User and password do not fit, or the user may not come from there: the client is told no
    /// more than that.
    Refused,
    /// The client's response was malformed.
    Malformed,
    /// Another reason, told as it is.
    Error(Error),
}

/// The outcome of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// The connection goes on; a heartbeat may have been put into the outbox. Ask again at this time;
    /// `None` for no earlier than something else happens.
    Next(Option<MonotonicMs>),
    /// The connection goes on as with `Next`, and has become idle: buffers are to be given back.
    Idle(Option<MonotonicMs>),
    /// The peer is dead or too slow: drop the socket. The reason is for the log.
    Dead(&'static str),
}

/// The reason for dropping a connection whose client was silent for too long. COMPAT: RabbitMQ's words.
pub const MISSED_HEARTBEATS: &str = "missed heartbeats from client";
