//! Routing, written as naively as it can be said.

use super::Model;
use session::ErrorKind;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Direct,
    Fanout,
    Topic,
    Headers,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Direct, Self::Fanout, Self::Topic, Self::Headers];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "most are the flags of the declaration")]
pub(crate) struct Exchange {
    pub(crate) kind: Kind,
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) internal: bool,
    pub(crate) predeclared: bool,
    /// Gets what finds no binding.
    pub(crate) alternate: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Queue(String),
    Exchange(String),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Binding {
    pub(crate) source: String,
    pub(crate) target: Target,
    pub(crate) key: String,
    /// The value header `h` must have, for bindings with arguments.
    pub(crate) header: Option<String>,
}

impl Model {
    /// The queues a message goes to.
    pub(crate) fn route(
        &self,
        exchange: &str,
        key: &str,
        header: Option<&str>,
    ) -> Result<BTreeSet<String>, ErrorKind> {
        let mut queues = BTreeSet::new();
        if exchange.is_empty() {
            queues.extend(self.queues.contains_key(key).then(|| key.to_owned()));
            return Ok(queues);
        }
        let first = self.exchanges.get(exchange).ok_or(ErrorKind::NotFound)?;
        if first.internal {
            return Err(ErrorKind::InternalExchange);
        }
        let mut seen = BTreeSet::from([exchange]);
        let mut left = vec![exchange];
        while let Some(name) = left.pop() {
            let Some(from) = self.exchanges.get(name) else { continue };
            let of_source = self.bindings.iter().filter(|binding| binding.source == name);
            let matching = of_source.filter(|binding| matches(from.kind, binding, key, header));
            let matching: Vec<&Binding> = matching.collect();
            if matching.is_empty()
                && let Some(alternate) = &from.alternate
                && seen.insert(alternate)
            {
                left.push(alternate);
            }
            for binding in matching {
                match &binding.target {
                    Target::Queue(queue) => {
                        queues.insert(queue.clone());
                    }
                    Target::Exchange(next) => {
                        if seen.insert(next) {
                            left.push(next);
                        }
                    }
                }
            }
        }
        Ok(queues)
    }
}

fn matches(kind: Kind, binding: &Binding, key: &str, header: Option<&str>) -> bool {
    match kind {
        Kind::Direct => binding.key == key,
        Kind::Fanout => true,
        Kind::Topic => {
            let pattern: Vec<&str> = binding.key.split('.').collect();
            let words: Vec<&str> = key.split('.').collect();
            topic(&pattern, &words)
        }
        Kind::Headers => binding.header.as_deref().is_none_or(|wanted| header == Some(wanted)),
    }
}

fn topic(pattern: &[&str], words: &[&str]) -> bool {
    match (pattern.split_first(), words.split_first()) {
        (None, None) => true,
        (Some((&"#", rest)), None) => topic(rest, words),
        (Some((&"#", rest)), Some((_, others))) => topic(rest, words) || topic(pattern, others),
        (Some((word, rest)), Some((other, others))) => {
            (*word == "*" || word == other) && topic(rest, others)
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}
