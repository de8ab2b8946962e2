//! Logins with a cookie: begun by a form, ended by a request or by time. A cookie holds no more than a number
//! that nobody can guess; a user who is deleted, or has another password, is out with the next request.

use crate::Api;
use crate::call::{Answer, Call, Outcome};
use crate::caller::{Caller, known, log_in};
use crate::connection::Peer;
use crate::origins;
use crate::query::Query;
use crate::refusal::Refusal;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use meta::PasswordHash;
use std::collections::HashMap;
use std::sync::Mutex;

/// Longest form, bytes.
pub(crate) const FORM_BYTES_MAX: usize = 16 * 1024;
/// Logins at a time; for one more the one that would end first goes.
const LOGINS_MAX: usize = 10_000;
/// COMPAT: the name of the cookie.
const COOKIE: &str = "auth";

/// All logins with cookies.
#[derive(Default)]
pub(crate) struct Logins(Mutex<HashMap<String, Login>>);

#[derive(Clone)]
struct Login {
    user: String,
    /// As it was then.
    password: PasswordHash,
    ends_ms: u64,
}

impl Logins {
    fn put(&self, token: String, login: Login, now_ms: u64) {
        let mut logins = stdx::lock(&self.0);
        if logins.len() >= LOGINS_MAX {
            logins.retain(|_, login| login.ends_ms > now_ms);
            let first = logins.iter().min_by_key(|(_, login)| login.ends_ms);
            if let Some(first) = first.map(|(token, _)| token.clone()) {
                logins.remove(&first);
            }
        }
        logins.insert(token, login);
    }
}

/// The number in a request's cookie.
fn token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
    let mut cookies = cookies.flat_map(|it| it.split(';'));
    cookies.find_map(|it| it.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

/// Who asks, by the cookie; none without one that counts.
pub(crate) async fn caller(
    api: &Api,
    headers: &HeaderMap,
    peer: Peer,
    changes: bool,
) -> Result<Option<Caller>, Refusal> {
    let Some(token) = token(headers) else { return Ok(None) };
    let login = stdx::lock(&api.logins.0).get(token).cloned();
    let view = api.management.broker.view();
    let holds = |login: &Login| {
        let user = view.meta.user(&login.user);
        login.ends_ms > api.now().monotonic_ms
            && user.map(meta::User::password) == Some(&login.password)
    };
    let Some(login) = login.filter(holds) else { return Ok(None) };
    if changes {
        origins::check_cookie(headers)?;
    }
    known(api, &login.user, peer).await.map(Some)
}

/// Answers the form with a cookie.
pub(crate) async fn begin(
    api: &Api,
    peer: Peer,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Response, Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        let text = "a form with `username` and `password` is expected";
        return Err(Refusal::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_request", text));
    }
    let form = Query::parse(std::str::from_utf8(body).unwrap_or_default())?;
    let [user, password] =
        ["username", "password"].map(|field| form.get(field).unwrap_or_default());
    let caller = log_in(api, (user.as_bytes(), password.as_bytes()), peer).await?;
    let view = api.management.broker.view();
    let user = view.meta.user(&caller.user).ok_or_else(Refusal::unauthorized)?;
    let token: String = mgmt::random::<32>()?.iter().map(|byte| format!("{byte:02x}")).collect();
    let now_ms = api.now().monotonic_ms;
    let ends_ms = now_ms.saturating_add(api.settings.login_ms);
    let login = Login { user: caller.user, password: user.password().clone(), ends_ms };
    let cookie = cookie(api, &token, api.settings.login_ms / 1_000, peer.is_encrypted);
    api.logins.put(token, login, now_ms);
    let headers =
        [(header::SET_COOKIE, cookie), (header::CONTENT_TYPE, "application/json".to_owned())];
    Ok((headers, "\"ok\"").into_response())
}

/// Ends the login.
pub(crate) async fn end(call: &Call) -> Outcome {
    if let Some(token) = token(&call.headers) {
        stdx::lock(&call.api.logins.0).remove(token);
    }
    Ok(Answer::LoggedOut(cookie(&call.api, "", 0, call.caller.peer.is_encrypted)))
}

fn cookie(api: &Api, token: &str, age_s: u64, is_encrypted: bool) -> String {
    let secure = if is_encrypted { "; Secure" } else { "" };
    let prefix = &api.settings.path_prefix;
    format!("{COOKIE}={token}; Path={prefix}/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}")
}
