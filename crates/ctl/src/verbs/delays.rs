//! Messages that exchanges delay. RabbitMQ's tools have nothing like it.

use super::list;
use crate::options::number;
use crate::verb::{Action, Banner, Section, VERB, Verb};

const DELAYS: Verb = Verb { section: Section::Queues, vhost: true, ..VERB };

pub(super) const VERBS: &[Verb] = &[
    Verb {
        usage: "list_delayed_messages [--vhost <vhost>] [--limit <limit>] <exchange>",
        description: "Lists the messages that an exchange delays, the next one first",
        params: &["exchange"],
        switches: &[number("limit", None)],
        banner: Banner::Text(
            "Listing messages delayed by exchange '{exchange}' in vhost '{vhost}' ...",
        ),
        action: list(
            "GET /leveret/exchanges/{vhost}/{exchange}/delayed",
            &["id", "due_ms", "exchange", "routing_key", "body_bytes", "persistent"],
        ),
        ..DELAYS
    },
    Verb {
        usage: "cancel_delayed_message [--vhost <vhost>] <exchange> <id>",
        description: "Drops a message that an exchange delays, named by its id in the listing",
        params: &["exchange", "id"],
        banner: Banner::Text(
            "Dropping message {id} delayed by exchange '{exchange}' in vhost '{vhost}' ...",
        ),
        action: Action::Do("DELETE /leveret/exchanges/{vhost}/{exchange}/delayed/{id}"),
        ..DELAYS
    },
];
