//! Where a new queue wants to be: its arguments and policies say.

use crate::command::QueueDeclare;
use crate::queue_arguments::kind_of;
use crate::queue_type::QueueKind;
use crate::setting::{Given, LEADER_LOCATOR, MASTER_LOCATOR};
use crate::state::State;
use serde_json::{Map, Value as Json};

/// Whether a queue that is to be declared wants to be placed where few are; none if neither its arguments
/// nor a policy say. A stream stays where it is declared: clients of the stream protocol look for it there.
#[must_use]
pub fn wants_balance(state: &State, declare: &QueueDeclare) -> Option<bool> {
    let kind = kind_of(&declare.arguments).unwrap_or(QueueKind::Classic);
    if kind == QueueKind::Stream {
        return Some(false);
    }
    let wants_balance = |policy: &Map<String, Json>| {
        let (queues, arguments) = (kind.capabilities(), &declare.arguments);
        let given = Given { queues, arguments, policy };
        let locator = given.text(&LEADER_LOCATOR).or_else(|| given.text(&MASTER_LOCATOR))?;
        Some(locator != "client-local")
    };
    // Either argument comes before both policy keys.
    wants_balance(&Map::new()).or_else(|| {
        let policies = &state.vhost(&declare.vhost)?.policies;
        wants_balance(&policies.settings_of_new_queue(kind, &declare.name))
    })
}
