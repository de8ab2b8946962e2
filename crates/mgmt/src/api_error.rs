//! An error of the management API: a kind that programs look at, and a text for people.

use meta::MetaError;

/// An error answer of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The kind.
    pub kind: Kind,
    /// The kind's detail: a name, or a sentence.
    pub text: String,
}

stdx::named! {
    /// The kinds of error.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Kind {
        /// The request lacks something, or is not understood.
        BadRequest = "bad_request",
        /// The operator means a node of another name; the text is this node's.
        OtherNode = "other_node",
        /// A user of that name exists.
        UserExists = "user_exists",
        /// The user does not exist.
        NoSuchUser = "no_such_user",
        /// The virtual host does not exist.
        NoSuchVhost = "no_such_vhost",
        /// The virtual host is protected from deletion.
        VhostProtected = "vhost_protected",
        /// The queue or connection does not exist.
        NotFound = "not_found",
        /// The parameter, policy or limit does not exist.
        ParameterNotFound = "parameter_not_found",
        /// A queue has messages.
        NotEmpty = "not_empty",
        /// Something is in use.
        InUse = "in_use",
        /// A queue is exclusive to a connection.
        Locked = "locked",
        /// A value that this version does not offer.
        Unsupported = "unsupported",
        /// A limit allows no more of these objects.
        Limit = "limit",
        /// Name and password do not belong together.
        Refused = "refused",
        /// A value that is not allowed.
        Invalid = "invalid",
        /// The member is a queue's last.
        LastMember = "invalid",
        /// The queue's type has no members.
        NotReplicated = "invalid",
        /// The node has members and does not run.
        NodeNotRunning = "invalid",
        /// The request ended before its work was done: its client has disconnected, or the node is stopping.
        Ended = "ended",
    }
}

impl ApiError {
    /// An error of a kind.
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// The error of a value that is not allowed.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, text)
    }

    /// The error of an invalid policy or parameter. COMPAT: RabbitMQ's words.
    #[must_use]
    pub fn not_valid(reason: &str) -> Self {
        Self::invalid(format!("Validation failed\n\n{reason}\n"))
    }
}

impl From<MetaError> for ApiError {
    fn from(error: MetaError) -> Self {
        #[expect(clippy::wildcard_enum_match_arm, reason = "whatever the tools know no kind for")]
        match error {
            MetaError::VhostNotFound(vhost) => Self::new(Kind::NoSuchVhost, vhost.as_str()),
            MetaError::VhostProtected(vhost) => Self::new(Kind::VhostProtected, vhost.as_str()),
            MetaError::UserNotFound(user) => Self::new(Kind::NoSuchUser, user.as_str()),
            MetaError::UserExists(user) => Self::new(Kind::UserExists, user.as_str()),
            MetaError::NotFound(_) | MetaError::QueueIdNotFound(_) => {
                Self::new(Kind::NotFound, error.to_string())
            }
            MetaError::ItemNotFound(_) => Self::new(Kind::ParameterNotFound, error.to_string()),
            // COMPAT: RabbitMQ's tool exits as after a wrong use.
            MetaError::VhostLimit { .. } => Self::new(Kind::Limit, error.to_string()),
            MetaError::InUse(_) => Self::new(Kind::InUse, error.to_string()),
            MetaError::Locked(_) => Self::new(Kind::Locked, error.to_string()),
            // COMPAT: RabbitMQ's tool shows the Erlang term.
            MetaError::InvalidPattern { pattern, reason } => {
                Self::invalid(format!("{{:invalid_regexp, '{pattern}', {{'{reason}', 0}}}}"))
            }
            _ => Self::invalid(error.to_string()),
        }
    }
}
