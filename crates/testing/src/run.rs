//! A run of a simulation: its trace, its report, and how it ends.

use std::fmt::{Display, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Lines of the trace that a failed test shows.
const LAST_LINES: usize = 40;

/// The destination of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// The trace is kept in the report.
    Kept,
    /// The trace is printed as it comes.
    Printed,
}

/// The trace, as text and as a number that tells two runs apart.
#[derive(Debug)]
pub struct Trace {
    /// The lines; none when they were printed meanwhile.
    pub lines: Vec<String>,
    /// A number that is the same for the same lines.
    pub hash: u64,
    show: Show,
}

impl Trace {
    /// An empty trace.
    #[must_use]
    pub const fn new(show: Show) -> Self {
        Self { lines: Vec::new(), hash: 0xcbf2_9ce4_8422_2325, show }
    }

    /// Adds a line.
    #[expect(clippy::print_stdout, reason = "asked for by the person who replays a seed")]
    pub fn note(&mut self, line: String) {
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        match self.show {
            Show::Printed => println!("{line}"),
            Show::Kept => self.lines.push(line),
        }
    }
}

/// The report of a run.
#[derive(Debug)]
pub struct Report {
    /// The trace, line by line; empty when it was printed meanwhile.
    pub trace: Vec<String>,
    /// A number that is the same for the same trace.
    pub hash: u64,
    /// The violation, if there is one.
    pub failure: Option<String>,
}

impl Report {
    /// Runs a simulation in a world, up to its end or to a violation, which panics.
    pub fn of<W>(mut world: W, run: fn(&mut W), trace_of: fn(W) -> Trace) -> Self {
        let ran = catch_unwind(AssertUnwindSafe(|| run(&mut world)));
        let failure = ran.err().map(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            text.unwrap_or_else(|| "a panic without a text".to_owned())
        });
        let trace = trace_of(world);
        Self { trace: trace.lines, hash: trace.hash, failure }
    }

    /// Fails a test if there was a violation, with the end of the trace and how to run it again.
    ///
    /// # Panics
    /// There was a violation.
    pub fn assert_passed(mut self, replay: &str) {
        let last = self.trace.split_off(self.trace.len().saturating_sub(LAST_LINES)).join("\n");
        assert!(self.failure.is_none(), "{:?}\n{last}\nreplay: {replay}", self.failure);
    }
}

/// Ends the run with a violation.
///
/// # Panics
/// Always: [`Report::of`] catches it.
#[expect(clippy::panic, reason = "caught by the caller of the run, who shows the trace")]
pub fn fail(violation: impl Display) -> ! {
    panic!("{violation}")
}

/// The value of a check that found no violation.
pub fn expect_ok<T>(result: Result<T, String>) -> T {
    result.unwrap_or_else(|violation| fail(violation))
}

/// A list for the trace.
pub fn join<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut text = String::new();
    for item in items {
        let gap = if text.is_empty() { "" } else { " " };
        write!(text, "{gap}{item}").expect("a string takes everything");
    }
    text
}
