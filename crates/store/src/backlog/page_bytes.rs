//! The bytes of a page in memory: names, envelopes and bodies, in any order, as `page.rs` draws them.

use message::{ANNOTATIONS_BYTES, MessageRef, StandIn, StoredAnnotations};

/// Bytes of an envelope before its properties.
pub(super) const ENVELOPE_FIXED_BYTES: usize = 10;
const PERSISTENT: u32 = 1 << 31;
/// The flag of annotations that follow the properties.
const ANNOTATED: u32 = 1 << 30;
/// The flag of properties that are kept in front of the body, with something that stands in for them.
pub(super) const APART: u32 = 1 << 29;
/// The envelope of a gap or a released message.
pub(super) const NOWHERE: u32 = u32::MAX;

const NO_ENVELOPE: Envelope = Envelope { names: 0, packed: 0, exchange_len: 0, key_len: 0 };

/// An envelope's fixed part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope {
    /// Where the names are.
    pub(super) names: u32,
    /// Length of the properties, or of what stands in for them; the top bits are flags.
    packed: u32,
    exchange_len: u8,
    key_len: u8,
}

impl Envelope {
    #[inline]
    pub(super) const fn decode(fixed: [u8; ENVELOPE_FIXED_BYTES]) -> Self {
        let [n0, n1, n2, n3, p0, p1, p2, p3, exchange_len, key_len] = fixed;
        Self {
            names: u32::from_le_bytes([n0, n1, n2, n3]),
            packed: u32::from_le_bytes([p0, p1, p2, p3]),
            exchange_len,
            key_len,
        }
    }

    fn encode(self) -> [u8; ENVELOPE_FIXED_BYTES] {
        let mut fixed = [0; ENVELOPE_FIXED_BYTES];
        fixed[..4].copy_from_slice(&self.names.to_le_bytes());
        fixed[4..8].copy_from_slice(&self.packed.to_le_bytes());
        fixed[8] = self.exchange_len;
        fixed[9] = self.key_len;
        fixed
    }

    pub(super) const fn names_len(self) -> usize {
        self.exchange_len as usize + self.key_len as usize
    }

    pub(super) const fn is_persistent(self) -> bool {
        self.packed & PERSISTENT != 0
    }

    pub(super) const fn is_annotated(self) -> bool {
        self.packed & ANNOTATED != 0
    }

    pub(super) const fn is_apart(self) -> bool {
        self.packed & APART != 0
    }

    pub(super) const fn properties_len(self) -> usize {
        (self.packed & !(PERSISTENT | ANNOTATED | APART)) as usize
    }

    /// The substitute for properties that are kept apart, in the bytes behind the envelope's fixed part.
    pub(super) fn stand_in(self, rest: &[u8]) -> Option<StandIn<'_>> {
        if self.is_apart() { StandIn::parse(rest.get(..self.properties_len())?) } else { None }
    }

    /// The annotations, in the bytes behind the envelope's fixed part; `None` for damaged ones.
    #[inline]
    pub(super) fn annotations(self, rest: &[u8]) -> Option<StoredAnnotations> {
        match self.is_annotated() {
            false => Some(StoredAnnotations::NONE),
            true => annotations_at(rest.get(self.properties_len()..)?),
        }
    }

    /// Length of properties and annotations.
    pub(super) const fn rest_len(self) -> usize {
        self.properties_len() + if self.is_annotated() { ANNOTATIONS_BYTES } else { 0 }
    }
}

/// The bytes of a page, and the last envelope among them.
#[derive(Debug)]
pub(super) struct PageBytes {
    bytes: Vec<u8>,
    /// Where the last envelope is, and its fixed part: the next message is compared with it.
    last_at: u32,
    last: Envelope,
    /// Whether some envelopes have deadlines.
    has_deadlines: bool,
}

impl Default for PageBytes {
    fn default() -> Self {
        Self { bytes: Vec::new(), last_at: NOWHERE, last: NO_ENVELOPE, has_deadlines: false }
    }
}

impl PageBytes {
    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) const fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn reserve_exact(&mut self, more: usize) {
        self.bytes.reserve_exact(more);
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.last_at = NOWHERE;
        self.has_deadlines = false;
    }

    /// Whether some envelopes have deadlines.
    pub(super) const fn has_deadlines(&self) -> bool {
        self.has_deadlines
    }

    /// Notes whether an envelope that came with an image has a deadline.
    pub(super) const fn note_deadline(&mut self, stored: StoredAnnotations) {
        self.has_deadlines |= stored.annotations.deadline_ms.is_some();
    }

    /// Appends bytes as they are: those of a body, or all of an image.
    #[inline]
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    #[inline]
    pub(super) fn get(&self, offset: u32, len: u32) -> Option<&[u8]> {
        let start = offset as usize;
        self.bytes.get(start..start + len as usize)
    }

    /// Where the message's envelope is: the last one's place if they are equal. `apart`: [`APART`] or 0.
    #[inline]
    pub(super) fn envelope_for(&mut self, message: &MessageRef<'_>, apart: u32) -> u32 {
        let mut envelope = Envelope {
            names: self.last.names,
            packed: packed_of(message) | apart,
            exchange_len: to_u8(message.exchange.len()),
            key_len: to_u8(message.routing_key.len()),
        };
        let has_names = self.has_last_names(&envelope, message);
        if has_names
            && envelope.packed == self.last.packed
            && is_same(self.last_properties(), message.properties)
            && (!envelope.is_annotated() || self.has_last_annotations(message))
        {
            return self.last_at;
        }
        if !has_names {
            envelope.names = to_u32(self.bytes.len());
            self.bytes.extend_from_slice(message.exchange);
            self.bytes.extend_from_slice(message.routing_key);
        }
        self.last_at = to_u32(self.bytes.len());
        self.last = envelope;
        self.bytes.extend_from_slice(&envelope.encode());
        self.bytes.extend_from_slice(message.properties);
        if envelope.is_annotated() {
            self.has_deadlines |= message.annotations.deadline_ms.is_some();
            self.bytes.extend_from_slice(message.stored_annotations().part().as_bytes());
        }
        self.last_at
    }

    #[cold]
    fn has_last_annotations(&self, message: &MessageRef<'_>) -> bool {
        let start = self.last_at as usize + ENVELOPE_FIXED_BYTES;
        let last = self.bytes.get(start..).and_then(|rest| self.last.annotations(rest));
        last == Some(message.stored_annotations())
    }

    #[inline]
    fn has_last_names(&self, envelope: &Envelope, message: &MessageRef<'_>) -> bool {
        if self.last_at == NOWHERE
            || envelope.exchange_len != self.last.exchange_len
            || envelope.key_len != self.last.key_len
        {
            return false;
        }
        let names = self.names_of(self.last);
        names.is_some_and(|(exchange, key)| {
            is_same(exchange, message.exchange) && is_same(key, message.routing_key)
        })
    }

    #[inline]
    fn last_properties(&self) -> &[u8] {
        let start = self.last_at as usize + ENVELOPE_FIXED_BYTES;
        self.bytes.get(start..start + self.last.properties_len()).unwrap_or_default()
    }

    #[inline]
    pub(super) fn names_of(&self, envelope: Envelope) -> Option<(&[u8], &[u8])> {
        let start = envelope.names as usize;
        let names = self.bytes.get(start..start + envelope.names_len())?;
        names.split_at_checked(usize::from(envelope.exchange_len))
    }

    /// The envelope at that place, and what follows its fixed part.
    #[inline]
    pub(super) fn envelope_at(&self, at: u32) -> Option<(Envelope, &[u8])> {
        let (fixed, rest) = self.bytes.get(at as usize..)?.split_first_chunk()?;
        Some((Envelope::decode(*fixed), rest))
    }
}

/// Whether two byte strings are equal: short ones, the usual case, without a call.
#[inline]
fn is_same(a: &[u8], b: &[u8]) -> bool {
    fn ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
        a.first_chunk::<N>() == b.first_chunk() && a.last_chunk::<N>() == b.last_chunk()
    }
    if a.len() != b.len() {
        return false;
    }
    match a.len() {
        0 => true,
        1 => a.first() == b.first(),
        2..=3 => ends::<2>(a, b),
        4..=7 => ends::<4>(a, b),
        8..=16 => ends::<8>(a, b),
        _ => a == b,
    }
}

/// The annotations that `bytes` begin with.
#[cold]
fn annotations_at(bytes: &[u8]) -> Option<StoredAnnotations> {
    StoredAnnotations::parse(bytes.first_chunk()?)
}

fn packed_of(message: &MessageRef<'_>) -> u32 {
    let len = to_u32(message.properties.len());
    debug_assert!(len < APART, "properties stay far below 512 MiB");
    let annotated = if message.stored_annotations().is_none() { 0 } else { ANNOTATED };
    let persistent = if message.persistent { PERSISTENT } else { 0 };
    len | annotated | persistent
}

/// A place among a page's bytes, or a length.
pub(super) fn to_u32(value: usize) -> u32 {
    u32::try_from(value).expect("a page stays far below 4 GiB")
}

fn to_u8(value: usize) -> u8 {
    u8::try_from(value).expect("names have at most 255 bytes")
}
