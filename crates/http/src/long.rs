//! Turns of long answers: each holds what it is made of until its client has read it.
//!
//! A turn is for a moment where clients read: who finds none free waits. Strangers, whom nothing but their
//! address tells apart, have few of them together, and one that has stood still for a while, or has had its
//! turn for very long, makes room for the one that has come last: who only holds turns keeps nobody from
//! having one, and who reads has its answer.

use crate::caller::Caller;
use crate::connection::Peer;
use crate::refusal::Refusal;
use auth::network;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// Long answers on their way out at a time, but for those of operators of this machine.
pub(crate) const LONG_MAX: usize = 32;
/// Most long answers to a user, or to strangers of one address.
const OF_ONE_MAX: usize = 2;
/// Most long answers to all users of one address, or to all strangers.
const OF_MANY_MAX: usize = LONG_MAX / 4;
/// Most long answers to operators of this machine.
pub(crate) const OF_OPERATORS_MAX: usize = 8;
/// Requests that wait for a turn, of one user, of strangers of one address, or of operators.
const WAITING_MAX: usize = 64;
/// Requests that wait for a turn, of all strangers, or of all others.
const WAITING_ALL_MAX: usize = 512;
/// Longest wait for a turn.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Time for which a stranger may stand still and have its turn to itself.
const GRACE: Duration = Duration::from_secs(2);
/// Time that a stranger has its turn to itself although it goes on.
const AGE_MAX: Duration = Duration::from_secs(30);
/// Interval at which a waiting request tries to begin.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The recipients of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// An operator of this machine.
    Operator,
    User(String, IpAddr),
    Stranger(IpAddr),
}

impl Audience {
    /// The network that the recipient asks from.
    pub(crate) const fn network(&self) -> IpAddr {
        match self {
            Self::Operator => IpAddr::V6(Ipv6Addr::LOCALHOST),
            Self::User(_, network) | Self::Stranger(network) => *network,
        }
    }

    pub(crate) fn user(caller: &Caller) -> Self {
        if caller.is_local() {
            return Self::Operator;
        }
        Self::User(caller.user.clone(), network(caller.peer.address.ip()))
    }

    pub(crate) fn stranger(peer: Peer) -> Self {
        Self::Stranger(network(peer.address.ip()))
    }

    /// Whether both are the same user, strangers of the same address, or operators.
    fn is_one(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::User(user, _), Self::User(other, _)) => user == other,
            _ => self == other,
        }
    }

    /// Whether the recipient shares the turns of all strangers.
    const fn is_stranger(&self) -> bool {
        matches!(self, Self::Stranger(_))
    }
}

/// An answer that has a turn, or waits for one.
#[derive(Debug)]
struct Entry {
    number: u64,
    audience: Audience,
    /// The time at which the turn began; `None` while the answer waits.
    begun: Option<Instant>,
    /// The time since which the client has taken nothing.
    progress: Instant,
    lost: Arc<Notify>,
}

/// All answers that have a turn or wait for one, oldest first.
#[derive(Debug)]
struct Entries {
    next: u64,
    all: Vec<Entry>,
    grace: Duration,
    age_max: Duration,
}

impl Default for Entries {
    fn default() -> Self {
        Self { next: 0, all: Vec::new(), grace: GRACE, age_max: AGE_MAX }
    }
}

impl Entries {
    fn count(&self, is_counted: impl Fn(&Entry) -> bool) -> usize {
        self.all.iter().filter(|entry| is_counted(entry)).count()
    }

    /// Whether an answer may begin now.
    fn has_room(&self, audience: &Audience) -> bool {
        let begun = |is_counted: &dyn Fn(&Audience) -> bool| {
            self.count(|entry| entry.begun.is_some() && is_counted(&entry.audience))
        };
        let of_one = begun(&|other| audience.is_one(other));
        let of_node = begun(&|other| *other != Audience::Operator);
        match audience {
            Audience::Operator => of_one < OF_OPERATORS_MAX,
            Audience::User(_, address) => {
                let is_beside =
                    |other: &Audience| matches!(other, Audience::User(_, it) if it == address);
                of_one < OF_ONE_MAX && begun(&is_beside) < OF_MANY_MAX && of_node < LONG_MAX
            }
            Audience::Stranger(_) => {
                let n_strangers = begun(&Audience::is_stranger);
                of_one < OF_ONE_MAX && n_strangers < OF_MANY_MAX && of_node < LONG_MAX
            }
        }
    }

    /// Begins the answer if it may: a stranger's if it is the newest that waits, in the place of an answer
    /// that is in its way. `None` if the answer has given up for another.
    fn begin(&mut self, number: u64) -> Option<bool> {
        let audience = self.all.iter().find(|entry| entry.number == number)?.audience.clone();
        if audience.is_stranger() {
            let mut waiting = self.all.iter().rev().filter(|it| it.begun.is_none());
            if waiting.find(|it| it.audience.is_stranger()).is_some_and(|it| it.number != number) {
                return Some(false);
            }
            self.displace(&audience);
        }
        let has_room = self.has_room(&audience);
        let entry = self.all.iter_mut().find(|entry| entry.number == number);
        if let Some(entry) = entry.filter(|_| has_room) {
            entry.progress = Instant::now();
            entry.begun = Some(entry.progress);
        }
        Some(has_room)
    }

    /// Takes the turn from the stranger that has stood still for longest, or else has had one for longest, if
    /// that is in the way of the given audience.
    fn displace(&mut self, audience: &Audience) {
        if self.has_room(audience) {
            return;
        }
        let is_of = |entry: &&Entry| entry.audience.is_stranger() && entry.begun.is_some();
        let of_one = |entry: &&Entry| is_of(entry) && entry.audience == *audience;
        let is_one_full = self.all.iter().filter(of_one).count() >= OF_ONE_MAX;
        let in_the_way = || {
            self.all.iter().filter(|entry| if is_one_full { of_one(entry) } else { is_of(entry) })
        };
        let still = in_the_way().filter(|it| it.progress.elapsed() >= self.grace);
        let is_old = |it: &&Entry| it.begun.is_some_and(|begun| begun.elapsed() >= self.age_max);
        let goes = still
            .min_by_key(|it| it.progress)
            .or_else(|| in_the_way().filter(is_old).min_by_key(|it| it.begun));
        if let Some(Entry { number, lost, .. }) = goes {
            lost.notify_one();
            let number = *number;
            self.all.retain(|entry| entry.number != number);
        }
    }

    fn note_progress(&mut self, number: u64) {
        if let Some(entry) = self.all.iter_mut().find(|entry| entry.number == number) {
            entry.progress = Instant::now();
        }
    }
}

/// Turns of long answers.
#[derive(Debug, Default)]
pub(crate) struct LongTurns {
    entries: Mutex<Entries>,
    freed: Notify,
}

/// A turn of a long answer, until it is dropped.
#[derive(Debug)]
pub(crate) struct LongTurn {
    turns: Arc<LongTurns>,
    number: u64,
    lost: Arc<Notify>,
}

impl LongTurns {
    /// Waits for a turn, unless too many do.
    pub(crate) async fn take(self: &Arc<Self>, audience: Audience) -> Result<LongTurn, Refusal> {
        let turn = self.wait(audience).ok_or_else(too_many)?;
        let begun = async {
            loop {
                let freed = self.freed.notified();
                let begun = stdx::lock(&self.entries).begin(turn.number);
                if begun != Some(false) {
                    return begun.is_some();
                }
                tokio::select! {
                    () = freed => {}
                    () = sleep(LOOK_EVERY) => {}
                }
            }
        };
        let is_begun = timeout(WAIT_MAX, begun).await.unwrap_or(false);
        if is_begun { Ok(turn) } else { Err(too_many()) }
    }

    fn wait(self: &Arc<Self>, audience: Audience) -> Option<LongTurn> {
        let mut entries = stdx::lock(&self.entries);
        let n_waiting = entries.count(|it| it.begun.is_none() && it.audience.is_one(&audience));
        let n_all = entries
            .count(|it| it.begun.is_none() && it.audience.is_stranger() == audience.is_stranger());
        if n_waiting >= WAITING_MAX || n_all >= WAITING_ALL_MAX {
            // The oldest of the strangers gives up for the newest.
            let is_oldest = |it: &Entry| it.begun.is_none() && it.audience == audience;
            let oldest = entries.all.iter().position(is_oldest);
            entries.all.remove(oldest.filter(|_| audience.is_stranger())?);
        }
        let (number, lost) = (entries.next, Arc::new(Notify::new()));
        entries.next += 1;
        let (begun, progress) = (None, Instant::now());
        entries.all.push(Entry { number, audience, begun, progress, lost: Arc::clone(&lost) });
        drop(entries);
        Some(LongTurn { turns: Arc::clone(self), number, lost })
    }
}

impl LongTurn {
    /// Notified when the turn is another's.
    pub(crate) fn lost(&self) -> Arc<Notify> {
        Arc::clone(&self.lost)
    }

    /// Notes that the client has taken something.
    pub(crate) fn note_progress(&self) {
        stdx::lock(&self.turns.entries).note_progress(self.number);
    }
}

impl Drop for LongTurn {
    fn drop(&mut self) {
        stdx::lock(&self.turns.entries).all.retain(|entry| entry.number != self.number);
        self.turns.freed.notify_waiters();
    }
}

fn too_many() -> Refusal {
    let text = "too many large responses in progress: request a page, or retry later";
    Refusal::too_many(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    fn user(name: &str, n: u8) -> Audience {
        Audience::User(name.to_owned(), address(n))
    }

    /// Takes a turn that must be free, or `None`.
    fn now(turns: &Arc<LongTurns>, audience: Audience) -> Option<LongTurn> {
        let turn = turns.wait(audience)?;
        let begun = stdx::lock(&turns.entries).begin(turn.number);
        (begun == Some(true)).then_some(turn)
    }

    #[test]
    fn neither_one_user_nor_one_address_nor_strangers_hold_all_turns() {
        let turns = Arc::<LongTurns>::default();
        let mut held = Vec::new();
        for n in 0..LONG_MAX {
            let n = u8::try_from(n).unwrap();
            held.extend([now(&turns, Audience::Stranger(address(n / 2)))]);
            held.extend([now(&turns, user(&format!("u{}", n / 2), 100))]);
        }
        assert_eq!(held.iter().flatten().count(), 2 * OF_MANY_MAX);
        let first = (now(&turns, user("one", 1)), now(&turns, user("one", 2)));
        assert!(first.0.is_some() && first.1.is_some());
        assert!(now(&turns, user("one", 3)).is_none() && now(&turns, user("u0", 3)).is_none());
        held.clear();
        assert!(now(&turns, user("u0", 3)).is_some());
        assert!(now(&turns, Audience::Operator).is_some());
    }

    #[test]
    fn operators_of_the_machine_wait_for_no_user() {
        let turns = Arc::<LongTurns>::default();
        let held: Vec<_> =
            (0..100).filter_map(|n| now(&turns, user(&format!("u{}", n / 2), n / 2))).collect();
        assert_eq!(held.len(), LONG_MAX);
        let operators: Vec<_> = (0..20).filter_map(|_| now(&turns, Audience::Operator)).collect();
        assert_eq!(operators.len(), OF_OPERATORS_MAX);
    }

    #[tokio::test]
    async fn the_newest_stranger_gets_the_turn_of_the_one_that_has_had_its_own() {
        let turns = Arc::<LongTurns>::default();
        let stranger = || Audience::Stranger(address(1));
        let held = [now(&turns, stranger()).unwrap(), now(&turns, stranger()).unwrap()];
        assert!(now(&turns, stranger()).is_none(), "within the grace");
        stdx::lock(&turns.entries).grace = Duration::ZERO;
        let (older, newer) = (turns.wait(stranger()).unwrap(), turns.wait(stranger()).unwrap());
        let begin = |turn: &LongTurn| stdx::lock(&turns.entries).begin(turn.number);
        assert_eq!([&older, &newer, &older].map(begin), [Some(false), Some(true), Some(true)]);
        for turn in held {
            turn.lost().notified().await;
        }
    }

    #[tokio::test]
    async fn a_stranger_that_goes_on_keeps_its_turn_until_it_is_old() {
        let turns = Arc::<LongTurns>::default();
        let stranger = || Audience::Stranger(address(1));
        let [goes_on, stands_still] = [(); 2].map(|()| now(&turns, stranger()).unwrap());
        stdx::lock(&turns.entries).grace = Duration::ZERO;
        goes_on.note_progress();
        let _third = now(&turns, stranger()).unwrap();
        stands_still.lost().notified().await;
        stdx::lock(&turns.entries).grace = GRACE;
        assert!(now(&turns, stranger()).is_none(), "both have just gone on");
        stdx::lock(&turns.entries).age_max = Duration::ZERO;
        let _fourth = now(&turns, stranger()).unwrap();
        goes_on.lost().notified().await;
    }

    #[test]
    fn requests_that_wait_are_bounded() {
        let turns = Arc::<LongTurns>::default();
        let waiting: Vec<_> = (0..100).filter_map(|_| turns.wait(user("one", 1))).collect();
        assert_eq!(waiting.len(), WAITING_MAX);
        let of_others = (0..1_000).filter_map(|n| turns.wait(user(&format!("u{n}"), 1)));
        assert_eq!(of_others.collect::<Vec<_>>().len(), WAITING_ALL_MAX - WAITING_MAX);
        let stranger = || turns.wait(Audience::Stranger(address(1))).unwrap();
        let strangers = [(); WAITING_MAX + 1].map(|()| stranger());
        let begin = |turn: &LongTurn| stdx::lock(&turns.entries).begin(turn.number);
        assert_eq!((begin(&strangers[0]), begin(&strangers[1])), (None, Some(false)));
        drop(waiting);
        assert!(turns.wait(user("one", 1)).is_some());
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let one = |text: &str| network(text.parse().unwrap());
        assert_eq!(one("2001:db8::1"), one("2001:db8::ffff:1"));
        assert_ne!(one("2001:db8::1"), one("2001:db8:0:1::1"));
        assert_eq!(one("::ffff:10.0.0.1"), one("10.0.0.1"));
    }
}
