//! Turns of work that takes long, in fair order: an asker that asks much waits for itself. Askers take turns,
//! each by user and address, and no user has all turns at once. The list of those that wait is limited.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// The asker of a turn: a user, and an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnKey {
    /// The user's name; empty for a stranger.
    pub user: String,
    /// The address of the asker, or that of its network where one client may have many addresses.
    pub address: IpAddr,
}

/// The limits of turns, and of waiting for one.
#[derive(Clone, Copy, Debug)]
pub struct TurnLimits {
    /// The most turns at a time.
    pub of_node_max: usize,
    /// The most turns of one user at a time.
    pub of_user_max: usize,
    /// The most requests that wait for a turn.
    pub waiting_max: usize,
    /// The most requests of one asker that wait for a turn.
    pub waiting_of_asker_max: usize,
}

/// Turns of one kind of work.
#[derive(Debug)]
pub struct FairTurns {
    limits: TurnLimits,
    state: Mutex<TurnState>,
}

#[derive(Debug, Default)]
struct TurnState {
    n_running: usize,
    /// Turns under way, by user.
    running: BTreeMap<String, usize>,
    n_waiting: usize,
    /// Requests that wait, by asker; the first asker is the next.
    waiting: VecDeque<(TurnKey, VecDeque<oneshot::Sender<Turn>>)>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<FairTurns>,
    user: String,
}

/// Turns that were given away under the lock, and are told without it.
type Given = Vec<(oneshot::Sender<Turn>, String)>;

impl FairTurns {
    /// Creates turns, and places to wait for them, within these limits.
    #[must_use]
    pub fn new(limits: TurnLimits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default() })
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// Too many wait already.
    pub async fn begin(self: &Arc<Self>, asker: &TurnKey) -> Result<Turn, TooMany> {
        let waiting = {
            let mut state = stdx::lock(&self.state);
            if state.may_run(&asker.user, &self.limits) {
                state.note_running(&asker.user);
                return Ok(self.turn(asker.user.clone()));
            }
            state.wait(asker, &self.limits)?
        };
        waiting.await.map_err(|_| TooMany)
    }

    fn turn(self: &Arc<Self>, user: String) -> Turn {
        Turn { turns: Arc::clone(self), user }
    }

    fn end(self: &Arc<Self>, user: &str) {
        let given = {
            let mut state = stdx::lock(&self.state);
            state.n_running -= 1;
            let n_of_user = state.running.get_mut(user).map_or(0, |n| {
                *n -= 1;
                *n
            });
            if n_of_user == 0 {
                state.running.remove(user);
            }
            state.give(&self.limits)
        };
        for (waiting, user) in given {
            // The failed send drops the turn of an asker that has gone meanwhile, which gives it back.
            let _gone = waiting.send(self.turn(user));
        }
    }
}

impl TurnState {
    fn may_run(&self, user: &str, limits: &TurnLimits) -> bool {
        let n_of_user = self.running.get(user).copied().unwrap_or_default();
        self.n_running < limits.of_node_max && n_of_user < limits.of_user_max
    }

    fn note_running(&mut self, user: &str) {
        self.n_running += 1;
        *self.running.entry(user.to_owned()).or_default() += 1;
    }

    fn wait(
        &mut self,
        asker: &TurnKey,
        limits: &TurnLimits,
    ) -> Result<oneshot::Receiver<Turn>, TooMany> {
        if self.is_full(asker, limits) {
            self.forget_gone();
            if self.is_full(asker, limits) {
                return Err(TooMany);
            }
        }
        let (sender, receiver) = oneshot::channel();
        self.n_waiting += 1;
        match self.waiting.iter_mut().find(|(other, _)| other == asker) {
            Some((_, its)) => its.push_back(sender),
            None => self.waiting.push_back((asker.clone(), VecDeque::from([sender]))),
        }
        Ok(receiver)
    }

    fn is_full(&self, asker: &TurnKey, limits: &TurnLimits) -> bool {
        let its = self.waiting.iter().find(|(other, _)| other == asker);
        let n_its = its.map_or(0, |(_, its)| its.len());
        self.n_waiting >= limits.waiting_max || n_its >= limits.waiting_of_asker_max
    }

    fn forget_gone(&mut self) {
        for (_, its) in &mut self.waiting {
            its.retain(|waiting| !waiting.is_closed());
        }
        self.waiting.retain(|(_, its)| !its.is_empty());
        self.n_waiting = self.waiting.iter().map(|(_, its)| its.len()).sum();
    }

    /// Gives away the turns there are: each asker gets one, and then is the last.
    fn give(&mut self, limits: &TurnLimits) -> Given {
        let mut given = Given::new();
        loop {
            let next = self.waiting.iter().position(|(it, _)| self.may_run(&it.user, limits));
            let Some((asker, mut its)) = next.and_then(|at| self.waiting.remove(at)) else {
                return given;
            };
            while let Some(waiting) = its.pop_front() {
                self.n_waiting -= 1;
                if !waiting.is_closed() {
                    self.note_running(&asker.user);
                    given.push((waiting, asker.user.clone()));
                    break;
                }
            }
            if !its.is_empty() {
                self.waiting.push_back((asker, its));
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.end(&self.user);
    }
}

/// Too many wait for their turn already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::net::Ipv4Addr;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    const LIMITS: TurnLimits =
        TurnLimits { of_node_max: 2, of_user_max: 1, waiting_max: 4, waiting_of_asker_max: 3 };

    fn key(user: &str, last: u8) -> TurnKey {
        TurnKey { user: user.to_owned(), address: Ipv4Addr::new(10, 0, 0, last).into() }
    }

    type Beginning = Pin<Box<dyn Future<Output = Result<Turn, TooMany>>>>;

    fn begin(turns: &Arc<FairTurns>, user: &str, last: u8) -> Beginning {
        let (turns, key) = (Arc::clone(turns), key(user, last));
        Box::pin(async move { turns.begin(&key).await })
    }

    fn poll(beginning: &mut Beginning) -> Option<Result<Turn, TooMany>> {
        match beginning.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ready) => Some(ready),
            Poll::Pending => None,
        }
    }

    fn now(beginning: &mut Beginning) -> Turn {
        poll(beginning).unwrap().unwrap()
    }

    #[test]
    fn askers_take_turns_and_nobody_has_all() {
        let turns = FairTurns::new(LIMITS);
        let first = now(&mut begin(&turns, "much", 1));
        let mut more: Vec<_> = (0..2).map(|_| begin(&turns, "much", 1)).collect();
        assert!(more.iter_mut().all(|it| poll(it).is_none()), "a user has a turn at a time");
        let other = now(&mut begin(&turns, "other", 1));
        let mut late = begin(&turns, "late", 1);
        let mut elsewhere = begin(&turns, "much", 2);
        assert!(poll(&mut late).is_none() && poll(&mut elsewhere).is_none());
        drop(first);
        let second = now(&mut more[0]);
        assert!(poll(&mut late).is_none());
        drop(second);
        let late = now(&mut late);
        drop((late, other));
        let from_elsewhere = now(&mut elsewhere);
        assert!(poll(&mut more[1]).is_none());
        drop(from_elsewhere);
        drop(now(&mut more[1]));
        assert_eq!(stdx::lock(&turns.state).n_running, 0);
    }

    #[test]
    fn those_who_wait_are_limited_and_those_who_go_leave_their_place() {
        let turns = FairTurns::new(LIMITS);
        let running = now(&mut begin(&turns, "a", 1));
        let mut waiting: Vec<_> = (0..3).map(|_| begin(&turns, "a", 1)).collect();
        assert!(waiting.iter_mut().all(|it| poll(it).is_none()));
        assert_eq!(poll(&mut begin(&turns, "a", 1)).unwrap().unwrap_err(), TooMany);
        drop(waiting.remove(1));
        let mut last = begin(&turns, "a", 1);
        assert!(poll(&mut last).is_none());
        // The first waiting request has its turn, and goes before it knows.
        drop(running);
        drop(waiting.remove(0));
        let next = now(&mut waiting[0]);
        drop((waiting, next));
        drop(now(&mut last));
        assert_eq!(stdx::lock(&turns.state).n_waiting, 0);
    }
}
