//! Long looks through queues under way: how many of each user.

use crate::refusal::Refusal;
use axum::http::StatusCode;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Searches, exports and tails at a time, of one user and of all.
const OF_USER_MAX: usize = 4;
const OF_NODE_MAX: usize = 16;

/// Those under way, by user.
#[derive(Debug, Default)]
pub(crate) struct Searches(Mutex<BTreeMap<String, usize>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct SearchTurn {
    searches: Arc<Searches>,
    user: String,
}

impl SearchTurn {
    /// Begins one, unless too many are under way.
    pub(crate) fn begin(searches: &Arc<Searches>, user: &str) -> Result<Self, Refusal> {
        let mut all = stdx::lock(&searches.0);
        let of_user = all.get(user).copied().unwrap_or_default();
        let of_node: usize = all.values().sum();
        if of_user >= OF_USER_MAX || of_node >= OF_NODE_MAX {
            let text = format!(
                "{of_user} searches of this user and {of_node} of all are under way; {OF_USER_MAX} and \
                 {OF_NODE_MAX} may be"
            );
            return Err(Refusal::of_status(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_requests",
                text,
            ));
        }
        all.insert(user.to_owned(), of_user + 1);
        drop(all);
        Ok(Self { searches: Arc::clone(searches), user: user.to_owned() })
    }
}

impl Drop for SearchTurn {
    fn drop(&mut self) {
        let mut all = stdx::lock(&self.searches.0);
        all.entry(std::mem::take(&mut self.user)).and_modify(|n| *n -= 1);
        all.retain(|_, n| *n > 0);
    }
}
