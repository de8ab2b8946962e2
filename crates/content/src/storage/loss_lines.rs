//! Losses of queues, summed up: a line for each queue and reason, not for each message or page.

use meta::QueueDef;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Losses that grow for longer are told in between.
const TICKS_MAX: u32 = 10;

/// Losses that are not told yet, by queue and reason.
#[derive(Debug, Default)]
pub(crate) struct LossLines(Mutex<BTreeMap<(String, String), Untold>>);

#[derive(Debug, Default)]
struct Untold {
    n_messages: u64,
    n_ticks: u32,
    has_grown: bool,
}

impl LossLines {
    pub(crate) fn add(&self, queue: &QueueDef, reason: &str, n_messages: u64) {
        let mut lines = stdx::lock(&self.0);
        let untold = lines.entry((queue.resource().to_string(), reason.to_owned())).or_default();
        untold.n_messages += n_messages;
        untold.has_grown = true;
    }

    /// Tells what has not grown since this was called before; everything if `is_end`.
    pub(crate) fn tell(&self, is_end: bool) {
        let mut lines = stdx::lock(&self.0);
        let is_due = |_: &(String, String), untold: &mut Untold| {
            untold.n_ticks += 1;
            let is_growing = std::mem::take(&mut untold.has_grown);
            is_end || !is_growing || untold.n_ticks >= TICKS_MAX
        };
        let due: Vec<_> = lines.extract_if(.., is_due).collect();
        drop(lines);
        for ((queue, reason), Untold { n_messages, .. }) in due {
            tracing::error!("{queue}: {n_messages} messages are lost: {reason}");
        }
    }
}
