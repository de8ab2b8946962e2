//! Users, their tags and permissions.

use super::{check_keys, optional_text, put_field, text};
use crate::call::{Answer, Call, Outcome};
use crate::refusal::Refusal;
use meta::{Permissions, TopicPermissions, User, definitions};
use serde_json::{Map, Value, json};

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

pub(crate) async fn put(call: &Call) -> Outcome {
    let (body, user) = (call.object()?, call.param("user"));
    let tags = tags(&body)?;
    let was_there = call.view().meta.user(user).is_some();
    let verb = if was_there { "change_password" } else { "add_user" };
    let given = |field| optional_text(&body, field);
    match (given("password")?, given("password_hash")?) {
        (Some(_), Some(_)) => {
            return Err(Refusal::bad_request("both_password_and_password_hash_are_provided"));
        }
        (Some(password), None) => {
            call.ask(verb, json!({"user": user, "password": password})).await?;
        }
        // COMPAT: an empty hash takes the password away.
        (None, Some("")) | (None, None) => {
            if !was_there {
                let empty = json!({"user": user, "password": "", "pre_hashed_password": true});
                call.ask("add_user", empty).await?;
            } else if given("password_hash")?.is_some() {
                call.ask("clear_password", json!({"user": user})).await?;
            }
        }
        (None, Some(hash)) => {
            let algorithm = given("hashing_algorithm")?;
            let fields = json!({
                "user": user, "password": hash, "pre_hashed_password": true,
                "hashing_algorithm": algorithm,
            });
            call.ask(verb, fields).await?;
        }
    }
    call.ask("set_user_tags", json!({"user": user, "tags": tags})).await?;
    Ok(Answer::put(was_there))
}

/// COMPAT: tags are a list, or a text with commas.
fn tags(body: &Map<String, Value>) -> Result<Vec<String>, Refusal> {
    match body.get("tags").or_else(|| body.get("administrator")) {
        None => Err(Refusal::bad_request("tags_not_present")),
        Some(Value::Array(tags)) => tags
            .iter()
            .map(|tag| tag.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(|| Refusal::bad_request("tags are texts")),
        Some(Value::String(tags)) => {
            let tags = tags.split(',').map(str::trim).filter(|tag| !tag.is_empty());
            Ok(tags.map(str::to_owned).collect())
        }
        Some(other) => Err(Refusal::bad_request(format!("tags are no list: {other}"))),
    }
}

pub(crate) async fn delete(call: &Call) -> Outcome {
    call.ask("delete_user", json!({"user": call.param("user")})).await?;
    Ok(Answer::NoContent)
}

pub(crate) async fn delete_many(call: &Call) -> Outcome {
    let body = call.object()?;
    let users = body.get("users").and_then(Value::as_array);
    let users = users.ok_or_else(|| Refusal::key_missing(&["users"]))?;
    for user in users {
        // COMPAT: who is gone already is no error.
        let _gone = call.ask("delete_user", json!({"user": user})).await;
    }
    Ok(Answer::NoContent)
}

pub(crate) fn whoami(call: &Call) -> Outcome {
    let caller = &call.caller;
    Ok(Answer::Json(json!({
        "name": caller.user, "tags": caller.tags, "is_internal_user": true,
    })))
}

fn permission(user: &str, vhost: &str, found: &Permissions) -> Value {
    json!({
        "user": user, "vhost": vhost, "configure": found.configure.as_str(),
        "write": found.write.as_str(), "read": found.read.as_str(),
    })
}

fn topic_permission(
    user: &str,
    (vhost, exchange): (&str, &str),
    found: &TopicPermissions,
) -> Value {
    json!({
        "user": user, "vhost": vhost, "exchange": exchange,
        "write": found.write(), "read": found.read(),
    })
}

/// Permissions by the users and virtual hosts of the address.
fn permissions(call: &Call) -> Vec<Value> {
    let view = call.view();
    let of_user = |user: &User| {
        let name = user.name();
        user.permissions().map(|(vhost, it)| permission(name, vhost, it)).collect::<Vec<_>>()
    };
    view.meta.users().iter().flat_map(of_user).filter(|row| is_wanted(call, row)).collect()
}

fn topic_permissions(call: &Call) -> Vec<Value> {
    let view = call.view();
    let of_user = |user: &User| {
        let name = user.name();
        let found = user.topic_permissions();
        let row = |(vhost, exchange, it): (&meta::Name, &meta::Name, _)| {
            topic_permission(name, (vhost, exchange), it)
        };
        found.map(row).collect::<Vec<_>>()
    };
    view.meta.users().iter().flat_map(of_user).filter(|row| is_wanted(call, row)).collect()
}

/// Whether a row is of the user, virtual host and exchange that the address names.
fn is_wanted(call: &Call, row: &Value) -> bool {
    call.params.iter().all(|(name, value)| row.get(name).is_none_or(|found| found == value))
}

/// Whom and what the address names has to be there.
fn check(call: &Call) -> Result<(), Refusal> {
    let view = call.view();
    let is_missing = |name: &str, is_there: bool| !call.param(name).is_empty() && !is_there;
    if is_missing("user", view.meta.user(call.param("user")).is_some())
        || is_missing("vhost", view.meta.vhost(call.param("vhost")).is_some())
    {
        return Err(Refusal::not_found());
    }
    Ok(())
}

pub(crate) fn list_permissions(call: &Call) -> Outcome {
    check(call)?;
    call.list(permissions(call))
}

pub(crate) fn list_topic_permissions(call: &Call) -> Outcome {
    check(call)?;
    call.list(topic_permissions(call))
}

pub(crate) fn get_permissions(call: &Call) -> Outcome {
    check(call)?;
    permissions(call).pop().map(Answer::Json).ok_or_else(Refusal::not_found)
}

fn address(call: &Call) -> Value {
    json!({"user": call.param("user"), "vhost": call.param("vhost")})
}

pub(crate) async fn put_permissions(call: &Call) -> Outcome {
    let (body, was_there) = (call.object()?, !permissions(call).is_empty());
    check_keys(&body, &["configure", "write", "read"])?;
    check(call).map_err(|_| Refusal::bad_request("vhost_or_user_not_found"))?;
    let mut fields = address(call);
    for field in ["configure", "write", "read"] {
        put_field(&mut fields, field, json!(text(&body, field)?));
    }
    call.ask("set_permissions", fields).await?;
    Ok(Answer::put(was_there))
}

pub(crate) async fn delete_permissions(call: &Call) -> Outcome {
    get_permissions(call)?;
    call.ask("clear_permissions", address(call)).await?;
    Ok(Answer::NoContent)
}

pub(crate) async fn put_topic_permissions(call: &Call) -> Outcome {
    let body = call.object()?;
    let exchange = text(&body, "exchange")?;
    let was_there = topic_permissions(call).iter().any(|row| row["exchange"] == exchange);
    let mut fields = address(call);
    for field in ["exchange", "write", "read"] {
        put_field(&mut fields, field, json!(text(&body, field)?));
    }
    call.ask("set_topic_permissions", fields).await?;
    Ok(Answer::put(was_there))
}

pub(crate) async fn delete_topic_permissions(call: &Call) -> Outcome {
    if topic_permissions(call).is_empty() {
        return Err(Refusal::not_found());
    }
    let mut fields = address(call);
    if !call.param("exchange").is_empty() {
        put_field(&mut fields, "exchange", json!(call.param("exchange")));
    }
    call.ask("clear_topic_permissions", fields).await?;
    Ok(Answer::NoContent)
}

pub(crate) fn user_queues(call: &Call) -> Outcome {
    check(call)?;
    let view = call.view();
    let may = |def: &meta::QueueDef| {
        let users = view.meta.users();
        users.may(call.param("user"), &def.vhost, meta::Permission::Read, &def.name)
    };
    let seen = view.meta.queues().iter().filter(|def| !def.is_internal() && may(def));
    let row = |def: &std::sync::Arc<meta::QueueDef>| json!({"name": def.name.as_str(), "vhost": def.vhost.as_str()});
    call.list(seen.map(row).collect())
}
