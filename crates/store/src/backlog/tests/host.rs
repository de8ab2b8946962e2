//! A host for a backlog: its disk, its body store and its log, and a naive model of what is in it.

use super::{BodyKind, PageStep};
use crate::backlog::*;
use crate::queued::{Queued, StoredBody};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Of properties in front of a body.
const BRIEF: &[u8] = b"brief";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    key: Vec<u8>,
    properties: Vec<u8>,
    body: Vec<u8>,
    logged: bool,
    blob: Option<BlobId>,
    /// The properties are in front of the body, wherever that is.
    is_apart: bool,
}

/// Has properties for backlogs that share them, and stores nothing.
#[derive(Debug)]
struct InFront(SharedProperties);

impl SharedBody for InFront {
    fn name(&self, _: &[u8]) -> (Option<BlobId>, usize) {
        (None, 0)
    }

    fn properties(&self) -> Option<&SharedProperties> {
        Some(&self.0)
    }
}

impl Stored {
    pub(super) fn size(&self) -> u64 {
        (1 + self.key.len() + self.properties.len() + self.body.len()) as u64
    }

    fn stored_body(&self) -> Option<StoredBody> {
        let bytes = u32::try_from(self.body.len()).unwrap();
        let properties_bytes = u32::try_from(self.in_front().len()).unwrap();
        self.blob.map(|blob| StoredBody { blob, bytes, properties_bytes })
    }

    /// Properties that are kept in front of the body.
    fn in_front(&self) -> &[u8] {
        if self.is_apart { &self.properties } else { &[] }
    }

    /// Whether it is shown as one whose body is in the body store, or not, is.
    fn is_survivor(&self, survivor: &Queued<'_>) -> bool {
        let Queued { message, stored, .. } = survivor;
        let shown = if self.is_apart { BRIEF } else { &self.properties };
        match stored {
            None => self.is(message) && self.blob.is_none(),
            Some(_) => *stored == self.stored_body() && message.properties == shown,
        }
    }

    fn message<'a>(&'a self, body: Body<'a>) -> MessageRef<'a> {
        MessageRef {
            exchange: b"x",
            routing_key: &self.key,
            properties: &self.properties,
            body,
            persistent: self.logged,
            annotations: Default::default(),
            form: message::BodyForm::Plain,
        }
    }

    pub(super) fn is_found_in(&self, backlog: &Backlog, at: u64) -> bool {
        matches!(backlog.get(at), Lookup::Here(found) if self.is(&found))
    }

    fn is(&self, found: &MessageRef<'_>) -> bool {
        found.exchange == b"x"
            && found.routing_key == self.key
            && found.properties == self.properties
            && found.body.bytes() == self.body
            && found.persistent == self.logged
    }
}

#[derive(Clone, Debug)]
enum Logged {
    Message(u64),
    Settled(u64),
    Purged(Range<u64>),
    Note(PageNote),
}

#[derive(Debug)]
pub(super) enum Pending {
    Write { page: PageKey, bytes: Vec<u8>, is_durable: bool },
    Load { page: PageKey, blob: BlobId, wanted: PageBitmap },
}

impl Pending {
    fn page(&self) -> PageKey {
        match self {
            Self::Write { page, .. } | Self::Load { page, .. } => *page,
        }
    }
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) backlog: Backlog,
    pub(super) pool: PagePool,
    pub(super) allowance: usize,
    /// Positions that are no message: given to a waiting consumer at once.
    pub(super) gap_every: u64,
    next: u64,
    pub(super) messages: BTreeMap<u64, Stored>,
    pub(super) held: BTreeSet<u64>,
    /// Content of every message ever logged.
    contents: BTreeMap<u64, Stored>,
    pub(super) jobs: Vec<Pending>,
    pub(super) images: BTreeMap<BlobId, (Vec<u8>, bool)>,
    next_blob: u32,
    /// Messages that the log knows of.
    logged: BTreeSet<u64>,
    /// New messages are not logged.
    is_older: bool,
    /// Messages below come into the log.
    logging: Option<Range<u64>>,
    /// References in the body store.
    bodies: BTreeMap<BlobId, (Bytes, i64)>,
    /// The whole log with its segments; what is before `log_start` is freed.
    log: Vec<(u64, Logged)>,
    log_start: usize,
    segment: u64,
    retained: BTreeMap<u64, i64>,
    n_durable: usize,
    /// Images to be freed once the log is durable that far.
    freed: Vec<(usize, FreedPage)>,
    /// Sizes are estimates for now.
    pub(super) inexact: bool,
    pub(super) n_writes: usize,
    pub(super) n_loads: usize,
    /// An image was lost with the names of bodies in it.
    leaks: bool,
}

impl Host {
    pub(super) fn new() -> Self {
        Self {
            backlog: Backlog::default(),
            pool: PagePool::default(),
            allowance: 16 << 10,
            gap_every: 50,
            next: 5,
            messages: BTreeMap::new(),
            held: BTreeSet::new(),
            contents: BTreeMap::new(),
            jobs: Vec::new(),
            images: BTreeMap::new(),
            next_blob: 0,
            logged: BTreeSet::new(),
            is_older: false,
            logging: None,
            bodies: BTreeMap::new(),
            log: Vec::new(),
            log_start: 0,
            segment: 1,
            retained: BTreeMap::new(),
            n_durable: 0,
            freed: Vec::new(),
            inexact: false,
            n_writes: 0,
            n_loads: 0,
            leaks: false,
        }
    }

    pub(super) fn head(&self) -> u64 {
        let ready = self.messages.keys().find(|at| !self.held.contains(at));
        ready.copied().unwrap_or(self.next)
    }

    fn append(&mut self, entry: Logged) -> SegmentId {
        self.log.push((self.segment, entry));
        SegmentId(self.segment)
    }

    fn retain(&mut self, n: i64) {
        *self.retained.entry(self.segment).or_default() += n;
    }

    fn let_go(&mut self, segment: SegmentId, n: u64) {
        let retained = self.retained.entry(segment.0).or_default();
        *retained -= i64::try_from(n).unwrap();
        assert!(*retained >= 0, "segment {segment:?} is released more often than retained");
    }

    fn new_blob(&mut self) -> BlobId {
        self.next_blob += 1;
        BlobId { file: 7, index: self.next_blob }
    }

    fn release_body(&mut self, blob: BlobId) {
        let (_, n) = self.bodies.get_mut(&blob).unwrap();
        *n -= 1;
        assert!(*n >= 0, "{blob:?} is released more often than retained");
    }

    pub(super) fn step(&mut self, step: &PageStep) {
        match step {
            PageStep::Push { n, len, like_last, logged, body } => {
                for at in 0..*n {
                    let tag = like_last.then_some(0);
                    self.push(*len + at % 3, tag, *logged, *body);
                }
            }
            PageStep::Take(n) => self.take(*n),
            PageStep::SettleOldest(n) => {
                for at in self.held.iter().copied().take(*n).collect::<Vec<_>>() {
                    self.release(at);
                }
            }
            PageStep::Settle(n) => {
                let at = n.checked_rem(self.held.len()).and_then(|n| self.held.iter().nth(n));
                if let Some(at) = at.copied() {
                    self.release(at);
                }
            }
            PageStep::Requeue(n) => {
                if let Some(n) = n.checked_rem(self.held.len()) {
                    let at = *self.held.iter().nth(n).unwrap();
                    self.held.remove(&at);
                    // Others further on may be held that the head does not tell of.
                    self.inexact = true;
                }
            }
            PageStep::Drop(n) => {
                if let Some(n) = n.checked_rem(self.messages.len()) {
                    let at = *self.messages.keys().nth(n).unwrap();
                    self.inexact |= matches!(self.backlog.get(at), Lookup::Cold);
                    self.release(at);
                }
            }
            PageStep::Purge => self.purge(0..u64::MAX),
            PageStep::PurgeRange(at, n) => {
                let start = self.messages.keys().next().map_or(0, |first| first + at);
                self.purge(start..start + n);
            }
            PageStep::NextJob => self.next_job(),
            PageStep::Complete(n) => self.complete(*n),
            PageStep::FailLoad(n) => self.fail_load(*n),
            PageStep::Relocate => self.relocate(),
            PageStep::NextSegment => self.segment += 1,
            PageStep::Sync => self.sync(),
            PageStep::Trim => self.backlog.trim(&self.pool),
            PageStep::Allow(bytes) => self.allowance = *bytes,
            PageStep::Crash(n) => self.crash(*n),
            PageStep::Unlog => self.unlog(),
            PageStep::LogNext => self.log_next(),
            PageStep::Clear => {
                let dropped = self.backlog.clear(&self.pool);
                self.settle_dropped(dropped, |_| true);
                assert!(self.messages.is_empty());
            }
        }
    }

    pub(super) fn push(&mut self, len: usize, tag: Option<u64>, logged: bool, kind: BodyKind) {
        let at = self.next + u64::from(self.next.is_multiple_of(self.gap_every));
        self.next = at + 1;
        let tag = tag.unwrap_or(at);
        let fill = u8::try_from(at % 251).unwrap();
        let len = if kind == BodyKind::Inline { len } else { len * 10 };
        let is_stored = matches!(kind, BodyKind::Stored | BodyKind::StoredApart);
        let blob = is_stored.then(|| self.new_blob());
        let stored = Stored {
            key: format!("key{}", tag % 3).into_bytes(),
            properties: format!("properties {}", tag % 7).into_bytes(),
            body: vec![fill; len],
            logged,
            blob,
            is_apart: kind.is_apart(),
        };
        let segment = (logged && !self.is_older).then(|| {
            self.logged.insert(at);
            self.retain(1);
            self.append(Logged::Message(at))
        });
        let bytes = Bytes::from(stored.body.clone());
        if let Some(blob) = blob {
            let whole = [stored.in_front(), &stored.body].concat();
            self.bodies.insert(blob, (whole.into(), 1));
        }
        let is_inline = kind == BodyKind::Inline;
        let body = if is_inline { Body::Borrowed(&stored.body) } else { Body::Shared(&bytes) };
        let message = &stored.message(body);
        if kind.is_apart() {
            let whole = stored.properties.clone().into();
            let home = InFront(SharedProperties { whole, brief: BRIEF.to_vec() });
            self.backlog.push_shared(
                &self.pool,
                at,
                message,
                segment,
                SharedBodyName { home: Arc::new(home), blob },
            );
        } else {
            self.backlog.push(&self.pool, at, message, segment, blob);
        }
        if logged {
            self.contents.insert(at, stored.clone());
        }
        self.messages.insert(at, stored);
    }

    pub(super) fn take(&mut self, n: usize) {
        for _ in 0..n {
            let at = self.head();
            let Some(stored) = self.messages.get(&at) else { break };
            let Lookup::Here(found) = self.backlog.get(at) else { break };
            assert!(stored.is(&found), "position {at}");
            self.held.insert(at);
        }
    }

    pub(super) fn release(&mut self, at: u64) {
        let was_cold = matches!(self.backlog.get(at), Lookup::Cold);
        let released = self.backlog.release(&self.pool, at).unwrap();
        assert_eq!(self.backlog.release(&self.pool, at), None);
        let stored = self.messages.remove(&at).unwrap();
        self.held.remove(&at);
        if !(self.inexact && was_cold) {
            assert_eq!(released.size_bytes, stored.size(), "position {at}");
        }
        let is_logged = self.logged.remove(&at);
        assert_eq!(released.is_logged, is_logged);
        assert!(released.segment.is_none() || is_logged);
        if released.is_logged {
            self.append(Logged::Settled(at));
        }
        if let Some(segment) = released.segment {
            self.let_go(segment, 1);
        }
        if let Some(blob) = released.body {
            assert_eq!(stored.blob, Some(blob));
            self.release_body(blob);
        }
        self.free(released.page.map(|page| *page));
    }

    fn free(&mut self, page: Option<FreedPage>) {
        let Some(page) = page else { return };
        assert_eq!(self.images[&page.blob].1, page.is_durable);
        if let Some(segment) = page.segment {
            self.let_go(segment, 1);
        }
        if let Some(owed) = &page.owed {
            let bodies = stored_bodies(&self.images[&page.blob].0, owed).unwrap();
            bodies.into_iter().for_each(|blob| self.release_body(blob));
        }
        self.freed.push((self.log.len(), page));
    }

    fn purge(&mut self, range: Range<u64>) {
        let ready = |at: &u64| range.contains(at) && !self.held.contains(at);
        let gone: BTreeSet<u64> = self.messages.keys().copied().filter(ready).collect();
        let first = gone.first().copied().unwrap_or_default();
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for at in first..self.next {
            let is_between = gone.contains(&at) || !self.messages.contains_key(&at);
            match ranges.last_mut().filter(|last| last.end == at) {
                Some(last) if is_between => last.end = at + 1,
                _ if gone.contains(&at) => ranges.push(at..at + 1),
                _ => {}
            }
        }
        self.inexact = true;
        let dropped = self.backlog.purge(&self.pool, ranges);
        self.settle_dropped(dropped, |at| gone.contains(&at));
    }

    fn settle_dropped(&mut self, dropped: Dropped, gone: impl Fn(u64) -> bool) {
        let gone: Vec<u64> = self.messages.keys().copied().filter(|at| gone(*at)).collect();
        assert_eq!(dropped.n_messages, gone.len() as u64);
        let mut purged: Vec<Range<u64>> = Vec::new();
        let mut any_logged = false;
        for at in gone {
            self.held.remove(&at);
            self.messages.remove(&at);
            any_logged |= self.logged.remove(&at);
            match purged.last_mut().filter(|last| last.end == at) {
                Some(last) => last.end = at + 1,
                None => purged.push(at..at + 1),
            }
        }
        assert_eq!(dropped.any_logged, any_logged);
        for range in purged.into_iter().filter(|_| any_logged) {
            self.append(Logged::Purged(range));
        }
        for (segment, n) in dropped.segments {
            self.let_go(segment, n);
        }
        dropped.bodies.into_iter().for_each(|blob| self.release_body(blob));
        dropped.pages.into_iter().for_each(|page| self.free(Some(page)));
    }

    pub(super) fn next_job(&mut self) {
        let mut image = Image::default();
        let (head, mut jobs) = (self.head(), self.backlog.jobs());
        let wants = jobs.are_wanted(head, self.allowance);
        let job = jobs.next(&self.pool, head, self.allowance, &mut image);
        assert!(wants || job.is_none());
        if let Some(job) = job {
            self.start(job, &image);
        }
    }

    fn start(&mut self, job: Job, image: &Image) {
        let pending = match job {
            Job::Write { page, is_durable } => {
                self.n_writes += 1;
                let bytes = image.parts().concat();
                assert_eq!(bytes.len(), image.len());
                Pending::Write { page, bytes, is_durable }
            }
            Job::Load(ColdPage { page, blob, is_durable, live }) => {
                self.n_loads += 1;
                assert_eq!(self.images[&blob].1, is_durable);
                Pending::Load { page, blob, wanted: live }
            }
        };
        assert!(self.jobs.iter().all(|other| other.page() != pending.page()));
        self.jobs.push(pending);
    }

    pub(super) fn complete(&mut self, n: usize) {
        let Some(n) = n.checked_rem(self.jobs.len()) else { return };
        match self.jobs.remove(n) {
            Pending::Write { page, bytes, is_durable } => {
                let blob = self.new_blob();
                self.images.insert(blob, (bytes, is_durable));
                match self.backlog.jobs().written(page, blob) {
                    Some(written) => self.finish_write(page, written),
                    None => drop(self.images.remove(&blob)),
                }
            }
            Pending::Load { page, blob, wanted } => self.finish_load(page, blob, &wanted),
        }
    }

    fn finish_write(&mut self, page: PageKey, written: Written) {
        if let Some(note) = written.note {
            assert!(!note.live.is_empty());
            self.retain(1);
            let segment = self.append(Logged::Note(note));
            self.backlog.log_places().paged_in_log(page, segment);
        }
        for (segment, n) in written.segments {
            self.let_go(segment, n);
        }
        self.free(written.replaced);
    }

    fn finish_load(&mut self, page: PageKey, blob: BlobId, wanted: &PageBitmap) {
        // An image may be gone when its page is: then nobody cares.
        let Some((bytes, _)) = self.images.get(&blob) else {
            assert!(self.backlog.failed(&self.pool, page).is_none());
            return;
        };
        let mut loaded = LoadedPage::read(&self.pool, bytes, wanted).unwrap();
        for wanted in loaded.wanted_bodies() {
            loaded.put_body(wanted, self.bodies[&wanted.blob].0.clone());
        }
        if let Some(loaded) = self.backlog.loaded(&self.pool, page, loaded).unwrap() {
            assert_eq!(loaded.lost, [0; 0]);
            loaded.bodies.into_iter().for_each(|blob| self.release_body(blob));
            assert_eq!(loaded.page, None);
        }
    }

    fn fail_load(&mut self, n: usize) {
        let Some(n) = n.checked_rem(self.jobs.len()) else { return };
        let Pending::Load { page, .. } = self.jobs[n] else { return };
        self.jobs.remove(n);
        let Some((lost, dropped)) = self.backlog.failed(&self.pool, page) else { return };
        let is_lost = |at: u64| lost.iter().any(|range| range.contains(&at));
        self.leaks = true;
        self.inexact = true;
        self.settle_dropped(dropped, is_lost);
    }

    fn relocate(&mut self) {
        let oldest = self.retained.iter().find(|(_, n)| **n > 0).map(|(segment, _)| *segment);
        let Some(oldest) = oldest.filter(|oldest| *oldest < self.segment) else { return };
        let to = SegmentId(self.segment);
        let moved = RefCell::new(Vec::new());
        let n_visited = self.backlog.log_places().relocate(
            SegmentId(oldest),
            |survivor| {
                let stored = &self.messages[&survivor.position];
                assert!(stored.is_survivor(survivor), "{survivor:?} of {stored:?}");
                moved.borrow_mut().push(Logged::Message(survivor.position));
                to
            },
            |note| {
                let is_needed = !note.live.is_empty();
                if is_needed {
                    moved.borrow_mut().push(Logged::Note(note.clone()));
                }
                is_needed.then_some(to)
            },
        );
        for entry in moved.into_inner() {
            self.retain(1);
            self.append(entry);
        }
        self.let_go(SegmentId(oldest), n_visited);
        assert_eq!(self.retained[&oldest], 0, "nothing is left behind in segment {oldest}");
    }

    /// The messages are kept elsewhere from now on.
    fn unlog(&mut self) {
        for (segment, n) in self.backlog.log_places().unlog() {
            self.let_go(segment, n);
        }
        assert!(self.retained.values().all(|n| *n == 0), "nothing is left in the log");
        self.append(Logged::Purged(0..u64::MAX));
        self.logged.clear();
        (self.is_older, self.logging) = (true, None);
    }

    /// A page of what is kept elsewhere comes into the log.
    fn log_next(&mut self) {
        if self.is_older {
            self.append(Logged::Purged(0..u64::MAX));
            (self.is_older, self.logging) = (false, Some(0..self.next));
        }
        let Some(logging) = self.logging.clone().filter(|logging| !logging.is_empty()) else {
            return;
        };
        let segment = SegmentId(self.segment);
        let found = RefCell::new(Vec::new());
        let to_log = self.backlog.log_places().log_next(logging.start, |survivor| {
            let stored = &self.messages[&survivor.position];
            assert!(stored.is_survivor(survivor), "{survivor:?} of {stored:?}");
            found.borrow_mut().push(survivor.position);
            segment
        });
        for at in found.into_inner() {
            self.retain(1);
            self.append(Logged::Message(at));
            self.contents.insert(at, self.messages[&at].clone());
            self.logged.insert(at);
        }
        let next = match to_log {
            None => logging.end,
            Some(ToLog::Busy) => return,
            Some(ToLog::Done { next, freed }) => {
                self.free(freed);
                next
            }
            Some(ToLog::Stored(page)) => {
                self.log_image(&page);
                page.next
            }
        };
        self.logging = Some(next.min(logging.end)..logging.end);
        // The log counts from when all pages are in it: no start finds one of which it has a part.
        self.n_durable = self.log.len();
    }

    fn log_image(&mut self, page: &StoredPage) {
        let bytes = self.images[&page.blob].0.clone();
        let persistent = PersistentPositions::of(&bytes).unwrap();
        let blob = if page.is_durable { page.blob } else { self.new_blob() };
        self.images.insert(blob, (bytes, true));
        let logged = self.backlog.log_places().image_logged(page, blob, &persistent).unwrap();
        if let Some(note) = logged.note {
            for at in note.live.iter().cloned().flatten() {
                self.contents.insert(at, self.messages[&at].clone());
                self.logged.insert(at);
            }
            self.retain(1);
            let segment = self.append(Logged::Note(note));
            self.backlog.log_places().paged_in_log(page.page, segment);
        }
        if let Some(segment) = logged.noted_before {
            self.let_go(segment, 1);
        }
        self.free(logged.replaced);
    }

    /// The log is durable so far: its first segments go when nothing in them is needed.
    pub(super) fn sync(&mut self) {
        self.n_durable = self.log.len();
        for (_, page) in self.freed.drain(..) {
            assert!(self.images.remove(&page.blob).is_some());
        }
        while let Some((segment, _)) = self.log.get(self.log_start) {
            if *segment == self.segment || self.retained.get(segment).is_some_and(|n| *n > 0) {
                break;
            }
            self.log_start += 1;
        }
    }

    /// The content of the log up to `n_entries`, read in full.
    fn recovered(&self, n_entries: usize) -> BTreeMap<u64, Stored> {
        let mut left = BTreeSet::new();
        for (_, entry) in &self.log[..n_entries] {
            match entry {
                Logged::Message(at) => drop(left.insert(*at)),
                Logged::Settled(at) => drop(left.remove(at)),
                Logged::Purged(range) => left.retain(|at| !range.contains(at)),
                Logged::Note(note) => left.extend(note.live.iter().cloned().flatten()),
            }
        }
        left.into_iter().map(|at| (at, self.contents[&at].clone())).collect()
    }

    fn crash(&mut self, n: usize) {
        let n_entries = self.n_durable + n % (self.log.len() - self.n_durable + 1);
        let expected = self.recovered(n_entries);
        let mut recovery = Recovery::default();
        for (segment, entry) in &self.log[self.log_start.min(n_entries)..n_entries] {
            recovery.take(*segment, entry);
        }
        self.log.truncate(n_entries);
        self.log_start = self.log_start.min(n_entries);
        self.n_durable = n_entries;
        self.images.retain(|_, (_, is_durable)| *is_durable);
        // Images whose release waited are named by the log again, or by nobody.
        self.freed.clear();
        self.jobs.clear();
        self.held.clear();
        self.retained.clear();
        self.bodies.values_mut().for_each(|(_, n)| *n = 0);
        self.messages = expected;
        self.logged = self.messages.keys().copied().collect();
        (self.is_older, self.logging) = (false, None);
        self.backlog = recovery.restore(self);
        let with_bodies: Vec<_> = self.backlog.pages().images_with_bodies().collect();
        for (blob, positions) in with_bodies {
            for body in stored_bodies(&self.images[&blob].0, &positions).unwrap() {
                self.bodies.get_mut(&body).unwrap().1 += 1;
            }
        }
        (self.inexact, self.leaks) = (true, false);
    }

    fn restore_message(&mut self, backlog: &mut Backlog, at: u64, segment: SegmentId) {
        let stored = &self.contents[&at];
        let bytes = Bytes::from(stored.body.clone());
        if let Some(blob) = stored.blob {
            self.bodies.get_mut(&blob).unwrap().1 += 1;
        }
        let mut message = stored.message(Body::Shared(&bytes));
        let body = stored.stored_body();
        if body.is_some() && stored.is_apart {
            message.properties = BRIEF;
        }
        let queued = Queued { position: at, message, stored: body, is_delivered: false };
        backlog.restore(&self.pool, &queued, Some(segment));
    }

    /// Compares everything that is known without loading.
    pub(super) fn check(&mut self) {
        let mut cost = 0;
        for at in 0..self.next {
            match (self.backlog.get(at), self.messages.get(&at)) {
                (Lookup::Here(found), Some(stored)) => {
                    assert!(stored.is(&found), "position {at}");
                }
                (Lookup::Cold, Some(_)) | (Lookup::Gone, None) => {}
                (found, stored) => panic!("position {at}: {found:?} instead of {stored:?}"),
            }
        }
        for slot in self.backlog.pages.slots() {
            cost += slot.page().map_or(0, Page::cost_bytes);
            assert_eq!(slot.live().len(), usize::from(slot.n_live));
        }
        let backlog = &self.backlog;
        assert_eq!(backlog.paging.resident_bytes, cost);
        assert_eq!(backlog.pages().n_messages() == 0, self.messages.is_empty());
        if !self.inexact || backlog.pages().n_pages_here() == backlog.pages().n_pages() {
            let sizes: u64 = self.messages.values().map(Stored::size).sum();
            assert_eq!(backlog.stored_bytes(), sizes);
            self.inexact &= !self.messages.is_empty();
        }
        let of_jobs = |busy| {
            let slots = backlog.pages.slots().iter().filter(move |slot| slot.busy == busy);
            slots.map(Slot::cost_bytes).sum::<usize>()
        };
        assert_eq!(backlog.paging.writing_bytes, of_jobs(Busy::Writing));
        assert_eq!(backlog.paging.loading_bytes, of_jobs(Busy::Loading));
        assert!(self.jobs.len() >= backlog.paging.writing.len());
        assert!(backlog.pages.here().iter().is_sorted());
    }

    /// Lets the jobs run until there are none.
    pub(super) fn settle_down(&mut self) {
        let mut n_rounds = 0;
        loop {
            let n_jobs = self.jobs.len();
            self.next_job();
            if self.jobs.len() == n_jobs && n_jobs == 0 {
                break;
            }
            self.complete(0);
            n_rounds += 1;
            assert!(n_rounds < 10_000, "the jobs come to an end");
        }
        let head = self.head();
        assert!(!self.backlog.jobs().are_wanted(head, self.allowance));
    }

    pub(super) fn check_residency(&self) {
        let largest = self.backlog.pages.slots().iter().map(Slot::cost_bytes).max().unwrap_or(0);
        let bound = self.allowance.max(largest) + largest;
        let resident = self.backlog.resident_bytes();
        assert!(resident <= bound, "{resident} bytes of {} allowed", self.allowance);
        let head = self.head();
        if self.messages.contains_key(&head) {
            assert!(matches!(self.backlog.get(head), Lookup::Here(_)), "the head is loaded");
        }
    }

    /// Reads everything from head to tail, as one slow consumer does.
    pub(super) fn drain(&mut self) {
        while !self.messages.is_empty() {
            self.settle_down();
            self.check_residency();
            self.take(20);
            for at in self.held.iter().copied().collect::<Vec<_>>() {
                self.release(at);
            }
        }
        self.backlog.trim(&self.pool);
        assert_eq!(self.backlog.pages().n_pages(), 0);
        assert_eq!((self.backlog.resident_bytes(), self.backlog.stored_bytes()), (0, 0));
        assert!(self.retained.values().all(|n| *n == 0), "every log segment is let go of");
        let all_free = self.bodies.values().all(|(_, n)| *n == 0);
        assert!(self.leaks || all_free, "every body is let go of");
    }
}

/// The knowledge that a start has from the log.
#[derive(Default)]
struct Recovery {
    /// The last log entry that has a message: its segment, and for a note the first position of its
    /// page.
    messages: BTreeMap<u64, (u64, Option<u64>)>,
    notes: BTreeMap<u64, PageNote>,
}

impl Recovery {
    fn take(&mut self, segment: u64, entry: &Logged) {
        match entry {
            Logged::Message(at) => drop(self.messages.insert(*at, (segment, None))),
            Logged::Settled(at) => drop(self.messages.remove(at)),
            Logged::Purged(range) => self.messages.retain(|at, _| !range.contains(at)),
            Logged::Note(note) => {
                self.messages.retain(|_, (_, page)| *page != Some(note.first));
                let live = note.live.iter().cloned().flatten();
                self.messages.extend(live.map(|at| (at, (segment, Some(note.first)))));
                self.notes.insert(note.first, note.clone());
            }
        }
    }

    fn restore(mut self, host: &mut Host) -> Backlog {
        let mut backlog = Backlog::default();
        let left: Vec<_> = self.messages.into_iter().collect();
        for run in left.chunk_by(|(_, a), (_, b)| a.1.is_some() && a.1 == b.1) {
            let (at, (segment, page)) = run[0];
            *host.retained.entry(segment).or_default() += 1;
            let Some(first) = page else {
                host.restore_message(&mut backlog, at, SegmentId(segment));
                continue;
            };
            let mut note = self.notes.remove(&first).unwrap();
            note.live = run.iter().map(|(at, _)| *at..at + 1).collect();
            backlog.restore_page(&note, SegmentId(segment)).unwrap();
        }
        backlog
    }
}
