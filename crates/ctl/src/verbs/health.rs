//! Health checks.

use crate::client::STATE;
use crate::control_socket::socket_path;
use crate::offline;
use crate::options::text;
use crate::render;
use crate::verb::Banner::{Lines, Made};
use crate::verb::{Action, Section, VERB, Verb, verbs};

const HEALTH: Verb = Verb { section: Section::Monitoring, ..VERB };

pub(super) const VERBS: &[Verb] = verbs! {
    HEALTH "ping", "Checks that the node's process responds":
        timeout_ms: Some(60_000),
        banner: Made(|invocation| {
            format!(
                "Will ping {}. This only checks if the OS process answers on its control socket \
                 {}. Timeout: {} ms.",
                invocation.node(),
                socket_path(&invocation.address.data_dir).display(),
                invocation.timeout.unwrap_or_default().as_millis()
            )
        }),
        action: Action::Offline(offline::ping);
    HEALTH "check_running", "Checks that the node has started (exit code)":
        banner: Lines("Checking if RabbitMQ is running on node {node} ..."),
        action: Action::Ask(STATE, render::check_running);
    HEALTH "is_running", "Shows whether the node is running":
        banner: Lines("Asking node {node} for its status ..."),
        action: Action::Ask(STATE, render::is_running);
    HEALTH "is_booting", "Shows whether the node is starting":
        banner: Lines("Asking node {node} for its boot status ..."),
        action: Action::Ask(STATE, render::is_booting);
    HEALTH "alarms", "Lists active alarms":
        banner: Lines("Asking node {node} to report any known resource alarms ..."),
        action: Action::Ask("GET /leveret/alarms", render::alarms);
    HEALTH "check_alarms", "Checks that no alarm is active in the cluster (exit code)":
        banner: Lines("Asking node {node} to report any local resource alarms ..."),
        action: Action::Ask("GET /leveret/alarms", render::check_alarms);
    HEALTH "check_local_alarms", "Checks that no alarm is active on the node (exit code)":
        banner: Lines("Asking node {node} to report any local resource alarms ..."),
        action: Action::Ask("GET /leveret/alarms", render::check_local_alarms);
    HEALTH "listeners", "Lists the node's listeners":
        banner: Lines("Asking node {node} to report its protocol listeners ..."),
        action: Action::Ask("GET /leveret/listeners", render::listeners);
    HEALTH "check_port_listener <port>", "Checks that the node listens on a port (exit code)":
        params: &["port"],
        check: Some(|invocation| invocation.check_positive("port")),
        banner: Lines("Asking node {node} if there's an active listener on port {port} ..."),
        action: Action::Ask("GET /leveret/listeners", render::check_port_listener);
    HEALTH "check_protocol_listener <protocol>",
        "Checks that the node has a listener for a protocol (exit code)":
        params: &["protocol"],
        banner: Lines("Asking node {node} if there's an active listener for protocol {protocol} ..."),
        action: Action::Ask("GET /leveret/listeners", render::check_protocol_listener);
    HEALTH "check_port_connectivity [--address <target address>]",
        "Checks that every listener of the node accepts connections (exit code)":
        switches: &[text("address", Some('a'))], timeout_ms: Some(30_000),
        banner: Made(|invocation| match invocation.text("address") {
            Some(address) => format!(
                "Testing TCP connections to all active listeners on node {} using {address} \
                 for node IP address ...",
                invocation.node()
            ),
            None => format!(
                "Testing TCP connections to all active listeners on node {} using hostname \
                 resolution ...",
                invocation.node()
            ),
        }),
        action: Action::Ask("GET /leveret/listeners", offline::check_port_connectivity);
    HEALTH "check_virtual_hosts", "Checks that every virtual host is running (exit code)":
        banner: Lines("Checking if all vhosts are running on node {node} ..."),
        action: Action::Ask("GET /health/checks/virtual-hosts", render::check_virtual_hosts);
    HEALTH "server_version", "Shows the node's version":
        banner: Lines("Asking node {node} for its RabbitMQ version..."),
        action: Action::Ask("GET /version", render::server_version);
    VERB "node_health_check", "No-op; use a health check":
        section: Section::Deprecated,
        banner: Lines("This command is DEPRECATED and is a no-op. It will be removed in a future \
            version. \nUse one of the options covered in \
            https://www.rabbitmq.com/monitoring.html#health-checks instead."),
        action: Action::Do(STATE);
};
