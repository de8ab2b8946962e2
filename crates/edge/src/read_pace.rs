//! The pace at which a client's input is read. A client that sends each message by itself, thousands of them
//! a second, costs a wake-up and a system call for each: several times the cost of the message. Its input is
//! left to gather until there are so many bytes (the low water), or until a clock says that it has waited for
//! long. A client that waits for an answer, or that sends seldom, is read at once.
//! Knows counts of reads and milliseconds. Must never know a socket or a clock.

use stdx::{MonotonicMs, Now};

/// The milliseconds after which the pace is thought over.
const WINDOW_MS: u64 = 4;
/// The least reads in a millisecond for input to gather: with fewer it would take too long.
const READS_PER_MS_MIN: u64 = 2;
/// Publishes gather for a millisecond divided by this.
const GATHERS_PER_MS: u64 = 8;
/// The most bytes that gather. A window of publishes that a client has on their way is seldom smaller.
const LOW_WATER_MAX_BYTES: u64 = 2048;
/// The most ticks of the clock that settlements gather for.
const SETTLES_N_TICKS: u8 = 4;
/// The most deliveries after which settlements that have gathered are read.
const WRITES_TO_READ_MAX: u32 = 32;
/// The milliseconds for which a client that the clock had to have read is read at once, at first.
const CALM_MIN_MS: u64 = 4;
/// The most milliseconds of such a calm, if clock reads come soon, again and again: the client may be waiting
/// for an answer.
const CALM_MAX_MS: u64 = 2048;
/// The milliseconds of sending from which on a clock read is not soon: the client may just have paused.
const SOON_MS: u64 = 16;
/// The reads meanwhile from which on the client has just paused, as one does to collect its memory: its input
/// goes on to gather.
const PAUSED_READS_MIN: u64 = 8;

/// The contents of one read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// The number of bytes.
    pub n_bytes: usize,
    /// The number of publishes.
    pub n_publishes: usize,
    /// The number of deliveries that were settled.
    pub n_settles: usize,
    /// Whether there was anything else, such as a method that is answered.
    pub is_other: bool,
}

/// The pace of one client.
#[derive(Debug)]
pub struct ReadPace {
    /// Bytes that have to gather; 0 while everything is read at once.
    low_water_bytes: u64,
    /// Whether only settlements gather: a client waits for none of them.
    is_settles: bool,
    n_writes_to_read: u32,
    window: Window,
    /// The end of the calm before which nothing gathers.
    calm_until_ms: MonotonicMs,
    /// The length of the next calm, in milliseconds.
    calm_ms: u64,
    /// The time since when input gathers, or when the clock last had the client read.
    since_ms: MonotonicMs,
    /// The number of reads since `since_ms`.
    n_reads: u64,
}

/// The reads since a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    begin_ms: MonotonicMs,
    n_reads: u64,
    sum: ReadCounts,
}

impl Default for ReadPace {
    fn default() -> Self {
        Self {
            low_water_bytes: 0,
            is_settles: false,
            n_writes_to_read: 0,
            window: Window::default(),
            calm_until_ms: MonotonicMs::default(),
            calm_ms: CALM_MIN_MS,
            since_ms: MonotonicMs::default(),
            n_reads: 0,
        }
    }
}

impl ReadPace {
    /// Bytes that have to gather before the client is read; 0 for any.
    #[must_use]
    pub const fn low_water_bytes(&self) -> u64 {
        self.low_water_bytes
    }

    /// Ticks of the clock that input may gather for.
    #[must_use]
    pub const fn n_ticks(&self) -> u8 {
        if self.is_settles { SETTLES_N_TICKS } else { 1 }
    }

    /// Deliveries after which settlements are read that have gathered until then; 0 if none gather.
    #[must_use]
    pub const fn n_writes_to_read(&self) -> u32 {
        if self.low_water_bytes > 0 && self.is_settles { self.n_writes_to_read } else { 0 }
    }

    /// Something was read. `n_settles_spare` settlements may come late without any consumer running dry.
    pub fn read(&mut self, now: Now, counts: ReadCounts, n_settles_spare: impl FnOnce() -> u32) {
        let now_ms = now.monotonic_ms;
        if counts.is_other {
            self.read_at_once(now_ms, CALM_MIN_MS);
        }
        if now_ms < self.calm_until_ms {
            return;
        }
        self.window.add(counts);
        self.n_reads += 1;
        let elapsed_ms = now_ms.since(self.window.begin_ms);
        if elapsed_ms < WINDOW_MS {
            return;
        }
        let next = Window { begin_ms: now_ms, ..Window::default() };
        let window = std::mem::replace(&mut self.window, next);
        self.think_over(now_ms, elapsed_ms, window, n_settles_spare);
    }

    fn think_over(
        &mut self,
        now_ms: MonotonicMs,
        elapsed_ms: u64,
        window: Window,
        n_settles_spare: impl FnOnce() -> u32,
    ) {
        self.is_settles = window.sum.n_publishes == 0;
        let bytes = if self.is_settles {
            let n_spare = n_settles_spare();
            self.n_writes_to_read = (n_spare / 2).min(WRITES_TO_READ_MAX);
            window.bytes_of_settles(n_spare)
        } else {
            window.sum.n_bytes as u64 / elapsed_ms / GATHERS_PER_MS
        };
        let bytes = bytes.min(LOW_WATER_MAX_BYTES);
        let gathers = window.is_often(elapsed_ms)
            && (self.low_water_bytes > 0 || window.is_in_small_pieces(elapsed_ms, bytes));
        if gathers && self.low_water_bytes == 0 {
            (self.since_ms, self.n_reads) = (now_ms, 0);
        }
        self.low_water_bytes = if gathers { bytes } else { 0 };
    }

    /// The clock had what has gathered read, if there was anything.
    pub fn was_due(&mut self, now: Now, has_gathered: bool) {
        let now_ms = now.monotonic_ms;
        if !has_gathered {
            self.read_at_once(now_ms, 0);
            return;
        }
        let is_soon = now_ms.since(self.since_ms) < SOON_MS;
        self.calm_ms = match is_soon {
            true => (self.calm_ms * 2).min(CALM_MAX_MS),
            false => (self.calm_ms / 2).max(CALM_MIN_MS),
        };
        if is_soon || self.n_reads < PAUSED_READS_MIN {
            self.read_at_once(now_ms, self.calm_ms);
        } else {
            (self.since_ms, self.n_reads) = (now_ms, 0);
        }
    }

    fn read_at_once(&mut self, now_ms: MonotonicMs, calm_ms: u64) {
        self.low_water_bytes = 0;
        self.calm_until_ms = self.calm_until_ms.max(now_ms.plus(calm_ms));
        self.window = Window { begin_ms: self.calm_until_ms, ..Window::default() };
    }
}

impl Window {
    const fn add(&mut self, counts: ReadCounts) {
        self.n_reads += 1;
        self.sum.n_bytes += counts.n_bytes;
        self.sum.n_publishes += counts.n_publishes;
        self.sum.n_settles += counts.n_settles;
    }

    /// The size of `n` settlements.
    fn bytes_of_settles(&self, n: u32) -> u64 {
        (self.sum.n_bytes * n as usize).checked_div(self.sum.n_settles).unwrap_or(0) as u64
    }

    /// Whether there is more than one message in most milliseconds.
    const fn is_often(&self, elapsed_ms: u64) -> bool {
        (self.sum.n_publishes + self.sum.n_settles) as u64 >= elapsed_ms * READS_PER_MS_MIN
    }

    /// Whether there are many reads, clearly smaller than `bytes`, of a client that does not wait for an
    /// answer to each message.
    const fn is_in_small_pieces(&self, elapsed_ms: u64, bytes: u64) -> bool {
        self.n_reads >= elapsed_ms * READS_PER_MS_MIN
            && (self.sum.n_publishes == 0 || self.sum.n_publishes as u64 >= self.n_reads * 2)
            && bytes * self.n_reads * 2 >= self.sum.n_bytes as u64 * 3
    }
}

#[cfg(test)]
mod tests;
