//! Counts of what the clients of some protocols have done since the start, which fronts make and operators
//! see.

use crate::StreamTotals;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of the node's clients.
#[derive(Clone, Debug, Default)]
pub struct ClientTotals {
    /// Counts of clients that use streams as such.
    pub streams: Arc<StreamTotals>,
    /// Messages converted for their consumers.
    pub conversions: Arc<ConversionTotals>,
}

/// The protocol that a message is converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvertedTo {
    /// The protocol with properties.
    Properties,
    /// The protocol with sections.
    Sections,
}

/// Messages that were converted from the encoding of one protocol to that of another one: for consumers, and
/// on their way into streams.
#[derive(Debug, Default)]
pub struct ConversionTotals([AtomicU64; 2]);

impl ConversionTotals {
    /// Counts a message.
    pub fn note(&self, to: ConvertedTo) {
        self.note_many(to, 1);
    }

    /// Counts so many messages.
    pub fn note_many(&self, to: ConvertedTo, n: u64) {
        let [properties, sections] = &self.0;
        let counter = match to {
            ConvertedTo::Properties => properties,
            ConvertedTo::Sections => sections,
        };
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// The messages converted to properties, and to sections.
    pub fn counts(&self) -> [u64; 2] {
        self.0.each_ref().map(|counter| counter.load(Ordering::Relaxed))
    }
}
