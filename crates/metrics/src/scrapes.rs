//! How long scrapes have taken, and how long their texts were.

use crate::text::{Kind, Writer};
use std::sync::atomic::{AtomicU64, Ordering};

/// The endpoints that are counted apart. COMPAT: as RabbitMQ's registries are called.
pub(crate) const REGISTRIES: [&str; 4] = ["default", "per-object", "detailed", "memory-breakdown"];

/// The type of what is written.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// Times and lengths of scrapes: name and meaning.
pub(crate) const SCRAPES: [(&str, &str); 2] = [
    ("telemetry_scrape_duration_seconds", "Duration of scrapes"),
    ("telemetry_scrape_size_bytes", "Size of scrapes before compression"),
];

/// The scrapes of a node since its start, by endpoint.
#[derive(Debug, Default)]
pub struct Scrapes([Scraped; REGISTRIES.len()]);

#[derive(Debug, Default)]
struct Scraped {
    n: AtomicU64,
    micros: AtomicU64,
    bytes: AtomicU64,
}

impl Scrapes {
    fn of(&self, registry: &str) -> Option<&Scraped> {
        let known = REGISTRIES.iter().zip(&self.0).find(|(name, _)| **name == registry);
        known.map(|(_, it)| it)
    }

    /// Counts a scrape of an endpoint, with its duration and the length of its text.
    pub(crate) fn note(&self, registry: &str, micros: u64, n_bytes: u64) {
        if let Some(it) = self.of(registry) {
            it.n.fetch_add(1, Ordering::Relaxed);
            it.micros.fetch_add(micros, Ordering::Relaxed);
            it.bytes.fetch_add(n_bytes, Ordering::Relaxed);
        }
    }

    /// Writes the durations and lengths of an endpoint's scrapes.
    pub(crate) fn write(&self, writer: &mut Writer<'_>, registry: &str) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Some(it) = self.of(registry) else { return };
        let n = read(&it.n);
        let labels = [("registry", registry), ("content_type", CONTENT_TYPE)];
        let sums = [read(&it.micros) as f64 / 1e6, read(&it.bytes) as f64];
        for ((name, help), sum) in SCRAPES.into_iter().zip(sums) {
            let mut metric = writer.begin(name, Kind::Summary, help);
            // The first scrape has nothing to tell.
            if n > 0 {
                metric.summary(&labels, n, sum);
            }
        }
    }
}
