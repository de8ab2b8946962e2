//! Listings whose columns can be chosen.

use super::choice;
use crate::client::STATE;
use crate::options::{flag, number, text};
use crate::output::Form;
use crate::recent;
use crate::top;
use crate::verb::Banner::{Lines, Made};
use crate::verb::{Action, Section, VERB, Verb, verbs};
use api::{
    BindingColumn, ChannelColumn, ConnectionColumn, ConsumerColumn, ExchangeColumn, LINK_COLUMNS,
    QueueColumn, SESSION_COLUMNS,
};

const MONITORING: Verb = Verb { section: Section::Monitoring, ..VERB };

pub(super) const VERBS: &[Verb] = verbs! {
    MONITORING "top [--once] [--interval <seconds>] [--rows <rows>]",
        "Shows the busiest queues and connections, and blocked publishers":
        switches: &[flag("once", None), number("interval", Some('i')), number("rows", None)],
        action: Action::Follow(top::top);
    MONITORING "log_tail [--number|-N <number>]",
        "Shows the last lines of the node's log (50 by default)":
        switches: &[number("number", Some('N'))],
        banner: Made(|invocation| {
            let (number, node) = (recent::n_lines(invocation), invocation.node());
            format!("Last {number} log lines on node {node} ...")
        }),
        action: Action::Offline(recent::log_tail);
    MONITORING "log_tail_stream [--duration|-d <seconds>]", "Follows the node's log":
        switches: &[number("duration", Some('d'))], banner: Lines("Streaming logs from node {node} ..."),
        action: Action::Follow(recent::log_tail_stream);
    MONITORING "consume_event_stream [--duration|-d <seconds>] [--pattern <pattern>]",
        "Follows the node's events, one JSON object per line":
        switches: &[number("duration", Some('d')), text("pattern", None)],
        action: Action::Follow(recent::event_stream);
    MONITORING "list_queues [--vhost <vhost>] [--online] [--offline] [--local] \
        [--no-table-headers] [<column>, ...]",
        "Lists the queues of a virtual host":
        switches: &[flag("online", None), flag("offline", None), flag("local", None)], vhost: true,
        timeout_ms: Some(60_000),
        banner: Made(|invocation| {
            let seconds = invocation.timeout.unwrap_or_default().as_secs_f64();
            format!(
                "Timeout: {seconds:?} seconds ...\nListing queues for vhost {} ...",
                invocation.vhost()
            )
        }),
        action: choice("GET /queues/{vhost}?typed=true", Form::Streamed, QueueColumn::OF_TOOL, "name, messages");
    MONITORING "list_unresponsive_queues [--local] [--queue-timeout <seconds>] [<column> ...] \
        [--no-table-headers]",
        "Lists nothing: queues respond whenever the node does":
        switches: &[flag("local", None), number("queue-timeout", None)], vhost: true,
        banner: Lines("Listing unresponsive queues for vhost {vhost} ..."),
        action: choice(STATE, Form::Whole, "name, durable, auto_delete, arguments, pid", "name");
    MONITORING "list_exchanges [--vhost <vhost>] [--no-table-headers] [<column> ...]",
        "Lists the exchanges of a virtual host":
        vhost: true, banner: Lines("Listing exchanges for vhost {vhost} ..."),
        action: choice(
            "GET /exchanges/{vhost}?typed=true",
            Form::Streamed,
            ExchangeColumn::OF_TOOL,
            "name, type",
        );
    MONITORING "list_bindings [--vhost <vhost>] [--no-table-headers] [<column> ...]",
        "Lists the bindings of a virtual host":
        vhost: true, banner: Lines("Listing bindings for vhost {vhost}..."),
        action: choice("GET /bindings/{vhost}?typed=true", Form::Streamed, BindingColumn::OF_TOOL, BindingColumn::OF_TOOL);
    MONITORING "list_connections [--local] [--no-table-headers] [<column> ...]", "Lists client connections":
        switches: &[flag("local", None)], banner: Lines("Listing connections ..."),
        action: choice(
            "GET /connections?typed=true",
            Form::Streamed,
            ConnectionColumn::OF_TOOL,
            "user, peer_host, peer_port, state",
        );
    MONITORING "list_channels [--local] [--no-table-headers] [<column> ...]", "Lists client channels":
        switches: &[flag("local", None)], banner: Lines("Listing channels ..."),
        action: choice(
            "GET /channels?typed=true",
            Form::Streamed,
            ChannelColumn::OF_TOOL,
            "pid, user, consumer_count, messages_unacknowledged",
        );
    MONITORING "list_sessions [--no-table-headers] [<column> ...]", "Lists sessions of AMQP 1.0":
        banner: Lines("Listing sessions ..."),
        action: choice(
            "GET /leveret/sessions",
            Form::Streamed,
            SESSION_COLUMNS,
            "connection, channel_number, incoming_window, remote_incoming_window, \
                    outgoing_unsettled_deliveries, incoming_links, outgoing_links",
        );
    MONITORING "list_links [--no-table-headers] [<column> ...]", "Lists links of AMQP 1.0":
        banner: Lines("Listing links ..."),
        action: choice(
            "GET /leveret/links",
            Form::Streamed,
            LINK_COLUMNS,
            "connection, channel_number, handle, link_name, target_address, source_address, \
                    delivery_count, credit",
        );
    MONITORING "list_consumers [--vhost <vhost>] [--local] [--no-table-headers] [<column> ...]",
        "Lists the consumers of a virtual host":
        switches: &[flag("local", None)], vhost: true, banner: Lines("Listing consumers in vhost {vhost} ..."),
        action: choice(
            "GET /consumers/{vhost}?typed=true",
            Form::Streamed,
            ConsumerColumn::OF_TOOL,
            "queue_name, channel_pid, consumer_tag, ack_required, prefetch_count, active, \
                    arguments",
        );
};
