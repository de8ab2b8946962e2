//! The tables of verbs. Names, usage lines and informational lines are RabbitMQ's.

mod access;
mod definitions;
mod delays;
mod explain;
mod health;
mod jobs;
mod listings;
mod messages;
mod nodes;
mod parameters;
mod plugins;
mod queues;
mod quorum;
mod streams;
mod tls;
mod tracing;
mod upgrade;
mod users;
mod vhosts;

use crate::output::Form;
use crate::verb::{Action, Columns, Listing, Verb};

/// All tables of verbs.
pub(crate) const TABLES: &[&[Verb]] = &[
    nodes::VERBS,
    users::VERBS,
    access::VERBS,
    health::VERBS,
    listings::VERBS,
    parameters::VERBS,
    definitions::VERBS,
    vhosts::VERBS,
    queues::VERBS,
    quorum::VERBS,
    streams::VERBS,
    delays::VERBS,
    explain::VERBS,
    messages::VERBS,
    jobs::VERBS,
    tls::VERBS,
    tracing::VERBS,
    plugins::VERBS,
    upgrade::VERBS,
];

/// A listing whose columns can be chosen: the known ones, and those shown when none is named.
const fn choice(
    endpoint: &'static str,
    form: Form,
    known: &'static str,
    shown: &'static str,
) -> Action {
    Action::List(endpoint, Listing { columns: Columns { known, shown }, form, headers: true })
}

/// A listing with columns of its own.
const fn table(endpoint: &'static str, columns: &'static str, form: Form) -> Action {
    choice(endpoint, form, "", columns)
}

/// A listing that comes in one piece.
const fn list(endpoint: &'static str, columns: &'static str) -> Action {
    table(endpoint, columns, Form::Whole)
}
