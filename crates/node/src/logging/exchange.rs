//! Log lines on their way to the exchange `amq.rabbitmq.log`.
//!
//! Publishing takes locks of the broker, for which the log's thread is not to wait: lines wait here, in a
//! list of limited size, and a thread of their own publishes them. What that thread logs goes everywhere but
//! to the exchange: else a line could lead to the next one, without an end.

use broker::{Broker, LogLine};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Most bytes of waiting lines; more lines are dropped, and counted.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// Memory of a line besides its text.
const LINE_BYTES: usize = size_of::<LogLine>();

thread_local! {
    static IS_PUBLISHER: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread publishes the log.
pub(super) fn is_publisher() -> bool {
    IS_PUBLISHER.get()
}

/// Lines that wait to be published.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    waiting: Mutex<Waiting>,
    wanted: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<LogLine>,
    n_bytes: usize,
    n_dropped: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The exchange does not exist yet: lines are not kept for it.
    #[default]
    Starting,
    Open,
    Ended,
}

/// The lines that were waiting.
#[derive(Debug, PartialEq, Eq)]
struct Taken {
    lines: VecDeque<LogLine>,
    /// Lines that were dropped since the last call.
    n_dropped: u64,
}

impl Lines {
    pub(super) fn put(&self, level: &'static str, text: &[u8], unix_s: u64) {
        let mut waiting = stdx::lock(&self.waiting);
        if waiting.phase != Phase::Open {
            return;
        }
        let n_bytes = waiting.n_bytes + LINE_BYTES + text.len();
        if n_bytes > WAITING_BYTES_MAX {
            waiting.n_dropped += 1;
            return;
        }
        waiting.n_bytes = n_bytes;
        waiting.lines.push_back(LogLine { level, text: text.to_vec(), unix_s });
        drop(waiting);
        self.wanted.notify_one();
    }

    fn enter(&self, phase: Phase) {
        stdx::lock(&self.waiting).phase = phase;
        self.wanted.notify_one();
    }

    /// Waits for lines; `None` when there will be no more.
    fn take(&self) -> Option<Taken> {
        let mut waiting = stdx::lock(&self.waiting);
        while waiting.lines.is_empty() {
            if waiting.phase == Phase::Ended {
                return None;
            }
            waiting = self.wanted.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.n_bytes = 0;
        let n_dropped = std::mem::take(&mut waiting.n_dropped);
        Some(Taken { lines: std::mem::take(&mut waiting.lines), n_dropped })
    }
}

/// Publishes lines until it is told to end.
#[derive(Debug)]
pub(crate) struct LogExchange {
    lines: Arc<Lines>,
    thread: JoinHandle<()>,
}

impl LogExchange {
    /// Makes the exchange in this virtual host, and publishes what is logged from now on. Where there is no
    /// such virtual host a warning says so, and nothing is published.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) async fn start(
        lines: Arc<Lines>,
        broker: &Arc<Broker>,
        vhost: &str,
    ) -> io::Result<Self> {
        match broker.declare_log_exchange(vhost).await {
            Ok(()) => lines.enter(Phase::Open),
            Err(error) => tracing::warn!("cannot publish the log to an exchange: {error}"),
        }
        let thread = {
            let (lines, broker, vhost) = (Arc::clone(&lines), Arc::clone(broker), vhost.to_owned());
            let publish = move || publish_all(&lines, &broker, &vhost);
            std::thread::Builder::new().name("log exchange".to_owned()).spawn(publish)?
        };
        Ok(Self { lines, thread })
    }

    /// Publishes the lines that wait, and ends the thread.
    pub(crate) fn end(self) {
        self.lines.enter(Phase::Ended);
        if self.thread.join().is_err() {
            tracing::error!("the thread that publishes the log has panicked");
        }
    }
}

fn publish_all(lines: &Lines, broker: &Broker, vhost: &str) {
    IS_PUBLISHER.set(true);
    while let Some(Taken { lines, n_dropped }) = lines.take() {
        for line in &lines {
            broker.publish_log_line(vhost, line);
        }
        if n_dropped > 0 {
            tracing::warn!("{n_dropped} log lines were not published: too many");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(lines: &Lines, text: &str) {
        lines.put("info", text.as_bytes(), 7);
    }

    fn line(text: &str) -> LogLine {
        LogLine { level: "info", text: text.as_bytes().to_vec(), unix_s: 7 }
    }

    #[test]
    fn lines_wait_between_start_and_end() {
        let lines = Lines::default();
        put(&lines, "too early");
        lines.enter(Phase::Open);
        put(&lines, "a");
        put(&lines, "b");
        let taken = Taken { lines: [line("a"), line("b")].into(), n_dropped: 0 };
        assert_eq!(lines.take(), Some(taken));
        put(&lines, "c");
        lines.enter(Phase::Ended);
        put(&lines, "too late");
        assert_eq!(lines.take(), Some(Taken { lines: [line("c")].into(), n_dropped: 0 }));
        assert_eq!(lines.take(), None);
    }

    #[test]
    fn what_is_too_much_is_dropped_and_counted() {
        let lines = Lines::default();
        lines.enter(Phase::Open);
        let long = "x".repeat(WAITING_BYTES_MAX / 2);
        for _ in 0..5 {
            put(&lines, &long);
        }
        put(&lines, "short");
        let taken = lines.take().unwrap();
        assert_eq!((taken.lines.len(), taken.n_dropped), (2, 4));
        put(&lines, "again");
        assert_eq!(lines.take(), Some(Taken { lines: [line("again")].into(), n_dropped: 0 }));
    }
}
