//! Options of the configuration, and how an option is found by its key.

use super::kind::Kind;
use super::options::{self, OPTIONS};
use super::tls;

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

/// An option and what its key's free segment stood for.
pub(super) struct Found {
    pub(super) option: &'static ConfigOption,
    /// The text of the key's free segment; empty for a key without one.
    pub(super) name: String,
    /// The place in [`tls::OWN`] of a key that is one of a listener's own.
    pub(super) own: Option<usize>,
}

impl Found {
    /// Identity of the setting, equal for every key that names the setting.
    pub(super) fn canonical_key(&self) -> (Option<usize>, &'static str, String) {
        (self.own, self.option.key(), self.name.clone())
    }
}

/// Every option, in the order of the documentation.
pub(super) fn all() -> impl Iterator<Item = &'static ConfigOption> {
    OPTIONS
        .iter()
        .chain(options::log::OPTIONS.iter().copied().flatten())
        .chain(options::tls::OPTIONS)
        .chain(options::http::OPTIONS.iter().copied().flatten())
}

/// The option a key belongs to. A key written out wins over one with a free segment.
pub(super) fn find(key: &[String]) -> Option<Found> {
    for (at, own) in tls::OWN.iter().enumerate() {
        let behind = key.split_at_checked(own.split('.').count());
        let behind = behind.filter(|(start, _)| own.split('.').eq(*start));
        let shared = behind.and_then(|(_, rest)| find(&[&[tls::SHARED.to_owned()], rest].concat()));
        if let Some(shared) = shared {
            return Some(Found { own: Some(at), ..shared });
        }
    }
    let exact = |option: &&'static ConfigOption| {
        let names = [Some(option.key()), option.alias];
        names.into_iter().flatten().any(|name| name.split('.').eq(key.iter()))
    };
    if let Some(option) = all().find(exact) {
        return Some(Found { option, name: String::new(), own: None });
    }
    all().find_map(|option| {
        Some(Found { option, name: free_segment(option.key(), key)?, own: None })
    })
}

/// The segment of `key` in place of the free segment of `pattern`; `None` if the other segments differ.
fn free_segment(pattern: &str, key: &[String]) -> Option<String> {
    let segments: Vec<&str> = pattern.split('.').collect();
    let is_free = |segment: &&str| segment.starts_with('$');
    let fits = |(segment, given): (&&str, &String)| is_free(segment) || segment == given;
    if segments.len() != key.len() || !segments.iter().zip(key).all(fits) {
        return None;
    }
    key.get(segments.iter().position(is_free)?).cloned()
}

pub(super) const fn row(line: &'static str, kind: Kind, doc: &'static str) -> ConfigOption {
    ConfigOption { line, alias: None, kind, doc }
}
