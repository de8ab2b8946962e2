//! One page of a backlog in memory.
//!
//! ```text
//! entries[position - first] = { body offset, body length, envelope, segment, kept body }, or a gap
//!
//! bytes, in any order:
//!   names      exchange | key
//!   envelope   names u32 | properties n u29, apart u1, annotated u1, persistent u1 (the top bit)
//!              | exchange n u8 | key n u8 | properties | annotations, 9 bytes, if annotated
//!   body
//! ```
//! Integers are little-endian. A message like the one before it shares that one's names, and its
//! envelope when the properties are the same too: most messages cost an entry and their body.
//! A body *kept apart* (shared with other queues, or stored in the body store) has its handle in
//! `bodies`. So have large properties that other queues have too: they are the first part of what is
//! kept, the entry's length is of both, and the envelope has a [`StandIn`] where they would be.

use super::SharedBody;
use super::kept::{KeptBody, SharedProperties};
use crate::blob::BlobId;
use crate::queued::{Queued, StoredBody};
use bytes::Bytes;
use log::SegmentId;
use message::{ANNOTATIONS_BYTES, Annotations, Body, MessageRef, StandIn};
use std::sync::Arc;

/// Positions a page can span: first to last message, gaps included.
pub(super) const SPAN_MAX: usize = 4096;
/// Gaps up to this many entries are filled rather than starting a page.
const GAP_ENTRIES_MAX: usize = 64;
/// What an entry takes in memory and in an image.
pub(super) const ENTRY_BYTES: usize = 16;
/// Bytes of an envelope before its properties.
pub(super) const ENVELOPE_FIXED_BYTES: usize = 10;
pub(super) const PERSISTENT: u32 = 1 << 31;
/// Annotations follow the properties.
const ANNOTATED: u32 = 1 << 30;
/// The properties are kept in front of the body, and something stands in for them.
const APART: u32 = 1 << 29;
const NOWHERE: u32 = u32::MAX;

/// Where one message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Of the body in `bytes`, unless it is kept apart.
    pub(super) offset: u32,
    /// Of the body, and of properties that are kept in front of it.
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

const NO_ENVELOPE: Envelope = Envelope { names: 0, packed: 0, exchange_len: 0, key_len: 0 };

#[derive(Debug)]
pub(super) struct Page {
    /// Position of the first entry.
    pub(super) first: u64,
    pub(super) entries: Vec<Entry>,
    pub(super) bytes: Vec<u8>,
    pub(super) bodies: Vec<Option<KeptBody>>,
    /// Of the bodies kept apart that are still there.
    pub(super) body_bytes: usize,
    /// Of stored bodies that are not at hand.
    pub(super) missing_bytes: usize,
    /// `bytes` has something of messages that have no entry.
    pub(super) has_waste: bool,
    /// Some of its messages have annotations.
    pub(super) is_annotated: bool,
    /// The log segments its messages lie in: few, since they were logged one after the other.
    segments: Vec<SegmentId>,
    /// Where the last envelope is, and what it says: the next message is compared with it.
    last_at: u32,
    last: Envelope,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            first: 0,
            entries: Vec::new(),
            bytes: Vec::new(),
            bodies: Vec::new(),
            body_bytes: 0,
            missing_bytes: 0,
            has_waste: false,
            is_annotated: false,
            segments: Vec::new(),
            last_at: NOWHERE,
            last: NO_ENVELOPE,
        }
    }
}

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

    /// Of properties and annotations.
    pub(super) const fn rest_len(self) -> usize {
        self.properties_len() + if self.is_annotated() { ANNOTATIONS_BYTES } else { 0 }
    }
}

/// A message on its way into a page.
pub(super) struct Added<'a> {
    pub(super) message: &'a MessageRef<'a>,
    pub(super) segment: SegmentNumber,
    pub(super) blob: Option<BlobId>,
}

/// Where a body of so many bytes goes.
#[derive(Clone, Copy)]
pub(super) enum BodyPlace {
    Inline(usize),
    /// Kept apart.
    Kept(usize),
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
    #[inline]
    pub(super) fn is_full_for(&self, position: u64, body: BodyPlace, page_bytes: usize) -> bool {
        let n_gaps = position.saturating_sub(self.end());
        let Some(n_gaps) = usize::try_from(n_gaps).ok().filter(|n| *n <= GAP_ENTRIES_MAX) else {
            return true;
        };
        let n_entries = self.entries.len() + n_gaps + 1;
        if n_entries > SPAN_MAX {
            return true;
        }
        let (inline, kept) = match body {
            BodyPlace::Inline(bytes) => (bytes, 0),
            BodyPlace::Kept(bytes) => (0, bytes),
        };
        let kept_before = self.body_bytes + self.missing_bytes;
        self.bytes.len() + inline + n_entries * ENTRY_BYTES > page_bytes
            || (kept > 0 && kept_before > 0 && kept_before + kept > 4 * page_bytes)
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.bodies.clear();
        self.body_bytes = 0;
        self.missing_bytes = 0;
        self.has_waste = false;
        self.is_annotated = false;
        self.segments.clear();
        self.last_at = NOWHERE;
    }

    #[cold]
    pub(super) fn fill_gap(&mut self, position: u64) {
        while self.end() < position {
            self.entries.push(GAP);
        }
    }

    /// Appends a message at the page's end.
    #[inline]
    pub(super) fn push(&mut self, added: &Added<'_>) {
        let envelope = self.envelope_for(added.message, 0);
        let offset = to_u32(self.bytes.len());
        let len = to_u32(added.message.body.len());
        let body = match (added.message.body, added.blob) {
            (Body::Borrowed(bytes), None) => {
                self.bytes.extend_from_slice(bytes);
                0
            }
            (Body::Borrowed(bytes), blob) => {
                keep(self, KeptBody::new(Bytes::copy_from_slice(bytes), blob))
            }
            (Body::Shared(bytes), blob) => keep(self, KeptBody::new(bytes.clone(), blob)),
        };
        self.entries.push(Entry { offset, len, envelope, segment: added.segment, body });
    }

    /// Appends a message whose body, and perhaps its properties, other queues have too.
    pub(super) fn push_shared(&mut self, added: &Added<'_>, home: Arc<dyn SharedBody>) {
        match home.properties() {
            Some(properties) => push_apart(self, added, properties.stand_in(), Some(properties)),
            None => self.push(added),
        }
        let is_kept = self.entries.last().is_some_and(|entry| entry.body != 0);
        if let Some(Some(kept)) = self.bodies.last_mut().filter(|_| is_kept) {
            kept.home = Some(home).filter(|_| kept.blob.is_none());
        }
    }

    /// Gives bodies that other queues have too their names in the body store. Returns how many bytes
    /// that added to the store.
    pub(super) fn name_shared_bodies(&mut self) -> usize {
        let mut added_bytes = 0;
        for kept in self.bodies.iter_mut().flatten() {
            if let Some(home) = kept.home.take().filter(|_| kept.blob.is_none()) {
                let (blob, added) = home.name(&kept.body);
                kept.blob = blob;
                added_bytes += added;
            }
        }
        added_bytes
    }

    /// Appends a message whose body, if that is stored, is not at hand.
    pub(super) fn push_queued(&mut self, queued: &Queued<'_>, segment: SegmentNumber) {
        let Some(stored) = queued.stored else {
            self.push(&Added { message: &queued.message, segment, blob: None });
            return;
        };
        let message = &MessageRef { body: Body::Borrowed(&[]), ..queued.message };
        let added = Added { message, segment, blob: Some(stored.blob) };
        match queued.stand_in() {
            Some(stand_in) => push_apart(self, &added, stand_in, None),
            None => self.push(&added),
        }
        self.missing_bytes += stored.blob_bytes() as usize;
        if let Some(entry) = self.entries.last_mut() {
            entry.len = stored.blob_bytes();
        }
    }

    /// The message at an entry, without what of it is in the body store.
    pub(super) fn queued(&self, position: u64, entry: Entry) -> Option<Queued<'_>> {
        let mut message = self.head(entry)?;
        let stored = self.kept(entry).and_then(|kept| kept.blob).map(|blob| {
            let stand_in = self.stand_in(entry);
            message.properties = stand_in.map_or(message.properties, |it| it.brief);
            let properties_bytes = stand_in.map_or(0, |it| it.properties_bytes);
            StoredBody { blob, bytes: entry.len - properties_bytes, properties_bytes }
        });
        if stored.is_none() {
            message.body = self.body(entry)?;
        }
        Some(Queued { position, message, stored, is_delivered: false })
    }

    /// The substitute for the message's properties, if they are kept apart.
    pub(super) fn stand_in(&self, entry: Entry) -> Option<StandIn<'_>> {
        let (envelope, rest) = self.envelope_at(entry.envelope)?;
        envelope.stand_in(rest)
    }

    /// Where the message's envelope is: the last one's place if they are equal. `apart`: [`APART`] or 0.
    #[inline]
    fn envelope_for(&mut self, message: &MessageRef<'_>, apart: u32) -> u32 {
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
            && (!envelope.is_annotated() || self.last_annotations() == message.annotations)
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
            self.is_annotated = true;
            self.bytes.extend_from_slice(message.annotations.part().as_bytes());
        }
        self.last_at
    }

    #[cold]
    fn last_annotations(&self) -> Annotations {
        let start = self.last_at as usize + ENVELOPE_FIXED_BYTES + self.last.properties_len();
        self.bytes.get(start..).map_or_else(Annotations::default, annotations_at)
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
    fn names_of(&self, envelope: Envelope) -> Option<(&[u8], &[u8])> {
        let start = envelope.names as usize;
        let names = self.bytes.get(start..start + envelope.names_len())?;
        names.split_at_checked(usize::from(envelope.exchange_len))
    }

    /// The envelope at that place, and what follows its fixed part.
    #[inline]
    fn envelope_at(&self, at: u32) -> Option<(Envelope, &[u8])> {
        let (fixed, rest) = self.bytes.get(at as usize..)?.split_first_chunk()?;
        Some((Envelope::decode(*fixed), rest))
    }

    #[inline]
    fn index_of(&self, position: u64) -> Option<usize> {
        usize::try_from(position.checked_sub(self.first)?).ok()
    }

    /// The message at `position`, if it is live and whole.
    #[inline]
    pub(super) fn get(&self, position: u64) -> Option<MessageRef<'_>> {
        let entry = self.entries.get(self.index_of(position)?)?;
        self.message(*entry)
    }

    /// Whether there is a message at `position` whose body is not at hand.
    #[cold]
    pub(super) fn lacks_body_of(&self, position: u64) -> bool {
        let entry = self.index_of(position).and_then(|index| self.entries.get(index));
        let entry = entry.filter(|entry| self.missing_bytes > 0 && entry.is_live());
        entry.is_some_and(|entry| self.body(*entry).is_none())
    }

    #[inline]
    pub(super) fn message(&self, entry: Entry) -> Option<MessageRef<'_>> {
        let head = self.head(entry)?;
        Some(MessageRef { body: self.body(entry)?, ..head })
    }

    /// The message without its body.
    #[inline]
    pub(super) fn head(&self, entry: Entry) -> Option<MessageRef<'_>> {
        if !entry.is_live() {
            return None;
        }
        let (envelope, rest) = self.envelope_at(entry.envelope)?;
        let (mut properties, rest) = rest.split_at_checked(envelope.properties_len())?;
        let annotations =
            if envelope.is_annotated() { annotations_at(rest) } else { Annotations::default() };
        if envelope.is_apart() {
            properties = properties_apart(self.kept(entry)?, properties)?;
        }
        let (exchange, routing_key) = self.names_of(envelope)?;
        let persistent = envelope.packed & PERSISTENT != 0;
        let body = Body::Borrowed(&[]);
        Some(MessageRef { exchange, routing_key, properties, body, persistent, annotations })
    }

    /// The body, if it is at hand with all that is kept.
    #[inline]
    pub(super) fn body(&self, entry: Entry) -> Option<Body<'_>> {
        if entry.body == 0 {
            let start = entry.offset as usize;
            return Some(Body::Borrowed(self.bytes.get(start..start + entry.len as usize)?));
        }
        let kept = self.kept(entry)?;
        is_whole(kept, entry).then_some(Body::Shared(&kept.body))
    }

    pub(super) fn kept(&self, entry: Entry) -> Option<&KeptBody> {
        self.bodies.get(usize::from(entry.body.checked_sub(1)?))?.as_ref()
    }

    /// Its size as [`MessageRef::size_bytes`] counts it.
    #[inline]
    pub(super) fn size_bytes(&self, entry: Entry) -> u64 {
        let Some((envelope, _)) = self.envelope_at(entry.envelope) else { return 0 };
        let size_bytes = (envelope.names_len() + envelope.properties_len()) as u64;
        if entry.body != 0 {
            return size_of_kept(entry, envelope, size_bytes);
        }
        size_bytes + u64::from(entry.len)
    }

    /// Forgets the message at `position`.
    #[inline]
    pub(super) fn release(&mut self, position: u64) -> Option<ReleasedEntry> {
        let index = self.index_of(position)?;
        let place = self.entries.get_mut(index).filter(|entry| entry.is_live())?;
        let entry = std::mem::replace(place, GAP);
        let size_bytes = self.size_bytes(entry);
        let (kept_bytes, blob) = if entry.body == 0 { (0, None) } else { self.let_go(entry) };
        Some(ReleasedEntry { segment: entry.segment, size_bytes, kept_bytes, blob })
    }

    /// Lets go of a body kept apart: its length and its name in the body store.
    #[cold]
    fn let_go(&mut self, entry: Entry) -> (usize, Option<BlobId>) {
        let place = usize::from(entry.body).checked_sub(1);
        let kept = place.and_then(|at| self.bodies.get_mut(at)).and_then(Option::take);
        let Some(kept) = kept else { return (0, None) };
        self.body_bytes -= kept.len();
        if !is_whole(&kept, entry) {
            self.missing_bytes -= entry.len as usize;
        }
        (kept.len(), kept.blob)
    }

    /// Lets go of entries before the first live one and after the last: a page that was loaded for
    /// few messages takes little.
    pub(super) fn drop_gaps_at_ends(&mut self) {
        let n_before = self.entries.iter().take_while(|entry| !entry.is_live()).count();
        let n_after = self.entries.iter().rev().take_while(|entry| !entry.is_live()).count();
        self.has_waste |= n_before + n_after > 0;
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
    #[inline]
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

    /// Nothing in this page lies in a segment.
    pub(super) fn forget_segments(&mut self) {
        self.segments.clear();
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

    /// Nothing is durable as part of an image any more.
    pub(super) fn leave_image(&mut self) {
        for entry in &mut self.entries {
            if entry.segment == SegmentNumber::IN_IMAGE {
                entry.segment = SegmentNumber::NONE;
            }
        }
    }
}

/// Has a body kept apart; returns how entries name it.
fn keep(page: &mut Page, kept: KeptBody) -> u16 {
    page.body_bytes += kept.len();
    page.bodies.push(Some(kept));
    to_u16(page.bodies.len())
}

/// Appends a message whose properties are kept in front of its body, if they are at hand.
#[cold]
fn push_apart(
    page: &mut Page,
    added: &Added<'_>,
    stand_in: StandIn<'_>,
    properties: Option<&SharedProperties>,
) {
    let Added { message, segment, blob } = *added;
    debug_assert!(properties.is_none_or(|shared| shared.whole == message.properties));
    let shown = stand_in.to_bytes();
    let envelope = page.envelope_for(&MessageRef { properties: &shown, ..*message }, APART);
    let body = match message.body {
        Body::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
        Body::Shared(bytes) => bytes.clone(),
    };
    let properties = properties.map(|shared| shared.whole.clone());
    let kept = KeptBody { properties, ..KeptBody::new(body, blob) };
    let (offset, len) = (to_u32(page.bytes.len()), to_u32(kept.len()));
    let body = keep(page, kept);
    page.entries.push(Entry { offset, len, envelope, segment, body });
}

/// The size of a message whose body is kept apart, from that of its names and inline properties.
#[cold]
fn size_of_kept(entry: Entry, envelope: Envelope, inline_bytes: u64) -> u64 {
    let stand_in = if envelope.is_apart() { envelope.properties_len() } else { 0 };
    inline_bytes - stand_in as u64 + u64::from(entry.len)
}

/// Properties that are kept apart: brief ones if they are not at hand.
#[cold]
fn properties_apart<'a>(kept: &'a KeptBody, stand_in: &'a [u8]) -> Option<&'a [u8]> {
    let brief = StandIn::parse(stand_in)?.brief;
    Some(kept.properties.as_deref().unwrap_or(brief))
}

/// Whether all that is kept is at hand.
pub(super) fn is_whole(kept: &KeptBody, entry: Entry) -> bool {
    kept.len() == entry.len as usize
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

fn packed_of(message: &MessageRef<'_>) -> u32 {
    let len = to_u32(message.properties.len());
    debug_assert!(len < APART, "properties stay far below 512 MiB");
    let annotated = if message.annotations.is_none() { 0 } else { ANNOTATED };
    let persistent = if message.persistent { PERSISTENT } else { 0 };
    len | annotated | persistent
}

/// The annotations that `bytes` begin with.
#[cold]
fn annotations_at(bytes: &[u8]) -> Annotations {
    bytes.first_chunk().map_or_else(Annotations::default, Annotations::parse)
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
