//! Virtual hosts and their limits.

use super::choice;
use crate::client::STATE;
use crate::failure::Invalid;
use crate::options::{flag, text};
use crate::output::{Answer, Form, Format};
use crate::render;
use crate::verb::Banner::{Lines, Made};
use crate::verb::{Action, Invocation, Section, VERB, Verb, Wording, verbs};
use api::QUEUE_TYPES;

const VHOSTS: Verb = Verb { section: Section::Vhosts, ..VERB };

pub(super) const VERBS: &[Verb] = verbs! {
    VHOSTS "add_vhost <vhost> [--description <description> --tags \"<tag1>,<tag2>,<...>\" \
        --default-queue-type <quorum|classic|stream>]",
        "Creates a virtual host":
        params: &["vhost"],
        switches: &[
            text("description", Some('d')),
            text("tags", None),
            text("default-queue-type", None),
        ],
        check: Some(check_queue_type), banner: Lines("Adding vhost \"{vhost}\" ..."),
        action: Action::Do("POST /leveret/vhosts/{vhost}");
    VHOSTS "delete_vhost <vhost>", "Deletes a virtual host with its queues, exchanges and messages":
        params: &["vhost"], banner: Lines("Deleting vhost \"{vhost}\" ..."),
        action: Action::Do("DELETE /vhosts/{vhost}");
    VHOSTS "restart_vhost [--vhost <vhost>]", "No-op: a virtual host runs whenever its node does":
        vhost: true, banner: Lines("Trying to restart vhost '{vhost}' on node '{node}' ..."),
        action: Action::Say(
            "POST /vhosts/{vhost}/start/{node}",
            "Vhost '{vhost}' is already running on node '{node}'",
        );
    VHOSTS "list_vhosts [--no-table-headers] [<column> ...]", "Lists virtual hosts":
        section: Section::Access, banner: Lines("Listing vhosts ..."),
        action: choice(
            "GET /vhosts",
            Form::Whole,
            "name, description, tags, default_queue_type, protected_from_deletion, \
                    tracing, cluster_state, metadata",
            "name",
        );
    VHOSTS "reconcile_vhosts", "No-op: a virtual host runs whenever its node does":
        banner: Lines("Will try to initiate virtual host reconciliation on all reachable cluster nodes..."),
        action: Action::Do(STATE);
    VHOSTS "set_vhost_tags <vhost> <tag> [...]", "Replaces a virtual host's tags":
        params: &["vhost", "tags*"],
        banner: Lines("Setting tags for virtual host \"{vhost}\" to [{tags}] ..."),
        wording: Wording::VhostTags, action: Action::Do("PUT /leveret/vhosts/{vhost}/metadata");
    VHOSTS "update_vhost_metadata <vhost> [--description=<description>] \
        [--tags=\"<tag1>,<tag2>,<...>\"] [--default-queue-type=<quorum|classic|stream>] \
        [--protected-from-deletion=<true|false>]",
        "Changes a virtual host's metadata":
        params: &["vhost"],
        switches: &[
            text("description", Some('d')),
            text("tags", None),
            text("default-queue-type", None),
            flag("protected-from-deletion", None),
        ],
        check: Some(|invocation| {
            let changes = invocation.verb.switches;
            if !changes.iter().any(|switch| invocation.settings.contains_key(switch.name)) {
                return Err(Invalid::TooFew);
            }
            check_queue_type(invocation)
        }),
        banner: Lines("Updating metadata of vhost \"{vhost}\" ..."),
        action: Action::Do("PUT /leveret/vhosts/{vhost}/metadata");
    VHOSTS "enable_vhost_deletion_protection <vhost>", "Protects a virtual host from deletion":
        params: &["vhost"],
        banner: Lines("Protecting virtual host \"{vhost}\" from removal by updating its metadata..."),
        action: Action::Do("POST /vhosts/{vhost}/deletion/protection");
    VHOSTS "disable_vhost_deletion_protection <vhost>", "Permits the deletion of a virtual host":
        params: &["vhost"],
        banner: Lines("Removing deletion protection from virtual host \"{vhost}\" by updating its metadata..."),
        action: Action::Do("DELETE /vhosts/{vhost}/deletion/protection");
    VHOSTS "set_vhost_limits [--vhost <vhost>] <definition>",
        "Sets limits on a virtual host's connections and queues":
        params: &["definition"], vhost: true,
        banner: Lines("Setting vhost limits to \"{definition}\" for vhost \"{vhost}\" ..."),
        action: Action::Do("PUT /leveret/vhosts/{vhost}/limits");
    VHOSTS "clear_vhost_limits [--vhost <vhost>]", "Removes a virtual host's limits":
        vhost: true, banner: Lines("Clearing vhost \"{vhost}\" limits ..."),
        action: Action::Do("DELETE /leveret/vhosts/{vhost}/limits");
    VHOSTS "list_vhost_limits [--vhost <vhost>] [--global] [--no-table-headers]",
        "Lists the limits of one or all virtual hosts":
        switches: &[flag("global", None)], vhost: true,
        banner: Made(|invocation| {
            if invocation.flag("global") {
                return "Listing limits for all vhosts ...".to_owned();
            }
            format!("Listing limits for vhost \"{}\" ...", invocation.vhost())
        }),
        action: Action::Ask("GET /vhost-limits/{vhost}", |invocation, answer| {
            if invocation.flag("global") {
                return Ok(render::rows("vhost, limits:value!", &answer));
            }
            Ok(match render::limits_of("vhost", invocation.vhost(), &answer) {
                Some(limits) if invocation.format == Format::Json => Answer::Wrapped(limits),
                Some(limits) => Answer::Text(limits),
                None => render::rows("vhost, limits", &answer),
            })
        });
};

fn check_queue_type(invocation: &Invocation) -> Result<(), Invalid> {
    match invocation.text("default-queue-type") {
        Some("") => {
            Err(Invalid::BadArgument("Default queue type must not be an empty string".to_owned()))
        }
        Some(other) if !QUEUE_TYPES.contains(&other) => Err(Invalid::BadArgument(format!(
            "Default queue type must be one of: {}. Provided: {other}",
            QUEUE_TYPES.join(", ")
        ))),
        Some(_) | None => Ok(()),
    }
}
