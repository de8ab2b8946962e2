//! Paths and queries of requests.

use super::RefusedRequest;
use amqp10::percent_decoded;
use session::{BindingEnds, BindingTarget, ShortString};

/// The path of a request, and its query.
#[derive(Debug)]
pub(super) struct RequestTarget<'a> {
    pub(super) path: &'a str,
    /// The parts of the path, percent-encoded.
    pub(super) segments: Vec<&'a str>,
    query: &'a str,
}

impl<'a> RequestTarget<'a> {
    pub(super) fn parse(to: &'a str) -> Result<Self, RefusedRequest> {
        let (path, query) = to.split_once('?').unwrap_or((to, ""));
        let segments = path.strip_prefix('/').ok_or_else(|| RefusedRequest::not_found(path))?;
        Ok(Self { path, segments: segments.split('/').collect(), query })
    }

    /// The value of a key of the query.
    fn value(&self, key: &str) -> Result<Option<ShortString>, RefusedRequest> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let found = pairs.find(|(found, _)| *found == key);
        // Queries may have more characters as they are than paths (RFC 3986, 3.4).
        let as_in_path =
            |value: &str| value.replace('+', "%20").replace('/', "%2F").replace('?', "%3F");
        found.map(|(_, value)| name(&as_in_path(value))).transpose()
    }

    pub(super) fn binding_in_query(&self) -> Result<BindingEnds, RefusedRequest> {
        let missing =
            |keys| RefusedRequest::bad(format!("missing {keys} in query: {}", self.query));
        let queue = self.value("dstq")?.map(BindingTarget::Queue);
        let exchange = self.value("dste")?.map(BindingTarget::Exchange);
        Ok(BindingEnds {
            source: self.value("src")?.ok_or_else(|| missing("'src'"))?,
            destination: exchange.or(queue).ok_or_else(|| missing("'dste' or 'dstq'"))?,
            routing_key: self.value("key")?.ok_or_else(|| missing("'key'"))?,
        })
    }
}

/// The name that a part of a path, or a value of a query, stands for.
pub(super) fn name(quoted: &str) -> Result<ShortString, RefusedRequest> {
    let name = percent_decoded(quoted).and_then(|name| ShortString::new(name).ok());
    name.ok_or_else(|| RefusedRequest::bad(format!("bad name '{quoted}'")))
}

/// The ends of a binding and the hash of its arguments.
pub(super) fn binding_in_path(segment: &str) -> Result<(BindingEnds, String), RefusedRequest> {
    let bad = || RefusedRequest::bad(format!("bad binding path segment '{segment}'"));
    let parts: Vec<_> = segment.split(';').collect();
    let [source, destination, key, hash] = parts[..] else { return Err(bad()) };
    let part = |part: &str, key| name(part.strip_prefix(key).ok_or_else(bad)?);
    let ends = BindingEnds {
        source: part(source, "src=")?,
        destination: if destination.starts_with("dste=") {
            BindingTarget::Exchange(part(destination, "dste=")?)
        } else {
            BindingTarget::Queue(part(destination, "dstq=")?)
        },
        routing_key: part(key, "key=")?,
    };
    Ok((ends, hash.strip_prefix("args=").ok_or_else(bad)?.to_owned()))
}
