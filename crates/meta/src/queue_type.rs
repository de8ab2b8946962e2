//! The types of queue and what they can do, the format one is stored in, the connection it may belong to.

use crate::error::MetaError;

/// A queue type of RabbitMQ and its capabilities. Which arguments and policies it knows is said by the rows
/// of `setting::SETTINGS`.
#[derive(Debug)]
pub(crate) struct QueueType {
    /// The type.
    pub(crate) kind: QueueKind,
    /// Its module, as RabbitMQ's texts name it.
    pub(crate) module: &'static str,
    /// Whether its queues may be exclusive, auto-delete, or not durable.
    pub(crate) is_for_temporary: bool,
    /// Whether the broker makes names for its queues.
    is_server_named: bool,
    placement: Placement,
    /// Whether of an argument and a policy the policy counts, whatever the row of the setting says.
    pub(crate) policy_counts: bool,
    /// How its queues keep messages.
    keeping: Keeping,
    /// Failed deliveries after which a message is gone, where nothing else is asked for.
    pub(crate) delivery_limit_default: Option<u32>,
}

/// The nodes that hold a queue.
#[derive(Debug)]
enum Placement {
    OneNode,
    /// The nodes of its members.
    Members,
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

/// The types: `VARIANT ROW = NAME, VARIANT of ApplyTo = WORD: COLUMNS`.
macro_rules! queue_types {
    ($(
        $(#[$meta:meta])*
        $kind:ident $row:ident = $name:literal, $policy:ident = $word:literal:
        $($column:ident: $value:expr),*;
    )*) => {
        stdx::named! {
            /// The types of queue that this node offers, by their names in `x-queue-type`.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            pub enum QueueKind { $($(#[$meta])* $kind = $name,)* }
        }

        stdx::named! {
            /// The kinds of object a policy applies to.
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub enum ApplyTo {
                /// Exchanges and queues.
                #[default]
                All = "all",
                /// Exchanges.
                Exchanges = "exchanges",
                /// Queues of all types.
                Queues = "queues",
                $(
                    #[doc = concat!("Queues of the type `", $name, "`.")]
                    $policy = $word,
                )*
            }
        }

        $(pub(crate) static $row: QueueType = QueueType { kind: QueueKind::$kind, $($column: $value),* };)*

        impl QueueKind {
            pub(crate) const fn capabilities(self) -> &'static QueueType {
                match self { $(Self::$kind => &$row,)* }
            }
        }

        impl ApplyTo {
            /// The words of policies that apply to one type of queue.
            const OF_TYPES: [&str; QueueKind::ALL.len()] = [$($word),*];

            pub(crate) const fn covers(self, kind: QueueKind) -> bool {
                match self {
                    Self::All | Self::Queues => true,
                    Self::Exchanges => false,
                    $(Self::$policy => matches!(kind, QueueKind::$kind),)*
                }
            }
        }
    };
}

queue_types! {
    /// A queue on one node.
    Classic CLASSIC = "classic", ClassicQueues = "classic_queues":
        module: "rabbit_classic_queue",
        is_for_temporary: true,
        is_server_named: true,
        placement: Placement::OneNode,
        policy_counts: false,
        keeping: Keeping { is_logged: true, keeps_transient: false, knows_publishers: false },
        delivery_limit_default: None;
    /// A state machine over a log that can be replicated.
    Quorum QUORUM = "quorum", QuorumQueues = "quorum_queues":
        module: "rabbit_quorum_queue",
        is_for_temporary: false,
        is_server_named: false,
        placement: Placement::Members,
        policy_counts: false,
        keeping: Keeping { is_logged: true, keeps_transient: true, knows_publishers: true },
        delivery_limit_default: Some(20);
    /// A log that consumers read, each from where it likes.
    Stream STREAM = "stream", Streams = "streams":
        module: "rabbit_stream_queue",
        is_for_temporary: false,
        is_server_named: false,
        placement: Placement::Members,
        policy_counts: true,
        keeping: Keeping { is_logged: false, keeps_transient: true, knows_publishers: false },
        delivery_limit_default: None;
}

impl PartialEq for QueueType {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Eq for QueueType {}

impl ApplyTo {
    /// The value of that word.
    ///
    /// # Errors
    /// [`MetaError::Invalid`] naming the known words.
    pub fn parse(word: &str) -> Result<Self, MetaError> {
        let [first, others @ ..] = Self::OF_TYPES;
        Self::of_name(word).ok_or_else(|| {
            let others = others.join("', '");
            MetaError::Invalid(format!(
                "apply-to '{word}' unrecognised; should be one of: 'queues', '{first}',  \
                 '{others}', 'exchanges', or 'all'"
            ))
        })
    }

    pub(crate) const fn covers_exchanges(self) -> bool {
        matches!(self, Self::All | Self::Exchanges)
    }
}

impl QueueKind {
    /// Its module, as RabbitMQ's texts and figures name it.
    pub const fn module(self) -> &'static str {
        self.capabilities().module
    }

    /// Whether its queues have members, which nodes can hold.
    pub const fn has_members(self) -> bool {
        matches!(self.capabilities().placement, Placement::Members)
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

impl ConnectionId {
    /// The number of the node that the connection is with.
    #[must_use]
    pub const fn node(self) -> u16 {
        (self.0 >> 48) as u16
    }
}
