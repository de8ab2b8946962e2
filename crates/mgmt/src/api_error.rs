//! An error of the management API: a kind that programs look at, and a text for people.

use api::ErrorCode;
use meta::MetaError;

/// An error answer of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The kind.
    pub kind: ErrorCode,
    /// The kind's detail: a name, or a sentence.
    pub text: String,
}

impl ApiError {
    /// An error of a kind.
    pub fn new(kind: ErrorCode, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// The error of a value that is not allowed.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::Invalid, text)
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
            MetaError::VhostNotFound(vhost) => Self::new(ErrorCode::NoSuchVhost, vhost.as_str()),
            MetaError::VhostProtected(vhost) => {
                Self::new(ErrorCode::VhostProtected, vhost.as_str())
            }
            MetaError::UserNotFound(user) => Self::new(ErrorCode::NoSuchUser, user.as_str()),
            MetaError::UserExists(user) => Self::new(ErrorCode::UserExists, user.as_str()),
            MetaError::NotFound(_) | MetaError::QueueIdNotFound(_) => {
                Self::new(ErrorCode::NotFound, error.to_string())
            }
            MetaError::ItemNotFound(_) => {
                Self::new(ErrorCode::ParameterNotFound, error.to_string())
            }
            // COMPAT: RabbitMQ's tool exits as after a wrong use.
            MetaError::VhostLimit { .. } => Self::new(ErrorCode::Limit, error.to_string()),
            MetaError::InUse(_) => Self::new(ErrorCode::InUse, error.to_string()),
            MetaError::Locked(_) => Self::new(ErrorCode::Locked, error.to_string()),
            // COMPAT: RabbitMQ's tool shows the Erlang term.
            MetaError::InvalidPattern { pattern, reason } => {
                Self::invalid(format!("{{:invalid_regexp, '{pattern}', {{'{reason}', 0}}}}"))
            }
            _ => Self::invalid(error.to_string()),
        }
    }
}
