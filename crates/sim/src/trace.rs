//! The trace of a run.

use std::fmt::Write as _;

/// The trace, as text and as a number that tells two runs apart.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) lines: Vec<String>,
    pub(crate) hash: u64,
    echo: bool,
}

impl Trace {
    pub(crate) const fn new(echo: bool) -> Self {
        Self { lines: Vec::new(), hash: 0xcbf2_9ce4_8422_2325, echo }
    }

    #[expect(clippy::print_stdout, reason = "asked for by the person who replays a seed")]
    pub(crate) fn note(&mut self, line: String) {
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.echo {
            println!("{line}");
        } else {
            self.lines.push(line);
        }
    }
}

/// A list for the trace.
pub(crate) fn join<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut text = String::new();
    for item in items {
        let gap = if text.is_empty() { "" } else { " " };
        write!(text, "{gap}{item}").expect("a string takes everything");
    }
    text
}
