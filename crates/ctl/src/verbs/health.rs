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
        description: "Checks that the node's process answers",
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
        description: "Checks that the node has started; the exit code tells",
        banner: "Checking if RabbitMQ is running on node {node} ...",
        action: Action::Ask(STATE, render::check_running),
        ..HEALTH
    },
    Verb {
        usage: "is_running",
        description: "Tells whether the node has started",
        banner: "Asking node {node} for its status ...",
        action: Action::Ask(STATE, render::is_running),
        ..HEALTH
    },
    Verb {
        usage: "is_booting",
        description: "Tells whether the node is about to start",
        banner: "Asking node {node} for its boot status ...",
        action: Action::Ask(STATE, render::is_booting),
        ..HEALTH
    },
    Verb {
        usage: "alarms",
        description: "Lists the alarms in effect",
        banner: "Asking node {node} to report any known resource alarms ...",
        action: Action::Ask("GET /leveret/alarms", render::alarms),
        ..HEALTH
    },
    Verb {
        usage: "check_alarms",
        description: "Checks that no alarm is in effect; the exit code tells",
        banner: "Asking node {node} to report any local resource alarms ...",
        action: Action::Ask("GET /leveret/alarms", render::check_alarms),
        ..HEALTH
    },
    Verb {
        usage: "check_local_alarms",
        description: "Checks that no alarm is in effect on the node; the exit code tells",
        banner: "Asking node {node} to report any local resource alarms ...",
        action: Action::Ask("GET /leveret/alarms", render::check_local_alarms),
        ..HEALTH
    },
    Verb {
        usage: "listeners",
        description: "Lists what the node listens on",
        banner: "Asking node {node} to report its protocol listeners ...",
        action: Action::Ask("GET /leveret/listeners", render::listeners),
        ..HEALTH
    },
    Verb {
        usage: "check_port_listener <port>",
        description: "Checks that the node listens on a port; the exit code tells",
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
        description: "Checks that the node speaks a protocol; the exit code tells",
        params: &["protocol"],
        banner: "Asking node {node} if there's an active listener for protocol {protocol} ...",
        action: Action::Ask("GET /leveret/listeners", render::check_protocol_listener),
        ..HEALTH
    },
    Verb {
        usage: "check_port_connectivity [--address <target address>]",
        description: "Checks that each port the node listens on takes connections",
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
        description: "Checks that every virtual host works; the exit code tells",
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
        description: "Does nothing; use one of the health checks",
        banner: "This command is DEPRECATED and is a no-op. It will be removed in a future version. \n\
             Use one of the options covered in \
             https://www.rabbitmq.com/monitoring.html#health-checks instead.",
        action: Action::Do(STATE),
        ..VERB
    },
];
