//! The texts of the node's errors, by their kind and by the verb.

use crate::failure::{Failure, code};
use crate::output::Format;
use crate::verb::Invocation;
use serde_json::json;

/// `text` is what the kind needs: a name, or a sentence.
pub(crate) fn refused(invocation: &Invocation, kind: &str, text: &str) -> Failure {
    let verb = invocation.verb.name();
    if invocation.format == Format::Json
        && let Some(message) = message_for_machines(verb, kind, text)
    {
        let object = json!({"result": "error", "node": invocation.node(), "message": message});
        return Failure::bare(code::UNAVAILABLE, object.to_string());
    }
    match (kind, verb) {
        ("user_exists", _) => {
            Failure::error(code::SOFTWARE, format!("User \"{text}\" already exists"))
        }
        ("no_such_user", _) => no_such_user(verb, text),
        ("no_such_vhost", _) => no_such_vhost(verb, text),
        ("vhost_protected", _) => Failure::error(
            code::DATA,
            "Cannot delete this virtual host: it is protected from deletion. \
             To lift the protection, inspect and update its metadata",
        ),
        ("refused", "authenticate_user") => Failure::error(
            code::DATA,
            format!("Error: failed to authenticate user \"{}\"\n{text}", invocation.param("user")),
        ),
        ("not_found", "delete_queue") => Failure::error(code::USAGE, "No such queue was found"),
        ("not_empty", "delete_queue") => Failure::error(code::USAGE, "The queue is not empty"),
        ("in_use", "delete_queue") => Failure::error(code::USAGE, "The queue is in use"),
        ("locked", "delete_queue") => {
            Failure::error(code::USAGE, "The queue is locked or protected from deletion")
        }
        (_, "list_stream_tracking") => {
            Failure::error(code::UNAVAILABLE, "The stream does not exist.")
        }
        (_, "add_super_stream" | "delete_super_stream") => Failure::error(code::SOFTWARE, text),
        (
            "not_found",
            "purge_queue" | "stream" | "stream_status" | "restart_stream" | "scrub_stream"
            | "accept_stream_loss" | "add_replica" | "delete_replica",
        ) => Failure::bare(code::DATA, "Object (queue, stream, exchange, etc) was not found"),
        ("not_found", "quorum_status" | "add_member" | "delete_member" | "transfer_leadership") => {
            Failure::bare(code::DATA, text)
        }
        // COMPAT: what is printed for an Erlang term that nothing else is known about.
        ("not_found", "close_connection") => Failure::error(
            code::UNAVAILABLE,
            format!("Error:\n{{:invalid_pid_syntax, \"{}\"}}", invocation.param("pid")),
        ),
        ("parameter_not_found", _) => Failure::error(code::UNAVAILABLE, "Parameter does not exist"),
        ("limit" | "unsupported", _) => Failure::error(code::USAGE, text),
        ("internal_error", _) => Failure::error(code::SOFTWARE, text),
        (_, _) => Failure::error(code::UNAVAILABLE, text),
    }
}

/// The failure of a verb for a user that does not exist. COMPAT: RabbitMQ's tool words this in three ways.
fn no_such_user(verb: &str, user: &str) -> Failure {
    if names_users_plainly(verb) {
        return Failure::error(code::NO_USER, format!("User {user} does not exist"));
    }
    match verb {
        "change_password" | "set_user_tags" => {
            Failure::error(code::NO_USER, format!("User \"{user}\" does not exist"))
        }
        _ => Failure::error(code::UNAVAILABLE, format!("{{:no_such_user, \"{user}\"}}")),
    }
}

fn no_such_vhost(verb: &str, vhost: &str) -> Failure {
    if names_users_plainly(verb) {
        return Failure::error(code::UNAVAILABLE, format!("Virtual host {vhost} does not exist"));
    }
    match verb {
        "set_vhost_tags" => {
            Failure::error(code::DATA, format!("Virtual host \"{vhost}\" does not exist"))
        }
        _ => Failure::bare(code::DATA, format!("Virtual host '{vhost}' does not exist")),
    }
}

fn names_users_plainly(verb: &str) -> bool {
    matches!(
        verb,
        "set_permissions"
            | "set_permissions_globally"
            | "clear_permissions"
            | "set_topic_permissions"
            | "clear_topic_permissions"
    )
}

/// The verbs whose errors are objects when JSON is asked for.
fn message_for_machines(verb: &str, kind: &str, text: &str) -> Option<String> {
    match (kind, verb) {
        ("user_exists", _) => Some(format!("User {text} already exists")),
        ("invalid", "peek" | "reclaim_quorum_memory") => Some(match text.starts_with("Target") {
            true => text.to_owned(),
            false => format!("Failed to perform the operation: {text}"),
        }),
        ("no_such_user", "change_password" | "set_user_tags") => {
            Some(format!("User {text} does not exists"))
        }
        ("no_such_user", _) if names_users_plainly(verb) => {
            Some(format!("User {text} does not exist"))
        }
        ("no_such_vhost", _) if names_users_plainly(verb) => {
            Some(format!("Virtual host {text} does not exist"))
        }
        ("no_such_vhost", "set_vhost_tags") => {
            Some(format!("Virtual host \"{text}\" does not exists"))
        }
        (_, _) => None,
    }
}
