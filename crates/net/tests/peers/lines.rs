//! The log of the process, in memory.

use crate::node::DEADLINE;
use std::fmt::{Debug, Write as _};
use std::sync::{LazyLock, Mutex};
use stdx::lock;
use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A subscriber that keeps lines.
struct LogLines;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static CHANGES: LazyLock<watch::Sender<usize>> = LazyLock::new(watch::Sender::default);

/// A line as text.
struct LineText(String);

impl Visit for LineText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            write!(self.0, "{value:?}").unwrap();
        }
    }
}

impl Subscriber for LogLines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("net")
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = LineText(format!("{} ", event.metadata().level()));
        event.record(&mut line);
        lock(&LINES).push(line.0);
        CHANGES.send_modify(|n| *n += 1);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// Begins to keep lines.
pub(crate) fn keep() {
    let _was_begun = tracing::subscriber::set_global_default(LogLines).is_err();
}

/// The lines with all of these parts.
pub(crate) fn with(parts: &[&str]) -> Vec<String> {
    let lines = lock(&LINES);
    lines.iter().filter(|line| parts.iter().all(|part| line.contains(part))).cloned().collect()
}

/// Waits for so many lines with all of these parts.
pub(crate) async fn wait_for(n: usize, parts: &[&str]) {
    let mut changes = CHANGES.subscribe();
    let wait = changes.wait_for(|_| with(parts).len() >= n);
    let waited = tokio::time::timeout(DEADLINE, wait).await.is_ok();
    assert!(waited, "no line with {parts:?} in {:#?}", lock(&LINES));
}
