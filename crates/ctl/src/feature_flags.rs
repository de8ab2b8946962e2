//! Feature flags: those a node has are enabled, so that enabling one is a matter of its name.

use crate::failure::{Failure, Invalid, code};
use crate::output::Answer;
use crate::verb::Invocation;
use serde_json::Value;
use stdx::words;

/// COMPAT: flags that RabbitMQ 4.3 enables and a node here does not list: scripts enable them by name.
const ONLY_OF_RABBITMQ: &str = "\
    classic_mirrored_queue_version, delete_ra_cluster_mqtt_node, drop_unroutable_metric, \
    empty_basic_get_metric, khepri_db, message_containers, message_containers_deaths_v2, \
    mqtt_v5, quorum_queue, quorum_queue_non_voters, rabbit_mqtt_qos0_queue, rabbitmq_4.0.0, \
    rabbitmq_4.1.0, rabbitmq_4.2.0, rabbitmq_4.3.0, restart_streams, stream_filtering, \
    stream_queue, stream_sac_coordinator_unblock_group, stream_single_active_consumer, \
    stream_update_config_command, tie_binding_to_dest_with_keep_while_cond, \
    topic_binding_projection_v4, topic_binding_projection_v5, track_qq_members_uids, \
    tracking_records_in_ets";

/// Whether the arguments name a flag.
pub(crate) fn check(invocation: &Invocation) -> Result<(), Invalid> {
    match invocation.param("feature_flag") {
        "" => {
            let text = "feature flag (or group) name cannot be an empty string";
            Err(Invalid::BadArgument(text.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Enables the flag that is named, or all, when the node has told which it has.
pub(crate) fn enable(invocation: &Invocation, flags: Value) -> Result<Answer, Failure> {
    let wanted = invocation.param("feature_flag");
    let mut listed = flags.as_array().into_iter().flatten().filter_map(|flag| flag.get("name"));
    let is_listed = listed.any(|name| name.as_str() == Some(wanted));
    if wanted == "all" || is_listed || words(ONLY_OF_RABBITMQ).any(|flag| flag == wanted) {
        return Ok(Answer::Done);
    }
    let text = format!("This feature flag is not supported by node {}", invocation.node());
    Err(Failure::error(code::USAGE, text))
}
