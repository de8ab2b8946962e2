//! Health checks.

use crate::client::STATE;
use crate::control_socket::socket_path;
use crate::failure::Invalid;
use crate::offline;
use crate::options::text;
use crate::render;
use crate::verb::{Action, Section, VERB, Verb};

const HEALTH: Verb = Verb { section: Section::Monitoring, ..VERB };

pub(super) const VERBS: &[Verb] = &[
    Verb {
        usage: "ping",
        description: "Checks that the node's process responds",
        timeout_ms: Some(60_000),
        banner_of: Some(|invocation| {
            format!(
                "Will ping {}. This only checks if the OS process answers on its control socket \
                 {}. Timeout: {} ms.",
                invocation.node(),
                socket_path(&invocation.address.data_dir).display(),
                invocation.timeout.unwrap_or_default().as_millis()
            )
        }),
        action: Action::Offline(offline::ping),
        ..HEALTH
    },
    Verb {
        usage: "check_running",
        description: "Checks that the node has started (exit code)",
        banner: "Checking if RabbitMQ is running on node {node} ...",
        action: Action::Ask(STATE, render::check_running),
        ..HEALTH
    },
    Verb {
        usage: "is_running",
        description: "Shows whether the node is running",
        banner: "Asking node {node} for its status ...",
        action: Action::Ask(STATE, render::is_running),
        ..HEALTH
    },
    Verb {
        usage: "is_booting",
        description: "Shows whether the node is starting",
        banner: "Asking node {node} for its boot status ...",
        action: Action::Ask(STATE, render::is_booting),
        ..HEALTH
    },
    Verb {
        usage: "alarms",
        description: "Lists active alarms",
        banner: "Asking node {node} to report any known resource alarms ...",
        action: Action::Ask("GET /leveret/alarms", render::alarms),
        ..HEALTH
    },
    Verb {
        usage: "check_alarms",
        description: "Checks that no alarm is active in the cluster (exit code)",
        banner: "Asking node {node} to report any local resource alarms ...",
        action: Action::Ask("GET /leveret/alarms", render::check_alarms),
        ..HEALTH
    },
    Verb {
        usage: "check_local_alarms",
        description: "Checks that no alarm is active on the node (exit code)",
        banner: "Asking node {node} to report any local resource alarms ...",
        action: Action::Ask("GET /leveret/alarms", render::check_local_alarms),
        ..HEALTH
    },
    Verb {
        usage: "listeners",
        description: "Lists the node's listeners",
        banner: "Asking node {node} to report its protocol listeners ...",
        action: Action::Ask("GET /leveret/listeners", render::listeners),
        ..HEALTH
    },
    Verb {
        usage: "check_port_listener <port>",
        description: "Checks that the node listens on a port (exit code)",
        params: &["port"],
        check: Some(|invocation| match invocation.param("port").parse::<u64>() {
            Ok(1..) => Ok(()),
            Ok(0) | Err(_) => {
                Err(Invalid::BadArgument("Argument must be a positive integer".to_owned()))
            }
        }),
        banner: "Asking node {node} if there's an active listener on port {port} ...",
        action: Action::Ask("GET /leveret/listeners", render::check_port_listener),
        ..HEALTH
    },
    Verb {
        usage: "check_protocol_listener <protocol>",
        description: "Checks that the node has a listener for a protocol (exit code)",
        params: &["protocol"],
        banner: "Asking node {node} if there's an active listener for protocol {protocol} ...",
        action: Action::Ask("GET /leveret/listeners", render::check_protocol_listener),
        ..HEALTH
    },
    Verb {
        usage: "check_port_connectivity [--address <target address>]",
        description: "Checks that every listener of the node accepts connections (exit code)",
        switches: &[text("address", Some('a'))],
        timeout_ms: Some(30_000),
        banner_of: Some(|invocation| match invocation.text("address") {
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
        action: Action::Ask("GET /leveret/listeners", offline::check_port_connectivity),
        ..HEALTH
    },
    Verb {
        usage: "check_virtual_hosts",
        description: "Checks that every virtual host is running (exit code)",
        banner: "Checking if all vhosts are running on node {node} ...",
        action: Action::Ask("GET /health/checks/virtual-hosts", render::check_virtual_hosts),
        ..HEALTH
    },
    Verb {
        usage: "server_version",
        description: "Shows the node's version",
        banner: "Asking node {node} for its RabbitMQ version...",
        action: Action::Ask("GET /version", render::server_version),
        ..HEALTH
    },
    Verb {
        section: Section::Deprecated,
        usage: "node_health_check",
        description: "No-op; use a health check",
        banner: "This command is DEPRECATED and is a no-op. It will be removed in a future version. \n\
             Use one of the options covered in \
             https://www.rabbitmq.com/monitoring.html#health-checks instead.",
        action: Action::Do(STATE),
        ..VERB
    },
];
