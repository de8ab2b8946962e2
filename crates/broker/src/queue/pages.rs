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

/// A page is closed when its bytes reach this.
const PAGE_BYTES: usize = 64 * 1024;
/// ... or its entries do.
const PAGE_ENTRIES: usize = 4 * 1024;
/// Gaps up to this many entries are filled rather than starting a page.
const GAP_ENTRIES_MAX: u64 = 64;
/// Bodies of at least this size are kept in shared memory rather than copied into a page.
pub(crate) const SHARED_BODY_MIN_BYTES: usize = 8 * 1024;
/// Pages kept for reuse by all queues of a node.
const SPARE_PAGES_MAX: usize = 128;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    offset: u32,
    len: u32,
    /// 1 + index into the page's shared bodies; 0 for none.
    shared: u32,
    live: bool,
    /// The log segment that holds it; 0 when it is in none.
    segment: u64,
}

#[derive(Debug, Default)]
struct Page {
    first: u64,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    shared: Vec<Option<Bytes>>,
    n_live: usize,
}

impl Page {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= PAGE_BYTES || self.entries.len() >= PAGE_ENTRIES
    }

    fn restart(&mut self, first: u64) {
        self.first = first;
        self.entries.clear();
        self.bytes.clear();
        self.shared.clear();
        self.n_live = 0;
    }

    fn entry(&self, position: u64) -> Option<&Entry> {
        let index = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.entries.get(index).filter(|entry| entry.live)
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
        let page = self.page_for(pool, position);
        let offset = page.bytes.len();
        message::put_head(&mut page.bytes, message);
        let shared = match message.body {
            Body::Borrowed(bytes) => {
                page.bytes.extend_from_slice(bytes);
                0
            }
            Body::Shared(bytes) => {
                page.shared.push(Some(bytes.clone()));
                to_u32(page.shared.len())
            }
        };
        let len = to_u32(page.bytes.len() - offset);
        let segment = segment.map_or(0, |segment| segment.0);
        page.entries.push(Entry { offset: to_u32(offset), len, shared, live: true, segment });
        page.n_live += 1;
    }

    /// The page that takes `position` next, its gap filled.
    fn page_for(&mut self, pool: &PagePool, position: u64) -> &mut Page {
        let reuse = match self.pages.back_mut() {
            Some(page) if page.n_live == 0 => {
                page.restart(position);
                true
            }
            Some(page) => {
                debug_assert!(page.end() <= position, "positions rise");
                !page.is_full() && position - page.end() <= GAP_ENTRIES_MAX
            }
            None => false,
        };
        if !reuse {
            let mut page = pool.take();
            page.restart(position);
            self.pages.push_back(page);
        }
        let page = self.pages.back_mut().expect("a page was just made sure of");
        while page.end() < position {
            page.entries.push(Entry::default());
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
        let shared = match entry.shared.checked_sub(1) {
            Some(index) => Some(page.shared.get(index as usize)?.as_ref()?),
            None => None,
        };
        let message = message::parse_record(record, shared);
        Some(message.expect("a page holds only records this process wrote"))
    }

    /// Forgets the message at `position`.
    pub(crate) fn release(&mut self, pool: &PagePool, position: u64) -> Option<Released> {
        let at = self.index_of(position)?;
        let page = self.pages.get_mut(at)?;
        let index = usize::try_from(position.checked_sub(page.first)?).ok()?;
        let entry = page.entries.get_mut(index).filter(|entry| entry.live)?;
        entry.live = false;
        let segment = (entry.segment != 0).then_some(SegmentId(entry.segment));
        let mut size_bytes = u64::from(entry.len) - message::RECORD_FIXED_BYTES as u64;
        if let Some(index) = entry.shared.checked_sub(1)
            && let Some(body) = page.shared.get_mut(index as usize).and_then(Option::take)
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
        let entries = self.pages.iter().flat_map(|page| page.entries.iter());
        entries
            .filter(|entry| entry.live && entry.segment != 0)
            .map(|entry| SegmentId(entry.segment))
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
            let Page { first, entries, bytes, shared, .. } = page;
            for (index, entry) in entries.iter_mut().enumerate() {
                if !entry.live || entry.segment != segment.0 {
                    continue;
                }
                let start = entry.offset as usize;
                let body = entry.shared.checked_sub(1);
                let body = body.and_then(|at| shared.get(at as usize)?.as_ref());
                let Some(record) = bytes.get(start..start + entry.len as usize) else { continue };
                let Ok(message) = message::parse_record(record, body) else { continue };
                entry.segment = visit(*first + index as u64, message).0;
                n_moved += 1;
            }
        }
        n_moved
    }
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
        assert_eq!(pages.release(&pool, 0).unwrap().segment, Some(SegmentId(9)));
    }
}
