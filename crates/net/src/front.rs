//! The protocols that clients are served in: the one place of this crate that tells them apart. A further
//! protocol is a further arm of [`Protocol`] and [`Front`].

use broker::Container;
use edge::{AuthFailure, Progress, TaskOutbox, Tick};
use session::{Error, Negotiated, ProtocolKind, Request, Table};
use std::sync::Arc;
use stdx::Now;

/// Asks the settings or the front of whatever protocol.
macro_rules! each {
    ($of:expr, $one:ident => $answer:expr) => {
        match $of {
            Self::Amqp091($one) => $answer,
            Self::Amqp10($one) => $answer,
            Self::Stream($one) => $answer,
        }
    };
}

/// A protocol that clients are served in, with its settings.
#[derive(Clone, Debug)]
pub enum Protocol {
    /// AMQP 0-9-1.
    Amqp091(Arc<front_amqp091::Settings>),
    /// AMQP 1.0.
    Amqp10(Arc<front_amqp10::ConnectionSettings>),
    /// The stream protocol.
    Stream(Arc<front_stream::Settings>),
}

impl Protocol {
    pub(crate) const fn kind(&self) -> ProtocolKind {
        match self {
            Self::Amqp091(_) => ProtocolKind::Amqp091,
            Self::Amqp10(_) => ProtocolKind::Amqp10,
            Self::Stream(_) => ProtocolKind::Stream,
        }
    }

    /// The time a client has to open a virtual host.
    pub(crate) fn handshake_timeout_ms(&self) -> u64 {
        each!(self, settings => settings.handshake_timeout_ms)
    }

    /// The front of a connection that has come then.
    pub(crate) fn front(&self, arrival: Arrival) -> Front {
        let Arrival { port, cluster_name, accepted, has_other } = arrival;
        match self {
            Self::Amqp091(settings) => {
                let front = front_amqp091::Connection::new(Arc::clone(settings), accepted);
                let front = front.with_cluster_name(cluster_name).beside_amqp10(has_other);
                Front::Amqp091(front)
            }
            Self::Amqp10(settings) => {
                let settings = Arc::clone(settings);
                let front = front_amqp10::ClientConnection::new(settings, cluster_name, accepted);
                Front::Amqp10(Box::new(front))
            }
            Self::Stream(settings) => {
                let front = front_stream::Connection::new(Arc::clone(settings), port, accepted);
                Front::Stream(front.with_cluster_name(cluster_name))
            }
        }
    }
}

/// The arrival of a client.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// The port it has come to.
    pub(crate) port: u16,
    /// The name that the cluster was given.
    pub(crate) cluster_name: Option<String>,
    /// The time at which its connection was accepted.
    pub(crate) accepted: Now,
    /// Whether clients of another protocol are served on the port, too.
    pub(crate) has_other: bool,
}

/// The front of a connection, in the client's protocol.
#[derive(Debug)]
pub(crate) enum Front {
    Amqp091(front_amqp091::Connection),
    /// Apart, so that others take no memory for it.
    Amqp10(Box<front_amqp10::ClientConnection>),
    Stream(front_stream::Connection),
}

impl Front {
    pub(crate) const fn kind(&self) -> ProtocolKind {
        match self {
            Self::Amqp091(_) => ProtocolKind::Amqp091,
            Self::Amqp10(_) => ProtocolKind::Amqp10,
            Self::Stream(_) => ProtocolKind::Stream,
        }
    }

    pub(crate) fn outbox(&self) -> Arc<dyn TaskOutbox> {
        each!(self, front => front.outbox())
    }

    /// Decodes as much of `input` as can be decoded; what is asked for is appended to `requests`.
    pub(crate) fn read(&mut self, now: Now, input: &[u8], requests: &mut Vec<Request>) -> Progress {
        each!(self, front => front.read(now, input, requests))
    }

    /// The buffer in which the requests' heads lie that do not stand in the input.
    pub(crate) fn scratch(&self) -> &[u8] {
        match self {
            Self::Amqp10(front) => front.scratch(),
            Self::Amqp091(_) | Self::Stream(_) => &[],
        }
    }

    /// The outcome of a login that [`Front::read`] asked for.
    pub(crate) fn authenticated(&mut self, now: Now, result: Result<(), AuthFailure>) {
        match self {
            Self::Amqp091(front) => front.authenticated(result),
            Self::Amqp10(front) => front.authenticated(now, result),
            Self::Stream(front) => front.authenticated(now, result),
        }
    }

    /// The outcome of a virtual host's opening that [`Front::read`] asked for.
    pub(crate) fn opened(&mut self, now: Now, result: Result<(), Error>) {
        each!(self, front => front.opened(now, result))
    }

    /// Does what is due by now; says when to ask again at the latest.
    pub(crate) fn tick(&mut self, now: Now) -> Tick {
        each!(self, front => front.tick(now))
    }

    /// Something was written to the socket.
    pub(crate) fn wrote(&mut self, now: Now) {
        each!(self, front => front.wrote(now))
    }

    /// The client is listened to from now on, or not.
    pub(crate) fn set_reading(&mut self, now: Now, reading: bool) {
        each!(self, front => front.set_reading(now, reading))
    }

    /// Bytes of messages of which a part is missing.
    pub(crate) fn unfinished_bytes(&mut self) -> u64 {
        match self {
            Self::Amqp091(front) => front.unfinished_bytes(),
            Self::Amqp10(front) => front.unfinished_bytes(),
            // Its frames are seen whole.
            Self::Stream(_) => 0,
        }
    }

    /// Whether the client has said that it speaks this protocol.
    pub(crate) fn has_begun(&self) -> bool {
        each!(self, front => front.has_begun())
    }

    /// The client's own description, where it comes with the request for a virtual host, not with the login.
    pub(crate) fn client_properties(&self) -> Option<Table> {
        match self {
            Self::Amqp10(front) => Some(front.client_properties()),
            Self::Amqp091(_) | Self::Stream(_) => None,
        }
    }

    /// The client's name for itself, in protocols in which it gives one.
    pub(crate) fn container(&self) -> Option<Container> {
        match self {
            Self::Amqp10(front) => {
                let id = front.container_id()?.into_boxed_str();
                Some(Container { id, is_sole: front.is_sole() })
            }
            Self::Amqp091(_) | Self::Stream(_) => None,
        }
    }

    pub(crate) fn negotiated(&self) -> Negotiated {
        each!(self, front => front.negotiated())
    }

    /// Connections of this protocol at a time; `None` is no limit.
    pub(crate) fn max_connections(&self) -> Option<u64> {
        match self {
            Self::Amqp091(_) | Self::Amqp10(_) => None,
            Self::Stream(front) => front.max_connections(),
        }
    }

    /// The reason, for the log, why the connection ended without a broker's doing.
    pub(crate) fn failure(&self) -> Option<&str> {
        each!(self, front => front.failure())
    }
}
