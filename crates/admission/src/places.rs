//! Sockets of a kind that there is a limit to: those of connections that have not opened a virtual host yet,
//! and those that only wait for their clients to close them.
//!
//! Such sockets cost memory and a descriptor, and it is not known whether anybody needs them. Beyond the
//! limit a new socket takes the place of the oldest: a client that only keeps sockets open cannot keep others
//! out. Where the new socket's address has many already, the oldest of that address goes, so that a flood
//! from one address displaces its own. Of silent sockets and of those that have sent something, the oldest of
//! the kind that is more than half goes: a flood of silent sockets displaces its own, and one of sockets that
//! talk leaves newcomers time to be heard.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The share of all places that an address may have before its sockets take each other's places: a sixteenth.
const ADDRESSES_MIN: usize = 16;

/// All places for one kind.
#[derive(Debug)]
pub struct Places {
    max: usize,
    taken: Mutex<Taken>,
}

/// The places that are taken.
#[derive(Debug, Default)]
struct Taken {
    next: u64,
    by_number: HashMap<u64, Socket>,
    all: Numbers,
    of: HashMap<IpAddr, Numbers>,
}

/// A socket that has a place.
#[derive(Debug)]
struct Socket {
    /// Notified when the socket has to go.
    lost: Arc<Notify>,
    network: IpAddr,
}

/// The outcome of adding a socket.
struct Added {
    number: u64,
    /// The notification of the socket that has lost its place to this one.
    displaced: Option<Arc<Notify>>,
}

/// Numbers of sockets that nothing was heard of, and of others; the oldest are the least.
#[derive(Debug, Default)]
struct Numbers {
    silent: BTreeSet<u64>,
    heard: BTreeSet<u64>,
}

impl Numbers {
    fn len(&self) -> usize {
        self.silent.len() + self.heard.len()
    }

    /// The oldest number of the larger half.
    fn oldest(&self) -> Option<u64> {
        let has_more_silent = self.silent.len() >= self.heard.len();
        if has_more_silent { self.silent.first() } else { self.heard.first() }.copied()
    }

    fn note_heard(&mut self, number: u64) {
        if self.silent.remove(&number) {
            self.heard.insert(number);
        }
    }

    fn note_idle(&mut self, number: u64) {
        if self.heard.remove(&number) {
            self.silent.insert(number);
        }
    }

    fn remove(&mut self, number: u64) {
        if !self.silent.remove(&number) {
            self.heard.remove(&number);
        }
    }
}

impl Taken {
    /// Adds a silent socket; another one has to go if there are more than `max` then.
    fn add(&mut self, socket: Socket, max: usize) -> Added {
        let number = self.next;
        self.next += 1;
        let its = self.of.entry(socket.network).or_default();
        self.by_number.insert(number, socket);
        self.all.silent.insert(number);
        its.silent.insert(number);
        if self.all.len() <= max {
            return Added { number, displaced: None };
        }
        let more = if its.len() > max / ADDRESSES_MIN { its } else { &self.all };
        let oldest = more.oldest();
        Added { number, displaced: oldest.and_then(|oldest| self.remove(oldest)) }
    }

    /// Takes away the oldest socket of the larger half.
    fn pop(&mut self) -> Option<Arc<Notify>> {
        let oldest = self.all.oldest()?;
        self.remove(oldest)
    }

    fn note(&mut self, number: u64, what: fn(&mut Numbers, u64)) {
        let Some(socket) = self.by_number.get(&number) else { return };
        what(&mut self.all, number);
        if let Some(its) = self.of.get_mut(&socket.network) {
            what(its, number);
        }
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Notify>> {
        let Socket { lost, network } = self.by_number.remove(&number)?;
        self.all.remove(number);
        if let Some(its) = self.of.get_mut(&network) {
            its.remove(number);
            if its.len() == 0 {
                self.of.remove(&network);
            }
        }
        Some(lost)
    }
}

/// A place, free again when this is dropped.
#[derive(Debug)]
pub struct Place {
    number: u64,
    lost: Arc<Notify>,
    all: Arc<Places>,
}

impl Places {
    /// Creates places for at most `max` sockets at a time.
    pub fn new(max: u64) -> Arc<Self> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        Arc::new(Self { max, taken: Mutex::default() })
    }

    /// Takes a place for a socket of this network, and tells another socket that it has lost its own when
    /// there are too many.
    pub fn take(self: &Arc<Self>, network: IpAddr) -> Place {
        let lost = Arc::new(Notify::new());
        let newcomer = Socket { lost: Arc::clone(&lost), network };
        let Added { number, displaced } = stdx::lock(&self.taken).add(newcomer, self.max);
        if let Some(displaced) = displaced {
            displaced.notify_one();
        }
        Place { number, lost, all: Arc::clone(self) }
    }

    /// Tells the oldest of the larger half that it has lost its place.
    pub fn displace(&self) {
        let displaced = stdx::lock(&self.taken).pop();
        displaced.inspect(|displaced| displaced.notify_one());
    }

    /// Tells all of them that they have lost their places.
    pub fn clear(&self) {
        let mut taken = stdx::lock(&self.taken);
        let none = Taken { next: taken.next, ..Taken::default() };
        let all = std::mem::replace(&mut *taken, none);
        drop(taken);
        all.by_number.into_values().for_each(|socket| socket.lost.notify_one());
    }
}

impl Place {
    /// The notification that the owner of the place has to go.
    pub fn lost(&self) -> Arc<Notify> {
        Arc::clone(&self.lost)
    }

    /// Notes that the place's client has been answered, and wants nothing for now.
    pub fn idle(&self) {
        stdx::lock(&self.all.taken).note(self.number, Numbers::note_idle);
    }

    /// Notes that the place's socket has sent something.
    pub fn heard(&self) {
        stdx::lock(&self.all.taken).note(self.number, Numbers::note_heard);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _was_displaced = stdx::lock(&self.all.taken).remove(self.number).is_none();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::future::Future as _;
    use std::net::Ipv4Addr;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_lost(place: &Place) -> bool {
        let lost = place.lost();
        pin!(lost.notified()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn network(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    #[test]
    fn the_oldest_makes_room() {
        let all = Places::new(2);
        let take = || all.take(network(1));
        let (first, second) = (take(), take());
        assert!(!is_lost(&first));
        let third = take();
        assert!(is_lost(&first) && !is_lost(&second));
        drop(second);
        drop(first);
        let fourth = take();
        assert!(!is_lost(&third) && !is_lost(&fourth));
        drop((third, fourth));
        let taken = stdx::lock(&all.taken);
        assert!(taken.by_number.is_empty() && taken.of.is_empty() && taken.all.len() == 0);
    }

    #[test]
    fn a_flood_from_one_network_displaces_its_own() {
        let all = Places::new(32);
        let bystander = all.take(network(1));
        let flood: Vec<Place> = (0..100).map(|_| all.take(network(2))).collect();
        assert!(!is_lost(&bystander));
        assert_eq!(flood.iter().filter(|place| !is_lost(place)).count(), 31);
    }

    #[test]
    fn all_can_be_told_to_go() {
        let all = Places::new(u64::MAX);
        let places = [all.take(network(1)), all.take(network(2))];
        all.clear();
        assert!(places.iter().all(is_lost) && !is_lost(&all.take(network(1))));
    }

    proptest! {
        /// Against a list of them all: of those of the network, if they are many, or of all, the oldest goes
        /// of those that are more than half.
        #[test]
        fn neither_silent_sockets_nor_others_displace_the_smaller_half(
            max in 1_usize..50,
            steps in prop::collection::vec((0_u8..6, 0_u8..3, any::<prop::sample::Index>()), 0..199),
        ) {
            let (all, mut model) = (Places::new(max as u64), Vec::<(Place, u8, bool)>::new());
            for (step, from, which) in steps {
                if model.is_empty() || step < 4 {
                    model.push((all.take(network(from)), from, false));
                    if model.len() > max {
                        let n_its = model.iter().filter(|it| it.1 == from).count();
                        let is_one = |it: &&(Place, u8, bool)| {
                            n_its <= max / ADDRESSES_MIN || it.1 == from
                        };
                        let n_heard = model.iter().filter(is_one).filter(|it| it.2).count();
                        let n = model.iter().filter(is_one).count();
                        let goes = |it: &(Place, u8, bool)| is_one(&it) && it.2 == (2 * n_heard > n);
                        let at = model.iter().position(goes).unwrap();
                        prop_assert!(is_lost(&model.remove(at).0));
                    }
                } else if step == 4 {
                    let at = which.index(model.len());
                    model[at].0.heard();
                    model[at].2 = true;
                } else {
                    model.remove(which.index(model.len()));
                }
                prop_assert!(!model.iter().any(|(place, ..)| is_lost(place)));
            }
        }
    }
}
