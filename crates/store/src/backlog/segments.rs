//! The log segments that a page's messages lie in, by number.

use log::SegmentId;

use super::page_bitmap::to_u16;

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

/// The log segments a page's messages lie in: few, since they were logged one after the other.
#[derive(Debug, Default)]
pub(super) struct Segments(Vec<SegmentId>);

impl Segments {
    /// The number under which entries of the page name a segment.
    #[inline]
    pub(super) fn number(&mut self, segment: SegmentId) -> SegmentNumber {
        let find = |wanted| self.0.iter().rposition(|known| *known == wanted);
        if let Some(index) = find(segment) {
            return SegmentNumber(to_u16(index + 1));
        }
        let index = find(NO_SEGMENT).unwrap_or(self.0.len());
        match self.0.get_mut(index) {
            Some(unused) => *unused = segment,
            None => self.0.push(segment),
        }
        let number = SegmentNumber(to_u16(index + 1));
        assert!(number != SegmentNumber::IN_IMAGE, "a page has fewer segments than that");
        number
    }

    /// The log segment a number stands for; none for a message that is not in the log by itself.
    pub(super) fn of(&self, number: SegmentNumber) -> Option<SegmentId> {
        self.0.get(usize::from(number.0.checked_sub(1)?)).copied()
    }

    pub(super) fn contains(&self, segment: SegmentId) -> bool {
        self.0.contains(&segment)
    }

    /// Forgets a segment: nothing in the page lies there any more.
    pub(super) fn forget(&mut self, segment: SegmentId) {
        if let Some(place) = self.0.iter_mut().find(|known| **known == segment) {
            *place = NO_SEGMENT;
        }
    }

    /// Forgets all segments: nothing in the page lies in one.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
