//! The backend of users among the definitions.

use crate::{AuthenticatedUser, Refused, shown};
use meta::State;

/// Compares the password with the one the user has, if there is one to be compared.
pub(crate) fn authenticate(
    state: &State,
    username: &[u8],
    password: Option<&[u8]>,
) -> Result<AuthenticatedUser, Refused> {
    if password.is_some_and(<[u8]>::is_empty) {
        return Err(Refused::BlankPassword(shown(username)));
    }
    let user = std::str::from_utf8(username).ok().and_then(|name| state.user(name));
    let fits = |user: &&meta::User| password.is_none_or(|it| user.password.verify(it));
    match user.filter(fits) {
        Some(user) => Ok(AuthenticatedUser { name: user.name.clone(), tags: user.tags.to_vec() }),
        None => Err(Refused::InvalidCredentials(shown(username))),
    }
}
