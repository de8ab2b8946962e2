//! The content of a queue's messages, by position, in pages.
//!
//! ```text
//! pages:  [first 0 ....][first 812 ....][first 1630 ..]     oldest first, positions rise
//! page:   entries[position - first] -> offset, length in `bytes`; or a gap (never stored, or gone)
//! ```
//! Messages are appended at the tail and released in any order; a page goes when its last message
//! does. Bodies kept in shared memory have their handle beside the page.

use bytes::Bytes;
use log::SegmentId;
use message::{Body, MessageRef};
use std::collections::VecDeque;
use std::sync::Mutex;

/// A page is closed when its bytes would exceed this; a larger message gets a page of its own.
const PAGE_BYTES: usize = 64 * 1024;
/// ... or its entries do.
const PAGE_ENTRIES: usize = 4 * 1024;
/// Gaps up to this many entries are filled rather than starting a page.
const GAP_ENTRIES_MAX: u64 = 64;
/// Bodies of at least this size are kept in shared memory rather than copied into a page.
pub(crate) const SHARED_BODY_MIN_BYTES: usize = 8 * 1024;
/// Pages kept for reuse by all queues of a node.
const SPARE_PAGES_MAX: usize = 128;

/// Twelve bytes, because a deep backlog has one for each message.
#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: u32,
    /// `GONE` for a gap or a released message.
    len: u32,
    /// 1 + index into the page's shared bodies; 0 for none.
    shared: u16,
    /// 1 + index into the page's log segments; 0 when it is in none.
    segment: u16,
}

const GONE: u32 = u32::MAX;
/// Marks a number of a page's segments as free. Segments are counted from 1.
const NO_SEGMENT: SegmentId = SegmentId(0);
const NOTHING: Entry = Entry { offset: 0, len: GONE, shared: 0, segment: 0 };

#[derive(Debug, Default)]
struct Page {
    first: u64,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    shared: Vec<Option<Bytes>>,
    /// The log segments its messages lie in: few, since they were logged one after the other.
    segments: Vec<SegmentId>,
    n_live: usize,
}

impl Entry {
    const fn is_live(&self) -> bool {
        self.len != GONE
    }
}

impl Page {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Whether a message of `bytes` at `position` is better put into the next page.
    fn is_full_for(&self, position: u64, bytes: usize) -> bool {
        let n_gaps = position.saturating_sub(self.end());
        n_gaps > GAP_ENTRIES_MAX
            || self.entries.len() >= PAGE_ENTRIES
            || self.bytes.len() + bytes > PAGE_BYTES
    }

    /// The number under which entries of this page name a segment.
    fn segment_number(&mut self, segment: SegmentId) -> u16 {
        let find = |wanted| self.segments.iter().rposition(|known| *known == wanted);
        if let Some(index) = find(segment) {
            return to_u16(index + 1);
        }
        let index = find(NO_SEGMENT).unwrap_or(self.segments.len());
        match self.segments.get_mut(index) {
            Some(unused) => *unused = segment,
            None => self.segments.push(segment),
        }
        to_u16(index + 1)
    }

    /// Nothing in this page lies in `segment` any more.
    fn forget_segment(&mut self, segment: SegmentId) {
        if let Some(place) = self.segments.iter_mut().find(|known| **known == segment) {
            *place = NO_SEGMENT;
        }
    }

    fn segment_of(&self, entry: Entry) -> Option<SegmentId> {
        self.segments.get(usize::from(entry.segment.checked_sub(1)?)).copied()
    }

    fn body_of(&self, entry: Entry) -> Option<&Bytes> {
        self.shared.get(usize::from(entry.shared.checked_sub(1)?))?.as_ref()
    }

    fn restart(&mut self, first: u64) {
        self.first = first;
        self.entries.clear();
        self.bytes.clear();
        self.shared.clear();
        self.segments.clear();
        self.n_live = 0;
    }

    fn entry(&self, position: u64) -> Option<&Entry> {
        let index = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.entries.get(index).filter(|entry| entry.is_live())
    }
}

/// Emptied pages waiting for reuse, shared by all queues.
#[derive(Debug, Default)]
pub(crate) struct PagePool {
    spare: Mutex<Vec<Page>>,
}

impl PagePool {
    fn take(&self) -> Page {
        stdx::lock(&self.spare).pop().unwrap_or_default()
    }

    fn give(&self, mut page: Page) {
        if page.bytes.capacity() > 2 * PAGE_BYTES {
            return;
        }
        page.restart(0);
        let mut spare = stdx::lock(&self.spare);
        if spare.len() < SPARE_PAGES_MAX {
            spare.push(page);
        }
    }
}

/// What a released message leaves to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    /// The log segment that held it, if any.
    pub(crate) segment: Option<SegmentId>,
    /// Envelope, properties and body, as [`MessageRef::size_bytes`] counts them.
    pub(crate) size_bytes: u64,
}

/// Content by position.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pages: VecDeque<Page>,
}

impl Pages {
    /// Stores a message. Positions rise from call to call.
    pub(crate) fn push(
        &mut self,
        pool: &PagePool,
        position: u64,
        message: &MessageRef<'_>,
        segment: Option<SegmentId>,
    ) {
        let inline_bytes = match message.body {
            Body::Borrowed(bytes) => message::head_len(message) + bytes.len(),
            Body::Shared(_) => message::head_len(message),
        };
        let page = self.page_for(pool, position, inline_bytes);
        let offset = to_u32(page.bytes.len());
        message::put_head(&mut page.bytes, message);
        let shared = match message.body {
            Body::Borrowed(bytes) => {
                page.bytes.extend_from_slice(bytes);
                0
            }
            Body::Shared(bytes) => {
                page.shared.push(Some(bytes.clone()));
                to_u16(page.shared.len())
            }
        };
        let segment = segment.map_or(0, |segment| page.segment_number(segment));
        page.entries.push(Entry { offset, len: to_u32(inline_bytes), shared, segment });
        page.n_live += 1;
    }

    /// The page that takes `position` next, its gap filled.
    fn page_for(&mut self, pool: &PagePool, position: u64, bytes: usize) -> &mut Page {
        let last = self.pages.back_mut();
        let is_busy = last.is_some();
        let fits = match last {
            Some(page) if page.n_live == 0 => {
                page.restart(position);
                true
            }
            Some(page) => {
                debug_assert!(page.end() <= position, "positions rise");
                !page.is_full_for(position, bytes)
            }
            None => false,
        };
        if !fits {
            let mut page = pool.take();
            page.restart(position);
            // A queue's first page grows with its messages; a backlog's next ones have their size
            // from the start.
            if is_busy {
                page.bytes.reserve_exact(PAGE_BYTES.max(bytes));
            }
            self.pages.push_back(page);
        }
        let page = self.pages.back_mut().expect("a page was just made sure of");
        while page.end() < position {
            page.entries.push(NOTHING);
        }
        page
    }

    fn index_of(&self, position: u64) -> Option<usize> {
        let last = self.pages.len().checked_sub(1)?;
        if self.pages.front()?.end() > position {
            return Some(0);
        }
        if self.pages.back()?.first <= position {
            return Some(last);
        }
        self.pages.partition_point(|page| page.first <= position).checked_sub(1)
    }

    /// The message at `position`, if it is here.
    pub(crate) fn get(&self, position: u64) -> Option<MessageRef<'_>> {
        let page = self.pages.get(self.index_of(position)?)?;
        let entry = page.entry(position)?;
        let start = entry.offset as usize;
        let record = page.bytes.get(start..start + entry.len as usize)?;
        let shared = page.body_of(*entry);
        if entry.shared != 0 && shared.is_none() {
            return None;
        }
        let message = message::parse_record(record, shared);
        Some(message.expect("a page holds only records this process wrote"))
    }

    /// Forgets the message at `position`.
    pub(crate) fn release(&mut self, pool: &PagePool, position: u64) -> Option<Released> {
        let at = self.index_of(position)?;
        let page = self.pages.get_mut(at)?;
        let index = usize::try_from(position.checked_sub(page.first)?).ok()?;
        let place = page.entries.get_mut(index).filter(|entry| entry.is_live())?;
        let entry = std::mem::replace(place, NOTHING);
        let segment = page.segment_of(entry);
        let mut size_bytes = u64::from(entry.len) - message::RECORD_FIXED_BYTES as u64;
        if let Some(index) = entry.shared.checked_sub(1)
            && let Some(body) = page.shared.get_mut(usize::from(index)).and_then(Option::take)
        {
            size_bytes += body.len() as u64;
        }
        page.n_live -= 1;
        // The tail page stays: it is restarted by the next message, or given back by `trim`.
        if page.n_live == 0
            && at + 1 < self.pages.len()
            && let Some(page) = self.pages.remove(at)
        {
            pool.give(page);
        }
        Some(Released { segment, size_bytes })
    }

    /// Gives the last page back when nothing is left in it.
    pub(crate) fn trim(&mut self, pool: &PagePool) {
        if self.pages.len() == 1
            && self.pages.front().is_some_and(|page| page.n_live == 0)
            && let Some(page) = self.pages.pop_front()
        {
            pool.give(page);
        }
    }

    /// The log segments of everything that is left, one per message that lies in one.
    pub(crate) fn segments(&self) -> impl Iterator<Item = SegmentId> + '_ {
        self.pages.iter().flat_map(|page| {
            let live = page.entries.iter().filter(|entry| entry.is_live());
            live.filter_map(|entry| page.segment_of(*entry))
        })
    }

    /// Calls `visit` for every message that lies in log segment `segment`; what it returns is the
    /// segment the message lies in from now on.
    pub(crate) fn relocate(
        &mut self,
        segment: SegmentId,
        mut visit: impl FnMut(u64, MessageRef<'_>) -> SegmentId,
    ) -> u64 {
        let mut n_moved = 0;
        for page in &mut self.pages {
            if !page.segments.contains(&segment) {
                continue;
            }
            for index in 0..page.entries.len() {
                let Some(entry) = page.entries.get(index).copied() else { break };
                if !entry.is_live() || page.segment_of(entry) != Some(segment) {
                    continue;
                }
                let position = page.first + index as u64;
                let start = entry.offset as usize;
                let record = page.bytes.get(start..start + entry.len as usize);
                let message = record.map(|bytes| message::parse_record(bytes, page.body_of(entry)));
                let Some(Ok(message)) = message else { continue };
                let moved_to = visit(position, message);
                let number = page.segment_number(moved_to);
                if let Some(entry) = page.entries.get_mut(index) {
                    entry.segment = number;
                }
                n_moved += 1;
            }
            page.forget_segment(segment);
        }
        n_moved
    }
}

fn to_u16(value: usize) -> u16 {
    u16::try_from(value).expect("a page has fewer entries than that")
}

fn to_u32(value: usize) -> u32 {
    u32::try_from(value).expect("a page stays far below 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn message(body: &[u8]) -> MessageRef<'_> {
        MessageRef {
            exchange: b"x",
            routing_key: b"key",
            properties: &[0, 0],
            body: Body::Borrowed(body),
            persistent: false,
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push { skip: u64, len: usize, shared: bool },
        Release(usize),
        Trim,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..100_u64, 0..9_000_usize, any::<bool>())
                .prop_map(|(skip, len, shared)| Step::Push { skip: skip / 20, len, shared }),
            1 => (60..70_u64).prop_map(|skip| Step::Push { skip, len: 3, shared: false }),
            4 => any::<usize>().prop_map(Step::Release),
            1 => Just(Step::Trim),
        ]
    }

    proptest! {
        #[test]
        fn pages_hold_what_was_pushed_and_not_released(
            steps in prop::collection::vec(step(), 0..150),
        ) {
            let pool = PagePool::default();
            let mut pages = Pages::default();
            let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
            let mut next = 0;
            for step in steps {
                match step {
                    Step::Push { skip, len, shared } => {
                        let body = vec![u8::try_from(next % 251).unwrap(); len];
                        let position = next + skip;
                        next = position + 1;
                        let bytes = Bytes::from(body.clone());
                        let mut message = message(&body);
                        if shared {
                            message.body = Body::Shared(&bytes);
                        }
                        pages.push(&pool, position, &message, Some(SegmentId(position + 1)));
                        model.insert(position, body);
                    }
                    Step::Release(n) => {
                        if let Some(n) = n.checked_rem(model.len()) {
                            let position = *model.keys().nth(n).unwrap();
                            let released = pages.release(&pool, position).unwrap();
                            prop_assert_eq!(released.segment, Some(SegmentId(position + 1)));
                            prop_assert_eq!(released.size_bytes, model[&position].len() as u64 + 6);
                            prop_assert_eq!(pages.release(&pool, position), None);
                            model.remove(&position);
                        }
                    }
                    Step::Trim => pages.trim(&pool),
                }
                for position in 0..next {
                    let found = pages.get(position).map(|message| message.body.bytes().to_vec());
                    prop_assert_eq!(found.as_ref(), model.get(&position));
                }
            }
            prop_assert!(pages.pages.len() <= model.len() + 1);
        }
    }

    #[test]
    fn relocation_visits_the_messages_of_one_segment() {
        let pool = PagePool::default();
        let mut pages = Pages::default();
        for position in 0..4 {
            pages.push(&pool, position, &message(b"m"), Some(SegmentId(1 + position % 2)));
        }
        pages.release(&pool, 2);
        let mut seen = Vec::new();
        let n_moved = pages.relocate(SegmentId(1), |position, _| {
            seen.push(position);
            SegmentId(9)
        });
        assert_eq!((n_moved, seen), (1, vec![0]));
        for moved_to in 10..100 {
            pages.relocate(SegmentId(moved_to - 1), |_, _| SegmentId(moved_to));
        }
        assert!(pages.pages[0].segments.len() <= 3, "places of segments are used again");
        assert_eq!(pages.release(&pool, 0).unwrap().segment, Some(SegmentId(99)));
    }
}
