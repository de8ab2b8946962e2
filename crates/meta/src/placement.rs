//! Where a new queue wants to be: its arguments and policies say.

use crate::command::QueueDeclare;
use crate::queue::QueueDef;
use crate::queue_arguments::kind_of;
use crate::queue_type::QueueKind;
use crate::state::State;
use routing::QueueId;

/// Whether a queue that is to be declared wants to be placed where few are; none if neither its arguments
/// nor a policy say. A stream stays where it is declared: clients of the stream protocol look for it there.
#[must_use]
pub fn wants_balance(state: &State, declare: &QueueDeclare) -> Option<bool> {
    let kind = kind_of(&declare.arguments).unwrap_or(QueueKind::Classic);
    if kind == QueueKind::Stream {
        return Some(false);
    }
    let argument = |key: &str| declare.arguments.get(key.as_bytes())?.as_str().map(str::to_owned);
    let by_argument =
        ["x-queue-leader-locator", "x-queue-master-locator"].into_iter().find_map(argument);
    let locator = by_argument.or_else(|| {
        let QueueDeclare { vhost, name, durable, auto_delete, arguments, home, .. } =
            declare.clone();
        let policies = &state.vhost(&vhost)?.policies;
        let draft = QueueDef {
            id: QueueId(0),
            vhost,
            name,
            kind,
            durable,
            auto_delete,
            exclusive_owner: None,
            arguments,
            home,
        };
        let settings = policies.settings_of_queue(&draft);
        let of_policy = |key| settings.get(key)?.as_str().map(str::to_owned);
        ["queue-leader-locator", "queue-master-locator"].into_iter().find_map(of_policy)
    })?;
    Some(locator != "client-local")
}
