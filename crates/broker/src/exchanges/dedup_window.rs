//! Names of the last messages, to tell those that come again.

use amqp091::{TableRef, ValueRef};
use meta::Deduplication;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use stdx::record::{Reader, RecordError, put_bytes, put_u32, put_u64};

/// Longer names are not remembered: their messages are never told from new ones.
const NAME_BYTES_MAX: usize = 1024;
/// Memory a name takes besides its own bytes, more or less.
const ENTRY_BYTES: usize = 80;
/// A message's own time for which it is known, in milliseconds.
const OWN_TTL: &[u8] = b"x-cache-ttl";

/// Names and until when they are known, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Window {
    until_ms: HashMap<Arc<[u8]>, u64>,
    order: VecDeque<Arc<[u8]>>,
    /// Memory that the names take.
    bytes: usize,
    /// Since it was written last.
    is_changed: bool,
}

impl Window {
    /// Whether a message was here before; takes note of a new one. One without a name is new.
    pub(super) fn has_seen(
        &mut self,
        headers: Option<TableRef<'_>>,
        (rules, bytes_max): (&Deduplication, usize),
        now_ms: u64,
    ) -> bool {
        let Some(headers) = headers else { return false };
        let Some(name) = name_in(headers, rules) else { return false };
        let own_ms = headers.get(OWN_TTL).and_then(|value| value.as_i64());
        let own_ms = own_ms.and_then(|own_ms| u64::try_from(own_ms).ok());
        let until_ms =
            own_ms.or(rules.ttl_ms).map_or(u64::MAX, |ttl_ms| now_ms.saturating_add(ttl_ms));
        let is_known = self.note(&name, until_ms, now_ms);
        self.shrink(usize::try_from(rules.size).unwrap_or(usize::MAX), bytes_max);
        is_known
    }

    /// Whether a message was here before, which is not noted.
    pub(super) fn knows(
        &self,
        headers: Option<TableRef<'_>>,
        rules: &Deduplication,
        now_ms: u64,
    ) -> bool {
        let name = headers.and_then(|headers| name_in(headers, rules));
        name.is_some_and(|name| self.until_ms.get(&*name).is_some_and(|known| *known > now_ms))
    }

    /// Does as if a message had not been here.
    pub(super) fn forget(&mut self, headers: Option<TableRef<'_>>, rules: &Deduplication) {
        let Some(name) = headers.and_then(|headers| name_in(headers, rules)) else { return };
        if self.until_ms.remove(name.as_slice()).is_some() {
            self.is_changed = true;
            // It is one of the latest: it was noted just now.
            if let Some(at) = self.order.iter().rposition(|known| **known == *name) {
                self.order.remove(at);
                self.bytes -= name.len() + ENTRY_BYTES;
            }
        }
    }

    fn note(&mut self, name: &[u8], until_ms: u64, now_ms: u64) -> bool {
        if let Some(known) = self.until_ms.get_mut(name) {
            let is_known = *known > now_ms;
            if !is_known {
                *known = until_ms;
                self.is_changed = true;
            }
            return is_known;
        }
        self.is_changed = true;
        let name: Arc<[u8]> = Arc::from(name);
        self.until_ms.insert(Arc::clone(&name), until_ms);
        self.bytes += name.len() + ENTRY_BYTES;
        self.order.push_back(name);
        false
    }

    /// Forgets the oldest names beyond `size` and `bytes_max`.
    pub(super) fn shrink(&mut self, size: usize, bytes_max: usize) {
        while self.order.len() > size || self.bytes > bytes_max {
            let Some(oldest) = self.order.pop_front() else { break };
            self.until_ms.remove(&oldest);
            self.bytes -= oldest.len() + ENTRY_BYTES;
        }
    }

    pub(super) const fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Writes all names: how many, then each with its time.
    pub(super) fn encode(&mut self, out: &mut Vec<u8>) {
        self.is_changed = false;
        put_u32(out, u32::try_from(self.order.len()).unwrap_or(u32::MAX));
        for name in &self.order {
            put_bytes(out, name);
            put_u64(out, self.until_ms.get(name).copied().unwrap_or_default());
        }
    }

    /// Reads what was written.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let mut window = Self::default();
        for _ in 0..reader.u32()? {
            let name = reader.bytes()?.to_vec();
            window.note(&name, reader.u64()?, 0);
        }
        window.is_changed = false;
        Ok(window)
    }
}

fn name_in(headers: TableRef<'_>, rules: &Deduplication) -> Option<Vec<u8>> {
    headers.get(&rules.header).and_then(name_of)
}

/// A header's value with its type: 1 is not "1".
fn name_of(value: ValueRef<'_>) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    if let ValueRef::LongString(text) | ValueRef::Bytes(text) = value {
        name.push(b'S');
        name.extend_from_slice(text);
    } else if let Some(number) = value.as_i64() {
        name.push(b'l');
        name.extend_from_slice(&number.to_be_bytes());
    } else {
        value.to_owned().ok()?.encode(&mut name);
    }
    (name.len() <= NAME_BYTES_MAX).then_some(name)
}

#[cfg(test)]
mod tests {
    use amqp091::{ShortString, Table, Value};

    use super::*;

    const BYTES_MAX: usize = 1 << 20;

    fn rules(size: u32, ttl_ms: Option<u64>) -> Deduplication {
        Deduplication { header: b"id".as_slice().into(), size, ttl_ms }
    }

    fn seen(window: &mut Window, id: Value, rules: &Deduplication, now_ms: u64) -> bool {
        let mut headers = Table::new();
        headers.push(ShortString::from_static("id"), id);
        let bytes = headers.to_bytes();
        window.has_seen(Some(TableRef::parse(&bytes).unwrap()), (rules, BYTES_MAX), now_ms)
    }

    #[test]
    fn names_are_known_until_there_are_too_many_or_their_time_is_over() {
        let (mut window, two) = (Window::default(), rules(2, None));
        assert!(!seen(&mut window, "a".into(), &two, 0) && seen(&mut window, "a".into(), &two, 1));
        assert!(
            !seen(&mut window, 1i64.into(), &two, 0) && seen(&mut window, 1i32.into(), &two, 0)
        );
        assert!(!seen(&mut window, "1".into(), &two, 0), "another type, and the third");
        assert!(!seen(&mut window, "a".into(), &two, 0), "it was forgotten");
        assert_eq!((window.order.len(), window.until_ms.len()), (2, 2));
        let one = window.bytes / 2;
        window.shrink(usize::MAX, one);
        assert_eq!((window.order.len(), window.until_ms.len(), window.bytes), (1, 1, one));
        let (mut window, short) = (Window::default(), rules(9, Some(10)));
        assert!(
            !seen(&mut window, "a".into(), &short, 0) && seen(&mut window, "a".into(), &short, 9)
        );
        assert!(!seen(&mut window, "a".into(), &short, 10), "its time is over");
        assert!(seen(&mut window, "a".into(), &short, 19), "and begins anew");
        let long = Value::LongString(vec![b'x'; NAME_BYTES_MAX]);
        assert!(!seen(&mut window, long.clone(), &short, 0) && !seen(&mut window, long, &short, 0));
        assert!(!window.has_seen(None, (&short, BYTES_MAX), 0));
        let mut headers = Table::new();
        headers.push(ShortString::from_static("id"), "forgotten");
        let forgotten = headers.to_bytes();
        let forgotten = Some(TableRef::parse(&forgotten).unwrap());
        assert!(
            !window.has_seen(forgotten, (&short, BYTES_MAX), 0)
                && window.has_seen(forgotten, (&short, BYTES_MAX), 0)
        );
        window.forget(forgotten, &short);
        window.forget(None, &short);
        assert_eq!(window.order.len(), window.until_ms.len());
        assert!(!window.has_seen(forgotten, (&short, BYTES_MAX), 0));
        window.forget(forgotten, &short);
        let mut bytes = Vec::new();
        window.encode(&mut bytes);
        let mut again = Window::decode(&mut Reader::new(&bytes)).unwrap();
        assert!(
            seen(&mut again, "a".into(), &short, 19) && !seen(&mut again, "b".into(), &short, 19)
        );
        for cut in 0..bytes.len() {
            assert!(Window::decode(&mut Reader::new(&bytes[..cut])).is_err());
        }
    }

    #[test]
    fn a_message_may_say_how_long_it_is_known() {
        let (mut window, rules) = (Window::default(), rules(9, Some(1_000)));
        let mut headers = Table::new();
        headers.push(ShortString::from_static("id"), "a");
        headers.push(ShortString::from_static("x-cache-ttl"), 5i64);
        let bytes = headers.to_bytes();
        let headers = Some(TableRef::parse(&bytes).unwrap());
        assert!(
            !window.has_seen(headers, (&rules, BYTES_MAX), 0)
                && window.has_seen(headers, (&rules, BYTES_MAX), 4)
        );
        assert!(!window.has_seen(headers, (&rules, BYTES_MAX), 5));
    }
}
