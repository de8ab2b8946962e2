//! Permissions.

use super::list;
use crate::output::Form;
use crate::verb::Banner::{Lines, Made};
use crate::verb::{Action, Columns, Listing, Section, VERB, Verb, Wording, verbs};

const ACCESS: Verb = Verb { section: Section::Access, ..VERB };

pub(super) const VERBS: &[Verb] = verbs! {
    ACCESS "set_permissions [--vhost <vhost>] <username> <conf> <write> <read>",
        "Sets a user's permissions in a virtual host":
        params: &["user", "configure", "write", "read"], vhost: true,
        banner: Lines("Setting permissions for user \"{user}\" in vhost \"{vhost}\" ..."),
        wording: Wording::Permissions, action: Action::Do("PUT /permissions/{vhost}/{user}");
    ACCESS "set_permissions_globally <username> <conf> <write> <read>",
        "Sets a user's permissions in all virtual hosts":
        params: &["user", "configure", "write", "read"],
        banner: Lines("Setting permissions for user \"{user}\" in all virtual hosts ..."),
        wording: Wording::Permissions, action: Action::Do("PUT /leveret/users/{user}/permissions");
    ACCESS "clear_permissions [--vhost <vhost>] <username>",
        "Revokes a user's permissions in a virtual host":
        params: &["user"], vhost: true,
        banner: Lines("Clearing permissions for user \"{user}\" in vhost \"{vhost}\" ..."),
        wording: Wording::Permissions, action: Action::Do("DELETE /permissions/{vhost}/{user}");
    ACCESS "list_permissions [--vhost <vhost>] [--no-table-headers]",
        "Lists the permissions in a virtual host":
        vhost: true, banner: Lines("Listing permissions for vhost \"{vhost}\" ..."),
        action: list("GET /vhosts/{vhost}/permissions", "user, configure, write, read");
    ACCESS "list_user_permissions [--no-table-headers] <username>", "Lists a user's permissions":
        params: &["user"], banner: Lines("Listing permissions for user \"{user}\" ..."),
        action: list("GET /users/{user}/permissions", "vhost, configure, write, read");
    ACCESS "set_topic_permissions [--vhost <vhost>] <username> <exchange> <write> <read>",
        "Sets a user's permissions for routing keys of a topic exchange":
        params: &["user", "exchange", "write", "read"], vhost: true,
        banner: Lines("Setting topic permissions on \"{exchange}\" for user \"{user}\" in vhost \
            \"{vhost}\" ..."),
        wording: Wording::Permissions, action: Action::Do("PUT /topic-permissions/{vhost}/{user}");
    ACCESS "clear_topic_permissions [--vhost <vhost>] <username> [<exchange>]",
        "Revokes a user's topic permissions in a virtual host or for an exchange":
        params: &["user", "exchange?"], vhost: true,
        banner: Made(|invocation| {
            let user = invocation.param("user");
            let vhost = invocation.vhost();
            if !invocation.params.contains_key("exchange") {
                return format!(
                    "Clearing topic permissions for user \"{user}\" in vhost \"{vhost}\" ..."
                );
            }
            format!(
                "Clearing topic permissions on \"{}\" for user \"{user}\" in vhost \"{vhost}\" ...",
                invocation.param("exchange")
            )
        }),
        wording: Wording::Permissions,
        action: Action::Do("DELETE /topic-permissions/{vhost}/{user}");
    ACCESS "list_topic_permissions [--vhost <vhost>] [--no-table-headers]",
        "Lists the topic permissions in a virtual host":
        vhost: true, banner: Lines("Listing topic permissions for vhost \"{vhost}\" ..."),
        action: list("GET /vhosts/{vhost}/topic-permissions", "user, exchange, write, read");
    ACCESS "list_user_topic_permissions [--no-table-headers] <username>",
        "Lists a user's topic permissions":
        params: &["user"], banner: Lines("Listing topic permissions for user \"{user}\" ..."),
            // COMPAT: RabbitMQ's tool shows no names of columns here unless asked to.
        action: Action::List(
            "GET /users/{user}/topic-permissions",
            Listing {
                columns: Columns { known: "", shown: "vhost, exchange, write, read" },
                form: Form::Whole,
                headers: false,
            },
        );
};
