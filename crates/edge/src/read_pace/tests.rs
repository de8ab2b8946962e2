use super::{ReadCounts, ReadPace, SETTLES_N_TICKS};
use proptest::prelude::*;
use stdx::Now;

const TICK_US: u64 = 1_000;
/// A read begins so long after there is enough.
const WAKE_US: u64 = 30;
const RUN_US: u64 = 3_000_000;

/// A client that sends messages, or settles deliveries, one by one, at most so many without an answer.
#[derive(Clone, Copy, Debug)]
struct ClientModel {
    settles: bool,
    window: u64,
    /// Whether it waits for all answers once it has sent so many.
    is_batch: bool,
    message_bytes: u64,
    gap_us: u64,
}

/// The outcome of a run.
#[derive(Debug, Default)]
struct Outcome {
    n_messages: u64,
    n_reads: u64,
    longest_wait_us: u64,
}

/// A socket between the two.
#[derive(Debug, Default)]
struct Socket {
    /// Messages in it, ...
    n_messages: u64,
    /// ... and those that were not answered.
    n_open: u64,
    /// Messages that the client has sent since it waited for all answers.
    n_of_batch: u64,
    first_us: u64,
    /// There has been enough in it since then.
    readable_us: Option<u64>,
}

impl Outcome {
    fn add(&mut self, socket: &Socket, us: u64) {
        self.n_messages += socket.n_messages;
        self.n_reads += 1;
        self.longest_wait_us = self.longest_wait_us.max(us - socket.first_us);
    }
}

fn now(us: u64) -> Now {
    Now::at_ms(us / 1_000)
}

impl ClientModel {
    /// Runs the client against a pace; `gathers` is false for a server that reads at once.
    fn run(self, gathers: bool) -> Outcome {
        let (mut pace, mut socket, mut outcome) =
            (ReadPace::default(), Socket::default(), Outcome::default());
        let (mut us, mut next_tick_us, mut n_ticks_left) = (0, TICK_US, 1_u8);
        while us < RUN_US {
            us = self.step(us, next_tick_us, &mut socket);
            let mut is_due = false;
            while next_tick_us <= us {
                next_tick_us += TICK_US;
                is_due |= n_ticks_left == 0;
                n_ticks_left = n_ticks_left.saturating_sub(1);
            }
            let low_water = pace.low_water_bytes();
            let is_due = is_due && low_water > 0;
            if is_due {
                pace.was_due(now(us), socket.n_messages > 0);
            }
            let is_readable = socket.n_messages * self.message_bytes >= low_water.max(1);
            if is_readable && socket.readable_us.is_none() {
                socket.readable_us = Some(us);
            }
            let is_read = socket.readable_us.is_some_and(|since_us| us >= since_us + WAKE_US);
            if socket.n_messages > 0 && (is_due || is_read) {
                outcome.add(&socket, us);
                if gathers {
                    let n = usize::try_from(socket.n_messages).unwrap();
                    pace.read(now(us), self.counts(n), || u32::try_from(self.window / 4).unwrap());
                }
                let n_open = socket.n_open - socket.n_messages;
                let is_over = n_open == 0 && socket.n_of_batch >= self.window;
                let n_of_batch = if is_over { 0 } else { socket.n_of_batch };
                socket = Socket { n_open, n_of_batch, ..Socket::default() };
                n_ticks_left = pace.n_ticks();
            }
        }
        outcome
    }

    /// The client sends its next message, or something else happens to it.
    fn step(self, us: u64, next_tick_us: u64, socket: &mut Socket) -> u64 {
        let n_sent = if self.is_batch { socket.n_of_batch } else { socket.n_open };
        if n_sent == self.window {
            let read_us = socket.readable_us.map_or(u64::MAX, |since_us| since_us + WAKE_US);
            return next_tick_us.min(read_us).max(us);
        }
        let us = us + self.gap_us;
        if socket.n_messages == 0 {
            socket.first_us = us;
        }
        socket.n_messages += 1;
        socket.n_open += 1;
        socket.n_of_batch += 1;
        us
    }

    fn counts(self, n: usize) -> ReadCounts {
        let n_bytes = n * usize::try_from(self.message_bytes).unwrap();
        match self.settles {
            true => ReadCounts { n_bytes, n_settles: n, ..ReadCounts::default() },
            false => ReadCounts { n_bytes, n_publishes: n, ..ReadCounts::default() },
        }
    }
}

fn clients() -> impl Strategy<Value = ClientModel> {
    (any::<bool>(), any::<bool>(), 1..1_000_u64, 20..3_000_u64, 1..2_000_u64).prop_map(
        |(settles, is_batch, window, message_bytes, gap_us)| ClientModel {
            settles,
            window,
            is_batch: is_batch && !settles,
            message_bytes: if settles { 21 } else { message_bytes },
            gap_us,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_client_loses_much_or_waits_long(client in clients()) {
        let (at_once, gathered) = (client.run(false), client.run(true));
        prop_assert!(gathered.n_messages * 20 >= at_once.n_messages * 19, "{gathered:?} {at_once:?}");
        let n_ticks_max = if client.settles { u64::from(SETTLES_N_TICKS) } else { 1 };
        let bound_us = (n_ticks_max + 1) * TICK_US + client.gap_us + WAKE_US;
        prop_assert!(gathered.longest_wait_us <= bound_us, "{gathered:?}");
    }
}

/// 100,000 messages a second, of 100 bytes.
const FAST: ClientModel =
    ClientModel { settles: false, window: 200, is_batch: false, message_bytes: 100, gap_us: 10 };

#[test]
fn small_pieces_of_a_fast_publisher_are_read_together() {
    let (at_once, gathered) = (FAST.run(false), FAST.run(true));
    assert!(gathered.n_reads * 3 < at_once.n_reads, "{gathered:?} {at_once:?}");
}

#[test]
fn acknowledgements_of_a_fast_consumer_are_read_together() {
    let client = ClientModel { settles: true, message_bytes: 21, ..FAST };
    let (at_once, gathered) = (client.run(false), client.run(true));
    assert!(gathered.n_reads * 10 < at_once.n_reads, "{gathered:?} {at_once:?}");
}

#[test]
fn a_client_that_waits_for_each_answer_is_read_at_once() {
    for settles in [false, true] {
        let client = ClientModel { settles, window: 1, ..FAST };
        assert!(client.run(true).longest_wait_us <= WAKE_US + client.gap_us, "{client:?}");
    }
}

/// The pace of a client whose input has just begun to gather, and the time.
fn gathering() -> (ReadPace, u64) {
    let (mut pace, mut us) = (ReadPace::default(), 0);
    while pace.low_water_bytes() == 0 {
        us += 10;
        pace.read(now(us), FAST.counts(3), || 0);
        assert!(us < 100_000, "{pace:?}");
    }
    (pace, us)
}

#[test]
fn input_of_a_client_that_has_paused_goes_on_to_gather() {
    let (mut pace, mut us) = gathering();
    for _ in 0..20 {
        us += 1_000;
        pace.read(now(us), FAST.counts(100), || 0);
    }
    pace.was_due(now(us + 2_000), true);
    assert!(pace.low_water_bytes() > 0, "{pace:?}");
    // It sends no more than a few at a time, as one does that waits for an answer.
    pace.read(now(us + 2_000), FAST.counts(100), || 0);
    pace.was_due(now(us + 20_000), true);
    assert_eq!(pace.low_water_bytes(), 0, "{pace:?}");
}

#[test]
fn a_client_that_pauses_again_and_again_is_read_at_once() {
    let (mut pace, us) = gathering();
    for _ in 0..20 {
        pace.read(now(us), FAST.counts(100), || 0);
    }
    pace.was_due(now(us + 2_000), true);
    assert_eq!(pace.low_water_bytes(), 0, "{pace:?}");
}

#[test]
fn a_method_that_is_answered_ends_the_gathering() {
    let (mut pace, us) = gathering();
    pace.read(now(us), ReadCounts { is_other: true, ..FAST.counts(1) }, || 0);
    assert_eq!(pace.low_water_bytes(), 0);
}

/// Publishers that wait for all confirms at times: the last of each batch is fewer than what gathers.
#[test]
fn no_batch_loses_much() {
    for gap_us in [2, 5, 10, 20, 40, 80] {
        for window in [10, 100, 200, 500, 1_000, 1_500, 2_000, 5_000, 10_000] {
            let client = ClientModel { window, is_batch: true, gap_us, ..FAST };
            let (at_once, gathered) = (client.run(false), client.run(true));
            assert!(gathered.n_messages * 20 >= at_once.n_messages * 19, "{client:?} {gathered:?}");
        }
    }
}
