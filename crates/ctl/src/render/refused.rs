//! The texts of the node's errors, by their codes and by the verb's wording.

use crate::failure::{Failure, code};
use crate::output::Format;
use crate::verb::{Invocation, Wording};
use api::ErrorCode;
use serde_json::json;

/// The failure of a verb that the node has refused. `text` is the error's detail: a name, or a sentence.
pub(crate) fn refused(invocation: &Invocation, error: ErrorCode, text: &str) -> Failure {
    let wording = invocation.verb.wording;
    let failed = |code| Failure::error(code, text);
    if invocation.format == Format::Json
        && let Some(message) = message_for_machines(wording, error, text)
    {
        let object = json!({"result": "error", "node": invocation.node(), "message": message});
        return Failure::bare(code::UNAVAILABLE, object.to_string());
    }
    match (error, wording) {
        (ErrorCode::UserExists, _) => {
            Failure::error(code::SOFTWARE, format!("User \"{text}\" already exists"))
        }
        (ErrorCode::NoSuchUser, _) => no_such_user(wording, text),
        (ErrorCode::NoSuchVhost, _) => no_such_vhost(wording, text),
        (ErrorCode::VhostProtected, _) => Failure::error(
            code::DATA,
            "Cannot delete this virtual host: it is protected from deletion. \
             To lift the protection, inspect and update its metadata",
        ),
        (ErrorCode::Refused | ErrorCode::LoginRefused, Wording::Authentication) => Failure::error(
            code::DATA,
            format!("Error: failed to authenticate user \"{}\"\n{text}", invocation.param("user")),
        ),
        (ErrorCode::NotFound, Wording::QueueDeletion) => {
            Failure::error(code::USAGE, "No such queue was found")
        }
        (ErrorCode::NotEmpty, Wording::QueueDeletion) => {
            Failure::error(code::USAGE, "The queue is not empty")
        }
        (ErrorCode::InUse, Wording::QueueDeletion) => {
            Failure::error(code::USAGE, "The queue is in use")
        }
        (ErrorCode::Locked, Wording::QueueDeletion) => {
            Failure::error(code::USAGE, "The queue is locked or protected from deletion")
        }
        (_, Wording::Tracking) => Failure::error(code::UNAVAILABLE, "The stream does not exist."),
        (_, Wording::SuperStream) => failed(code::SOFTWARE),
        (ErrorCode::NotFound, Wording::Object) => {
            Failure::bare(code::DATA, "Object (queue, stream, exchange, etc) was not found")
        }
        (ErrorCode::NotFound, Wording::Members) => Failure::bare(code::DATA, text),
        // COMPAT: what is printed for an Erlang term that nothing else is known about.
        (ErrorCode::NotFound, Wording::Connection) => Failure::error(
            code::UNAVAILABLE,
            format!("Error:\n{{:invalid_pid_syntax, \"{}\"}}", invocation.param("pid")),
        ),
        (ErrorCode::ParameterNotFound, _) => {
            Failure::error(code::UNAVAILABLE, "Parameter does not exist")
        }
        (ErrorCode::Limit | ErrorCode::Unsupported, _) => failed(code::USAGE),
        (ErrorCode::Internal, _) => failed(code::SOFTWARE),
        (_, _) => failed(code::UNAVAILABLE),
    }
}

/// The failure of a verb for a user that does not exist. COMPAT: RabbitMQ's tool words this in three ways.
fn no_such_user(wording: Wording, user: &str) -> Failure {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others show the Erlang term")]
    match wording {
        Wording::Permissions => {
            Failure::error(code::NO_USER, format!("User {user} does not exist"))
        }
        Wording::User => Failure::error(code::NO_USER, format!("User \"{user}\" does not exist")),
        _ => Failure::error(code::UNAVAILABLE, format!("{{:no_such_user, \"{user}\"}}")),
    }
}

fn no_such_vhost(wording: Wording, vhost: &str) -> Failure {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others show the text alone")]
    match wording {
        Wording::Permissions => {
            Failure::error(code::UNAVAILABLE, format!("Virtual host {vhost} does not exist"))
        }
        Wording::VhostTags => {
            Failure::error(code::DATA, format!("Virtual host \"{vhost}\" does not exist"))
        }
        _ => Failure::bare(code::DATA, format!("Virtual host '{vhost}' does not exist")),
    }
}

/// The message of an error that is an object when JSON is asked for.
fn message_for_machines(wording: Wording, error: ErrorCode, text: &str) -> Option<String> {
    match (error, wording) {
        (ErrorCode::UserExists, _) => Some(format!("User {text} already exists")),
        (ErrorCode::TargetNotFound, _) => Some(text.to_owned()),
        (ErrorCode::Invalid, Wording::Inspection) => {
            Some(format!("Failed to perform the operation: {text}"))
        }
        (ErrorCode::NoSuchUser, Wording::User) => Some(format!("User {text} does not exists")),
        (ErrorCode::NoSuchUser, Wording::Permissions) => {
            Some(format!("User {text} does not exist"))
        }
        (ErrorCode::NoSuchVhost, Wording::Permissions) => {
            Some(format!("Virtual host {text} does not exist"))
        }
        (ErrorCode::NoSuchVhost, Wording::VhostTags) => {
            Some(format!("Virtual host \"{text}\" does not exists"))
        }
        (_, _) => None,
    }
}
