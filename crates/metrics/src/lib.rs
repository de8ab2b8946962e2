//! The node's figures in the text format of Prometheus, under the names that RabbitMQ's dashboards and rules
//! ask for. Never sockets; nothing is named that no figure stands behind.
//! Start reading at [`Scrape`], then `table`.

mod ages;
mod kind;
mod objects;
mod otlp;
mod pairs;
mod queues;
mod rows;
mod scrapes;
mod selection;
mod snapshot;
mod table;
mod text;

pub use ages::{Ages, ChangedQueue};
pub use scrapes::{CONTENT_TYPE, Scrapes};

use auth::LoginThrottle;
use meta::QueueId;
use mgmt::Management;
use otlp::Otlp;
use selection::Selection;
use serde_json::Value;
use snapshot::Snapshot;
use std::collections::HashSet;
use stdx::Now;
use text::Writer;

/// Longest regular expression for names of queues, characters.
pub const QUEUE_REGEX_CHARS_MAX: usize = 2_000;

/// Figures of a node that are remembered from one look or scrape to the next.
#[derive(Debug, Default)]
pub struct History {
    /// How long messages have waited.
    pub ages: Ages,
    /// Durations and lengths of the scrapes since the start.
    pub scrapes: Scrapes,
}

/// The node that figures are told of.
#[derive(Debug)]
pub struct Source<'s> {
    /// The node.
    pub management: &'s Management,
    /// The throttle of logins, which counts them.
    pub throttle: &'s LoginThrottle,
    /// Figures of earlier scrapes.
    pub history: &'s History,
    /// The time.
    pub now: Now,
}

/// The wishes of a scrape.
#[derive(Debug)]
pub enum Scrape {
    /// Figures of the node; no object is named.
    Aggregated,
    /// Figures of the node and of each object.
    PerObject,
    /// The families of figures of each object that are wanted.
    Detailed {
        /// RabbitMQ's names of the families; unknown names are passed over.
        families: Vec<String>,
        /// Virtual hosts whose figures are wanted; empty for all.
        vhosts: Vec<String>,
        /// Queues whose figures are wanted; `None` for all.
        queues: Option<HashSet<QueueId>>,
    },
    /// Memory by its use.
    Memory,
}

impl Scrape {
    /// Writes the figures in pieces, until `take` wants no more.
    pub fn write(&self, source: &Source<'_>, take: &mut dyn FnMut(String) -> bool) {
        let mut writer = Writer::new(self.prefix(), take);
        let management = source.management;
        let snapshot = Snapshot::of(source);
        table::identity(&mut writer, management, self.endpoint());
        match self {
            Self::Aggregated => {
                table::node(&mut writer, &snapshot, |_| true);
                table::deaths(&mut writer, management.broker.figures().deaths());
                table::quorum_log(&mut writer, &snapshot);
                table::oldest_message(&mut writer, source);
                table::certificates(&mut writer, management);
            }
            Self::PerObject => {
                // Figures that each object has are left out of the node's.
                table::node(&mut writer, &snapshot, |name| !objects::have(name));
                table::deaths(&mut writer, management.broker.figures().deaths());
                table::certificates(&mut writer, management);
                let families: Vec<String> =
                    objects::ALL.iter().map(|family| (*family).to_owned()).collect();
                Selection { families: &families, vhosts: &[], queues: None }
                    .write(&mut writer, source);
            }
            Self::Detailed { families, vhosts, queues } => {
                Selection { families, vhosts, queues: queues.as_ref() }.write(&mut writer, source);
            }
            Self::Memory => table::memory(&mut writer, &snapshot),
        }
        source.history.scrapes.write(&mut writer, self.registry());
        writer.end();
    }

    /// Counts the scrape, with its duration and the length of its text.
    pub fn note(&self, scrapes: &Scrapes, micros: u64, n_bytes: u64) {
        scrapes.note(self.registry(), micros, n_bytes);
    }

    const fn registry(&self) -> &'static str {
        match self {
            Self::Aggregated => "default",
            Self::PerObject | Self::Detailed { .. } | Self::Memory => self.endpoint(),
        }
    }

    const fn prefix(&self) -> &'static str {
        match self {
            Self::Aggregated | Self::PerObject | Self::Memory => "rabbitmq_",
            Self::Detailed { .. } => "rabbitmq_detailed_",
        }
    }

    const fn endpoint(&self) -> &'static str {
        match self {
            Self::Aggregated => "aggregated",
            Self::PerObject => "per-object",
            Self::Detailed { .. } => "detailed",
            Self::Memory => "memory-breakdown",
        }
    }
}

/// The figures of the node as OTLP has them, since it started and now, in nanoseconds since 1970.
#[must_use]
pub fn otlp(source: &Source<'_>, started_ns: u64, now_ns: u64) -> Vec<Value> {
    let mut nobody = |_| false;
    let otlp = Otlp::new(started_ns, now_ns);
    let mut writer = Writer::gathering(Scrape::Aggregated.prefix(), &mut nobody, otlp);
    let snapshot = Snapshot::of(source);
    table::node(&mut writer, &snapshot, |_| true);
    table::deaths(&mut writer, source.management.broker.figures().deaths());
    table::quorum_log(&mut writer, &snapshot);
    table::oldest_message(&mut writer, source);
    writer.gathered()
}

#[cfg(test)]
mod tests;
