//! Pages of other places, whose browsers may know a login: what they may ask, and how they are told.

use crate::Settings;
use crate::refusal::Refusal;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

fn text(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Whether it is a page of the node's own that asks; none if the browser does not say.
fn is_own(headers: &HeaderMap) -> Option<bool> {
    match text(headers, header::ORIGIN) {
        Some(origin) => {
            let place = origin.split_once("://").map(|(_, place)| place);
            Some(place.is_some() && place == text(headers, header::HOST))
        }
        None => text(headers, "sec-fetch-site").map(|site| site == "same-origin"),
    }
}

/// Refuses changes that a page of another place has its browser ask for, unless it may.
pub(crate) fn check(headers: &HeaderMap, settings: &Settings) -> Result<(), Refusal> {
    let origin = text(headers, header::ORIGIN);
    if origin.is_none_or(|origin| is_own(headers) == Some(true) || settings.allows(origin)) {
        return Ok(());
    }
    Err(forbidden(format!("requests from origin {} are not allowed", origin.unwrap_or_default())))
}

/// Refuses changes with a cookie, which browsers send by themselves, but for those of the node's own pages.
pub(crate) fn check_cookie(headers: &HeaderMap) -> Result<(), Refusal> {
    if is_own(headers) == Some(true) {
        return Ok(());
    }
    Err(forbidden("with a session cookie, only pages of this node may make changes".to_owned()))
}

fn forbidden(reason: String) -> Refusal {
    Refusal::of_status(StatusCode::FORBIDDEN, "forbidden", reason)
}

/// Adds the headers that tell a browser that a page may send requests here.
pub(crate) fn fill(
    headers: &mut HeaderMap,
    settings: &Settings,
    asked: &HeaderMap,
    method: &Method,
    allowed: &str,
) {
    let Some(origin) = asked.get(header::ORIGIN) else { return };
    if !origin.to_str().is_ok_and(|origin| settings.allows(origin)) {
        return;
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    let told = HeaderValue::from_static("true");
    headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, told);
    if method != Method::OPTIONS {
        return;
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, settings.origins_age_s.into());
    let mut tell =
        |name: HeaderName, value: Option<HeaderValue>| value.map(|it| headers.insert(name, it));
    tell(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_str(allowed).ok());
    // COMPAT: whichever are asked for.
    let wanted = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    tell(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
}
