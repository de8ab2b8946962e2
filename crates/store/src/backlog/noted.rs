use super::live::PositionsInPage;
use super::page::SPAN_MAX;
use super::survivors::positions_in_page;
use super::{PageNote, RestoreError};
use log::SegmentId;
use std::collections::BTreeMap;
use std::ops::Range;

/// One queue's pages as the log tells of them, entry by entry, while a start reads it.
#[derive(Debug, Default)]
pub struct NotedPages {
    /// By first position.
    pages: BTreeMap<u64, NotedPage>,
}

#[derive(Debug)]
struct NotedPage {
    /// As noted, but for `live`.
    note: PageNote,
    segment: SegmentId,
    live: PositionsInPage,
}

impl NotedPages {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// A note about a page, in log segment `segment`. It takes the place of an earlier one about the
    /// same page, as it does of log entries for the messages in it.
    ///
    /// # Errors
    /// It spans more than a page can.
    pub fn put(&mut self, mut note: PageNote, segment: SegmentId) -> Result<(), RestoreError> {
        let live = positions_in_page(&note).ok_or(RestoreError)?;
        note.live = Vec::new();
        self.pages.insert(note.first, NotedPage { note, segment, live });
        Ok(())
    }

    /// The message at `position` is gone. Returns whether a page held it.
    pub fn settle(&mut self, position: u64) -> bool {
        // Nearly always the nearest one: only remains of earlier pages lie in between.
        let lowest = position.saturating_sub(SPAN_MAX as u64 - 1);
        let mut near = self.pages.range_mut(lowest..=position).rev();
        let found = near.find_map(|(first, page)| {
            let at = u16::try_from(position - first).ok()?;
            page.live.remove(at).then(|| (*first, page.live.is_empty()))
        });
        if let Some((first, true)) = found {
            self.pages.remove(&first);
        }
        found.is_some()
    }

    /// All messages at `positions` are gone.
    pub fn purge(&mut self, positions: Range<u64>) {
        let lowest = positions.start.saturating_sub(SPAN_MAX as u64 - 1);
        let mut emptied = Vec::new();
        for (first, page) in self.pages.range_mut(lowest..positions.end.max(lowest)) {
            for at in page.live.iter().collect::<Vec<_>>() {
                if positions.contains(&(first + u64::from(at))) {
                    page.live.remove(at);
                }
            }
            if page.live.is_empty() {
                emptied.push(*first);
            }
        }
        for first in emptied {
            self.pages.remove(&first);
        }
    }

    /// What is left, in rising order of positions, each with the log segment its note lies in: for
    /// [`Backlog::restore_page`](super::Backlog::restore_page).
    pub fn into_notes(self) -> impl Iterator<Item = (PageNote, SegmentId)> {
        self.pages.into_values().map(|NotedPage { mut note, segment, live }| {
            note.live = live.ranges_from(note.first);
            (note, segment)
        })
    }
}
