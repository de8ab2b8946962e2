//! Work that takes long: in slices, in turns of those who ask for it, and no more of it at a time than there
//! are places.

use crate::refusal::Refusal;
use admission::{FairTurns, TooMany, Turn, TurnKey};
use std::sync::{Arc, Mutex};
use tokio::task::yield_now;

/// Time of a slice, milliseconds.
const SLICE_MS: u64 = 5;

impl From<TooMany> for Refusal {
    fn from(TooMany: TooMany) -> Self {
        Self::too_many("too many queued requests of this user or of all users")
    }
}

/// Work that goes on for long, in slices: after each of them others have their turn.
#[derive(Debug)]
pub(crate) struct Slices {
    turns: Arc<FairTurns>,
    asker: TurnKey,
    /// The turn of this slice, and when it began.
    slice: Option<(Turn, u64)>,
}

impl Slices {
    pub(crate) const fn new(turns: Arc<FairTurns>, asker: TurnKey) -> Self {
        Self { turns, asker, slice: None }
    }

    /// Waits until the next step may be done.
    ///
    /// # Errors
    /// Too many wait for their turn.
    pub(crate) async fn next(&mut self, now_ms: impl Fn() -> u64) -> Result<(), Refusal> {
        let is_over = |(_, began_ms): &(Turn, u64)| now_ms() >= began_ms + SLICE_MS;
        if self.slice.as_ref().is_none_or(is_over) {
            self.slice = None;
            yield_now().await;
            let turn = self.turns.begin(&self.asker).await?;
            self.slice = Some((turn, now_ms()));
        }
        Ok(())
    }
}

/// The places of what goes on for long, of one user, of all users of one address, and of all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceLimits {
    pub(crate) of_user_max: usize,
    pub(crate) of_address_max: usize,
    pub(crate) of_node_max: usize,
}

/// Places of what goes on for long: whoever finds none is refused at once.
#[derive(Debug)]
pub(crate) struct Places {
    /// The work that has the places, in the plural.
    what: &'static str,
    limits: PlaceLimits,
    /// The user and network of each place that is taken.
    taken: Mutex<Vec<TurnKey>>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    asker: TurnKey,
}

impl Places {
    pub(crate) fn new(what: &'static str, limits: PlaceLimits) -> Arc<Self> {
        Arc::new(Self { what, limits, taken: Mutex::default() })
    }

    /// Takes a place.
    ///
    /// # Errors
    /// The user, the address or the node has as many as it may.
    pub(crate) fn take(self: &Arc<Self>, asker: &TurnKey) -> Result<Place, Refusal> {
        let PlaceLimits { of_user_max, of_address_max, of_node_max } = self.limits;
        let mut all = stdx::lock(&self.taken);
        let of_user = all.iter().filter(|it| it.user == asker.user).count();
        let of_address = all.iter().filter(|it| it.address == asker.address).count();
        let of_node = all.len();
        if of_user >= of_user_max || of_address >= of_address_max || of_node >= of_node_max {
            let text = format!(
                "too many {}: this user has {of_user} of {of_user_max}, this address {of_address} \
                 of {of_address_max}, the node {of_node} of {of_node_max}",
                self.what
            );
            return Err(Refusal::too_many(text));
        }
        all.push(asker.clone());
        drop(all);
        Ok(Place { places: Arc::clone(self), asker: asker.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = stdx::lock(&self.places.taken);
        if let Some(at) = all.iter().position(|it| *it == self.asker) {
            all.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use std::net::Ipv4Addr;

    fn key(user: &str, last: u8) -> TurnKey {
        TurnKey { user: user.to_owned(), address: Ipv4Addr::new(10, 0, 0, last).into() }
    }

    #[test]
    fn places_are_few_for_each_user_and_address() {
        let limits = PlaceLimits { of_user_max: 1, of_address_max: 2, of_node_max: 3 };
        let places = Places::new("searches", limits);
        let first = places.take(&key("a", 1)).unwrap();
        let of_user = places.take(&key("a", 2)).unwrap_err();
        assert_eq!(of_user.status, StatusCode::TOO_MANY_REQUESTS);
        let _second = places.take(&key("b", 1)).unwrap();
        assert!(places.take(&key("c", 1)).is_err(), "a third account of an address");
        let _third = places.take(&key("c", 2)).unwrap();
        assert!(places.take(&key("d", 3)).is_err(), "a fourth of the node");
        drop(first);
        places.take(&key("d", 1)).unwrap();
    }
}
