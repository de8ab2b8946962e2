//! Messages' headers, as the broker changes them.

use amqp091::{PropertiesRef, Table, TableRef};

/// What new headers take at most, mostly.
const SPARE_BYTES: usize = 64;

/// The properties with headers that `change` has changed. Headers that cannot be read, which a client's
/// never are, go.
pub(crate) fn with_changed(properties: &[u8], change: impl FnOnce(&mut Table)) -> Vec<u8> {
    let view = PropertiesRef::trusted(properties);
    let headers = view.headers().and_then(|headers| headers.to_owned().ok());
    let mut headers = headers.unwrap_or_default();
    change(&mut headers);
    let headers = headers.to_bytes();
    let mut out = Vec::with_capacity(properties.len() + SPARE_BYTES);
    view.encode_with_headers(Some(TableRef::trusted(&headers)), &mut out);
    out
}
