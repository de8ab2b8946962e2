//! Messages that exchanges delay, or that wait in queues to be tried again. RabbitMQ's tools have
//! nothing like it.

use super::list;
use crate::options::{number, text};
use crate::verb::Banner::Lines;
use crate::verb::{Action, Section, VERB, Verb, verbs};

const DELAYS: Verb = Verb { section: Section::Queues, vhost: true, ..VERB };

pub(super) const VERBS: &[Verb] = verbs! {
    DELAYS "list_delayed_messages [--vhost <vhost>] [--limit <limit>] <exchange>",
        "Lists an exchange's delayed messages, earliest first":
        params: &["exchange"], switches: &[number("limit", None)],
        banner: Lines("Listing messages delayed by exchange '{exchange}' in vhost '{vhost}' ..."),
        action: list(
            "GET /leveret/exchanges/{vhost}/{exchange}/delayed",
            "id, due_ms, exchange, routing_key, body_bytes, persistent",
        );
    DELAYS "cancel_delayed_message [--vhost <vhost>] <exchange> <id>",
        "Discards a delayed message of an exchange, by its id":
        params: &["exchange", "id"],
        banner: Lines("Dropping message {id} delayed by exchange '{exchange}' in vhost '{vhost}' ..."),
        action: Action::Do("DELETE /leveret/exchanges/{vhost}/{exchange}/delayed/{id}");
    DELAYS "reschedule_delayed_message [--vhost <vhost>] [--delay-ms <ms>] <exchange> <id>",
        "Sets when an exchange delivers a delayed message: after --delay-ms, or now":
        params: &["exchange", "id"], switches: &[number("delay-ms", None)],
        banner: Lines("Rescheduling message {id} delayed by exchange '{exchange}' in vhost '{vhost}' ..."),
        action: Action::Do("PUT /leveret/exchanges/{vhost}/{exchange}/delayed/{id}");
    DELAYS "reschedule_delayed_messages [--vhost <vhost>] [--delay-ms <ms>] --filter <filter> \
        <exchange>",
        "Sets when an exchange delivers the delayed messages that match a filter: after \
            --delay-ms, or now":
        params: &["exchange"], switches: &[number("delay-ms", None), text("filter", None)],
        banner: Lines("Rescheduling messages delayed by exchange '{exchange}' in vhost '{vhost}' ..."),
        action: Action::Say(
            "PUT /leveret/exchanges/{vhost}/{exchange}/delayed",
            "Rescheduled {rescheduled} messages",
        );
    DELAYS "reschedule_retry [--vhost <vhost>] [--delay-ms <ms>] <queue> <id>",
        "Sets when a quorum queue retries a message, by its position: after --delay-ms, or now":
        params: &["queue", "id"], switches: &[number("delay-ms", None)],
        banner: Lines("Rescheduling message {id} of queue '{queue}' in vhost '{vhost}' ..."),
        action: Action::Do("PUT /leveret/queues/{vhost}/{queue}/delayed/{id}");
    DELAYS "reschedule_retries [--vhost <vhost>] [--delay-ms <ms>] --filter <filter> <queue>",
        "Sets when a quorum queue retries the messages that match a filter: after --delay-ms, or now":
        params: &["queue"], switches: &[number("delay-ms", None), text("filter", None)],
        banner: Lines("Rescheduling messages of queue '{queue}' in vhost '{vhost}' ..."),
        action: Action::Say(
            "PUT /leveret/queues/{vhost}/{queue}/delayed",
            "Rescheduled {rescheduled} messages",
        );
};
