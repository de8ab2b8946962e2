//! A page's image on disk: its live messages, complete but for bodies in the body store.
//!
//! ```text
//! header   version u8 (1, 2) | zero u8 | stored n u16 | entries n u32 | first position u64
//!          | inline bytes n u32 | body bytes n u32                                    24 bytes
//! entries  position - first u16 | kind u16 | offset u32 | length u32 | envelope u32   16 bytes each
//! stored   file u32 | index u32                                                        8 bytes each
//! inline   names, envelopes and bodies as in a page in memory (see `page.rs`)
//! bodies   the larger ones, one after the other
//! ```
//! Integers are little-endian; entries rise by position. `kind` says what `offset` means: 0 where in
//! `inline` the body is, 1 where in `bodies`, 2 which of `stored` names it in the body store;
//! `length` is the body's in all cases. In version 2, where an envelope has a stand-in for properties, those
//! are in front of the body and counted with it. Envelopes are always inline. Checksums are the blob
//! store's: what is read here may be damaged in no way it notices, yet nothing is trusted.

use super::kept::KeptBody;
use super::page::{ENTRY_BYTES, Page, PageEntry};
use super::page_bitmap::{PageBitmap, SPAN_MAX, to_u16};
use super::page_bytes::{Envelope, to_u32};
use super::pool::PagePool;
use super::segments::SegmentNumber;
use crate::blob::BlobId;
use bytes::Bytes;
use message::{StandIn, StoredAnnotations};
use stdx::record::{Reader, RecordError, put_u16, put_u32, put_u64};

const VERSION: u8 = 1;
/// Version of images with properties in front of bodies.
const VERSION_APART: u8 = 2;
const HEADER_BYTES: usize = 24;
const STORED_BYTES: usize = 8;
const KIND_INLINE: u16 = 0;
const KIND_BODY: u16 = 1;
const KIND_STORED: u16 = 2;

/// Why a page's image cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// A newer version of Leveret wrote the image.
    #[error("the page's image has unknown version {0}")]
    Version(u8),
    /// The image ends too early or points outside itself.
    #[error("the page's image is damaged")]
    Damaged,
    /// The image is of another page than the one asked for.
    #[error("the image belongs to another page")]
    OtherPage,
}

impl From<RecordError> for ImageError {
    fn from(_: RecordError) -> Self {
        Self::Damaged
    }
}

/// An image on its way to disk. Reused from page to page.
#[derive(Debug, Default)]
pub struct Image {
    head: Vec<u8>,
    bodies: Vec<Bytes>,
    /// Bytes added to the body store so that it can name bodies there.
    pub stored_bytes: usize,
}

impl Image {
    /// Its bytes, in order.
    pub fn parts(&self) -> Vec<&[u8]> {
        let bodies = self.bodies.iter().map(|body| &body[..]);
        std::iter::once(&self.head[..]).chain(bodies).collect()
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.head.len() + self.bodies.iter().map(Bytes::len).sum::<usize>()
    }

    /// Whether the image is empty.
    pub const fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    /// Becomes the image of what is live in `page`, by position relative to `first`.
    pub(super) fn write(&mut self, pool: &PagePool, first: u64, page: &Page) {
        let relative = |position: u64| u16::try_from(position - first).ok();
        let live = page.live().filter_map(|(position, _)| relative(position));
        let n_live = page.live().count();
        if n_live == page.entries.len() && !page.has_waste {
            self.write_dense(first, live, page);
            return;
        }
        // Bytes of released messages are left behind: a copy of the page has the live ones alone.
        let mut dense = pool.take(0);
        dense.first = first;
        let mut positions = Vec::with_capacity(n_live);
        for (position, entry) in page.live() {
            if let (Some(queued), Some(at)) = (page.queued(position, entry), relative(position)) {
                dense.push_queued(&queued, SegmentNumber::NONE);
                positions.push(at);
            }
        }
        self.write_dense(first, positions.into_iter(), &dense);
        pool.give(dense);
    }

    pub(super) fn write_dense(
        &mut self,
        first: u64,
        positions: impl Iterator<Item = u16>,
        page: &Page,
    ) {
        self.bodies.clear();
        let head = &mut self.head;
        head.clear();
        head.reserve(HEADER_BYTES + page.entries.len() * ENTRY_BYTES + page.bytes.len());
        head.extend_from_slice(&[0; HEADER_BYTES]);
        let mut stored = Vec::new();
        let (mut body_bytes, mut any_apart) = (0, false);
        for (at, entry) in positions.zip(&page.entries) {
            any_apart |= entry.body != 0 && page.stand_in(*entry).is_some();
            let (kind, offset) = match page.bodies.get(entry.body) {
                None => (KIND_INLINE, entry.offset),
                Some(KeptBody { blob: Some(blob), .. }) => {
                    stored.push(*blob);
                    (KIND_STORED, to_u32(stored.len() - 1))
                }
                Some(kept) => {
                    let offset = to_u32(body_bytes);
                    body_bytes += kept.len();
                    self.bodies.extend(kept.properties.clone());
                    self.bodies.push(kept.body.clone());
                    (KIND_BODY, offset)
                }
            };
            head.extend_from_slice(&at.to_le_bytes());
            head.extend_from_slice(&kind.to_le_bytes());
            head.extend_from_slice(&offset.to_le_bytes());
            head.extend_from_slice(&entry.len.to_le_bytes());
            head.extend_from_slice(&entry.envelope.to_le_bytes());
        }
        assert!(
            stored.len() <= page.entries.len() && page.entries.len() <= SPAN_MAX,
            "as it is read"
        );
        for blob in &stored {
            head.extend_from_slice(&blob.file.to_le_bytes());
            head.extend_from_slice(&blob.index.to_le_bytes());
        }
        head.extend_from_slice(page.bytes.as_slice());
        let mut header = vec![if any_apart { VERSION_APART } else { VERSION }, 0];
        put_u16(&mut header, to_u16(stored.len()));
        put_u32(&mut header, to_u32(page.entries.len()));
        put_u64(&mut header, first);
        put_u32(&mut header, to_u32(page.bytes.len()));
        put_u32(&mut header, to_u32(body_bytes));
        assert_eq!(header.len(), HEADER_BYTES, "the header is as long as it is drawn");
        head.splice(..HEADER_BYTES, header);
    }
}

/// An image's parts, their lengths checked.
struct ImageParts<'a> {
    first: u64,
    entries: &'a [u8],
    stored: &'a [u8],
    inline: &'a [u8],
    bodies: &'a [u8],
}

/// An entry as it stands in an image.
#[derive(Clone, Copy)]
struct ImageEntry {
    at: u16,
    kind: u16,
    offset: u32,
    len: u32,
    envelope: u32,
}

impl<'a> ImageParts<'a> {
    fn parse(image: &'a [u8]) -> Result<Self, ImageError> {
        let mut reader = Reader::new(image);
        let version = reader.u8()?;
        if !matches!(version, VERSION | VERSION_APART) {
            return Err(ImageError::Version(version));
        }
        if reader.u8()? != 0 {
            return Err(ImageError::Damaged);
        }
        let n_stored = usize::from(reader.u16()?);
        let n_entries = reader.u32()? as usize;
        let first = reader.u64()?;
        let inline_bytes = reader.u32()? as usize;
        let body_bytes = reader.u32()? as usize;
        if n_entries > SPAN_MAX || n_stored > n_entries || first > u64::MAX - SPAN_MAX as u64 {
            return Err(ImageError::Damaged);
        }
        let entries = reader.take(n_entries * ENTRY_BYTES)?;
        let stored = reader.take(n_stored * STORED_BYTES)?;
        let inline = reader.take(inline_bytes)?;
        let bodies = reader.take(body_bytes)?;
        if !reader.is_empty() {
            return Err(ImageError::Damaged);
        }
        Ok(Self { first, entries, stored, inline, bodies })
    }

    /// The entries, lowest position first.
    /// Bodies lie one after the other, in the order of their entries, and so do stored ones' names.
    fn entries(&self) -> impl Iterator<Item = Result<ImageEntry, ImageError>> + '_ {
        let mut next = 0;
        let mut next_of_kind = [0_u32; 2];
        self.entries.as_chunks::<ENTRY_BYTES>().0.iter().map(move |bytes| {
            let mut reader = Reader::new(bytes);
            let entry = ImageEntry {
                at: reader.u16()?,
                kind: reader.u16()?,
                offset: reader.u32()?,
                len: reader.u32()?,
                envelope: reader.u32()?,
            };
            if entry.at < next || usize::from(entry.at) >= SPAN_MAX {
                return Err(ImageError::Damaged);
            }
            next = entry.at + 1;
            let [next_body, next_stored] = &mut next_of_kind;
            let (expected, taken) = match entry.kind {
                KIND_INLINE => return Ok(entry),
                KIND_BODY => (next_body, entry.len),
                KIND_STORED => (next_stored, 1),
                _ => return Err(ImageError::Damaged),
            };
            if entry.offset != *expected {
                return Err(ImageError::Damaged);
            }
            *expected = expected.checked_add(taken).ok_or(ImageError::Damaged)?;
            Ok(entry)
        })
    }

    fn stored(&self, index: u32) -> Result<BlobId, ImageError> {
        let chunks = self.stored.as_chunks::<STORED_BYTES>().0;
        let mut reader = Reader::new(chunks.get(index as usize).ok_or(ImageError::Damaged)?);
        Ok(BlobId { file: reader.u32()?, index: reader.u32()? })
    }

    fn body(&self, entry: ImageEntry) -> Result<&'a [u8], ImageError> {
        let from = if entry.kind == KIND_INLINE { self.inline } else { self.bodies };
        slice(from, entry.offset, entry.len as usize)
    }

    /// The envelope at `at`, checked to lie inside with the names it points to; and the bytes of properties
    /// in front of the body.
    fn check_envelope(&self, at: u32) -> Result<(StoredAnnotations, u32), ImageError> {
        let rest = self.inline.get(at as usize..).ok_or(ImageError::Damaged)?;
        let (fixed, rest) = rest.split_first_chunk().ok_or(ImageError::Damaged)?;
        let envelope = Envelope::decode(*fixed);
        rest.get(..envelope.rest_len()).ok_or(ImageError::Damaged)?;
        let annotations = envelope.annotations(rest).ok_or(ImageError::Damaged)?;
        slice(self.inline, envelope.names, envelope.names_len())?;
        let properties_bytes = match envelope.stand_in(rest) {
            Some(StandIn { properties_bytes, .. }) => properties_bytes,
            None if envelope.is_apart() => return Err(ImageError::Damaged),
            None => 0,
        };
        Ok((annotations, properties_bytes))
    }
}

fn slice(from: &[u8], offset: u32, len: usize) -> Result<&[u8], ImageError> {
    let rest = from.get(offset as usize..).ok_or(ImageError::Damaged)?;
    rest.get(..len).ok_or(ImageError::Damaged)
}

/// The names of stored bodies of the messages at `wanted`, for their references to be counted or
/// let go. Needs no more of the image than the tables, but checks the lengths of all of it.
///
/// # Errors
/// The image is damaged or of a newer version.
pub fn stored_bodies(image: &[u8], wanted: &PageBitmap) -> Result<Vec<BlobId>, ImageError> {
    let parts = ImageParts::parse(image)?;
    let mut found = Vec::new();
    for entry in parts.entries() {
        let entry = entry?;
        if entry.kind == KIND_STORED && wanted.contains(entry.at) {
            found.push(parts.stored(entry.offset)?);
        }
    }
    Ok(found)
}

/// Positions of the persistent messages in an image.
pub(super) fn persistent_positions(image: &[u8]) -> Result<PageBitmap, ImageError> {
    let parts = ImageParts::parse(image)?;
    let mut found = PageBitmap::none();
    for entry in parts.entries() {
        let entry = entry?;
        let fixed = parts.inline.get(entry.envelope as usize..).and_then(<[u8]>::first_chunk);
        let envelope = Envelope::decode(*fixed.ok_or(ImageError::Damaged)?);
        if envelope.is_persistent() {
            found.insert(entry.at);
        }
    }
    Ok(found)
}

/// A page read from its image, on its way back into its backlog.
#[derive(Debug)]
pub struct LoadedPage {
    /// The page's first position, the one `page`'s entries need not start with.
    pub(super) first: u64,
    pub(super) page: Box<Page>,
}

/// A body to be fetched from the body store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedBody {
    /// Its name there.
    pub blob: BlobId,
    /// Its length in bytes.
    pub len: u32,
    /// Of these, the message's properties in front of the body.
    pub properties_bytes: u32,
    /// Where in the page it goes: for [`LoadedPage::put_body`].
    pub slot: u16,
}

impl LoadedPage {
    /// Reads the messages at the positions `wanted` from an image. Needs no lock.
    ///
    /// # Errors
    /// The image is damaged or of a newer version.
    pub fn read(pool: &PagePool, image: &[u8], wanted: &PageBitmap) -> Result<Self, ImageError> {
        let parts = ImageParts::parse(image)?;
        let mut page = pool.take(image.len());
        page.first = parts.first;
        page.bytes.append(parts.inline);
        // Neighbours mostly share an envelope.
        let (mut checked, mut properties_bytes) = (None, 0);
        for entry in parts.entries() {
            let entry = entry?;
            if checked != Some(entry.envelope) {
                let annotations;
                (annotations, properties_bytes) = parts.check_envelope(entry.envelope)?;
                page.bytes.note_deadline(annotations);
                checked = Some(entry.envelope);
            }
            if properties_bytes > 0 && (entry.kind == KIND_INLINE || properties_bytes > entry.len) {
                return Err(ImageError::Damaged);
            }
            if wanted.contains(entry.at) {
                put_entry(&mut page, &parts, entry, properties_bytes)?;
            } else {
                page.has_waste = true;
            }
        }
        Ok(Self { first: parts.first, page })
    }

    /// The bodies it still needs.
    #[must_use]
    pub fn wanted_bodies(&self) -> Vec<WantedBody> {
        let page = &self.page;
        let wanted = page.live().filter_map(|(_, entry)| {
            let kept = page.bodies.get(entry.body)?;
            (!kept.is_whole(entry.len)).then_some(WantedBody {
                blob: kept.blob?,
                len: entry.len,
                properties_bytes: page.stand_in(entry).map_or(0, |it| it.properties_bytes),
                slot: entry.body,
            })
        });
        wanted.collect()
    }

    /// Puts a wanted body in its place. A message whose body has another length, or is never put, counts as
    /// lost.
    pub fn put_body(&mut self, wanted: WantedBody, bytes: Bytes) {
        if bytes.len() == wanted.len as usize {
            self.page.bodies.fill(wanted.slot, bytes, wanted.properties_bytes);
        }
    }
}

fn put_entry(
    page: &mut Page,
    parts: &ImageParts<'_>,
    entry: ImageEntry,
    properties_bytes: u32,
) -> Result<(), ImageError> {
    let position = parts.first + u64::from(entry.at);
    if page.entries.is_empty() {
        page.first = position;
    }
    page.fill_gap(position);
    let (offset, kept) = match entry.kind {
        KIND_INLINE => {
            parts.body(entry)?;
            (entry.offset, None)
        }
        KIND_BODY => {
            let mut kept = KeptBody::new(Bytes::new(), None);
            kept.fill(Bytes::copy_from_slice(parts.body(entry)?), properties_bytes);
            (0, Some(kept))
        }
        KIND_STORED => {
            page.bodies.note_missing(entry.len);
            (0, Some(KeptBody::missing(parts.stored(entry.offset)?)))
        }
        _ => return Err(ImageError::Damaged),
    };
    let body = kept.map_or(0, |kept| page.bodies.keep(kept));
    page.entries.push(PageEntry {
        offset,
        len: entry.len,
        envelope: entry.envelope,
        segment: SegmentNumber::NONE,
        body,
    });
    Ok(())
}
