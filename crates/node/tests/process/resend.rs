//! Publishers that send again what is not confirmed, on a node that is killed under load: with `x-confirm-on`
//! every message is consumed at least once, though the node keeps none of the small ones.
//!
//! `RESEND_ROUNDS` asks for another number of kills.

use super::support::node::{Node, binary};
use super::support::wait_until;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use testing::Random;

const ROUNDS: usize = 100;
/// Messages of each of a load's two publishers.
const N_MESSAGES: u64 = 4000;
/// The node is killed after fewer confirms than this since its start.
const CONFIRMS_MAX: usize = 200;

/// `leveret perf --resend` as a process.
struct Load {
    child: Child,
    n_confirmed: Arc<AtomicU64>,
    /// Gives back the last line.
    reader: JoinHandle<String>,
}

impl Load {
    fn start(address: SocketAddr, confirm_on: &str, body_bytes: usize) -> Self {
        let line = format!(
            "perf -h amqp://{address} --resend -u {confirm_on} -qa x-confirm-on={confirm_on} -ad false \
             -f persistent -s {body_bytes} -c 50 -q 20 -x 2 -y 2 -C {N_MESSAGES} -cri 0 -i 0.05 --json \
             --threads 1"
        );
        let mut command = Command::new(binary());
        command.args(line.split_ascii_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let n_confirmed = Arc::new(AtomicU64::new(0));
        let (lines, sum) = (child.stdout.take().unwrap(), Arc::clone(&n_confirmed));
        let reader = std::thread::spawn(move || read(lines, &sum));
        Self { child, n_confirmed, reader }
    }

    fn n_confirmed(&self) -> u64 {
        self.n_confirmed.load(Ordering::Relaxed)
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end, at which everything is confirmed and has arrived: the summary.
    fn end(mut self) -> String {
        wait_until("all messages are consumed", || !self.is_running());
        let summary = self.reader.join().unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{summary}");
        for (name, n) in [("published", 2 * N_MESSAGES), ("unconfirmed", 0), ("missing", 0)] {
            assert_eq!(number(&summary, name), n, "{name}: {summary}");
        }
        assert_eq!(number(&summary, "confirmed"), 2 * N_MESSAGES, "{summary}");
        summary
    }
}

/// Adds up what the lines say is confirmed; gives back the last one.
fn read(lines: ChildStdout, n_confirmed: &AtomicU64) -> String {
    let mut last = String::new();
    for line in BufReader::new(lines).lines() {
        last = line.unwrap();
        if last.contains("\"type\":\"interval\"") {
            n_confirmed.fetch_add(number(&last, "confirmed"), Ordering::Relaxed);
        }
    }
    last
}

/// The whole number of that name in a line of JSON.
fn number(json: &str, name: &str) -> u64 {
    let (_, rest) = json.split_once(&format!("\"{name}\":")).unwrap();
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

/// A port for a node that starts again on it. The system gives connections none below 32768.
fn free_port(random: &mut Random) -> u16 {
    loop {
        let port = u16::try_from(15_000 + random.below(17_000)).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Lets both modes have load, and kills the node up to `n_max` times until that has come to its end. Gives
/// back the number of kills, and the summaries.
fn run(node: &mut Node, random: &mut Random, n_max: usize) -> (usize, Vec<String>) {
    let [small, large] = if random.percent(50) { [64, 5000] } else { [5000, 64] };
    let mut loads = [("ack", small), ("ack-direct", large)]
        .map(|(mode, n)| Load::start(node.address(), mode, n));
    wait_until("both have begun", || loads.iter().all(|load| load.n_confirmed() > 0));
    let mut n_kills = 0;
    while n_kills < n_max {
        let n_confirmed = |loads: &[Load]| loads.iter().map(Load::n_confirmed).sum::<u64>();
        let enough = n_confirmed(&loads) + 1 + random.below(CONFIRMS_MAX) as u64;
        wait_until("enough is confirmed", || {
            n_confirmed(&loads) >= enough || !loads.iter_mut().any(Load::is_running)
        });
        if !loads.iter_mut().any(Load::is_running) {
            break;
        }
        node.kill_and_start();
        n_kills += 1;
    }
    (n_kills, loads.into_iter().map(Load::end).collect())
}

#[test]
fn what_is_sent_again_until_it_is_confirmed_is_consumed_whatever_happens() {
    let mut random = Random::by_chance();
    let listener = format!("listeners.tcp.1=127.0.0.1:{}", free_port(&mut random));
    let mut node = Node::start(&[&listener]);
    let rounds = std::env::var("RESEND_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let (mut n_kills, mut summaries) = (0, Vec::new());
    while n_kills < rounds {
        let (n, ended) = run(&mut node, &mut random, rounds - n_kills);
        n_kills += n;
        summaries.extend(ended);
    }
    let sum = |name| summaries.iter().map(|summary| number(summary, name)).sum::<u64>();
    let [n_lost, n_published, n_resent, n_duplicates] =
        ["connections_lost", "published", "resent", "duplicates"].map(sum);
    eprintln!(
        "{n_kills} kills, {n_lost} connections lost, {n_published} messages published, {n_resent} times one \
         again, {n_duplicates} duplicates, none missing"
    );
    assert!(n_lost >= n_kills as u64 && n_resent > 0);
    node.stop();
}
