//! Operations on a node, other than changes of definitions.

use super::Reply;
use crate::request::Request;
use api::ErrorCode;
use broker::{Connection, Firehose};
use meta::MetaError;
use mgmt::{ApiError, Management, NodeChange, NodeEnd, is_same_node};
use queue_type::{DeleteConditions, QueueRefused};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Time that closed clients have to go.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which it is looked whether they have gone.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Deletes a queue.
pub(crate) async fn delete_queue(
    management: &Management,
    vhost: &str,
    name: &str,
    conditions: DeleteConditions,
) -> Reply {
    let deleted = management.broker.operations().delete_queue(vhost, name, conditions).await;
    deleted.map(|n_messages| json!({"messages": n_messages})).map_err(queue_refused)
}

/// Drops the ready messages of a queue.
pub(crate) async fn purge_queue(management: &Management, vhost: &str, name: &str) -> Reply {
    let purged = management.broker.operations().purge_queue(vhost, name).await;
    purged.map(|n_messages| json!({"messages": n_messages})).map_err(queue_refused)
}

/// The error of a request that a queue has refused.
pub(crate) fn queue_refused(refused: QueueRefused) -> ApiError {
    match refused {
        QueueRefused::NotFound => ApiError::new(ErrorCode::NotFound, "the queue does not exist"),
        QueueRefused::InUse => ApiError::new(ErrorCode::InUse, "the queue is in use"),
        QueueRefused::NotEmpty => ApiError::new(ErrorCode::NotEmpty, "the queue is not empty"),
        QueueRefused::NotImplemented(text) => ApiError::new(ErrorCode::Unsupported, text),
        QueueRefused::HomeDown(text) => ApiError::new(ErrorCode::HomeDown, text),
    }
}

/// Closes the connections to a virtual host, or all of them, or some.
pub(crate) fn close_connections(management: &Management, request: &Request) -> Reply {
    let (reason, vhost) = (request.text("explanation")?, request.optional("vhost"));
    let limit = request.number("limit").and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.filter(|limit| *limit > 0 && vhost.is_some()).unwrap_or(usize::MAX);
    let is_wanted = |one: &Connection| vhost.is_none_or(|vhost| one.identity.vhost == vhost);
    Ok(json!({"closed": close(management, reason, limit, is_wanted)}))
}

/// Asks up to `limit` connections to close; returns how many.
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

/// Lets no more clients connect.
pub(crate) fn suspend_listeners(management: &Management, _: &Request) -> Reply {
    Ok(suspend(management, true))
}

/// Lets clients connect again.
pub(crate) fn resume_listeners(management: &Management, _: &Request) -> Reply {
    Ok(suspend(management, false))
}

fn suspend(management: &Management, suspended: bool) -> Value {
    management.suspended.send_if_modified(|now| std::mem::replace(now, suspended) != suspended);
    Value::Null
}

/// Puts the node into maintenance mode: new connections are rejected, and connected clients are asked to
/// leave. COMPAT: clients of the stream protocol stay; metadata tells them that no node leads their streams.
pub(crate) fn drain(management: &Management, _: &Request) -> Reply {
    management.broker.connections.in_maintenance.store(true, Ordering::Relaxed);
    suspend(management, true);
    let n_closed = close(management, "Node was put into maintenance mode", usize::MAX, |it| {
        !it.identity.is_of_streams()
    });
    Ok(json!({"closed": n_closed}))
}

/// Ends maintenance.
pub(crate) fn revive(management: &Management, _: &Request) -> Reply {
    management.broker.connections.in_maintenance.store(false, Ordering::Relaxed);
    Ok(suspend(management, false))
}

/// Stops the node; returns the id of its process.
pub(crate) fn stop(management: &Management, _: &Request) -> Reply {
    management.control.end(NodeEnd::Stop);
    Ok(json!({"pid": std::process::id()}))
}

/// Has the node join the cluster of another one. Its clients go first: no message comes after those that it
/// has are counted. Nothing is left to do if both are members of one cluster.
pub(crate) async fn join_cluster(management: &Management, request: &Request) -> Reply {
    let (node, is_forced) = (request.text("member")?.to_owned(), request.flag("force"));
    let name = node.split_once(':').map_or(node.as_str(), |(name, _)| name);
    let is_other = name != management.node_info.name;
    if is_other && management.broker.view().meta.nodes().named(name).is_some() {
        return Ok(Value::Null);
    }
    without_clients(management, management.control.join(&node, is_forced)).await
}

/// Has the node leave its cluster.
pub(crate) async fn reset(management: &Management, request: &Request) -> Reply {
    without_clients(management, management.control.reset(request.flag("force"))).await
}

/// Has a member start again as the only one of its cluster. It counts as started when it has.
pub(crate) fn discard_others(management: &Management, _: &Request) -> Reply {
    management.control.discard_others()?;
    management.running.store(false, Ordering::Relaxed);
    Ok(Value::Null)
}

/// Removes another node from the cluster.
pub(crate) async fn forget_node(management: &Management, request: &Request) -> Reply {
    management.control.forget(request.text("member")?).await?;
    Ok(Value::Null)
}

/// Changes the node's place in a cluster while no client is connected. After a refusal they may come back.
async fn without_clients(management: &Management, change: NodeChange<'_>) -> Reply {
    let was_suspended = *management.suspended.borrow();
    suspend(management, true);
    close(management, "the node joins or leaves a cluster", usize::MAX, |_| true);
    let left = async {
        while !management.broker.connections.is_empty() {
            sleep(LOOK_EVERY).await;
        }
    };
    // The messages that clients hold are back in the queues when they have gone; who stays is not waited for.
    let _is_late = timeout(GOODBYE_TIMEOUT, left).await.is_err();
    let changed = change.await;
    match &changed {
        // The node starts again: it counts as started when it has.
        Ok(()) => management.running.store(false, Ordering::Relaxed),
        Err(_) => drop(suspend(management, was_suspended)),
    }
    changed.map(|()| Value::Null)
}

/// Starts tracing a virtual host, or a user in it.
pub(crate) fn trace_on(management: &Management, request: &Request) -> Reply {
    trace(management, request, Firehose::start)
}

/// Stops tracing a virtual host, or a user in it.
pub(crate) fn trace_off(management: &Management, request: &Request) -> Reply {
    trace(management, request, Firehose::stop)
}

fn trace<'m>(
    management: &'m Management,
    request: &Request,
    switch: fn(&Firehose<'m>, &str, Option<&str>) -> bool,
) -> Reply {
    let vhost = request.vhost()?;
    if switch(&management.broker.firehose(), &vhost, request.optional("user")) {
        return Ok(Value::Null);
    }
    Err(MetaError::VhostNotFound(vhost).into())
}

/// Restarts a virtual host. Nothing is done to one that exists: it is up as long as the node is.
pub(crate) fn restart_vhost(management: &Management, request: &Request) -> Reply {
    let (vhost, view, node) = (request.vhost()?, management.broker.view(), request.text("node")?);
    if !is_same_node(node, &management.node_info.name) {
        return Err(ApiError::invalid(format!("Unknown node: {node}")));
    }
    let is_there = view.meta.vhost(&vhost).is_some();
    is_there.then_some(Value::Null).ok_or_else(|| MetaError::VhostNotFound(vhost).into())
}
