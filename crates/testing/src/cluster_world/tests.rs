//! A counter with a primary and two backups, and the mistakes in it that the world finds.

use super::*;
use crate::net::Address;
use segments::{Disk, DiskFile, OpenMode};
use std::collections::BTreeMap;
use std::io;

const PRIMARY: Address = Address(0);
const VALUE_BYTES: usize = 8;
const SEEDS: u64 = 60;
/// Values that a mistaken primary syncs at once.
const SYNCED_TOGETHER: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    None,
    /// The primary syncs several values at once, and confirms them before.
    ConfirmsUnsynced,
    /// Half a message of a lost connection is put in front of the next one's.
    KeepsInput,
}

/// The counter at one node. The primary sends its value to the backups, which answer with theirs.
struct Counter {
    me: Address,
    mistake: Mistake,
    file: Box<dyn DiskFile>,
    n_records: u64,
    value: u64,
    synced: u64,
    /// The primary's connections to backups, made or not.
    dialled: BTreeMap<Address, ConnectionNo>,
    /// The greatest value that each connection was given.
    sent: BTreeMap<ConnectionNo, u64>,
    output: BTreeMap<ConnectionNo, Vec<u8>>,
    input: BTreeMap<ConnectionNo, Vec<u8>>,
    /// The greatest value that a backup has.
    backed_up: u64,
    has_failed: bool,
}

impl Counter {
    fn open(seat: &Seat<'_>, mistake: Mistake) -> io::Result<Self> {
        let disk: &dyn Disk = seat.disk;
        let file = match disk.open("counter", OpenMode::Existing) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                disk.open("counter", OpenMode::New)?
            }
            Err(error) => return Err(error),
        };
        disk.sync_dir("")?;
        file.sync_data()?;
        let mut bytes = vec![0; usize::try_from(file.len()?).unwrap()];
        file.read_at(0, &mut bytes)?;
        let records = bytes.chunks_exact(VALUE_BYTES).map(value_of);
        let (n_records, value) = (records.len() as u64, records.max().unwrap_or(0));
        Ok(Self {
            me: seat.node,
            mistake,
            file,
            n_records,
            value,
            synced: value,
            dialled: BTreeMap::new(),
            sent: BTreeMap::new(),
            output: BTreeMap::new(),
            input: BTreeMap::new(),
            backed_up: 0,
            has_failed: false,
        })
    }

    fn set(&mut self, value: u64) {
        self.value = value;
        let at = self.n_records * VALUE_BYTES as u64;
        self.has_failed |= self.file.write_at(at, &value.to_le_bytes()).is_err();
        self.n_records += 1;
    }

    /// The value that is never lost, by the primary's word.
    fn confirmed(&self) -> u64 {
        let is_wrong = self.mistake == Mistake::ConfirmsUnsynced;
        self.backed_up.min(if is_wrong { self.value } else { self.synced })
    }

    fn sync(&mut self) -> bool {
        let is_put_off = self.mistake == Mistake::ConfirmsUnsynced
            && self.me == PRIMARY
            && self.value < self.synced + SYNCED_TOGETHER;
        if self.value == self.synced || is_put_off || self.has_failed {
            return false;
        }
        self.has_failed = self.file.sync_data().is_err();
        if !self.has_failed {
            self.synced = self.value;
        }
        true
    }

    fn dial(&mut self, port: &mut Port<'_>, n_nodes: usize) -> bool {
        let backups = (1..n_nodes).map(Address);
        let missing: Vec<_> = backups.filter(|to| !self.dialled.contains_key(to)).collect();
        for to in &missing {
            self.dialled.insert(*to, port.dial(*to));
        }
        !missing.is_empty()
    }

    fn send(&mut self, port: &mut Port<'_>) -> bool {
        let is_wrong = self.mistake == Mistake::ConfirmsUnsynced;
        let value = if is_wrong { self.value } else { self.synced };
        let mut has_sent = false;
        for (connection, output) in &mut self.output {
            let sent = self.sent.entry(*connection).or_default();
            if *sent < value && output.is_empty() {
                output.extend(value.to_le_bytes());
                *sent = value;
            }
            let n = port.write(*connection, output);
            output.drain(..n);
            has_sent |= n > 0;
        }
        has_sent
    }

    fn receive(&mut self, connection: ConnectionNo, bytes: &[u8]) {
        let is_wrong = self.mistake == Mistake::KeepsInput;
        let input =
            self.input.entry(if is_wrong { ConnectionNo(0) } else { connection }).or_default();
        input.extend(bytes);
        let whole = input.len() - input.len() % VALUE_BYTES;
        let received: Vec<u8> = input.drain(..whole).collect();
        let Some(value) = received.chunks_exact(VALUE_BYTES).map(value_of).max() else { return };
        if self.me == PRIMARY {
            self.backed_up = self.backed_up.max(value);
        } else if value > self.value {
            self.set(value);
        }
    }

    fn forget(&mut self, connection: ConnectionNo) {
        self.dialled.retain(|_, dialled| *dialled != connection);
        self.output.remove(&connection);
        self.sent.remove(&connection);
        self.input.retain(|of, _| *of != connection || self.mistake == Mistake::KeepsInput);
    }
}

fn value_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

impl SimulatedNode for Counter {
    fn step(&mut self, port: &mut Port<'_>) -> bool {
        let has_synced = self.sync();
        let has_dialled = self.me == PRIMARY && self.dial(port, 3);
        self.send(port) || has_synced || has_dialled
    }

    fn deliver(&mut self, connection: ConnectionNo, event: NetEvent, _: &mut Port<'_>) {
        match event {
            NetEvent::Accepted { .. } | NetEvent::Connected => {
                self.output.insert(connection, Vec::new());
            }
            NetEvent::Bytes(bytes) => self.receive(connection, &bytes),
            NetEvent::Closed | NetEvent::Lost => self.forget(connection),
        }
    }

    fn has_failed(&self) -> bool {
        self.has_failed
    }
}

/// Clients count at the primary.
struct Counting {
    mistake: Mistake,
    /// The greatest value that was confirmed, and that was counted.
    confirmed: u64,
    counted: u64,
}

impl Scenario for Counting {
    type Node = Counter;

    fn start(&mut self, seat: &Seat<'_>) -> Result<Counter, String> {
        Counter::open(seat, self.mistake).map_err(|error| error.to_string())
    }

    fn act(&mut self, hosts: &mut Hosts<Counter>) {
        if let Some(value) = hosts.with(PRIMARY, |node, _| {
            node.set(node.value + 1);
            node.value
        }) {
            hosts.note(format!("counts {value}"));
        }
    }

    fn check(&mut self, hosts: &Hosts<Counter>) -> Result<(), String> {
        if let Some(primary) = hosts.node(PRIMARY) {
            self.confirmed = self.confirmed.max(primary.confirmed());
            self.counted = self.counted.max(primary.value);
            if primary.value < self.confirmed {
                return Err(format!("{} of {} are left", primary.value, self.confirmed));
            }
        }
        match hosts.nodes().find(|(_, node)| node.value > self.counted) {
            Some((at, node)) => Err(format!("{at} has {} of {}", node.value, self.counted)),
            None => Ok(()),
        }
    }

    fn check_settled(&mut self, hosts: &Hosts<Counter>) -> Result<(), String> {
        let values: Vec<u64> = hosts.nodes().map(|(_, node)| node.value).collect();
        match values[..] {
            [first, second, third] if first == second && second == third => Ok(()),
            _ => Err(format!("{values:?}")),
        }
    }
}

fn run(seed: u64, mistake: Mistake) -> Report {
    let scenario = Counting { mistake, confirmed: 0, counted: 0 };
    simulate(seed, WorldOptions::default(), scenario, Show::Kept)
}

#[test]
fn a_counter_without_mistakes_passes() {
    let mut n_counted = 0;
    for seed in 0..SEEDS {
        let report = run(seed, Mistake::None);
        n_counted += report.trace.iter().filter(|line| line.starts_with("counts")).count();
        report.assert_passed(&format!("seed {seed}"));
    }
    assert!(n_counted > 1000, "{n_counted}");
}

#[test]
fn mistakes_are_found_within_few_seeds() {
    for mistake in [Mistake::ConfirmsUnsynced, Mistake::KeepsInput] {
        let found: Vec<u64> =
            (0..SEEDS).filter(|seed| run(*seed, mistake).failure.is_some()).collect();
        assert!(found.first().is_some_and(|seed| *seed < 20), "{mistake:?}: {found:?}");
    }
}

#[test]
fn each_fault_happens_and_a_seed_does_the_same_again() {
    let (first, second) = (run(3, Mistake::None), run(3, Mistake::None));
    assert_eq!(first.trace, second.trace);
    let traces: Vec<String> = (0..10).flat_map(|seed| run(seed, Mistake::None).trace).collect();
    let words = [
        "crashes, Everything",
        "crashes, OnlySynced",
        "crashes, Torn",
        "stands still",
        "planned:",
        "jumps",
        "Cut:",
        "OneWayCut:",
        "Isolate:",
        "Loss:",
        "Stick:",
        "Slow:",
        "the network heals",
    ];
    for word in words {
        assert!(traces.iter().any(|line| line.contains(word)), "{word}");
    }
}
