//! Permissions of who asks, for queues.

use crate::call::{Call, vhost};
use crate::refusal::Refusal;
use broker::QueueRef;
use meta::{Name, Permission, Resource, ResourceKind};

/// A queue of the virtual host of the address, if who asks has that permission for it.
pub(crate) fn queue(call: &Call, name: &str, permission: Permission) -> Result<QueueRef, Refusal> {
    let view = call.view();
    let vhost = vhost(&view.meta, call)?;
    let def = vhost.queue(name).filter(|def| !def.is_internal());
    let queue = def.and_then(|def| view.queue_by_id(def.id)).ok_or_else(Refusal::not_found)?;
    if queue.is_loading() {
        return Err(Refusal::unavailable("the queue is still being read after the start"));
    }
    check(call, (vhost.name(), &queue.def().name), permission)?;
    Ok(queue)
}

/// Refuses who has not that permission for a queue, whether it is there or not.
pub(super) fn check(
    call: &Call,
    (vhost, name): (&Name, &Name),
    permission: Permission,
) -> Result<(), Refusal> {
    let (kind, view) = (ResourceKind::Queue, call.view());
    let resource = Resource { kind, name: name.clone(), vhost: vhost.clone() };
    let reason = view.meta.users().access_reason(&call.caller.user, permission, &resource, None);
    if call.caller.is_local() || reason.is_allowed() {
        return Ok(());
    }
    Err(Refusal::not_authorised(format!(
        "user '{}' has no {} permission for queue '{}' in virtual host '{}'",
        call.caller.user,
        permission.as_str(),
        resource.name,
        resource.vhost
    )))
}
