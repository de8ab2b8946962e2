//! Logins with a cookie, for browsers: begun by a form, ended by a request or by time.

use crate::Api;
use crate::call::{Answer, Call, Outcome};
use crate::caller::{Needs, check_passwords, log_in};
use crate::connection::Peer;
use crate::cookie::NAME;
use crate::query::Query;
use crate::refusal::Refusal;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};

/// Longest form, bytes.
pub(crate) const FORM_BYTES_MAX: usize = 16 * 1024;

/// Answers the form with a cookie.
pub(crate) async fn begin(
    api: &Api,
    peer: Peer,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Response, Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        return Err(Refusal::media_type("expected a form with `username` and `password`"));
    }
    check_passwords(api, peer)?;
    let form = Query::parse(std::str::from_utf8(body).unwrap_or_default())?;
    let field = |name| form.get(name).unwrap_or_default().as_bytes();
    let caller = log_in(api, field("username"), field("password"), peer).await?;
    let view = api.management.broker.view();
    caller.check(Needs::Management, false, &view.meta, "")?;
    let user = view.meta.user(&caller.user).ok_or_else(Refusal::unauthorized)?;
    let ms = api.settings.login_ms;
    let number = api.logins.begin(user, api.now().monotonic_ms.get(), ms)?;
    let cookie = cookie(api, &number, ms / 1_000, peer);
    let json = (header::CONTENT_TYPE, "application/json".to_owned());
    Ok(([(header::SET_COOKIE, cookie), json], "\"ok\"").into_response())
}

/// Ends the login.
pub(crate) async fn end(call: &Call) -> Outcome {
    call.api.logins.end(&call.headers);
    Ok(Answer::LoggedOut(cookie(&call.api, "", 0, call.caller.peer)))
}

fn cookie(api: &Api, number: &str, age_s: u64, peer: Peer) -> String {
    let secure = if peer.is_encrypted { "; Secure" } else { "" };
    let prefix = &api.settings.look.prefix;
    format!("{NAME}={number}; Path={prefix}/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}")
}
