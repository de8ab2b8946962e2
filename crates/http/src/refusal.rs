//! Why a request is refused: status, and the two texts of RabbitMQ's answers.

use api::ErrorCode;
use axum::http::StatusCode;
use meta::{ErrorKind as MetaErrorKind, FilterError, MetaError};
use mgmt::ApiError;
use serde_json::{Value, json};
use session::{Error, ErrorKind};

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// The kind, as programs look at it.
    pub(crate) error: &'static str,
    /// The reason, for people; empty where there is no body.
    pub(crate) reason: String,
    /// The place in a text of the request: a character, from 1.
    column: Option<usize>,
    /// Kind and text, as operators of this machine are told.
    told: Option<ApiError>,
}

impl Refusal {
    pub(crate) fn bad_request(reason: impl Into<String>) -> Self {
        Self::of_status(StatusCode::BAD_REQUEST, "bad_request", reason)
    }

    /// A name that AMQP 0-9-1 does not take.
    pub(crate) fn too_long(name: &str) -> Self {
        Self::bad_request(format!("{name:.32}... is longer than 255 bytes"))
    }

    /// An object that a change needs does not exist.
    pub(crate) fn lacks(reason: impl Into<String>) -> Self {
        Self::of_status(StatusCode::NOT_FOUND, "not_found", reason)
    }

    /// The fault is the node's.
    pub(crate) fn internal() -> Self {
        let text = "the request could not be answered";
        let code = ErrorCode::Internal.as_str();
        Self::of_status(StatusCode::INTERNAL_SERVER_ERROR, code, text)
    }

    /// A request with too few rights. COMPAT: the status is 401 as for a wrong password, spelled otherwise.
    pub(crate) fn not_authorised(reason: impl Into<String>) -> Self {
        Self::of_status(StatusCode::UNAUTHORIZED, "not_authorised", reason)
    }

    pub(crate) fn not_yours() -> Self {
        Self::not_authorised("User not authorised to access object")
    }

    /// Something that does not work now.
    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::of_status(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", reason)
    }

    /// A request beyond the limits of its user, or of the node.
    pub(crate) fn too_many(reason: impl Into<String>) -> Self {
        Self::of_status(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", reason)
    }

    /// The present state differs from what the request expects.
    pub(crate) fn conflict(text: String) -> Self {
        let refusal = Self::from(ApiError { kind: ErrorCode::Invalid, text });
        Self { status: StatusCode::CONFLICT, error: "conflict", ..refusal }
    }

    /// A body of another kind than is expected.
    pub(crate) fn media_type(reason: &str) -> Self {
        Self::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", reason)
    }

    /// A request without a login. The reason is empty: browsers ask for one, other clients see the header.
    pub(crate) fn unauthorized() -> Self {
        Self::of_status(StatusCode::UNAUTHORIZED, "not_authorized", "")
    }

    pub(crate) fn not_found() -> Self {
        Self::of_status(StatusCode::NOT_FOUND, "Object Not Found", "Not Found")
    }

    pub(crate) fn of_status(
        status: StatusCode,
        error: &'static str,
        reason: impl Into<String>,
    ) -> Self {
        Self { status, error, reason: reason.into(), column: None, told: None }
    }

    /// The refusal's body: as users are told, or as operators of this machine are.
    pub(crate) fn to_json(&self, is_local: bool) -> Value {
        match &self.told {
            Some(ApiError { kind, text }) if is_local => {
                json!({"error": kind.as_str(), "reason": text})
            }
            _ => {
                let mut told = json!({"error": self.error, "reason": self.reason});
                if let (Some(column), Some(told)) = (self.column, told.as_object_mut()) {
                    told.insert("column".to_owned(), column.into());
                }
                told
            }
        }
    }
}

impl From<FilterError> for Refusal {
    fn from(error: FilterError) -> Self {
        let refusal = Self::bad_request(format!("filter, {error}"));
        Self { column: Some(error.column), ..refusal }
    }
}

impl From<MetaError> for Refusal {
    fn from(error: MetaError) -> Self {
        let refusal = Self::of(&error);
        Self { told: Some(error.into()), ..refusal }
    }
}

impl From<ApiError> for Refusal {
    fn from(refused: ApiError) -> Self {
        let refusal = Self::as_told(refused.clone());
        Self { told: Some(refused), ..refusal }
    }
}

impl Refusal {
    #[expect(clippy::wildcard_enum_match_arm, reason = "everything else is the request's fault")]
    fn of(error: &MetaError) -> Self {
        if let MetaError::VhostProtected(_) = error {
            let status = StatusCode::PRECONDITION_FAILED;
            return Self::of_status(status, "precondition_failed", error.to_string());
        }
        match error.kind() {
            MetaErrorKind::NotFound => Self::not_found(),
            MetaErrorKind::AccessRefused => Self::not_authorised(error.to_string()),
            _ => Self::bad_request(error.to_string()),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "everything else is the request's fault")]
    fn as_told(refused: ApiError) -> Self {
        match refused.kind {
            ErrorCode::NoSuchUser
            | ErrorCode::NoSuchVhost
            | ErrorCode::NotFound
            | ErrorCode::ParameterNotFound => Self::not_found(),
            ErrorCode::VhostProtected => {
                let vhost = &refused.text;
                let text = format!(
                    "Refusing to delete virtual host '{vhost}' because it is protected from deletion"
                );
                Self::of_status(StatusCode::PRECONDITION_FAILED, "precondition_failed", text)
            }
            ErrorCode::Refused | ErrorCode::LoginRefused => Self::not_authorised(refused.text),
            ErrorCode::HomeDown => Self::lacks(refused.text),
            ErrorCode::Ended => Self::unavailable(refused.text),
            ErrorCode::Internal => Self::internal(),
            _ => Self::bad_request(refused.text),
        }
    }
}

impl From<Error> for Refusal {
    /// The close that a channel or connection of AMQP 0-9-1 would see.
    #[expect(clippy::wildcard_enum_match_arm, reason = "everything else is the request's fault")]
    fn from(error: Error) -> Self {
        let text = error.text.into_owned();
        match error.kind {
            ErrorKind::NotFound => Self::lacks(text),
            ErrorKind::AccessRefused
            | ErrorKind::ExclusiveUse
            | ErrorKind::InternalExchange
            | ErrorKind::NotAllowed
            | ErrorKind::VhostNotFound
            | ErrorKind::VhostRefused
            | ErrorKind::LimitReached => Self::not_authorised(text),
            ErrorKind::ConnectionForced => Self::unavailable(text),
            _ => Self::bad_request(text),
        }
    }
}
