//! RabbitMQ's commands that this version does not have: scripts that call one hear why, and the exit
//! code of something that is not available rather than of a mistake.

use crate::failure::{Failure, code};

/// The reason, and the commands.
const GROUPS: &[(&str, &str)] = &[
    (
        "a node goes on without its cluster by force_boot --discard-others",
        "force_standalone_khepri_boot",
    ),
    // COMPAT: RabbitMQ since 4.0 does nothing of these either, and says so.
    (
        "a node keeps its name for life: remove it with forget_cluster_node, reset it, and join it again under \
         its new name",
        "rename_cluster_node",
    ),
    ("a member finds the others by itself, by the names that it knows", "update_cluster_nodes"),
    (
        "Leveret does not run on Erlang",
        "erlang_cookie_hash erlang_cookie_sources erlang_version eval_file exec maybe_stuck \
         observer remote_shell runtime_thread_stats",
    ),
    (
        "encrypted configuration values are not supported",
        "decode decrypt_conf_value encode encrypt_conf_value list_ciphers list_hashes",
    ),
    (
        "it trusts only the CAs in its configuration",
        "list_trust_store_certificates refresh_trust_store",
    ),
    (
        "shovels and federation are not supported yet",
        "delete_shovel federation_status restart_federation_link restart_shovel shovel_status",
    ),
    (
        "not supported",
        "activate_free_disk_space_monitoring check_if_cluster_has_classic_queue_mirroring_policy \
         check_if_metadata_store_is_initialized check_if_metadata_store_is_initialized_with_data \
         clear_auth_backend_cache command_line_arguments \
         deactivate_free_disk_space_monitoring directories disable_auth_attempt_source_tracking \
         enable_auth_attempt_source_tracking list_channel_interceptors list_mqtt_connections \
         list_network_interfaces list_node_auth_attempt_stats \
         list_operator_policies_with_classic_queue_mirroring \
         list_policies_with_classic_queue_mirroring list_stomp_connections \
         list_web_mqtt_connections message_size_stats \
         remove_classic_queue_mirroring_from_policies \
         reset_node_auth_attempt_metrics reset_stats_db resolve_hostname resolver_info \
         set_channel_interceptor_priorities",
    ),
];

/// The text for such a command; `None` for one that RabbitMQ does not have either.
pub(crate) fn refusal(name: &str) -> Option<Failure> {
    let (reason, _) = GROUPS.iter().find(|(_, names)| names.split(' ').any(|one| one == name))?;
    let text = format!("Command '{name}' is not available in this version of Leveret: {reason}");
    Some(Failure::error(code::UNAVAILABLE, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::TABLES;

    #[test]
    fn nothing_that_is_there_is_called_unavailable() {
        for verb in TABLES.iter().flat_map(|table| table.iter()) {
            assert_eq!(refusal(verb.name()), None, "{}", verb.name());
        }
        assert_eq!(refusal("rename_cluster_node").map(|failure| failure.code), Some(69));
        assert_eq!(refusal("bogus"), None);
    }
}
