//! A replica's durable state: its image, the places of the entries above it in the node's log, its vote, and
//! the payloads that are read most.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use log::{Appended, ENTRY_HEADER_BYTES, EntryAddress, Lsn, Owner, SegmentCounts, SegmentId, Wal};

use crate::entry::{
    self, EntryType, Image, ImageFile, KIND_ENTRY, KIND_IMAGE, KIND_VOTE, LogRecord, Payload, Vote,
};
use crate::image_store::{ImageKey, ImageStore};
use crate::members::{Members, PeerId};
use crate::payload_cache::{CacheBudget, PayloadCache};
use crate::sparse::Sparse;

/// An entry that is about to be appended.
#[derive(Clone, Debug)]
pub(crate) struct NewEntry {
    pub(crate) index: u64,
    pub(crate) term: u64,
    pub(crate) payload: Payload,
}

/// The state of a group that one append to the log makes durable.
#[derive(Debug, Default)]
pub(crate) struct NewState {
    pub(crate) image: Option<Image>,
    pub(crate) vote: Option<Vote>,
    pub(crate) entries: Vec<NewEntry>,
}

impl NewState {
    pub(crate) fn is_empty(&self) -> bool {
        self.image.is_none() && self.vote.is_none() && self.entries.is_empty()
    }
}

/// Where a replica's image is.
#[derive(Clone, Debug, Default)]
pub(crate) struct ImagePlace {
    pub(crate) index: u64,
    pub(crate) term: u64,
    pub(crate) at: Option<EntryAddress>,
    /// The file that the entry names.
    pub(crate) file: Option<Box<ImageFile>>,
}

/// The durable state of a replica.
#[derive(Debug)]
pub(crate) struct RaftLog {
    pub(crate) owner: Owner,
    pub(crate) me: PeerId,
    pub(crate) image: ImagePlace,
    pub(crate) vote: Vote,
    pub(crate) vote_at: Option<EntryAddress>,
    /// The index up to which entries were applied.
    pub(crate) applied: u64,
    /// The members since the image, oldest first; never empty.
    history: Vec<Arc<Members>>,
    /// Terms of the entries above the image, each with the first index it has.
    terms: Vec<(u64, u64)>,
    places: VecDeque<EntryAddress>,
    /// The indexes of membership entries above the image.
    changes: Sparse<VecDeque<u64>>,
    pub(crate) cache: Sparse<PayloadCache>,
}

impl RaftLog {
    pub(crate) fn new(owner: Owner, me: PeerId) -> Self {
        Self {
            owner,
            me,
            image: ImagePlace::default(),
            vote: Vote::default(),
            vote_at: None,
            applied: 0,
            history: vec![Arc::default()],
            terms: Vec::new(),
            places: VecDeque::new(),
            changes: Sparse::default(),
            cache: Sparse::default(),
        }
    }

    pub(crate) fn last_index(&self) -> u64 {
        self.image.index + self.places.len() as u64
    }

    /// The term of the entry at `index`, if that is the image's or one above it.
    pub(crate) fn term(&self, index: u64) -> Option<u64> {
        if index == self.image.index {
            return Some(self.image.term);
        }
        if index < self.image.index || index > self.last_index() {
            return None;
        }
        let behind = self.terms.partition_point(|(first, _)| *first <= index);
        self.terms.get(behind.checked_sub(1)?).map(|(_, term)| *term)
    }

    pub(crate) fn is_change(&self, index: u64) -> bool {
        self.changes.binary_search(&index).is_ok()
    }

    /// Gives back memory that is kept for more entries.
    pub(crate) fn shrink(&mut self) {
        self.history.shrink_to_fit();
        self.terms.shrink_to_fit();
        self.places.shrink_to_fit();
        if self.changes.is_empty() {
            self.changes = Sparse::default();
        }
        if self.cache.is_empty() {
            self.cache = Sparse::default();
        }
    }

    /// The index up to which entries are committed without a word of a leader: changes of members that were
    /// applied here, and all but the last in the log, since a change is proposed where the one before it is
    /// applied. A majority of older members than that need not meet one of the present.
    pub(crate) fn sure_commit(&self) -> u64 {
        let before_last = self.changes.len().checked_sub(2);
        let shown = before_last.and_then(|nth| self.changes.get(nth)).copied();
        shown.unwrap_or(0).max(self.vote.commit).min(self.last_index())
    }

    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    pub(crate) fn members(&self) -> Arc<Members> {
        self.history.last().cloned().unwrap_or_default()
    }

    /// Takes the members at the image.
    pub(crate) fn begin_members(&mut self, members: Members) {
        self.history = vec![Arc::new(members)];
    }

    pub(crate) fn set_members(&mut self, members: Members) {
        self.history.push(Arc::new(members));
    }

    /// The members at `index`, which is above the image's or the image's.
    pub(crate) fn members_at(&self, index: u64) -> Members {
        let at = self.history.iter().rev().find(|members| members.since <= index);
        at.map_or_else(Members::default, |members| Members::clone(members))
    }

    /// Appends to the log what is new, and takes it over. Returns the position at which it is durable.
    pub(crate) fn append(&mut self, wal: &Wal, new: NewState) -> Lsn {
        let owner = self.owner;
        let image = new.image.as_ref().map(|image| entry::encode_image(self.me, image));
        let vote = new.vote.map(|vote| entry::encode_vote(self.me, vote));
        let mut lengths = Vec::with_capacity(new.entries.len() + 2);
        let appended = wal.append(|batch| {
            let mut put = |kind, parts: &[&[u8]]| {
                batch.entry(owner, kind, parts);
                lengths
                    .push(ENTRY_HEADER_BYTES + parts.iter().map(|part| part.len()).sum::<usize>());
            };
            if let Some(image) = &image {
                put(KIND_IMAGE, &[image]);
            }
            if let Some(vote) = &vote {
                put(KIND_VOTE, &[vote]);
            }
            for NewEntry { index, term, payload } in &new.entries {
                let head = entry::entry_head(*index, *term, payload.entry_type);
                put(KIND_ENTRY, &[&head, &payload.bytes]);
            }
            batch.retain(owner, lengths.len() as u64);
        });
        let mut places = AppendedPlaces { next: appended.at, lengths: lengths.into_iter() };
        let mut freed = SegmentCounts::default();
        if let Some(image) = new.image {
            self.take_image(&image, places.next(), &mut freed);
        }
        if let Some(vote) = new.vote {
            self.vote = vote;
            freed.extend(self.vote_at.replace(places.next()).map(|at| at.segment));
        }
        for entry in new.entries {
            self.cut_from(entry.index, &mut freed);
            self.push(entry.index, entry.term, entry.payload.entry_type, places.next());
            self.cache.push(entry.payload);
        }
        freed.release(wal);
        appended.upto
    }

    /// Takes over an image that was appended: entries up to its index are needed no longer, and none if it
    /// came from a leader.
    fn take_image(&mut self, image: &Image, at: EntryAddress, freed: &mut SegmentCounts) {
        freed.extend(self.image.at.map(|at| at.segment));
        if image.is_installed {
            self.cut_from(self.image.index + 1, freed);
            self.history = vec![Arc::new(image.members.clone())];
            self.applied = image.index;
        }
        self.drop_upto(image.index, freed);
        let file = image.file.map(Box::new);
        self.image = ImagePlace { index: image.index, term: image.term, at: Some(at), file };
        let since = self.history.iter().rposition(|members| members.since <= image.index);
        self.history.drain(..since.unwrap_or(0));
    }

    fn drop_upto(&mut self, index: u64, freed: &mut SegmentCounts) {
        let n = index.saturating_sub(self.image.index).min(self.places.len() as u64);
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        let uncached = self.places.len() - self.cache.len();
        freed.extend(self.places.drain(..n).map(|at| at.segment));
        self.cache.drop_first(n.saturating_sub(uncached));
        let runs = self.terms.partition_point(|(first, _)| *first <= index + 1);
        self.terms.drain(..runs.saturating_sub(1));
        if self.places.is_empty() {
            self.terms.clear();
        } else if let Some((first, _)) = self.terms.first_mut() {
            *first = index + 1;
        }
        if let Some(changes) = self.changes.get_mut() {
            changes.retain(|change| *change > index);
        }
    }

    /// Cuts off the entries from `index` on.
    fn cut_from(&mut self, index: u64, freed: &mut SegmentCounts) {
        while self.last_index() >= index
            && let Some(at) = self.places.pop_back()
        {
            freed.add(at.segment);
            let index = self.last_index() + 1;
            self.cache.cut(index);
        }
        self.terms.retain(|(first, _)| *first < index);
        if let Some(changes) = self.changes.get_mut() {
            changes.retain(|change| *change < index);
        }
    }

    /// Takes over an entry that is in the log, as the last one.
    pub(crate) fn push(&mut self, index: u64, term: u64, entry_type: EntryType, at: EntryAddress) {
        if self.terms.last().is_none_or(|(_, last)| *last != term) {
            self.terms.push((index, term));
        }
        if entry_type == EntryType::Membership {
            self.changes.push_back(index);
        }
        self.places.push_back(at);
    }

    /// The contents of entries above the image, up to the first of `indexes` that cannot be read or is not
    /// there. **Blocks** for those that are not in memory, which are read together.
    pub(crate) fn payloads(
        &self,
        wal: &Wal,
        indexes: impl Iterator<Item = u64> + Clone,
    ) -> Vec<Payload> {
        let held: Vec<_> = indexes.clone().map(|index| held(self, index)).collect();
        let missing = indexes.zip(&held).filter(|(_, held)| held.is_none());
        let missing = missing.map_while(|(index, _)| Some((index, place(self, index)?)));
        let (missing, places): (Vec<_>, Vec<_>) = missing.unzip();
        let (mut wanted, mut read) = (missing.into_iter(), Vec::new());
        let whole = wal.read(&places, &mut |entry| {
            read.push(match (LogRecord::decode(entry.kind, entry.payload), wanted.next()) {
                (Ok(LogRecord::Entry { index, entry_type, payload, .. }), Some(wanted))
                    if index == wanted =>
                {
                    Some(Payload { entry_type, bytes: Bytes::copy_from_slice(payload) })
                }
                _ => None,
            });
        });
        // Payloads that were read in front of an error count.
        let _is_cut = whole.is_err();
        let mut read = read.into_iter();
        held.into_iter().map_while(|held| held.or_else(|| read.next().flatten())).collect()
    }

    /// Reads the image back, which must be durable, as it is in the log. **Blocks.**
    pub(crate) fn read_image(&self, wal: &Wal) -> Option<Image> {
        let mut image = None;
        let read = wal.read(&[self.image.at?], &mut |entry| {
            if let Ok(LogRecord::Image(_, found)) = LogRecord::decode(entry.kind, entry.payload) {
                image = Some(found);
            }
        });
        read.ok().and(image)
    }

    /// Forgets payloads up to `index`, which are durable and applied: all that are sent to everybody, up to
    /// `sent`, and above that what exceeds the limits.
    pub(crate) fn trim_cache(&mut self, index: u64, sent: u64, budget: &Arc<CacheBudget>) {
        let cached_from = self.last_index() - self.cache.len() as u64;
        let n_upto =
            |upto: u64| usize::try_from(upto.saturating_sub(cached_from)).unwrap_or(usize::MAX);
        let (n, n_max) = (n_upto(sent.min(index)), n_upto(index).min(self.cache.len()));
        if let Some(cache) = self.cache.get_mut() {
            cache.trim(n, n_max, budget);
        }
    }

    /// The bytes that the entry at `index` takes in the log.
    pub(crate) fn entry_bytes(&self, index: u64) -> u64 {
        place(self, index).map_or(0, |at| at.bytes.into())
    }

    /// The places of everything that the group needs of the log.
    pub(crate) fn needed(&self) -> impl Iterator<Item = SegmentId> + '_ {
        let others = self.image.at.iter().chain(&self.vote_at);
        self.places.iter().chain(others).map(|at| at.segment)
    }

    /// Whether an entry above the image and up to `index` lies in `segment`.
    pub(crate) fn has_entry_in(&self, segment: SegmentId, index: u64) -> bool {
        (self.image.index + 1..)
            .zip(&self.places)
            .any(|(n, at)| n <= index && at.segment == segment)
    }

    /// Appends again what the group needs of `segment`, entries up to `upto` excepted. False if something
    /// could not be read.
    pub(crate) fn relocate(&mut self, wal: &Wal, segment: SegmentId, upto: u64) -> bool {
        let mut freed = SegmentCounts::default();
        let is_done = self.relocate_into(wal, segment, upto, &mut freed);
        freed.release(wal);
        is_done
    }

    fn relocate_into(
        &mut self,
        wal: &Wal,
        segment: SegmentId,
        upto: u64,
        freed: &mut SegmentCounts,
    ) -> bool {
        let is_there = |at: Option<EntryAddress>| at.is_some_and(|at| at.segment == segment);
        if is_there(self.vote_at) {
            let vote = entry::encode_vote(self.me, self.vote);
            self.vote_at = Some(self.move_one(wal, KIND_VOTE, &[&vote]).at);
            freed.add(segment);
        }
        if is_there(self.image.at) {
            let Some(image) = self.read_image(wal) else { return false };
            let image = entry::encode_image(self.me, &Image { is_installed: false, ..image });
            self.image.at = Some(self.move_one(wal, KIND_IMAGE, &[&image]).at);
            freed.add(segment);
        }
        let places = (self.image.index + 1..).zip(&self.places);
        let moving = places.filter(|(index, at)| *index > upto && at.segment == segment);
        let moving: Vec<_> = moving.map(|(index, _)| index).collect();
        let payloads = self.payloads(wal, moving.iter().copied());
        if payloads.len() < moving.len() {
            return false;
        }
        for (index, payload) in moving.into_iter().zip(payloads) {
            let Some(term) = self.term(index) else { return false };
            let head = entry::entry_head(index, term, payload.entry_type);
            let moved = self.move_one(wal, KIND_ENTRY, &[&head, &payload.bytes]);
            self.cache.push_moved(index, payload, moved.upto);
            let nth = usize::try_from(index - self.image.index - 1).unwrap_or(usize::MAX);
            if let Some(place) = self.places.get_mut(nth) {
                *place = moved.at;
            }
            freed.add(segment);
        }
        true
    }

    fn move_one(&self, wal: &Wal, kind: u8, parts: &[&[u8]]) -> Appended {
        let bytes = ENTRY_HEADER_BYTES + parts.iter().map(|part| part.len()).sum::<usize>();
        let appended = wal.append(|batch| {
            batch.entry(self.owner, kind, parts);
            batch.retain(self.owner, 1);
        });
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Appended { at: EntryAddress { bytes, ..appended.at }, ..appended }
    }
}

/// The name of the file of the image at `index`.
pub(crate) const fn image_key(log: &RaftLog, index: u64) -> ImageKey {
    ImageKey { owner: log.owner, me: log.me, index }
}

/// Notes that the image replaces all files before it once the log is synced up to `after`.
pub(crate) fn replace_files(log: &RaftLog, images: &ImageStore, after: Lsn) {
    images.replace(image_key(log, log.image.index), log.image.file.is_some(), after);
}

/// Reads the image back, which must be durable, with what is in its file. **Blocks.**
pub(crate) fn read_whole_image(log: &RaftLog, wal: &Wal, images: &ImageStore) -> Option<Image> {
    let image = log.read_image(wal)?;
    let Some(file) = image.file else { return Some(image) };
    let [machine, local] = images.read(image_key(log, image.index), file)?;
    Some(Image { machine, local, ..image })
}

/// The place of an entry above the image.
fn place(log: &RaftLog, index: u64) -> Option<EntryAddress> {
    let nth = usize::try_from(index.checked_sub(log.image.index + 1)?).ok()?;
    log.places.get(nth).copied()
}

/// The content of an entry above the image, if it is in memory.
fn held(log: &RaftLog, index: u64) -> Option<Payload> {
    let cached_from = log.last_index() + 1 - log.cache.len() as u64;
    let nth = index.checked_sub(cached_from).and_then(|nth| usize::try_from(nth).ok());
    nth.and_then(|nth| log.cache.nth(nth)).or_else(|| log.cache.moved(index))
}

/// The places of the entries of one append.
struct AppendedPlaces {
    next: EntryAddress,
    lengths: std::vec::IntoIter<usize>,
}

impl AppendedPlaces {
    fn next(&mut self) -> EntryAddress {
        let bytes = u32::try_from(self.lengths.next().unwrap_or(0)).unwrap_or(u32::MAX);
        let at = EntryAddress { bytes, ..self.next };
        self.next.offset = self.next.offset.saturating_add(bytes);
        at
    }
}
