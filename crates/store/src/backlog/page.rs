//! One page of a backlog in memory.
//!
//! ```text
//! entries[position - first] = { body offset, body length, envelope, segment, kept body }, or a gap
//!
//! bytes, in any order:
//!   names      exchange n u8 | key n u8 | exchange | key
//!   envelope   names u32 | properties n u31, persistent u1 (the top bit) | properties
//!   body
//! ```
//! Integers are little-endian. A message like the one before it shares that one's names, and its
//! envelope when the properties are the same too: most messages cost an entry and their body.
//! A body *kept apart* (shared with other queues, or stored in the body store) has its handle in
//! `bodies`.

use crate::blob::BlobId;
use bytes::Bytes;
use log::SegmentId;
use message::{Body, MessageRef};

/// Positions a page can span: first to last message, gaps included.
pub(super) const SPAN_MAX: usize = 4096;
/// Gaps up to this many entries are filled rather than starting a page.
const GAP_ENTRIES_MAX: usize = 64;
/// What an entry takes in memory and in an image.
pub(super) const ENTRY_BYTES: usize = 16;
/// Bytes of an envelope before its properties.
pub(super) const ENVELOPE_FIXED_BYTES: usize = 8;
/// Bytes of names before the exchange.
pub(super) const NAMES_FIXED_BYTES: usize = 2;
pub(super) const PERSISTENT: u32 = 1 << 31;
const NOWHERE: u32 = u32::MAX;

/// Where one message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Of the body in `bytes`, unless it is kept apart.
    pub(super) offset: u32,
    /// Of the body.
    pub(super) len: u32,
    /// Of the envelope in `bytes`; `NOWHERE` for a gap or a released message.
    pub(super) envelope: u32,
    /// In which log segment it lies.
    pub(super) segment: SegmentNumber,
    /// 1 + index into the bodies kept apart; 0 for none.
    pub(super) body: u16,
}

const _: () = assert!(size_of::<Entry>() == ENTRY_BYTES);

pub(super) const GAP: Entry =
    Entry { offset: 0, len: 0, envelope: NOWHERE, segment: SegmentNumber::NONE, body: 0 };

impl Entry {
    pub(super) const fn is_live(self) -> bool {
        self.envelope != NOWHERE
    }
}

/// Where the log holds a message: nowhere, in one of the page's segments, or through a note about
/// the page itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentNumber(u16);

impl SegmentNumber {
    pub(super) const NONE: Self = Self(0);
    /// The message is durable as part of the page's image.
    pub(super) const IN_IMAGE: Self = Self(u16::MAX);

    pub(super) const fn is_logged(self) -> bool {
        self.0 != 0
    }
}

/// Marks a place among a page's segments as free. Segments are counted from 1.
const NO_SEGMENT: SegmentId = SegmentId(0);

/// A body beside the page's bytes.
#[derive(Debug)]
pub(super) struct KeptBody {
    pub(super) bytes: Bytes,
    /// Its name in the body store, if it is there.
    pub(super) blob: Option<BlobId>,
}

/// The envelope the next message is compared with.
#[derive(Clone, Copy, Debug)]
struct LastEnvelope {
    envelope: u32,
    names: u32,
    /// As in the envelope: length and persistence.
    packed: u32,
    exchange_len: u8,
    key_len: u8,
}

const NO_ENVELOPE: LastEnvelope =
    LastEnvelope { envelope: NOWHERE, names: NOWHERE, packed: 0, exchange_len: 0, key_len: 0 };

#[derive(Debug)]
pub(super) struct Page {
    /// Position of the first entry.
    pub(super) first: u64,
    pub(super) entries: Vec<Entry>,
    pub(super) bytes: Vec<u8>,
    pub(super) bodies: Vec<Option<KeptBody>>,
    /// Of the bodies kept apart that are still there.
    pub(super) body_bytes: usize,
    /// The log segments its messages lie in: few, since they were logged one after the other.
    segments: Vec<SegmentId>,
    last: LastEnvelope,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            first: 0,
            entries: Vec::new(),
            bytes: Vec::new(),
            bodies: Vec::new(),
            body_bytes: 0,
            segments: Vec::new(),
            last: NO_ENVELOPE,
        }
    }
}

/// A message on its way into a page.
pub(super) struct Added<'a> {
    pub(super) message: &'a MessageRef<'a>,
    pub(super) segment: SegmentNumber,
    pub(super) blob: Option<BlobId>,
}

/// What a released message leaves.
pub(super) struct ReleasedEntry {
    pub(super) segment: SegmentNumber,
    pub(super) size_bytes: u64,
    /// Of a body kept apart.
    pub(super) kept_bytes: usize,
    pub(super) blob: Option<BlobId>,
}

impl Page {
    pub(super) fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Memory it stands for: bytes, entries and bodies kept apart.
    pub(super) const fn cost_bytes(&self) -> usize {
        self.bytes.len() + self.entries.len() * ENTRY_BYTES + self.body_bytes
    }

    /// Whether a message at `position` is better put into the next page. An inline body counts for
    /// `page_bytes`, one kept apart for four times as much.
    pub(super) fn is_full_for(
        &self,
        position: u64,
        message: &MessageRef<'_>,
        kept: bool,
        page_bytes: usize,
    ) -> bool {
        let n_gaps = position.saturating_sub(self.end());
        let Some(n_gaps) = usize::try_from(n_gaps).ok().filter(|n| *n <= GAP_ENTRIES_MAX) else {
            return true;
        };
        let n_entries = self.entries.len() + n_gaps + 1;
        if n_entries > SPAN_MAX {
            return true;
        }
        let (inline, kept) = if kept { (0, message.body.len()) } else { (message.body.len(), 0) };
        self.bytes.len() + inline + n_entries * ENTRY_BYTES > page_bytes
            || (kept > 0 && self.body_bytes > 0 && self.body_bytes + kept > 4 * page_bytes)
    }

    pub(super) fn restart(&mut self, first: u64) {
        self.first = first;
        self.entries.clear();
        self.bytes.clear();
        self.bodies.clear();
        self.body_bytes = 0;
        self.segments.clear();
        self.last = NO_ENVELOPE;
    }

    /// Appends a message at the page's end.
    pub(super) fn push(&mut self, added: &Added<'_>) {
        let envelope = self.envelope_for(added.message);
        let offset = to_u32(self.bytes.len());
        let len = to_u32(added.message.body.len());
        let body = match (added.message.body, added.blob) {
            (Body::Borrowed(bytes), None) => {
                self.bytes.extend_from_slice(bytes);
                0
            }
            (Body::Borrowed(bytes), blob) => self.keep(Bytes::copy_from_slice(bytes), blob),
            (Body::Shared(bytes), blob) => self.keep(bytes.clone(), blob),
        };
        self.entries.push(Entry { offset, len, envelope, segment: added.segment, body });
    }

    fn keep(&mut self, bytes: Bytes, blob: Option<BlobId>) -> u16 {
        self.body_bytes += bytes.len();
        self.bodies.push(Some(KeptBody { bytes, blob }));
        to_u16(self.bodies.len())
    }

    /// Where the message's envelope is: the last one's place if they are equal.
    fn envelope_for(&mut self, message: &MessageRef<'_>) -> u32 {
        let packed = packed_of(message);
        let names = match self.last_names(message) {
            Some(names) if packed == self.last.packed && self.has_last_properties(message) => {
                debug_assert_eq!(names, self.last.names, "an envelope has its names");
                return self.last.envelope;
            }
            Some(names) => names,
            None => self.put_names(message),
        };
        let envelope = to_u32(self.bytes.len());
        self.bytes.extend_from_slice(&names.to_le_bytes());
        self.bytes.extend_from_slice(&packed.to_le_bytes());
        self.bytes.extend_from_slice(message.properties);
        self.last.envelope = envelope;
        self.last.packed = packed;
        envelope
    }

    fn put_names(&mut self, message: &MessageRef<'_>) -> u32 {
        let names = to_u32(self.bytes.len());
        let exchange_len = to_u8(message.exchange.len());
        let key_len = to_u8(message.routing_key.len());
        self.bytes.extend_from_slice(&[exchange_len, key_len]);
        self.bytes.extend_from_slice(message.exchange);
        self.bytes.extend_from_slice(message.routing_key);
        self.last.names = names;
        self.last.exchange_len = exchange_len;
        self.last.key_len = key_len;
        names
    }

    /// The place of the last names, if the message has the same.
    fn last_names(&self, message: &MessageRef<'_>) -> Option<u32> {
        let last = self.last;
        if usize::from(last.exchange_len) != message.exchange.len()
            || usize::from(last.key_len) != message.routing_key.len()
        {
            return None;
        }
        let (exchange, key) = self.names_at(last.names)?;
        (exchange == message.exchange && key == message.routing_key).then_some(last.names)
    }

    fn has_last_properties(&self, message: &MessageRef<'_>) -> bool {
        let start = self.last.envelope as usize + ENVELOPE_FIXED_BYTES;
        self.bytes.get(start..start + message.properties.len()) == Some(message.properties)
    }

    fn names_at(&self, names: u32) -> Option<(&[u8], &[u8])> {
        let (fixed, rest) = self.bytes.get(names as usize..)?.split_first_chunk()?;
        let [exchange_len, key_len]: [u8; NAMES_FIXED_BYTES] = *fixed;
        let (exchange, rest) = rest.split_at_checked(usize::from(exchange_len))?;
        Some((exchange, rest.get(..usize::from(key_len))?))
    }

    fn envelope_at(&self, envelope: u32) -> Option<(u32, u32, &[u8])> {
        let (fixed, rest) = self.bytes.get(envelope as usize..)?.split_first_chunk()?;
        let [n0, n1, n2, n3, p0, p1, p2, p3]: [u8; ENVELOPE_FIXED_BYTES] = *fixed;
        Some((u32::from_le_bytes([n0, n1, n2, n3]), u32::from_le_bytes([p0, p1, p2, p3]), rest))
    }

    fn index_of(&self, position: u64) -> Option<usize> {
        usize::try_from(position.checked_sub(self.first)?).ok()
    }

    /// The message at `position`, if it is live and whole.
    pub(super) fn get(&self, position: u64) -> Option<MessageRef<'_>> {
        let entry = self.entries.get(self.index_of(position)?)?;
        self.message(*entry)
    }

    pub(super) fn message(&self, entry: Entry) -> Option<MessageRef<'_>> {
        if !entry.is_live() {
            return None;
        }
        let (names, packed, rest) = self.envelope_at(entry.envelope)?;
        let properties = rest.get(..(packed & !PERSISTENT) as usize)?;
        let (exchange, routing_key) = self.names_at(names)?;
        let body = if entry.body == 0 {
            let start = entry.offset as usize;
            Body::Borrowed(self.bytes.get(start..start + entry.len as usize)?)
        } else {
            let kept = self.kept(entry)?;
            if kept.bytes.len() != entry.len as usize {
                return None;
            }
            Body::Shared(&kept.bytes)
        };
        let persistent = packed & PERSISTENT != 0;
        Some(MessageRef { exchange, routing_key, properties, body, persistent })
    }

    pub(super) fn kept(&self, entry: Entry) -> Option<&KeptBody> {
        self.bodies.get(usize::from(entry.body.checked_sub(1)?))?.as_ref()
    }

    /// Its size as [`MessageRef::size_bytes`] counts it.
    pub(super) fn size_bytes(&self, entry: Entry) -> u64 {
        let Some((names, packed, _)) = self.envelope_at(entry.envelope) else { return 0 };
        let names = self.names_at(names).map_or(0, |(exchange, key)| exchange.len() + key.len());
        names as u64 + u64::from(packed & !PERSISTENT) + u64::from(entry.len)
    }

    /// Forgets the message at `position`.
    pub(super) fn release(&mut self, position: u64) -> Option<ReleasedEntry> {
        let index = self.index_of(position)?;
        let place = self.entries.get_mut(index).filter(|entry| entry.is_live())?;
        let entry = std::mem::replace(place, GAP);
        let size_bytes = self.size_bytes(entry);
        let mut released =
            ReleasedEntry { segment: entry.segment, size_bytes, kept_bytes: 0, blob: None };
        if entry.body != 0
            && let Some(kept) = self.bodies.get_mut(usize::from(entry.body) - 1)
            && let Some(kept) = kept.take()
        {
            self.body_bytes -= kept.bytes.len();
            released.kept_bytes = kept.bytes.len();
            released.blob = kept.blob;
        }
        Some(released)
    }

    /// Lets go of entries before the first live one and after the last: a page that was loaded for
    /// few messages takes little.
    pub(super) fn drop_gaps_at_ends(&mut self) {
        let n_before = self.entries.iter().take_while(|entry| !entry.is_live()).count();
        let n_after = self.entries.iter().rev().take_while(|entry| !entry.is_live()).count();
        self.entries.truncate(self.entries.len() - n_after.min(self.entries.len()));
        self.entries.drain(..n_before.min(self.entries.len()));
        self.first += n_before as u64;
    }

    /// The live entries with their positions.
    pub(super) fn live(&self) -> impl Iterator<Item = (u64, Entry)> + '_ {
        let all = (self.first..).zip(self.entries.iter().copied());
        all.filter(|(_, entry)| entry.is_live())
    }

    /// The number under which entries of this page name a segment.
    pub(super) fn segment_number(&mut self, segment: SegmentId) -> SegmentNumber {
        let find = |wanted| self.segments.iter().rposition(|known| *known == wanted);
        if let Some(index) = find(segment) {
            return SegmentNumber(to_u16(index + 1));
        }
        let index = find(NO_SEGMENT).unwrap_or(self.segments.len());
        match self.segments.get_mut(index) {
            Some(unused) => *unused = segment,
            None => self.segments.push(segment),
        }
        SegmentNumber(to_u16(index + 1))
    }

    /// The log segment a number stands for; none for a message that is not in the log by itself.
    pub(super) fn segment_of(&self, number: SegmentNumber) -> Option<SegmentId> {
        self.segments.get(usize::from(number.0.checked_sub(1)?)).copied()
    }

    pub(super) fn lies_in(&self, segment: SegmentId) -> bool {
        self.segments.contains(&segment)
    }

    /// Nothing in this page lies in `segment` any more.
    pub(super) fn forget_segment(&mut self, segment: SegmentId) {
        if let Some(place) = self.segments.iter_mut().find(|known| **known == segment) {
            *place = NO_SEGMENT;
        }
    }

    /// Everything logged is durable as part of the page's image from now on.
    pub(super) fn move_into_image(&mut self) {
        for entry in &mut self.entries {
            if entry.segment.is_logged() {
                entry.segment = SegmentNumber::IN_IMAGE;
            }
        }
        self.segments.clear();
    }
}

fn packed_of(message: &MessageRef<'_>) -> u32 {
    let len = to_u32(message.properties.len());
    debug_assert!(len < PERSISTENT, "properties stay far below 2 GiB");
    if message.persistent { len | PERSISTENT } else { len }
}

fn to_u8(value: usize) -> u8 {
    u8::try_from(value).expect("names have at most 255 bytes")
}

pub(super) fn to_u16(value: usize) -> u16 {
    u16::try_from(value).expect("a page has fewer entries than that")
}

pub(super) fn to_u32(value: usize) -> u32 {
    u32::try_from(value).expect("a page stays far below 4 GiB")
}
