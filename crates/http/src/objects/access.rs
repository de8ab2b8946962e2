//! Users, their tags and permissions.

use crate::call::{Answer, Call, Outcome};
use crate::list::Row;
use crate::refusal::Refusal;
use api::ErrorCode;
use auth::{Credentials, Refused};
use meta::definitions::{topic_grant, user_permissions};
use meta::{MetaError, Name, QueueDef, User, definitions};
use mgmt::ApiError;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use stdx::words;

pub(crate) fn list(call: &Call) -> Outcome {
    call.list(call.view().meta.users().iter().map(definitions::user).collect())
}

pub(crate) fn without_permissions(call: &Call) -> Outcome {
    let view = call.view();
    let lonely = view.meta.users().iter().filter(|user| user.permissions().next().is_none());
    call.list(lonely.map(definitions::user).collect())
}

pub(crate) fn get(call: &Call) -> Outcome {
    let view = call.view();
    let user = view.meta.user(call.param("user")).ok_or_else(Refusal::not_found)?;
    Ok(Answer::Json(definitions::user(user)))
}

/// Whether a password is a user's, wherever the user is.
pub(crate) async fn authenticate(call: &Call) -> Outcome {
    let (request, view) = (call.request()?, call.view());
    let (user, password) = (request.text("user")?.as_bytes(), request.text("password")?.as_bytes());
    let credentials = Credentials::Password { username: user, password };
    match call.api.management.authenticator.authenticate(credentials, &view.meta).await {
        Ok(_) => Ok(Answer::NoContent),
        Err(refused) => Err(login_refused(&refused).into()),
    }
}

fn login_refused(refused: &Refused) -> ApiError {
    let is_wrong = matches!(refused, Refused::InvalidCredentials(_));
    let kind = if is_wrong { ErrorCode::Refused } else { ErrorCode::LoginRefused };
    ApiError { kind, text: refused.to_string() }
}

pub(crate) fn whoami(call: &Call) -> Outcome {
    let (caller, view) = (&call.caller, call.view());
    let mut object = json!({
        "name": caller.user, "tags": caller.tags, "is_internal_user": true,
    });
    if call.query.flag("permissions") {
        let user = view.meta.users().get(&caller.user);
        let all = user.into_iter().flat_map(User::permissions);
        let name = Name::from(&*caller.user);
        let all: Value = all.map(|(vhost, it)| user_permissions(&name, vhost, it)).collect();
        super::put_field(&mut object, "permissions", all);
    }
    Ok(Answer::Json(object))
}

/// Permissions by the users and virtual hosts of the address.
fn permissions(call: &Call) -> Vec<Value> {
    let view = call.view();
    let of_user = |user: &User| {
        let name = &user.name;
        user.permissions().map(|(vhost, it)| user_permissions(name, vhost, it)).collect::<Vec<_>>()
    };
    view.meta.users().iter().flat_map(of_user).filter(|row| is_wanted(call, row)).collect()
}

fn topic_permissions(call: &Call) -> Vec<Value> {
    let view = call.view();
    let all = view.meta.users().iter().flat_map(User::topic_permissions).map(topic_grant);
    all.filter(|row| is_wanted(call, row)).collect()
}

/// Whether a row is of the user, virtual host and exchange that the address names.
fn is_wanted(call: &Call, row: &Value) -> bool {
    call.params.iter().all(|(name, value)| row.get(name).is_none_or(|found| found == value))
}

/// Whom and what the address names has to be there.
pub(super) fn check(call: &Call) -> Result<(), Refusal> {
    let view = call.view();
    let (user, vhost) = (call.name("user"), call.name("vhost"));
    if !user.is_empty() && view.meta.user(&user).is_none() {
        return Err(MetaError::UserNotFound(user).into());
    }
    if !vhost.is_empty() && view.meta.vhost(&vhost).is_none() {
        return Err(MetaError::VhostNotFound(vhost).into());
    }
    Ok(())
}

pub(crate) fn list_permissions(call: &Call) -> Outcome {
    check(call)?;
    call.list(permissions(call))
}

/// Refuses an address without topic permissions.
pub(crate) fn check_topic_permissions(call: &Call) -> Result<(), Refusal> {
    check(call)?;
    if topic_permissions(call).is_empty() { Err(Refusal::not_found()) } else { Ok(()) }
}

pub(crate) fn list_topic_permissions(call: &Call) -> Outcome {
    check(call)?;
    let rows = topic_permissions(call);
    // COMPAT: the lists of a user or of a virtual host may be empty, that of both may not.
    let is_of_both = !call.param("user").is_empty() && !call.param("vhost").is_empty();
    if rows.is_empty() && is_of_both && !call.caller.is_local() {
        return Err(Refusal::not_found());
    }
    call.list(rows)
}

pub(crate) fn get_permissions(call: &Call) -> Outcome {
    check(call)?;
    permissions(call).pop().map(Answer::Json).ok_or_else(Refusal::not_found)
}

pub(crate) fn user_queues(call: &Call) -> Outcome {
    let view = call.view();
    let may = |def: &QueueDef| {
        let users = view.meta.users();
        users.may(call.param("user"), &def.vhost, meta::Permission::Read, &def.name)
    };
    let seen = view.meta.queues().iter().filter(|def| !def.is_internal() && may(def));
    call.list(seen.map(|def| QueueName(Arc::clone(def))).collect())
}

/// A queue by its name alone. Lists can be long: it is small.
struct QueueName(Arc<QueueDef>);

impl Row for QueueName {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        words("name, vhost")
    }

    fn value(&self, column: &str) -> Option<Value> {
        match column {
            "name" => Some(json!(self.0.name.as_str())),
            "vhost" => Some(json!(self.0.vhost.as_str())),
            _ => None,
        }
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.0.name.as_str())
    }
}
