//! Random work on a network, held against what was written.

use super::*;

const NODES: usize = 4;
const STEPS: usize = 400;

/// An end's events and bytes so far.
#[derive(Default, Debug)]
struct EndRecord {
    is_open: bool,
    is_over: bool,
    /// The other end has closed the connection.
    was_closed: bool,
    written: Vec<u8>,
    read: Vec<u8>,
}

struct Run {
    random: Random,
    net: Net,
    now_ms: u64,
    /// Who dialled whom.
    dialled: BTreeMap<ConnectionNo, [Address; 2]>,
    ends: BTreeMap<End, EndRecord>,
    log: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let options = NetOptions { ghosts_percent: 10, ..NetOptions::default() };
        let mut net = Net::new(random.fork(), options);
        (0..NODES).for_each(|node| net.listen(Address(node)));
        let (dialled, ends, log) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { random, net, now_ms: 0, dialled, ends, log }
    }

    fn work(&mut self) {
        for _ in 0..STEPS {
            self.now_ms += self.random.below(20) as u64;
            match self.random.below(40) {
                0..6 => self.dial(),
                6..18 => self.write(),
                18 => self.close(),
                19..22 => self.fault(),
                _ => (0..4).for_each(|_| self.take()),
            }
        }
    }

    fn two_nodes(&mut self) -> [Address; 2] {
        let from = self.random.below(NODES);
        [Address(from), Address((from + 1 + self.random.below(NODES - 1)) % NODES)]
    }

    fn dial(&mut self) {
        let [from, to] = self.two_nodes();
        let connection = self.net.dial(self.now_ms, from, to);
        self.dialled.insert(connection, [from, to]);
        self.ends.insert(End { node: from, connection }, EndRecord::default());
    }

    fn some_end(&mut self) -> Option<End> {
        let ends: Vec<End> = self.ends.keys().copied().collect();
        self.random.choose(&ends)
    }

    fn write(&mut self) {
        let Some(end) = self.some_end() else { return };
        let start = self.random.next();
        let bytes = start..start.saturating_add(self.random.below(300) as u64);
        let bytes: Vec<u8> = bytes.flat_map(u64::to_le_bytes).collect();
        let n = self.net.write(self.now_ms, end, &bytes);
        let record = self.ends.get_mut(&end).unwrap();
        assert!(n == 0 || (record.is_open && !record.is_over), "{end:?} {record:?}");
        record.written.extend(&bytes[..n]);
    }

    fn close(&mut self) {
        let Some(end) = self.some_end() else { return };
        self.net.close(self.now_ms, end);
        self.ends.get_mut(&end).unwrap().is_over = true;
    }

    fn fault(&mut self) {
        let [from, to] = self.two_nodes();
        let connection = self.random.choose(&self.net.connections());
        let (at_ms, net) = (self.now_ms, &mut self.net);
        let late = self.random.choose(&[None, Some(Role::Dialler), Some(Role::Acceptor)]).unwrap();
        match (self.random.below(7), connection) {
            (0, _) => net.cut(from, to),
            (1, _) => {
                let death = self.random.choose(&[Death::Process, Death::Machine]).unwrap();
                net.kill(at_ms, from, death);
                net.listen(from);
                let ended = self.ends.iter_mut().filter(|(end, _)| end.node == from);
                ended.for_each(|(_, record)| record.is_over = true);
            }
            (2, _) => net.freeze(from, self.random.percent(50)),
            (3, Some(number)) => net.lose(at_ms, number, late),
            (4, Some(number)) => net.set_speed(number, Speed::Stuck),
            (5, Some(number)) => net.set_speed(number, Speed::Slow { bytes_per_s: 1000 }),
            _ => net.heal(at_ms),
        }
    }

    fn take(&mut self) {
        let Some((end, event)) = self.net.next(self.now_ms) else { return };
        self.log.push(format!("{} {end:?} {event:?}", self.now_ms));
        let record = self.ends.entry(end).or_default();
        assert!(!record.is_over, "an event at an end that is over: {end:?} {event:?}");
        match event {
            NetEvent::Accepted { .. } | NetEvent::Connected => {
                assert!(!record.is_open, "{end:?} is made twice");
                record.is_open = true;
            }
            NetEvent::Bytes(bytes) => {
                assert!(record.is_open && !bytes.is_empty());
                record.read.extend(bytes);
            }
            NetEvent::Closed | NetEvent::Lost => {
                record.is_over = true;
                record.was_closed = event == NetEvent::Closed;
            }
        }
    }

    /// Heals the network, and takes all that is left.
    fn settle(&mut self) {
        (0..NODES).for_each(|node| self.net.freeze(Address(node), false));
        self.net.heal(self.now_ms);
        self.now_ms += NetOptions::default().dial_timeout_ms;
        while let Some(next_ms) = self.net.next_ms() {
            self.now_ms = self.now_ms.max(next_ms);
            self.take();
        }
    }

    /// Each end has read what the other one has written, up to some byte; and all of it while nobody has told
    /// it that the connection is lost.
    fn check(&self) {
        for (end, record) in &self.ends {
            let Some(nodes) = self.dialled.get(&end.connection) else {
                self.check_ghost(record);
                continue;
            };
            let other = nodes.iter().find(|node| **node != end.node).unwrap();
            let other = self.ends.get(&End { node: *other, ..*end });
            let written = other.map_or(&[][..], |other| &other.written);
            assert!(written.starts_with(&record.read), "{end:?} has read something else");
            if record.was_closed || !record.is_over {
                assert_eq!(
                    written.len(),
                    record.read.len(),
                    "{end:?} lacks bytes, and is not told"
                );
            }
            if record.is_open && !record.is_over {
                assert!(!other.unwrap().is_over, "{end:?} is not told of the end");
            }
        }
    }

    fn check_ghost(&self, record: &EndRecord) {
        let mut written = self.ends.values().map(|end| &end.written);
        assert!(written.any(|written| written.starts_with(&record.read)));
        assert!(record.is_over, "a connection that nobody dialled is left");
    }
}

#[test]
fn bytes_arrive_in_order_once_or_the_connection_is_lost() {
    let (mut n_read, mut n_lost, mut n_ghosts) = (0, 0, 0);
    for seed in 0..60 {
        let mut run = Run::new(seed);
        run.work();
        run.settle();
        run.check();
        n_read += run.ends.values().map(|end| end.read.len()).sum::<usize>();
        n_lost += run.log.iter().filter(|line| line.ends_with("Lost")).count();
        n_ghosts +=
            run.ends.keys().filter(|end| !run.dialled.contains_key(&end.connection)).count();
    }
    assert!(n_read > 500_000 && n_lost > 100 && n_ghosts > 10, "{n_read} {n_lost} {n_ghosts}");
}

#[test]
fn the_same_seed_runs_the_same() {
    let [first, second] = [(); 2].map(|()| {
        let mut run = Run::new(7);
        run.work();
        run.log
    });
    assert!(!first.is_empty());
    assert_eq!(first, second);
}

/// A network of two nodes with a connection that is made at both ends.
fn connected() -> (Net, [End; 2]) {
    let options = NetOptions { ghosts_percent: 0, ..NetOptions::default() };
    let mut net = Net::new(Random::new(1), options);
    let nodes = [Address(0), Address(1)];
    nodes.into_iter().for_each(|node| net.listen(node));
    let connection = net.dial(0, Address(0), Address(1));
    let ends = nodes.map(|node| End { node, connection });
    assert_eq!(net.next(1000), Some((ends[0], NetEvent::Connected)));
    assert_eq!(net.next(2000), Some((ends[1], NetEvent::Accepted { from: Address(0) })));
    (net, ends)
}

#[test]
fn a_one_way_cut_stops_one_direction_until_it_heals() {
    let (mut net, [dialler, acceptor]) = connected();
    net.cut(Address(0), Address(1));
    assert_eq!(net.write(2000, dialler, b"a"), 1);
    assert_eq!(net.write(2000, acceptor, b"b"), 1);
    assert_eq!(net.next(9000), Some((dialler, NetEvent::Bytes(b"b".to_vec()))));
    assert_eq!(net.next(9000), None);
    net.heal(9000);
    assert_eq!(net.next(9100), Some((acceptor, NetEvent::Bytes(b"a".to_vec()))));
}

#[test]
fn a_dialler_that_is_cut_off_gives_up_after_its_time() {
    let (mut net, _) = connected();
    net.cut(Address(0), Address(1));
    let connection = net.dial(2000, Address(1), Address(0));
    let timeout_ms = NetOptions::default().dial_timeout_ms;
    assert_eq!(net.next(2000 + timeout_ms - 1), None);
    let end = End { node: Address(1), connection };
    assert_eq!(net.next(2000 + timeout_ms), Some((end, NetEvent::Lost)));
}

#[test]
fn an_end_that_learns_late_writes_into_nothing() {
    let (mut net, [dialler, acceptor]) = connected();
    net.lose(2000, dialler.connection, Some(Role::Acceptor));
    assert_eq!(net.next(2010), Some((dialler, NetEvent::Lost)));
    assert_eq!(net.next(2010), None);
    assert_eq!(net.write(2010, acceptor, b"a"), 1);
    assert_eq!(net.next(2000 + 10_000), Some((acceptor, NetEvent::Lost)));
    assert_eq!(net.connections(), []);
}

#[test]
fn a_buffer_takes_no_more_than_fits_in() {
    let (mut net, [dialler, _]) = connected();
    net.set_speed(dialler.connection, Speed::Stuck);
    let most = NetOptions::default().buffer_bytes_max;
    assert_eq!(net.write(2000, dialler, &vec![1; most + 5]), most);
    assert_eq!(net.write(2000, dialler, b"a"), 0);
    assert_eq!(net.next_ms(), None);
}

#[test]
fn a_slow_connection_takes_its_time() {
    let (mut net, [dialler, acceptor]) = connected();
    net.set_speed(dialler.connection, Speed::Slow { bytes_per_s: 1000 });
    (0..50).for_each(|_| assert_eq!(net.write(2000, dialler, &[1; 100]), 100));
    let mut n_read = 0;
    while let Some((end, NetEvent::Bytes(bytes))) = net.next(4000) {
        assert_eq!(end, acceptor);
        n_read += bytes.len();
    }
    assert!(n_read <= 2000, "{n_read} bytes in two seconds");
    net.heal(4000);
    while let Some((_, NetEvent::Bytes(bytes))) = net.next(4010) {
        n_read += bytes.len();
    }
    assert_eq!(n_read, 5000);
}
