//! A well-behaved client beside an attack, which measures how long anything it asks for takes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testing::client::Client;

/// No request of a bystander takes longer, on a machine as busy as tests make it.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// The pause between two rounds, left to those it stands beside.
const PAUSE: Duration = Duration::from_millis(2);
/// A round in so many begins with a login of its own.
const ROUNDS_PER_LOGIN: u32 = 8;

/// A client on a thread of its own that asks, publishes, gets and logs in without end.
pub(crate) struct Bystander {
    stop: Arc<AtomicBool>,
    watching: JoinHandle<Worst>,
}

/// The longest wait of each kind.
#[derive(Clone, Copy, Debug, Default)]
struct Worst {
    round_trip: Duration,
    publish_and_get: Duration,
    login: Duration,
    n_rounds: u32,
}

impl Bystander {
    /// Begins to measure.
    pub(crate) fn watch(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut client = Client::guest(address);
        client.declare("bystander");
        client.select_confirms();
        let watching = std::thread::spawn(move || {
            let mut worst = Worst::default();
            while !stopped.load(Ordering::Relaxed) {
                worst.round(&mut client, address);
                std::thread::park_timeout(PAUSE);
            }
            client.close();
            worst
        });
        Self { stop, watching }
    }

    /// Ends, reports the worst waits, and fails when one of them was too long.
    pub(crate) fn expect_no_wait(self, attack: &str) {
        self.stop.store(true, Ordering::Relaxed);
        let worst = self.watching.join().unwrap();
        eprintln!("beside {attack}: {worst:?}");
        let longest = worst.round_trip.max(worst.publish_and_get).max(worst.login);
        assert!(longest < WAIT_MAX, "beside {attack} a bystander waited: {worst:?}");
    }
}

impl Worst {
    fn round(&mut self, client: &mut Client, address: SocketAddr) {
        if self.n_rounds.is_multiple_of(ROUNDS_PER_LOGIN) {
            longest(&mut self.login, || Client::guest(address).close());
        }
        longest(&mut self.round_trip, || client.round_trip());
        longest(&mut self.publish_and_get, || {
            client.put_publish("bystander", true, b"beside");
            client.wait_for_confirms();
            assert!(client.get("bystander").is_some(), "the bystander's message is gone");
        });
        self.n_rounds += 1;
    }
}

fn longest(worst: &mut Duration, request: impl FnOnce()) {
    let started = Instant::now();
    request();
    *worst = (*worst).max(started.elapsed());
}
