//! Cookies of those who have logged in. They hold no more than a number that nobody can guess; a user who is
//! deleted, or has another password, is out with the next request.

use axum::http::{HeaderMap, header};
use meta::{PasswordHash, State, User};
use mgmt::ApiError;
use std::collections::HashMap;
use std::sync::Mutex;

/// Logins at a time; for one more the one that would end first goes.
const LOGINS_MAX: usize = 10_000;
/// COMPAT: the name of the cookie.
pub(crate) const NAME: &str = "auth";

/// All logins with cookies.
#[derive(Default)]
pub(crate) struct Logins(Mutex<HashMap<String, Login>>);

struct Login {
    user: String,
    /// The hash of the user's password at the login.
    password: PasswordHash,
    ends_ms: u64,
}

impl Logins {
    /// Begins a login, which ends after `lasts_ms`; returns the number for its cookie.
    pub(crate) fn begin(
        &self,
        user: &User,
        now_ms: u64,
        lasts_ms: u64,
    ) -> Result<String, ApiError> {
        let number: String = mgmt::random::<32>()?.iter().map(|it| format!("{it:02x}")).collect();
        let (name, password) = (user.name.to_string(), user.password.clone());
        let login = Login { user: name, password, ends_ms: now_ms.saturating_add(lasts_ms) };
        let mut logins = stdx::lock(&self.0);
        if logins.len() >= LOGINS_MAX {
            logins.retain(|_, login| login.ends_ms > now_ms);
            let first = logins.iter().min_by_key(|(_, login)| login.ends_ms);
            if let Some(first) = first.map(|(number, _)| number.clone()) {
                logins.remove(&first);
            }
        }
        logins.insert(number.clone(), login);
        Ok(number)
    }

    /// The user of a request's cookie, if the login lasts and the password is still the same.
    pub(crate) fn user(&self, headers: &HeaderMap, state: &State, now_ms: u64) -> Option<String> {
        let logins = stdx::lock(&self.0);
        let login = logins.get(number(headers)?).filter(|login| login.ends_ms > now_ms)?;
        let user = state.user(&login.user)?;
        (user.password == login.password).then(|| login.user.clone())
    }

    /// Ends the login of a request's cookie.
    pub(crate) fn end(&self, headers: &HeaderMap) {
        if let Some(number) = number(headers) {
            stdx::lock(&self.0).remove(number);
        }
    }
}

fn number(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
    let mut cookies = cookies.flat_map(|it| it.split(';'));
    cookies.find_map(|it| it.trim().strip_prefix(NAME)?.strip_prefix('='))
}
