//! Features that RabbitMQ will drop: whether they may be used, and whether they are.

use super::Reply;
use crate::request::Request;
use mgmt::Management;
use serde_json::{Value, json};

stdx::named! {
    /// The phase of a feature's deprecation.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Phase {
        Permitted = "permitted_by_default",
        Denied = "denied_by_default",
        Removed = "removed",
    }
}

/// Deprecated feature.
struct Feature {
    name: &'static str,
    phase: Phase,
    /// The application that provides the feature.
    provider: &'static str,
}

const fn feature(name: &'static str, phase: Phase, provider: &'static str) -> Feature {
    Feature { name, phase, provider }
}

/// Deprecated features of RabbitMQ 4.3.
const FEATURES: [Feature; 8] = [
    feature("amqp_address_v1", Phase::Denied, "rabbit"),
    feature("amqp_filter_set_bug", Phase::Denied, "rabbit"),
    feature("classic_queue_mirroring", Phase::Removed, "rabbit"),
    feature("global_qos", Phase::Denied, "rabbit"),
    feature("management_metrics_collection", Phase::Permitted, "rabbitmq_management_agent"),
    feature("queue_master_locator", Phase::Denied, "rabbit"),
    feature("ram_node_type", Phase::Removed, "rabbit"),
    feature("transient_nonexcl_queues", Phase::Permitted, "rabbit"),
];

/// Lists all deprecated features, or with `used` those in use.
pub(crate) fn list(management: &Management, request: &Request) -> Reply {
    if request.flag("used") {
        return list_used(management, request);
    }
    Ok(FEATURES.iter().map(|feature| row(management, feature)).collect())
}

/// Lists the deprecated features in use.
pub(crate) fn list_used(management: &Management, _: &Request) -> Reply {
    let used = FEATURES.iter().filter(|feature| is_used(management, feature.name));
    Ok(used.map(|feature| row(management, feature)).collect())
}

fn row(management: &Management, feature: &Feature) -> Value {
    let Feature { name, phase, provider } = feature;
    let by_default = *phase == Phase::Permitted;
    let permit = management.node_info.permits.get(*name).copied().unwrap_or(by_default);
    let is_permitted = permit && *phase != Phase::Removed;
    json!({
        "name": name, "deprecation_phase": phase.as_str(), "provided_by": provider,
        "state": if is_permitted { "permitted" } else { "denied" }, "desc": "", "doc_url": "",
    })
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
