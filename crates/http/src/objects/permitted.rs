//! Permissions of who asks, for queues and exchanges.

use crate::call::{Call, vhost};
use crate::caller::Caller;
use crate::refusal::Refusal;
use meta::{Name, Permission, Resource, ResourceKind, State};
use queues::QueueRef;

/// A queue of the virtual host of the address, if who asks has that permission for it.
pub(crate) fn queue(call: &Call, name: &str, permission: Permission) -> Result<QueueRef, Refusal> {
    let view = call.view();
    let vhost = vhost(&view.meta, call)?;
    let def = vhost.queue(name).filter(|def| !def.is_internal());
    let queue = def.and_then(|def| view.queue_by_id(def.id)).ok_or_else(Refusal::not_found)?;
    if queue.is_loading() {
        return Err(Refusal::unavailable("the queue is still being recovered"));
    }
    check(call, &vhost.name, &queue.def().name, permission)?;
    Ok(queue)
}

/// Refuses who has not that permission for a queue, whether it is there or not.
pub(super) fn check(
    call: &Call,
    vhost: &Name,
    name: &Name,
    permission: Permission,
) -> Result<(), Refusal> {
    let kind = ResourceKind::Queue;
    let resource = Resource { kind, name: name.clone(), vhost: vhost.clone() };
    right(&call.view().meta, &call.caller, permission, &resource)
}

/// Refuses who has not that permission.
pub(crate) fn right(
    meta: &State,
    caller: &Caller,
    permission: Permission,
    resource: &Resource,
) -> Result<(), Refusal> {
    let reason = meta.users().access_reason(&caller.user, permission, resource, None);
    if caller.is_local() || reason.is_allowed() {
        return Ok(());
    }
    let kind = match resource.kind {
        ResourceKind::Queue => "queue",
        ResourceKind::Exchange => "exchange",
    };
    Err(Refusal::not_authorised(format!(
        "user '{}' has no {} permission for {kind} '{}' in virtual host '{}'",
        caller.user,
        permission.as_str(),
        resource.name,
        resource.vhost
    )))
}
