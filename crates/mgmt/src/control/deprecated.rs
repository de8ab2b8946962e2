//! Features that RabbitMQ will drop: whether they may be used, and whether they are.

use crate::Management;
use crate::request::Request;
use serde_json::{Map, Value, json};

/// The phase of a feature's deprecation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Permitted,
    Denied,
    Removed,
}

impl Phase {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Permitted => "permitted_by_default",
            Self::Denied => "denied_by_default",
            Self::Removed => "removed",
        }
    }
}

/// As in RabbitMQ 4.3, by name.
const FEATURES: [(&str, Phase, &str); 8] = [
    ("amqp_address_v1", Phase::Denied, "rabbit"),
    ("amqp_filter_set_bug", Phase::Denied, "rabbit"),
    ("classic_queue_mirroring", Phase::Removed, "rabbit"),
    ("global_qos", Phase::Denied, "rabbit"),
    ("management_metrics_collection", Phase::Permitted, "rabbitmq_management_agent"),
    ("queue_master_locator", Phase::Denied, "rabbit"),
    ("ram_node_type", Phase::Removed, "rabbit"),
    ("transient_nonexcl_queues", Phase::Permitted, "rabbit"),
];

/// The answer of an endpoint about deprecated features; `None` for any other endpoint.
pub(super) fn answer(management: &Management, endpoint: &str, request: &Request) -> Option<Value> {
    match endpoint {
        "list_deprecated_features" => Some(list(management, request)),
        "used_deprecated_features" => Some(
            FEATURES.iter().map(|one| one.0).filter(|name| is_used(management, name)).collect(),
        ),
        _ => None,
    }
}

fn list(management: &Management, request: &Request) -> Value {
    let shown =
        |(name, ..): &&(&str, Phase, &str)| !request.flag("used") || is_used(management, name);
    let row = |(name, phase, provider): &(&str, Phase, &str)| {
        let by_default = *phase == Phase::Permitted;
        let permit = management.node_info.permits.get(*name).copied().unwrap_or(by_default);
        let is_permitted = permit && *phase != Phase::Removed;
        let value = |column: &str| {
            Some(match column {
                "name" => json!(name),
                "deprecation_phase" => json!(phase.as_str()),
                "state" => json!(if is_permitted { "permitted" } else { "denied" }),
                "provided_by" => json!(provider),
                "desc" | "doc_url" => json!(""),
                _ => return None,
            })
        };
        let field = |column: &str| Some((column.to_owned(), value(column)?));
        Value::Object(request.words("columns").filter_map(field).collect::<Map<_, _>>())
    };
    FEATURES.iter().filter(shown).map(row).collect()
}

/// Whether the definitions use the feature; features that leave no trace there count as unused.
fn is_used(management: &Management, name: &str) -> bool {
    let view = management.broker.view();
    let mut queues = view.meta.queues().iter().filter(|queue| !queue.is_internal());
    match name {
        "transient_nonexcl_queues" => {
            queues.any(|queue| !queue.durable && queue.exclusive_owner.is_none())
        }
        "queue_master_locator" => {
            queues.any(|queue| queue.arguments.get(b"x-queue-master-locator").is_some())
        }
        _ => false,
    }
}
