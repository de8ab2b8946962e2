//! The backend of users among the definitions.

use crate::{AuthenticatedUser, Refused, shown};
use meta::State;

/// Compares the password with the one the user has.
pub(crate) fn authenticate(
    state: &State,
    username: &[u8],
    password: &[u8],
) -> Result<AuthenticatedUser, Refused> {
    if password.is_empty() {
        return Err(Refused::BlankPassword(shown(username)));
    }
    let user = std::str::from_utf8(username).ok().and_then(|name| state.user(name));
    match user.filter(|user| user.password().verify(password)) {
        Some(user) => {
            Ok(AuthenticatedUser { name: user.name().clone(), tags: user.tags().to_vec() })
        }
        None => Err(Refused::InvalidCredentials(shown(username))),
    }
}
