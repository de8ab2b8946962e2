//! A page of a backlog in memory.
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
use super::kept::{KeptBodies, KeptBody, SharedProperties};
use super::page_bitmap::SPAN_MAX;
use super::page_bytes::{APART, Envelope, NOWHERE, PageBytes, to_u32};
use super::segments::{SegmentNumber, Segments};
use crate::blob::BlobId;
use crate::queued::{Queued, StoredBody};
use bytes::Bytes;
use log::SegmentId;
use message::{Body, MessageRef, StandIn, StoredAnnotations};
use std::sync::Arc;

/// Gaps up to this many entries are filled rather than starting a page.
const GAP_ENTRIES_MAX: usize = 64;
/// Bytes of an entry in memory and in an image.
pub(super) const ENTRY_BYTES: usize = 16;

/// The place of a message in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageEntry {
    /// Place of the body in `bytes`, unless the body is kept apart.
    pub(super) offset: u32,
    /// Length of the body, and of properties that are kept in front of it.
    pub(super) len: u32,
    /// Place of the envelope in `bytes`; `NOWHERE` for a gap or a released message.
    pub(super) envelope: u32,
    /// The log segment in which the message lies.
    pub(super) segment: SegmentNumber,
    /// 1 + index into the bodies kept apart; 0 for none.
    pub(super) body: u16,
}

const _: () = assert!(size_of::<PageEntry>() == ENTRY_BYTES && GAP_ENTRIES_MAX < SPAN_MAX);

pub(super) const GAP: PageEntry =
    PageEntry { offset: 0, len: 0, envelope: NOWHERE, segment: SegmentNumber::NONE, body: 0 };

impl PageEntry {
    pub(super) const fn is_live(self) -> bool {
        self.envelope != NOWHERE
    }
}

/// A page in memory.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Position of the first entry.
    pub(super) first: u64,
    pub(super) entries: Vec<PageEntry>,
    pub(super) bytes: PageBytes,
    pub(super) bodies: KeptBodies,
    /// Whether `bytes` has something of messages that have no entry.
    pub(super) has_waste: bool,
    pub(super) segments: Segments,
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
    /// The body is kept apart.
    Kept(usize),
}

/// The parts of a released message that somebody is to let go of.
pub(super) struct ReleasedEntry {
    pub(super) segment: SegmentNumber,
    pub(super) size_bytes: u64,
    /// Bytes of a body kept apart.
    pub(super) kept_bytes: usize,
    pub(super) blob: Option<BlobId>,
}

impl Page {
    pub(super) fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Memory it stands for: bytes, entries and bodies kept apart.
    pub(super) const fn cost_bytes(&self) -> usize {
        self.bytes.len() + self.entries.len() * ENTRY_BYTES + self.bodies.bytes()
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
        let kept_before = self.bodies.bytes() + self.bodies.missing_bytes();
        self.bytes.len() + inline + n_entries * ENTRY_BYTES > page_bytes
            || (kept > 0 && kept_before > 0 && kept_before + kept > 4 * page_bytes)
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.bodies.clear();
        self.has_waste = false;
        self.segments.clear();
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
        let envelope = self.bytes.envelope_for(added.message, 0);
        let offset = to_u32(self.bytes.len());
        let len = to_u32(added.message.body.len());
        let body = match (added.message.body, added.blob) {
            (Body::Borrowed(bytes), None) => {
                self.bytes.append(bytes);
                0
            }
            (Body::Borrowed(bytes), blob) => {
                self.bodies.keep(KeptBody::new(Bytes::copy_from_slice(bytes), blob))
            }
            (Body::Shared(bytes), blob) => self.bodies.keep(KeptBody::new(bytes.clone(), blob)),
        };
        self.entries.push(PageEntry { offset, len, envelope, segment: added.segment, body });
    }

    /// Appends a message whose body, and perhaps its properties, other queues have too.
    pub(super) fn push_shared(&mut self, added: &Added<'_>, home: Arc<dyn SharedBody>) {
        match home.properties() {
            Some(properties) => push_apart(self, added, properties.stand_in(), Some(properties)),
            None => self.push(added),
        }
        if self.entries.last().is_some_and(|entry| entry.body != 0) {
            self.bodies.share_last(home);
        }
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
        self.bodies.note_missing(stored.blob_bytes());
        if let Some(entry) = self.entries.last_mut() {
            entry.len = stored.blob_bytes();
        }
    }

    /// The message at an entry, without what of it is in the body store.
    pub(super) fn queued(&self, position: u64, entry: PageEntry) -> Option<Queued<'_>> {
        let mut message = self.head(entry)?;
        let stored = self.bodies.get(entry.body).and_then(|kept| kept.blob).map(|blob| {
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
    pub(super) fn stand_in(&self, entry: PageEntry) -> Option<StandIn<'_>> {
        let (envelope, rest) = self.bytes.envelope_at(entry.envelope)?;
        envelope.stand_in(rest)
    }

    #[inline]
    fn index_of(&self, position: u64) -> Option<usize> {
        usize::try_from(position.checked_sub(self.first)?).ok()
    }

    /// The message at `position`, if it is live and whole.
    #[expect(clippy::inline_always, reason = "a struct copied whole just as it is filled stalls")]
    #[inline(always)]
    pub(super) fn get(&self, position: u64) -> Option<MessageRef<'_>> {
        let entry = self.entries.get(self.index_of(position)?)?;
        self.message(*entry)
    }

    /// Whether there is a message at `position` whose body is not at hand.
    #[cold]
    pub(super) fn lacks_body_of(&self, position: u64) -> bool {
        let entry = self.index_of(position).and_then(|index| self.entries.get(index));
        let entry = entry.filter(|entry| self.bodies.missing_bytes() > 0 && entry.is_live());
        entry.is_some_and(|entry| self.body(*entry).is_none())
    }

    #[expect(clippy::inline_always, reason = "a struct copied whole just as it is filled stalls")]
    #[inline(always)]
    pub(super) fn message(&self, entry: PageEntry) -> Option<MessageRef<'_>> {
        let head = self.head(entry)?;
        Some(MessageRef { body: self.body(entry)?, ..head })
    }

    /// The message without its body.
    #[inline]
    pub(super) fn head(&self, entry: PageEntry) -> Option<MessageRef<'_>> {
        if !entry.is_live() {
            return None;
        }
        let (envelope, rest) = self.bytes.envelope_at(entry.envelope)?;
        let StoredAnnotations { annotations, form } = envelope.annotations(rest)?;
        let mut properties = rest.get(..envelope.properties_len())?;
        if envelope.is_apart() {
            properties = properties_apart(self.bodies.get(entry.body)?, properties)?;
        }
        let (exchange, routing_key) = self.bytes.names_of(envelope)?;
        let persistent = envelope.is_persistent();
        let body = Body::Borrowed(&[]);
        Some(MessageRef { exchange, routing_key, properties, body, persistent, annotations, form })
    }

    /// The body, if it is at hand with all that is kept.
    #[inline]
    pub(super) fn body(&self, entry: PageEntry) -> Option<Body<'_>> {
        if entry.body == 0 {
            return self.bytes.get(entry.offset, entry.len).map(Body::Borrowed);
        }
        let kept = self.bodies.get(entry.body)?;
        kept.is_whole(entry.len).then_some(Body::Shared(&kept.body))
    }

    /// Its size as [`MessageRef::size_bytes`] counts it.
    #[inline]
    pub(super) fn size_bytes(&self, entry: PageEntry) -> u64 {
        let Some((envelope, _)) = self.bytes.envelope_at(entry.envelope) else { return 0 };
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
        let (kept_bytes, blob) = match entry.body {
            0 => (0, None),
            body => self.bodies.let_go(body, entry.len),
        };
        Some(ReleasedEntry { segment: entry.segment, size_bytes, kept_bytes, blob })
    }

    /// Lets go of entries before the first live one and after the last: a page that was loaded for
    /// few messages takes little.
    pub(super) fn drop_gaps_at_ends(&mut self) {
        assert!(self.entries.len() <= SPAN_MAX, "a page spans fewer positions");
        let n_before = self.entries.iter().take_while(|entry| !entry.is_live()).count();
        let n_after = self.entries.iter().rev().take_while(|entry| !entry.is_live()).count();
        self.has_waste |= n_before + n_after > 0;
        self.entries.truncate(self.entries.len() - n_after.min(self.entries.len()));
        self.entries.drain(..n_before.min(self.entries.len()));
        self.first += n_before as u64;
    }

    /// The live entries with their positions.
    pub(super) fn live(&self) -> impl Iterator<Item = (u64, PageEntry)> + '_ {
        let all = (self.first..).zip(self.entries.iter().copied());
        all.filter(|(_, entry)| entry.is_live())
    }

    /// Has `append` put the live messages in the log that `wanted` picks; each lies in the segment that
    /// `append` returns then. Returns how many.
    pub(super) fn append_to_log(
        &mut self,
        wanted: impl Fn(&Self, PageEntry) -> bool,
        mut append: impl FnMut(&Queued<'_>) -> SegmentId,
    ) -> u64 {
        let mut n_appended = 0;
        for index in 0..self.entries.len() {
            let Some(entry) = self.entries.get(index).copied() else { break };
            if !entry.is_live() || !wanted(self, entry) {
                continue;
            }
            let position = self.first + index as u64;
            let Some(queued) = self.queued(position, entry) else { continue };
            let segment = append(&queued);
            let number = self.segments.number(segment);
            if let Some(entry) = self.entries.get_mut(index) {
                entry.segment = number;
            }
            n_appended += 1;
        }
        n_appended
    }

    /// Marks every logged message as durable by the page's image from now on.
    pub(super) fn move_into_image(&mut self) {
        for entry in &mut self.entries {
            if entry.segment.is_logged() {
                entry.segment = SegmentNumber::IN_IMAGE;
            }
        }
        self.segments.clear();
    }

    /// Marks messages that were durable by the page's image as not logged.
    pub(super) fn leave_image(&mut self) {
        for entry in &mut self.entries {
            if entry.segment == SegmentNumber::IN_IMAGE {
                entry.segment = SegmentNumber::NONE;
            }
        }
    }
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
    let envelope = page.bytes.envelope_for(&MessageRef { properties: &shown, ..*message }, APART);
    let body = message.body.to_shared();
    let properties = properties.map(|shared| shared.whole.clone());
    let kept = KeptBody { properties, ..KeptBody::new(body, blob) };
    let (offset, len) = (to_u32(page.bytes.len()), to_u32(kept.len()));
    let body = page.bodies.keep(kept);
    page.entries.push(PageEntry { offset, len, envelope, segment, body });
}

/// The size of a message whose body is kept apart, from that of its names and inline properties.
#[cold]
fn size_of_kept(entry: PageEntry, envelope: Envelope, inline_bytes: u64) -> u64 {
    let stand_in = if envelope.is_apart() { envelope.properties_len() } else { 0 };
    inline_bytes - stand_in as u64 + u64::from(entry.len)
}

/// Properties that are kept apart: brief ones if they are not at hand.
#[cold]
fn properties_apart<'a>(kept: &'a KeptBody, stand_in: &'a [u8]) -> Option<&'a [u8]> {
    let brief = StandIn::parse(stand_in)?.brief;
    Some(kept.properties.as_deref().unwrap_or(brief))
}
