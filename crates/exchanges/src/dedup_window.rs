//! The names of the last messages, by which duplicates are known.

use amqp091::{TableRef, ValueRef};
use meta::Deduplication;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use stdx::UnixMs;
use stdx::record::{Reader, RecordError, put_bytes, put_u32, put_u64};

/// The longest name that is remembered, in bytes: messages with longer names always count as new.
const NAME_BYTES_MAX: usize = 1024;
/// Memory a name takes besides its own bytes, more or less.
const ENTRY_BYTES: usize = 80;
/// Names that are encoded before publishers have their turn.
const NAMES_AT_ONCE: usize = 2_048;
/// The header in which a message says for how many milliseconds it is known.
const OWN_TTL: &[u8] = b"x-cache-ttl";

/// Names, and until when they are known, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// A tree, since a hash map would move all of very many names at once, while publishers wait.
    until_ms: BTreeMap<Arc<[u8]>, UnixMs>,
    order: VecDeque<Arc<[u8]>>,
    /// Names that were forgotten, the oldest first each time.
    n_gone: u64,
    /// Memory that the names take.
    bytes: usize,
    /// Whether names have changed since they were written last.
    is_changed: bool,
}

impl Window {
    /// Whether a message was seen before; takes note of a new one. A message without a name is new.
    pub(super) fn has_seen(
        &mut self,
        headers: Option<TableRef<'_>>,
        rules: &Deduplication,
        bytes_max: usize,
        now_ms: UnixMs,
    ) -> bool {
        let Some(headers) = headers else { return false };
        let Some(name) = name_in(headers, rules) else { return false };
        let own_ms = headers.get(OWN_TTL).and_then(|value| value.as_i64());
        let own_ms = own_ms.and_then(|own_ms| u64::try_from(own_ms).ok());
        let until_ms = own_ms.or(rules.ttl_ms).map_or(UnixMs::NEVER, |ttl_ms| now_ms.plus(ttl_ms));
        let is_known = self.note(&name, until_ms, now_ms);
        self.shrink(usize::try_from(rules.size).unwrap_or(usize::MAX), bytes_max);
        is_known
    }

    /// Whether a message was seen before; takes no note of it.
    pub(super) fn knows(
        &self,
        headers: Option<TableRef<'_>>,
        rules: &Deduplication,
        now_ms: UnixMs,
    ) -> bool {
        let name = headers.and_then(|headers| name_in(headers, rules));
        name.is_some_and(|name| self.until_ms.get(&*name).is_some_and(|known| *known > now_ms))
    }

    /// Forgets that a message was seen.
    pub(super) fn forget(&mut self, headers: Option<TableRef<'_>>, rules: &Deduplication) {
        let Some(name) = headers.and_then(|headers| name_in(headers, rules)) else { return };
        if self.until_ms.remove(name.as_slice()).is_some() {
            self.is_changed = true;
            // The name is one of the latest: it was noted just now.
            if let Some(at) = self.order.iter().rposition(|known| **known == *name) {
                self.order.remove(at);
                self.bytes -= name.len() + ENTRY_BYTES;
            }
        }
    }

    fn note(&mut self, name: &[u8], until_ms: UnixMs, now_ms: UnixMs) -> bool {
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
            self.n_gone += 1;
            self.bytes -= oldest.len() + ENTRY_BYTES;
        }
    }

    pub(super) const fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Encodes some more names with their times; returns whether there are more to come.
    fn encode_some(&mut self, copy: &mut WindowCopy) -> bool {
        if copy.n_before == 0 {
            self.is_changed = false;
        }
        let first = copy.n_before.max(self.n_gone);
        let at = usize::try_from(first - self.n_gone).unwrap_or(usize::MAX);
        copy.piece.clear();
        for name in self.order.iter().skip(at).take(NAMES_AT_ONCE) {
            put_bytes(&mut copy.piece, name);
            let until_ms = self.until_ms.get(name).copied().unwrap_or_default();
            put_u64(&mut copy.piece, until_ms.get());
            copy.n += 1;
        }
        copy.n_before = first + NAMES_AT_ONCE as u64;
        at.saturating_add(NAMES_AT_ONCE) < self.order.len()
    }

    /// Reads names in the form in which they were encoded.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let mut window = Self::default();
        for _ in 0..reader.u32()? {
            let name = reader.bytes()?.to_vec();
            window.note(&name, UnixMs::from_raw(reader.u64()?), UnixMs::default());
        }
        window.is_changed = false;
        Ok(window)
    }
}

/// A copy of names that is being made.
#[derive(Debug, Default)]
struct WindowCopy {
    /// The number of names ever noted before those that are still to be encoded.
    n_before: u64,
    /// Names in the copy.
    n: u32,
    piece: Vec<u8>,
}

/// Encodes all names: their number, then each with its time. Publishers have their turn meanwhile: the names
/// that they note may be in the copy or not.
pub(super) fn encode(window: &Mutex<Window>, out: &mut Vec<u8>) {
    let (mut copy, at) = (WindowCopy::default(), out.len());
    put_u32(out, 0);
    loop {
        let is_more = stdx::lock(window).encode_some(&mut copy);
        out.extend_from_slice(&copy.piece);
        if !is_more {
            break;
        }
    }
    if let Some(n) = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *n = copy.n.to_le_bytes();
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

    fn seen(window: &mut Window, id: Value, rules: &Deduplication, now_ms: UnixMs) -> bool {
        let mut headers = Table::new();
        headers.push(ShortString::from_static("id"), id);
        let bytes = headers.to_bytes();
        window.has_seen(Some(TableRef::parse(&bytes).unwrap()), rules, BYTES_MAX, now_ms)
    }

    #[test]
    fn names_are_known_until_there_are_too_many_or_their_time_is_over() {
        let (mut window, two) = (Window::default(), rules(2, None));
        assert!(
            !seen(&mut window, "a".into(), &two, UnixMs::from_raw(0))
                && seen(&mut window, "a".into(), &two, UnixMs::from_raw(1))
        );
        assert!(
            !seen(&mut window, 1i64.into(), &two, UnixMs::from_raw(0))
                && seen(&mut window, 1i32.into(), &two, UnixMs::from_raw(0))
        );
        assert!(
            !seen(&mut window, "1".into(), &two, UnixMs::from_raw(0)),
            "another type, and the third"
        );
        assert!(!seen(&mut window, "a".into(), &two, UnixMs::from_raw(0)), "it was forgotten");
        assert_eq!((window.order.len(), window.until_ms.len()), (2, 2));
        let one = window.bytes / 2;
        window.shrink(usize::MAX, one);
        assert_eq!((window.order.len(), window.until_ms.len(), window.bytes), (1, 1, one));
        let (mut window, short) = (Window::default(), rules(9, Some(10)));
        assert!(
            !seen(&mut window, "a".into(), &short, UnixMs::from_raw(0))
                && seen(&mut window, "a".into(), &short, UnixMs::from_raw(9))
        );
        assert!(!seen(&mut window, "a".into(), &short, UnixMs::from_raw(10)), "its time is over");
        assert!(seen(&mut window, "a".into(), &short, UnixMs::from_raw(19)), "and begins anew");
        let long = Value::LongString(vec![b'x'; NAME_BYTES_MAX]);
        assert!(
            !seen(&mut window, long.clone(), &short, UnixMs::from_raw(0))
                && !seen(&mut window, long, &short, UnixMs::from_raw(0))
        );
        assert!(!window.has_seen(None, &short, BYTES_MAX, UnixMs::from_raw(0)));
        let mut headers = Table::new();
        headers.push(ShortString::from_static("id"), "forgotten");
        let forgotten = headers.to_bytes();
        let forgotten = Some(TableRef::parse(&forgotten).unwrap());
        assert!(
            !window.has_seen(forgotten, &short, BYTES_MAX, UnixMs::from_raw(0))
                && window.has_seen(forgotten, &short, BYTES_MAX, UnixMs::from_raw(0))
        );
        window.forget(forgotten, &short);
        window.forget(None, &short);
        assert_eq!(window.order.len(), window.until_ms.len());
        assert!(!window.has_seen(forgotten, &short, BYTES_MAX, UnixMs::from_raw(0)));
        window.forget(forgotten, &short);
        let (window, mut bytes) = (Mutex::new(window), Vec::new());
        encode(&window, &mut bytes);
        let mut again = Window::decode(&mut Reader::new(&bytes)).unwrap();
        assert!(
            seen(&mut again, "a".into(), &short, UnixMs::from_raw(19))
                && !seen(&mut again, "b".into(), &short, UnixMs::from_raw(19))
        );
        for cut in 0..bytes.len() {
            assert!(Window::decode(&mut Reader::new(&bytes[..cut])).is_err());
        }
    }

    #[test]
    fn names_that_go_while_they_are_written_are_not_missed() {
        let (mut window, mut copy) = (Window::default(), WindowCopy::default());
        let name = |n: usize| n.to_be_bytes();
        (0..2 * NAMES_AT_ONCE)
            .for_each(|n| _ = window.note(&name(n), UnixMs::from_raw(1), UnixMs::from_raw(0)));
        assert!(window.encode_some(&mut copy) && !window.is_changed());
        // More have gone than were written.
        window.shrink(NAMES_AT_ONCE / 2, BYTES_MAX);
        assert!(!window.note(&name(usize::MAX), UnixMs::from_raw(1), UnixMs::from_raw(0)));
        assert!(!window.encode_some(&mut copy) && window.is_changed());
        let (n, left) = (copy.n as usize, NAMES_AT_ONCE / 2 + 1);
        assert_eq!((n, copy.piece.len()), (NAMES_AT_ONCE + left, left * (4 + 8 + 8)));
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
            !window.has_seen(headers, &rules, BYTES_MAX, UnixMs::from_raw(0))
                && window.has_seen(headers, &rules, BYTES_MAX, UnixMs::from_raw(4))
        );
        assert!(!window.has_seen(headers, &rules, BYTES_MAX, UnixMs::from_raw(5)));
    }
}
