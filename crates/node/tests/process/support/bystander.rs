//! A well-behaved client beside an attack, which measures how long anything it asks for takes.

use super::node::Node;
use super::stopwatch::Stopwatch;
use super::stream_client::Client as StreamClient;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use streamproto::command::{Credit, Metadata};
use streamproto::{List, OffsetSpec};
use testing::client::Client;

/// No request of a bystander takes longer, but for what its own thread is late and others have had.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// The pause between two rounds, left to those it stands beside.
const PAUSE: Duration = Duration::from_millis(2);
/// A wait may be longer by so many times what the longest pause was too long: the machine gave no turn.
pub(crate) const LAGS: u32 = 4;
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
    /// The time by which the longest pause was too long.
    lag: Duration,
    n_rounds: u32,
}

impl Bystander {
    /// Begins to measure.
    pub(crate) fn watch(node: &Node) -> Self {
        let (address, watch) = (node.address(), Stopwatch::of(node));
        let mut client = Client::guest(address);
        client.declare("bystander");
        client.select_confirms();
        let round = move |worst: &mut Worst, client: &mut _| worst.round(&watch, client, address);
        Self::run(client, Client::close, round)
    }

    /// The same with a publisher and consumer of a stream, in their own protocol.
    pub(crate) fn watch_streams(node: &Node) -> Self {
        let (address, watch) = (node.stream_address(), Stopwatch::of(node));
        let mut client = StreamClient::open(address, "/");
        client.create("bystander of streams");
        client.declare_publisher(1, "bystander of streams");
        client.subscribe(1, "bystander of streams", OffsetSpec::Next, u16::MAX);
        let round = move |worst: &mut Worst, client: &mut _| {
            worst.round_of_streams(&watch, client, address);
        };
        Self::run(client, drop, round)
    }

    fn run<C: Send + 'static>(
        mut client: C,
        close: fn(C),
        mut round: impl FnMut(&mut Worst, &mut C) + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let watching = std::thread::spawn(move || {
            let mut worst = Worst::default();
            while !stopped.load(Ordering::Relaxed) {
                round(&mut worst, &mut client);
                worst.lag = worst.lag.max(pause());
            }
            close(client);
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
        let wait_max = WAIT_MAX + LAGS * worst.lag;
        assert!(longest < wait_max, "beside {attack} a bystander waited: {worst:?}");
    }
}

impl Worst {
    fn round(&mut self, watch: &Stopwatch, client: &mut Client, address: SocketAddr) {
        if self.n_rounds.is_multiple_of(ROUNDS_PER_LOGIN) {
            watch.longest(&mut self.login, || Client::guest(address).close());
        }
        watch.longest(&mut self.round_trip, || client.round_trip());
        watch.longest(&mut self.publish_and_get, || {
            client.put_publish("bystander", true, b"beside");
            client.wait_for_confirms();
            assert!(client.get("bystander").is_some(), "the bystander's message is gone");
        });
        self.n_rounds += 1;
    }

    fn round_of_streams(
        &mut self,
        watch: &Stopwatch,
        client: &mut StreamClient,
        address: SocketAddr,
    ) {
        if self.n_rounds.is_multiple_of(ROUNDS_PER_LOGIN) {
            watch.longest(&mut self.login, || drop(StreamClient::open(address, "/")));
        }
        watch.longest(&mut self.round_trip, || {
            client.says(&Metadata { correlation_id: 5, streams: List::default() });
            assert!(client.hears().contains("MetadataResponse"));
        });
        watch.longest(&mut self.publish_and_get, || {
            client.publish(1, self.n_rounds.into());
            let heard = [client.hears(), client.hears()];
            assert!(heard.iter().any(|it| it.contains("PublishConfirm")), "{heard:?}");
            assert!(heard.iter().any(|it| it.contains("Deliver")), "{heard:?}");
        });
        client.says(&Credit { subscription_id: 1, credit: 1 });
        self.n_rounds += 1;
    }
}

/// Leaves the machine to others for a moment: how much longer that took than it should.
pub(crate) fn pause() -> Duration {
    let paused = Instant::now();
    std::thread::park_timeout(PAUSE);
    paused.elapsed().saturating_sub(PAUSE)
}
