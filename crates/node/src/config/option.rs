//! Rows of the table of options.

use super::kind::Kind;

/// Row of the table of options.
pub(super) struct ConfigOption {
    /// The key as RabbitMQ names it, and the default as it would be written: `heartbeat = 60`. In the key
    /// `$x` stands for one free segment.
    pub(super) line: &'static str,
    /// Another name of the same option.
    pub(super) alias: Option<&'static str>,
    pub(super) kind: Kind,
    /// The option's meaning, in one or two sentences of markdown.
    pub(super) doc: &'static str,
}

impl ConfigOption {
    pub(super) fn key(&self) -> &'static str {
        self.line.split_once(" = ").map_or(self.line, |(key, _)| key)
    }

    /// The default as it would be written; empty without one.
    pub(super) fn default(&self) -> &'static str {
        self.line.split_once(" = ").map_or("", |(_, default)| default)
    }

    pub(super) const fn also(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }
}

pub(super) const fn row(line: &'static str, kind: Kind, doc: &'static str) -> ConfigOption {
    ConfigOption { line, alias: None, kind, doc }
}
