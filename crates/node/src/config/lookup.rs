//! The option that a key of the configuration names.

use super::option::ConfigOption;
use super::{options, tls};

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
    pub(super) fn setting(&self) -> SettingId {
        SettingId { own: self.own, key: self.option.key(), name: self.name.clone() }
    }
}

/// Identity of a setting, whichever key names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SettingId {
    own: Option<usize>,
    key: &'static str,
    name: String,
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
    if let Some(option) = options::all().find(exact) {
        return Some(Found { option, name: String::new(), own: None });
    }
    options::all().find_map(|option| {
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
