//! A bar on the terminal while a run goes on that has an end. PerfTest has none.

use std::io::{IsTerminal as _, Write as _};

use super::stop_reason::Limits;
use crate::clock::SECOND;
use crate::config::{Format, Run};

/// Width of the bar itself, characters.
const WIDTH: u64 = 30;
/// Interval at which the line is drawn.
const PERIOD_NS: u64 = SECOND / 5;
/// Back to the start of the line, and nothing on it.
const CLEAR: &str = "\r\x1b[2K";

/// The end of a run, in time or in messages, for the progress line.
#[derive(Debug)]
pub(super) struct Goal {
    time_ns: Option<u64>,
    n_sent: Option<u64>,
    n_received: Option<u64>,
}

impl Goal {
    /// `None` for a run that goes on for ever.
    pub(super) fn new(run: &Run, limits: &Limits) -> Option<Self> {
        let (n_sent, n_received) = (limits.n_sent(), limits.n_received());
        let goal = Self { time_ns: run.time_ns, n_sent, n_received };
        let is_any = goal.time_ns.or(goal.n_sent).or(goal.n_received).is_some();
        is_any.then_some(goal)
    }

    /// The share that is done, in thousandths: all limits of messages have to be reached, or the time.
    fn permille(&self, elapsed_ns: u64, n_sent: u64, n_received: u64) -> u64 {
        let part = |n: u64, of: u64| {
            let permille = u128::from(n) * 1000 / u128::from(of.max(1));
            u64::try_from(permille.min(1000)).unwrap_or(1000)
        };
        let sent = self.n_sent.map(|of| part(n_sent, of));
        let received = self.n_received.map(|of| part(n_received, of));
        let messages = [sent, received].into_iter().flatten().min();
        let time = self.time_ns.map(|of| part(elapsed_ns, of));
        [messages, time].into_iter().flatten().max().unwrap_or(0)
    }
}

/// The bar, on standard error: what is on standard output stays what it would be without.
#[derive(Debug)]
pub(super) struct Bar {
    goal: Goal,
    drawn_at: u64,
    is_drawn: bool,
}

impl Bar {
    /// `None` where there is nothing to draw, or nobody to draw it for.
    pub(super) fn new(run: &Run, limits: &Limits) -> Option<Self> {
        let is_terminal = || std::io::stderr().is_terminal() && run.format != Format::Json;
        let goal = Goal::new(run, limits)?;
        let bar = Self { goal, drawn_at: 0, is_drawn: false };
        run.progress.unwrap_or_else(is_terminal).then_some(bar)
    }

    /// Draws it, unless it has just been.
    pub(super) fn draw(&mut self, elapsed_ns: u64, n_sent: u64, n_received: u64) {
        if self.is_drawn && elapsed_ns < self.drawn_at + PERIOD_NS {
            return;
        }
        (self.drawn_at, self.is_drawn) = (elapsed_ns, true);
        let permille = self.goal.permille(elapsed_ns, n_sent, n_received);
        put(&format!("{CLEAR}{}", line(permille, elapsed_ns)));
    }

    /// Makes room for other text.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            put(CLEAR);
        }
    }
}

/// The time left is what the part done took, scaled to the part left.
fn line(permille: u64, elapsed_ns: u64) -> String {
    let n = permille * WIDTH / 1000;
    let bar: String = (0..WIDTH).map(|at| if at < n { '#' } else { '.' }).collect();
    let left = match elapsed_ns.saturating_mul(1000 - permille).checked_div(permille) {
        Some(ns) => format!(", {} s left", ns.div_ceil(SECOND)),
        None => String::new(),
    };
    format!("[{bar}] {:>3} %{left}", permille / 10)
}

/// A bar that cannot be drawn is no reason to stop.
fn put(text: &str) {
    let mut out = std::io::stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(line: &str) -> Option<Goal> {
        let words = line.split_whitespace().map(str::to_owned);
        let config = crate::config::Config::new(&crate::options::parse(words).unwrap()).unwrap();
        Goal::new(&config.run, &config.limits())
    }

    #[test]
    fn what_is_done_is_the_slower_limit_or_the_time() {
        assert!(goal("-x 2").is_none());
        let all = goal("-x 2 -C 50 -y 1 -D 100 -z 10").unwrap();
        assert_eq!(all.permille(SECOND, 50, 60), 500);
        assert_eq!(all.permille(8 * SECOND, 50, 60), 800);
        assert_eq!(all.permille(0, 500, 500), 1000);
        assert_eq!(goal("-z 10").unwrap().permille(5 * SECOND, 0, 0), 500);
    }

    #[test]
    fn a_bar_has_the_part_done_and_the_time_left() {
        let half = line(500, 3 * SECOND);
        assert_eq!(half, "[###############...............]  50 %, 3 s left");
        assert_eq!(line(0, SECOND), "[..............................]   0 %");
        assert!(line(1000, SECOND).ends_with("100 %, 0 s left"));
    }
}
