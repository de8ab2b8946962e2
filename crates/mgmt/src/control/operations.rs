//! Questions that do something other than change definitions.

use super::{quorum, streams};
use crate::Management;
use crate::api_error::{ApiError, Kind};
use crate::certificates;
use crate::listing::connection_of_pid;
use crate::logs;
use crate::request::Request;
use auth::Credentials;
use broker::{Connection, DeleteConditions, Firehose, QueueRefused};
use meta::{ConnectionId, MetaError};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

pub(super) async fn execute(
    management: &Management,
    endpoint: &str,
    request: &Request,
) -> Result<Value, ApiError> {
    match endpoint {
        "authenticate_user" => authenticate(management, request).await,
        "delete_queue" => delete_queue(management, request).await,
        "purge_queue" => {
            let (vhost, name) = (request.vhost()?, request.text("name")?);
            let purged = management.broker.operations().purge_queue(&vhost, name).await;
            purged.map(Value::from).map_err(queue_refused)
        }
        "cancel_delayed_message" => cancel_delayed(management, request).await,
        "trace_on" => trace(management, request, Firehose::start),
        "trace_off" => trace(management, request, Firehose::stop),
        "close_connection" => {
            let pid = request.text("pid")?;
            let id = connection(management, pid).ok_or_else(|| no_connection(pid))?;
            let reason = request.text("explanation")?;
            if management.broker.operations().close_connection(id, reason) {
                Ok(Value::Null)
            } else {
                Err(no_connection(pid))
            }
        }
        "close_all_connections" => close_all(management, request),
        "close_all_user_connections" => {
            let (user, reason) = (request.user()?, request.text("explanation")?);
            let n_closed =
                close(management, reason, usize::MAX, |one| one.identity.user == user.as_str());
            Ok(json!({"closed": n_closed}))
        }
        "set_memory_high_watermark" => {
            management.resources.limits().set_memory_high(request)?;
            Ok(look_at_resources(management))
        }
        "set_disk_free_limit" => {
            management.resources.limits().set_disk_free(request)?;
            Ok(look_at_resources(management))
        }
        "set_log_level" => logs::set_level(&*management.log, request).map(|()| Value::Null),
        "rotate_logs" => logs::reopen(&*management.log).map(|()| Value::Null),
        "reload_certificates" => certificates::reload(management),
        "suspend_listeners" => Ok(suspend(management, true)),
        "resume_listeners" => Ok(suspend(management, false)),
        "drain" => Ok(drain(management)),
        "revive" => {
            management.broker.connections.in_maintenance.store(false, Ordering::Relaxed);
            Ok(suspend(management, false))
        }
        // It is up as long as the node is.
        "restart_vhost" => {
            let (vhost, view) = (request.vhost()?, management.broker.view());
            let is_there = view.meta.vhost(&vhost).is_some();
            is_there.then_some(Value::Null).ok_or_else(|| MetaError::VhostNotFound(vhost).into())
        }
        "stop" => {
            management.stop.notify_one();
            Ok(json!({"pid": std::process::id()}))
        }
        _ => match quorum::execute(management, endpoint, request) {
            Some(answer) => answer,
            None => streams::execute(management, endpoint, request).await.unwrap_or_else(|| {
                let text = format!("this node does not know the command `{endpoint}`");
                Err(ApiError::new(Kind::UnknownQuestion, text))
            }),
        },
    }
}

fn suspend(management: &Management, suspended: bool) -> Value {
    management.suspended.send_if_modified(|now| std::mem::replace(now, suspended) != suspended);
    Value::Null
}

/// Puts the node into maintenance: it takes no new connections, and asks those there are to leave. COMPAT:
/// clients of streams are told by metadata that nobody leads theirs.
fn drain(management: &Management) -> Value {
    management.broker.connections.in_maintenance.store(true, Ordering::Relaxed);
    suspend(management, true);
    let n_closed = close(management, "Node was put into maintenance mode", usize::MAX, |it| {
        !it.identity.is_of_streams()
    });
    json!({"closed": n_closed})
}

/// Whoever changes a limit sees at once what comes of it.
fn look_at_resources(management: &Management) -> Value {
    management.resources.look(&management.broker);
    Value::Null
}

async fn authenticate(management: &Management, request: &Request) -> Result<Value, ApiError> {
    let credentials = Credentials::Password {
        username: request.text("user")?.as_bytes(),
        password: request.text("password")?.as_bytes(),
    };
    let view = management.broker.view();
    let answer = management.authenticator.authenticate(credentials, &view.meta).await;
    answer.map(|_| Value::Null).map_err(|refused| ApiError::new(Kind::Refused, refused.to_string()))
}

async fn delete_queue(management: &Management, request: &Request) -> Result<Value, ApiError> {
    let (vhost, name) = (request.vhost()?, request.text("name")?);
    let conditions = DeleteConditions {
        if_unused: request.flag("if_unused"),
        if_empty: request.flag("if_empty"),
    };
    match management.broker.operations().delete_queue(&vhost, name, conditions).await {
        Ok(n_messages) => Ok(json!({"messages": n_messages})),
        Err(refused) => Err(queue_refused(refused)),
    }
}

fn queue_refused(refused: QueueRefused) -> ApiError {
    match refused {
        QueueRefused::NotFound => no_queue(),
        QueueRefused::InUse => ApiError::new(Kind::InUse, "the queue is in use"),
        QueueRefused::NotEmpty => ApiError::new(Kind::NotEmpty, "the queue is not empty"),
        QueueRefused::NotImplemented(text) => ApiError::new(Kind::Unsupported, text),
    }
}

async fn cancel_delayed(management: &Management, request: &Request) -> Result<Value, ApiError> {
    let (vhost, exchange) = (request.vhost()?, request.text("exchange")?);
    let id = request.text("id")?;
    let cancelled = match id.parse() {
        Ok(id) => management.broker.operations().cancel_held_back(&vhost, exchange, id).await,
        Err(_) => false,
    };
    if cancelled {
        return Ok(Value::Null);
    }
    Err(ApiError::new(Kind::NotFound, format!("exchange '{exchange}' delays no message {id}")))
}

fn trace<'m>(
    management: &'m Management,
    request: &Request,
    switch: fn(&Firehose<'m>, &str, Option<&str>) -> bool,
) -> Result<Value, ApiError> {
    let vhost = request.vhost()?;
    if switch(&management.broker.firehose(), &vhost, request.optional("user")) {
        return Ok(Value::Null);
    }
    Err(MetaError::VhostNotFound(vhost).into())
}

fn no_queue() -> ApiError {
    ApiError::new(Kind::NotFound, "there is no such queue")
}

fn no_connection(pid: &str) -> ApiError {
    ApiError::new(Kind::NotFound, format!("there is no connection {pid}"))
}

/// A connection by its pid, or by its name.
fn connection(management: &Management, named: &str) -> Option<ConnectionId> {
    connection_of_pid(named).or_else(|| {
        let list = management.broker.connections.list();
        list.iter().find(|connection| connection.identity.name == named).map(|found| found.id)
    })
}

fn close_all(management: &Management, request: &Request) -> Result<Value, ApiError> {
    let reason = request.text("explanation")?;
    let is_global = request.flag("global");
    let vhost = request.vhost()?;
    let limit = match request.number("limit").and_then(|limit| usize::try_from(limit).ok()) {
        Some(limit) if limit > 0 && !is_global => limit,
        Some(_) | None => usize::MAX,
    };
    let n_closed = close(management, reason, limit, |connection| {
        is_global || connection.identity.vhost == vhost.as_str()
    });
    Ok(json!({"closed": n_closed}))
}

/// Asks up to `limit` connections to close; how many.
fn close(
    management: &Management,
    reason: &str,
    limit: usize,
    which: impl Fn(&Connection) -> bool,
) -> usize {
    let list = management.broker.connections.list();
    let chosen = list.iter().filter(|connection| which(connection)).take(limit);
    chosen
        .filter(|connection| management.broker.operations().close_connection(connection.id, reason))
        .count()
}
