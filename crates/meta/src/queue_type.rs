//! The types of queue and what they can do, the format one is stored in, the connection it may belong to.

/// The types of queue that this node offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueKind {
    /// A queue on one node.
    Classic,
    /// A state machine over a log that can be replicated.
    Quorum,
    /// A log that consumers read, each from where it likes.
    Stream,
}

/// A queue type of RabbitMQ and its capabilities. Which arguments and policies it knows is said by the rows
/// of `setting::SETTINGS`.
#[derive(Debug)]
pub(crate) struct QueueType {
    /// The type.
    pub(crate) kind: QueueKind,
    /// The name used in `x-queue-type`.
    pub(crate) name: &'static str,
    /// Its module, as RabbitMQ's texts name it.
    pub(crate) module: &'static str,
    /// The word of policies that apply to this type alone.
    apply_to: &'static str,
    /// Whether its queues may be exclusive, auto-delete, or not durable.
    pub(crate) is_for_temporary: bool,
    /// Whether the broker makes names for its queues.
    is_server_named: bool,
    /// Whether of an argument and a policy the policy counts, whatever the row of the setting says.
    pub(crate) policy_counts: bool,
    /// How its queues keep messages.
    keeping: Keeping,
    /// Failed deliveries after which a message is gone, where nothing else is asked for.
    pub(crate) delivery_limit_default: Option<u32>,
}

/// How queues of a type keep messages.
#[derive(Debug)]
struct Keeping {
    /// Whether the node's log keeps persistent messages of durable queues.
    is_logged: bool,
    /// Whether transient messages are kept like persistent ones, so that their confirms wait for that too.
    keeps_transient: bool,
    /// Whether queues know publishers by name, and drop what these publish again.
    knows_publishers: bool,
}

pub(crate) static CLASSIC: QueueType = QueueType {
    kind: QueueKind::Classic,
    name: "classic",
    module: "rabbit_classic_queue",
    apply_to: "classic_queues",
    is_for_temporary: true,
    is_server_named: true,
    policy_counts: false,
    keeping: Keeping { is_logged: true, keeps_transient: false, knows_publishers: false },
    delivery_limit_default: None,
};

pub(crate) static QUORUM: QueueType = QueueType {
    kind: QueueKind::Quorum,
    name: "quorum",
    module: "rabbit_quorum_queue",
    apply_to: "quorum_queues",
    is_for_temporary: false,
    is_server_named: false,
    policy_counts: false,
    keeping: Keeping { is_logged: true, keeps_transient: true, knows_publishers: true },
    delivery_limit_default: Some(20),
};

pub(crate) static STREAM: QueueType = QueueType {
    kind: QueueKind::Stream,
    name: "stream",
    module: "rabbit_stream_queue",
    apply_to: "streams",
    is_for_temporary: false,
    is_server_named: false,
    policy_counts: true,
    keeping: Keeping { is_logged: false, keeps_transient: true, knows_publishers: false },
    delivery_limit_default: None,
};

impl PartialEq for QueueType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for QueueType {}

impl QueueType {
    /// The type of that name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        [&CLASSIC, &QUORUM, &STREAM].into_iter().find(|one| one.name == name)
    }
}

impl QueueKind {
    pub(crate) const fn capabilities(self) -> &'static QueueType {
        match self {
            Self::Classic => &CLASSIC,
            Self::Quorum => &QUORUM,
            Self::Stream => &STREAM,
        }
    }

    /// The name used in `x-queue-type`.
    pub const fn as_str(self) -> &'static str {
        self.capabilities().name
    }

    /// The type of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        QueueType::find(name).map(|found| found.kind)
    }

    /// The word of policies that apply to this type alone.
    pub(crate) const fn apply_to(self) -> &'static str {
        self.capabilities().apply_to
    }

    /// Whether the broker makes names for its queues.
    pub(crate) const fn is_server_named(self) -> bool {
        self.capabilities().is_server_named
    }

    /// Whether the node's log keeps persistent messages of durable queues.
    pub const fn is_logged(self) -> bool {
        self.capabilities().keeping.is_logged
    }

    /// Whether transient messages are kept like persistent ones, so that their confirms wait for that too.
    pub const fn keeps_transient(self) -> bool {
        self.capabilities().keeping.keeps_transient
    }

    /// Whether the node's log keeps transient messages too.
    pub const fn logs_transient(self) -> bool {
        self.is_logged() && self.keeps_transient()
    }

    /// Whether queues know publishers by name, and drop what these publish again.
    pub const fn knows_publishers(self) -> bool {
        self.capabilities().keeping.knows_publishers
    }

    /// Whether its queues may be exclusive, auto-delete, or not durable.
    pub(crate) const fn is_for_temporary(self) -> bool {
        self.capabilities().is_for_temporary
    }
}

/// The format a classic queue is stored in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueVersion {
    /// The older format.
    V1,
    /// The newer format.
    #[default]
    V2,
}

impl QueueVersion {
    /// The version as a number.
    pub const fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// The version of that number, if there is one.
    #[must_use]
    pub const fn of_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            _ => None,
        }
    }
}

/// A client connection, as far as it can own queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);
