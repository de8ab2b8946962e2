//! Sockets of a kind that there is a limit to: those of connections that have not opened a virtual host yet,
//! and those that only wait for their clients to close them.
//!
//! They cost memory and a descriptor, and it is not known whether anybody needs them. Beyond the limit a
//! new one takes the place of the oldest: whoever only keeps sockets open cannot keep others out. Of those
//! that nothing was heard of, and of the others, it is the oldest of those that are more than half of all: a
//! flood of silent sockets displaces its own, and one of sockets that talk leaves newcomers time to be heard.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// All places for one kind.
#[derive(Debug)]
pub struct Places {
    max: usize,
    taken: Mutex<Taken>,
}

/// The places that are taken by sockets that nothing was heard of, and by the others, oldest first.
#[derive(Debug, Default)]
struct Taken {
    next: u64,
    silent: BTreeMap<u64, Arc<Notify>>,
    heard: BTreeMap<u64, Arc<Notify>>,
}

impl Taken {
    /// Adds a silent one: its number, and the one that has to go if there are more than `max`.
    fn add(&mut self, lost: Arc<Notify>, max: usize) -> (u64, Option<Arc<Notify>>) {
        let number = self.next;
        self.next += 1;
        self.silent.insert(number, lost);
        let is_too_many = self.silent.len() + self.heard.len() > max;
        let more = if self.silent.len() > max / 2 { &mut self.silent } else { &mut self.heard };
        (number, if is_too_many { more.pop_first().map(|(_, lost)| lost) } else { None })
    }

    /// Takes away the oldest of the larger half.
    fn pop(&mut self) -> Option<Arc<Notify>> {
        let has_more_silent = self.silent.len() >= self.heard.len();
        let more = if has_more_silent { &mut self.silent } else { &mut self.heard };
        more.pop_first().map(|(_, lost)| lost)
    }

    fn note_heard(&mut self, number: u64) {
        if let Some(lost) = self.silent.remove(&number) {
            self.heard.insert(number, lost);
        }
    }

    fn note_idle(&mut self, number: u64) {
        if let Some(lost) = self.heard.remove(&number) {
            self.silent.insert(number, lost);
        }
    }

    fn remove(&mut self, number: u64) {
        if self.silent.remove(&number).is_none() {
            self.heard.remove(&number);
        }
    }

    fn clear(&mut self) -> impl Iterator<Item = Arc<Notify>> + use<> {
        let Self { silent, heard, .. } = self;
        [silent, heard].map(std::mem::take).into_iter().flat_map(BTreeMap::into_values)
    }
}

/// One place, free again when this is dropped.
#[derive(Debug)]
pub struct Place {
    number: u64,
    lost: Arc<Notify>,
    all: Arc<Places>,
}

impl Places {
    /// At most so many at a time.
    pub fn new(max: u64) -> Arc<Self> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        Arc::new(Self { max, taken: Mutex::default() })
    }

    /// Takes one, and tells another that it has lost its own when there are too many.
    pub fn take(self: &Arc<Self>) -> Place {
        let lost = Arc::new(Notify::new());
        let (number, displaced) = stdx::lock(&self.taken).add(Arc::clone(&lost), self.max);
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
        stdx::lock(&self.taken).clear().for_each(|lost| lost.notify_one());
    }
}

impl Place {
    /// Notified when whoever has the place has to go.
    pub fn lost(&self) -> Arc<Notify> {
        Arc::clone(&self.lost)
    }

    /// Its client has been answered, and wants nothing for now.
    pub fn idle(&self) {
        stdx::lock(&self.all.taken).note_idle(self.number);
    }

    /// Its socket has sent something.
    pub fn heard(&self) {
        stdx::lock(&self.all.taken).note_heard(self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        stdx::lock(&self.all.taken).remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_lost(place: &Place) -> bool {
        let lost = place.lost();
        pin!(lost.notified()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_oldest_makes_room() {
        let all = Places::new(2);
        let (first, second) = (all.take(), all.take());
        assert!(!is_lost(&first));
        let third = all.take();
        assert!(is_lost(&first) && !is_lost(&second));
        drop(second);
        drop(first);
        let fourth = all.take();
        assert!(!is_lost(&third) && !is_lost(&fourth));
        drop((third, fourth));
        assert_eq!(stdx::lock(&all.taken).clear().count(), 0);
    }

    #[test]
    fn all_can_be_told_to_go() {
        let all = Places::new(u64::MAX);
        let places = [all.take(), all.take()];
        all.clear();
        assert!(places.iter().all(is_lost) && !is_lost(&all.take()));
    }

    proptest! {
        /// Against a list of them all: the oldest goes of those that are more than half.
        #[test]
        fn neither_silent_sockets_nor_others_displace_the_smaller_half(
            max in 1_usize..9,
            steps in prop::collection::vec((0_u8..4, any::<prop::sample::Index>()), 0..99),
        ) {
            let (all, mut model) = (Places::new(max as u64), Vec::<(Place, bool)>::new());
            for (step, which) in steps {
                if model.is_empty() || step < 2 {
                    model.push((all.take(), false));
                    let n_silent = model.iter().filter(|(_, is_heard)| !is_heard).count();
                    if model.len() > max {
                        let goes = |(_, is_heard): &(Place, bool)| *is_heard == (n_silent <= max / 2);
                        let at = model.iter().position(goes).unwrap();
                        prop_assert!(is_lost(&model.remove(at).0));
                    }
                } else if step == 2 {
                    let at = which.index(model.len());
                    model[at].0.heard();
                    model[at].1 = true;
                } else {
                    model.remove(which.index(model.len()));
                }
                prop_assert!(!model.iter().any(|(place, _)| is_lost(place)));
            }
        }
    }
}
