//! Users and their limits.

use super::list;
use crate::failure::{Failure, Invalid, code};
use crate::offline;
use crate::options::{flag, text};
use crate::output::{Answer, Format};
use crate::render;
use crate::verb::Banner::{Lines, Made};
use crate::verb::{Action, Input, Invocation, Section, VERB, Verb, Wording, verbs};
use serde_json::{Value, json};

/// Most tags of a user, as in RabbitMQ.
const TAGS_MAX: usize = 32;

const USERS: Verb = Verb { section: Section::Users, ..VERB };

pub(super) const VERBS: &[Verb] = verbs! {
    USERS "add_user <username> [<password>] [<password_hash> --pre-hashed-password]",
        "Creates a user without permissions":
        params: &["user", "password?"], switches: &[flag("pre-hashed-password", None)],
        input: Some(Input::Secret { param: "password", code: code::DATA }),
        check: Some(|invocation| {
            if invocation.param("user").is_empty() {
                return Err(Invalid::BadArgument("user cannot be an empty string".to_owned()));
            }
            Ok(())
        }),
        banner: Lines("Adding user \"{user}\" ..."),
        action: Action::Ask("POST /leveret/users/{user}", added);
    USERS "delete_user <username>", "Deletes a user":
        params: &["user"], banner: Lines("Deleting user \"{user}\" ..."),
        wording: Wording::UserDeletion, action: Action::Do("DELETE /users/{user}");
    USERS "list_users [--no-table-headers]", "Lists users and their tags":
        banner: Lines("Listing users ..."), action: list("GET /users", "user:name, tags");
    USERS "change_password <username> <password>", "Changes a user's password":
        params: &["user", "password?"],
        input: Some(Input::Secret { param: "password", code: code::SOFTWARE }),
        banner: Lines("Changing password for user \"{user}\" ..."),
        wording: Wording::User, action: Action::Do("PUT /leveret/users/{user}/password");
    USERS "clear_password <username>", "Removes a user's password, which disables password login":
        params: &["user"], banner: Lines("Clearing password for user \"{user}\" ..."),
        action: Action::Do("DELETE /leveret/users/{user}/password");
    USERS "authenticate_user <username> <password>", "Checks a user's password (exit code)":
        params: &["user", "password?"],
        input: Some(Input::Secret { param: "password", code: code::SOFTWARE }),
        banner: Lines("Authenticating user \"{user}\" ..."),
        wording: Wording::Authentication,
        action: Action::Say("POST /leveret/users/{user}/authentication", "Success");
    USERS "set_user_tags <username> <tag> [...]", "Replaces a user's tags":
        params: &["user", "tags*"],
        check: Some(|invocation| match invocation.args("tags").count() {
            n_tags if n_tags > TAGS_MAX => Err(Invalid::BadArgument(format!(
                "A user can have at most {TAGS_MAX} tags (received {n_tags})"
            ))),
            _ => Ok(()),
        }),
        banner: Lines("Setting tags for user \"{user}\" to [{tags}] ..."),
        wording: Wording::User, action: Action::Do("PUT /leveret/users/{user}/tags");
    USERS "hash_password <cleartext_password> [--hashing-algorithm <algorithm>]",
        "Prints the salted hash of a password":
        params: &["password?"], switches: &[text("hashing-algorithm", None)],
        check: Some(offline::check_hash_password),
        banner: Made(|invocation| {
            match invocation.params.get("password").and_then(Value::as_str) {
                Some(password) => format!("Will hash password {password}"),
                None => "Will hash provided password".to_owned(),
            }
        }),
        input: Some(Input::Secret { param: "password", code: code::SOFTWARE }),
        action: Action::Offline(offline::hash_password);
    USERS "set_user_limits <username> <definition>",
        "Sets limits on a user's connections and channels":
        params: &["user", "definition"],
        banner: Lines("Setting user limits to \"{definition}\" for user \"{user}\" ..."),
        action: Action::Do("PUT /leveret/users/{user}/limits");
    USERS "clear_user_limits <username> <limit_type> | all",
        "Removes one or all of a user's limits":
        params: &["user", "limit"],
        banner: Made(|invocation| match invocation.param("limit") {
            "all" => format!("Clearing all limits for user \"{}\" ...", invocation.param("user")),
            limit => {
                format!("Clearing \"{limit}\" limit for user \"{}\" ...", invocation.param("user"))
            }
        }),
        action: Action::Do("DELETE /user-limits/{user}/{limit}");
    USERS "list_user_limits [--user <username>] [--global]", "Lists the limits of one or all users":
        switches: &[flag("global", None), text("user", None)],
        banner: Made(|invocation| {
            if invocation.flag("global") {
                return "Listing limits for all users ...".to_owned();
            }
            let user = invocation.text("user").unwrap_or("guest");
            format!("Listing limits for user \"{user}\" ...")
        }),
        action: Action::Ask("GET /user-limits/{user}", |invocation, answer| {
            if invocation.flag("global") {
                return Ok(render::rows("user, limits:value!", &answer));
            }
            let user = invocation.text("user").unwrap_or("guest");
            let limits = render::limits_of("user", user, &answer);
            Ok(Answer::Text(limits.unwrap_or_else(|| "{}".to_owned())))
        });
};

fn added(invocation: &Invocation, _: Value) -> Result<Answer, Failure> {
    let hint = "Done. Don't forget to grant the user permissions to some virtual hosts! \
                See 'rabbitmqctl help set_permissions' to learn more.";
    Ok(if invocation.format == Format::Json {
        Answer::Object(json!({"status": "ok", "node": invocation.node(), "message": hint}))
    } else if invocation.output_less() {
        Answer::Done
    } else {
        Answer::Text(hint.to_owned())
    })
}
