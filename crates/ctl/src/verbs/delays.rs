//! Messages that exchanges delay, or that wait in queues to be tried again. RabbitMQ's tools have
//! nothing like it.

use super::list;
use crate::options::{number, text};
use crate::verb::{Action, Section, VERB, Verb};

const DELAYS: Verb = Verb { section: Section::Queues, vhost: true, ..VERB };

pub(super) const VERBS: &[Verb] = &[
    Verb {
        usage: "list_delayed_messages [--vhost <vhost>] [--limit <limit>] <exchange>",
        description: "Lists the messages that an exchange delays, the next one first",
        params: &["exchange"],
        switches: &[number("limit", None)],
        banner: "Listing messages delayed by exchange '{exchange}' in vhost '{vhost}' ...",
        action: list(
            "GET /leveret/exchanges/{vhost}/{exchange}/delayed",
            "id, due_ms, exchange, routing_key, body_bytes, persistent",
        ),
        ..DELAYS
    },
    Verb {
        usage: "cancel_delayed_message [--vhost <vhost>] <exchange> <id>",
        description: "Drops a message that an exchange delays, named by its id in the listing",
        params: &["exchange", "id"],
        banner: "Dropping message {id} delayed by exchange '{exchange}' in vhost '{vhost}' ...",
        action: Action::Do("DELETE /leveret/exchanges/{vhost}/{exchange}/delayed/{id}"),
        ..DELAYS
    },
    Verb {
        usage: "reschedule_delayed_message [--vhost <vhost>] [--delay-ms <ms>] <exchange> <id>",
        description: "Has a message that an exchange delays go on so long from now; at once without --delay-ms",
        params: &["exchange", "id"],
        switches: &[number("delay-ms", None)],
        banner: "Rescheduling message {id} delayed by exchange '{exchange}' in vhost '{vhost}' ...",
        action: Action::Do("PUT /leveret/exchanges/{vhost}/{exchange}/delayed/{id}"),
        ..DELAYS
    },
    Verb {
        usage: "reschedule_delayed_messages [--vhost <vhost>] [--delay-ms <ms>] --filter <filter> <exchange>",
        description: "Has the messages that an exchange delays and a filter picks go on so long from now",
        params: &["exchange"],
        switches: &[number("delay-ms", None), text("filter", None)],
        banner: "Rescheduling messages delayed by exchange '{exchange}' in vhost '{vhost}' ...",
        action: Action::Say(
            "PUT /leveret/exchanges/{vhost}/{exchange}/delayed",
            "Rescheduled {rescheduled} messages",
        ),
        ..DELAYS
    },
    Verb {
        usage: "reschedule_retry [--vhost <vhost>] [--delay-ms <ms>] <queue> <id>",
        description: "Has a message that waits in a quorum queue to be tried again, named by its position, go on so long from now; at once without --delay-ms",
        params: &["queue", "id"],
        switches: &[number("delay-ms", None)],
        banner: "Rescheduling message {id} of queue '{queue}' in vhost '{vhost}' ...",
        action: Action::Do("PUT /leveret/queues/{vhost}/{queue}/delayed/{id}"),
        ..DELAYS
    },
    Verb {
        usage: "reschedule_retries [--vhost <vhost>] [--delay-ms <ms>] --filter <filter> <queue>",
        description: "Has the messages that wait in a quorum queue to be tried again and a filter picks go on so long from now",
        params: &["queue"],
        switches: &[number("delay-ms", None), text("filter", None)],
        banner: "Rescheduling messages of queue '{queue}' in vhost '{vhost}' ...",
        action: Action::Say(
            "PUT /leveret/queues/{vhost}/{queue}/delayed",
            "Rescheduled {rescheduled} messages",
        ),
        ..DELAYS
    },
];
