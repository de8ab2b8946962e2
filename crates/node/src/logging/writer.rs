//! The thread that writes the log. Whoever logs may serve clients, and hold any lock of the broker: a line
//! only waits here, in a list of limited size that is locked for nothing else.

use super::exchange::{Lines, is_publisher};
use super::file::LogFile;
use super::journald::Journal;
use super::record::{Record, name};
use super::syslog::Syslog;
use crate::config::Formatter;
use mgmt::LogLine;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use stdx::Ring;

/// Most bytes of waiting lines; more lines are dropped, and counted.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Longest wait of a flush: standard error may be a pipe that nobody reads.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// A place that lines go to.
pub(super) enum Output {
    Console,
    File(Arc<LogFile>),
    Exchange(Arc<Lines>),
    Syslog(Box<Syslog>),
    Journal(Journal),
    Memory(Arc<Ring<LogLine>>),
}

/// Lines that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    wanted: Condvar,
    written: Condvar,
    n_dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<Line>,
    n_bytes: usize,
    /// Lines that were dropped since the last call of `take`.
    n_dropped: u64,
    is_writing: bool,
}

/// A line, and the places that it goes to, a bit each.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) record: Record,
    pub(super) places: u8,
    /// Whether the thread that publishes the log has logged the line. Such a line is not published: it could
    /// lead to the next one, without an end.
    is_of_publisher: bool,
}

impl Queue {
    pub(super) fn put(&self, record: Record, places: u8) {
        let n_bytes = record.n_bytes();
        let mut waiting = stdx::lock(&self.waiting);
        if waiting.n_bytes + n_bytes > WAITING_BYTES_MAX {
            waiting.n_dropped += 1;
            self.n_dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.n_bytes += n_bytes;
        waiting.lines.push(Line { record, places, is_of_publisher: is_publisher() });
        let is_idle = !waiting.is_writing;
        drop(waiting);
        if is_idle {
            self.wanted.notify_one();
        }
    }

    /// Lines that were dropped since the start.
    pub(super) fn n_dropped(&self) -> u64 {
        self.n_dropped.load(Ordering::Relaxed)
    }

    /// Waits until everything is written, or for [`FLUSH_TIMEOUT`].
    pub(super) fn flush(&self) {
        let waiting = stdx::lock(&self.waiting);
        let is_busy = |it: &mut Waiting| it.is_writing || !it.lines.is_empty();
        let waited = self.written.wait_timeout_while(waiting, FLUSH_TIMEOUT, is_busy);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for lines; returns them, and how many were dropped meanwhile.
    fn take(&self) -> (Vec<Line>, u64) {
        let mut waiting = stdx::lock(&self.waiting);
        waiting.is_writing = false;
        while waiting.lines.is_empty() {
            self.written.notify_all();
            waiting = self.wanted.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.is_writing = true;
        waiting.n_bytes = 0;
        (std::mem::take(&mut waiting.lines), std::mem::take(&mut waiting.n_dropped))
    }

    /// Writes lines for as long as the process runs.
    pub(super) fn write_all(&self, mut outputs: Vec<Destination>) {
        loop {
            let (lines, n_dropped) = self.take();
            for (at, Destination { output, formatter }) in outputs.iter_mut().enumerate() {
                let wanted = lines.iter().filter(|line| line.places & (1 << at) != 0);
                // An error means that the log is gone, so no line could report it.
                let _gone = output.write(wanted, *formatter);
            }
            if n_dropped > 0 {
                tracing::warn!("{n_dropped} log lines were dropped: too many");
            }
        }
    }
}

/// A place that lines go to, and their form there.
pub(super) struct Destination {
    pub(super) output: Output,
    pub(super) formatter: Formatter,
}

impl Output {
    fn write<'l>(
        &mut self,
        lines: impl Iterator<Item = &'l Line>,
        formatter: Formatter,
    ) -> io::Result<()> {
        match self {
            Self::Console => io::stderr().lock().write_all(&joined(lines, formatter)),
            Self::File(file) => file.append(&joined(lines, formatter)),
            Self::Exchange(exchange) => {
                for Line { record, .. } in lines.filter(|line| !line.is_of_publisher) {
                    let text = record.line(formatter) + "\n";
                    exchange.put(
                        name(record.level),
                        text.as_bytes(),
                        record.unix_micros / 1_000_000,
                    );
                }
                Ok(())
            }
            Self::Syslog(syslog) => {
                lines.for_each(|line| syslog.send(&line.record, formatter));
                Ok(())
            }
            Self::Journal(journal) => {
                lines.for_each(|line| journal.send(&line.record));
                Ok(())
            }
            Self::Memory(ring) => {
                for Line { record, .. } in lines {
                    let text = Arc::<str>::from(record.text());
                    let n_bytes = text.len();
                    let (level, category) = (name(record.level), record.category.as_str());
                    let unix_ms = record.unix_micros / 1_000;
                    ring.push(LogLine { unix_ms, level, category, text }, n_bytes);
                }
                Ok(())
            }
        }
    }
}

fn joined<'l>(lines: impl Iterator<Item = &'l Line>, formatter: Formatter) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend_from_slice(line.record.line(formatter).as_bytes());
        bytes.push(b'\n');
    }
    bytes
}
