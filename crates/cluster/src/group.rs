//! A replica of a group, under its host's lock: what is stepped into the engine, what the engine has ready.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use log::{Lsn, Owner, SegmentCounts, SegmentId, Wal};

use crate::effects::{Committed, GroupEffects, GroupRequest, Health, OutgoingMessage, Ticket};
use crate::engine::{Engine, EntryId, Role, Round};
use crate::entry::{self, EntryType, Image, KIND_GONE, Payload, Vote};
use crate::image_store::{ImageKey, ImageStore, ImageWrite};
use crate::images::IncomingImage;
use crate::members::{Change, LivingNodes, Members, PeerId};
use crate::message::{ImageOffer, Message, MessageBody, SentEntry};
use crate::payload_cache::CacheBudget;
use crate::proposals::Proposals;
use crate::raft_log::{self, NewEntry, NewState, RaftLog};
use crate::recovery::FoundGroup;
use crate::sparse::Sparse;

/// The surroundings that a step may use.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The node's log.
    pub wal: &'a Wal,
    /// The nodes that are alive.
    pub living: &'a LivingNodes,
    /// The bytes of payloads that the node's groups keep in memory.
    pub cache: &'a Arc<CacheBudget>,
    /// The files of images.
    pub images: &'a ImageStore,
}

/// How a replica takes part.
pub(crate) enum Raft {
    /// The replica is the only member: there is nobody to agree with.
    Alone(Box<RaftLog>),
    /// The replica follows, has all there is, and keeps no engine.
    Asleep(Box<RaftLog>, PeerId),
    /// The replica has an engine.
    Awake(Box<Engine>),
}

/// A round that is written and not durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnsyncedRound {
    pub(crate) lsn: Lsn,
    /// The engine's number of the round; of a replica alone the index of its entry; 0 of others.
    pub(crate) number: u64,
}

/// A replica of a group.
pub struct RaftGroup {
    pub(crate) raft: Raft,
    pub(crate) health: Health,
    pub(crate) unsynced: Sparse<VecDeque<UnsyncedRound>>,
    pub(crate) proposals: Sparse<Proposals>,
    /// Payloads of the entries that the step under way makes.
    pub(crate) stash: Sparse<Vec<NewEntry>>,
    pub(crate) incoming: Option<Box<IncomingImage>>,
    /// The machine's bytes of an image that is in the log, while followers may want it.
    pub(crate) outgoing: Option<Box<Bytes>>,
    /// Whether the host writes an image to a file.
    pub(crate) is_writing: bool,
    /// The change that a replica alone begins with when it is alone no longer.
    pub(crate) leaving: Option<Box<(Ticket, Change)>>,
    /// The last message that asked for a vote and was dropped for a leader, which was asked if it leads and
    /// has not answered.
    pub(crate) doubt: Option<Box<Message>>,
    /// The position of the last vote in the node's log.
    pub(crate) vote_lsn: Lsn,
}

stdx::debug_of!(|it: RaftGroup| me = it.me(), term = it.term(), role = it.role());

impl RaftGroup {
    fn new(raft: Raft, health: Health) -> Self {
        Self {
            raft,
            health,
            unsynced: Sparse::default(),
            proposals: Sparse::default(),
            stash: Sparse::default(),
            incoming: None,
            outgoing: None,
            is_writing: false,
            leaving: None,
            doubt: None,
            vote_lsn: Lsn(0),
        }
    }

    /// Makes the replica of a new group, whose first members all make theirs so: its log begins with an image
    /// at index 1, of an empty machine.
    #[must_use]
    pub fn create(wal: &Wal, owner: Owner, me: PeerId, members: Members) -> Self {
        begin(wal, owner, me, Image { members, ..Image::default() })
    }

    /// Makes a replica that is going to be added to a group as a learner: an image from the leader begins it.
    #[must_use]
    pub fn join(owner: Owner, me: PeerId) -> Self {
        Self::of_log(RaftLog::new(owner, me), Health::Sound)
    }

    /// Goes on with a replica that was found in the log, and retains what it needs there. Entries above its
    /// image are applied once they are known to be committed; alone, they are: then the first step does so.
    #[must_use]
    pub fn recover(wal: &Wal, found: FoundGroup) -> Self {
        let FoundGroup { log, health } = found;
        let mut counts = SegmentCounts::default();
        counts.extend(log.needed());
        counts.retain(wal, log.owner);
        Self::of_log(log, health)
    }

    /// Ends the replica on this node: its log says so, and needs nothing of it any more, except that it has
    /// ended, until the files of its images are swept.
    pub fn remove(self, wal: &Wal, images: &ImageStore) {
        let log = self.log();
        let (gone, has_files) = (entry::encode_gone(log.me), images.has_files(log.owner));
        let appended = wal.append(|batch| {
            batch.entry(log.owner, KIND_GONE, &[&gone]);
            batch.retain(log.owner, has_files.into());
        });
        if has_files {
            images.end(log.owner, log.me, (appended.upto, appended.at.segment));
        }
        let mut freed = SegmentCounts::default();
        freed.extend(log.needed());
        freed.release(wal);
    }

    pub(crate) fn of_log(log: RaftLog, health: Health) -> Self {
        let (owner, me) = (log.owner, log.me);
        if log.members().are_only(me) && !log.has_changes() && health == Health::Sound {
            return Self::new(Raft::Alone(Box::new(log)), health);
        }
        match Engine::start(log) {
            Some(engine) => Self::new(Raft::Awake(Box::new(engine)), health),
            None => Self::new(Raft::Alone(Box::new(RaftLog::new(owner, me))), Health::Stopped),
        }
    }

    pub(crate) fn log(&self) -> &RaftLog {
        match &self.raft {
            Raft::Alone(log) | Raft::Asleep(log, _) => log,
            Raft::Awake(engine) => engine.log(),
        }
    }

    pub(crate) fn log_mut(&mut self) -> &mut RaftLog {
        match &mut self.raft {
            Raft::Alone(log) | Raft::Asleep(log, _) => log,
            Raft::Awake(engine) => engine.log_mut(),
        }
    }

    /// The replica's number.
    #[must_use]
    pub fn me(&self) -> PeerId {
        self.log().me
    }

    /// The members, as far as entries were applied.
    #[must_use]
    pub fn members(&self) -> Arc<Members> {
        self.log().members()
    }

    /// The term that the replica knows.
    #[must_use]
    pub fn term(&self) -> u64 {
        match &self.raft {
            Raft::Alone(log) | Raft::Asleep(log, _) => log.vote.term,
            Raft::Awake(engine) => engine.standing().term,
        }
    }

    /// The replica's part in the group.
    #[must_use]
    pub fn role(&self) -> Role {
        match &self.raft {
            Raft::Alone(_) => Role::Leader,
            Raft::Asleep(..) => Role::Follower,
            Raft::Awake(engine) => engine.standing().role,
        }
    }

    /// The leader, if the replica knows one.
    #[must_use]
    pub fn leader(&self) -> Option<PeerId> {
        match &self.raft {
            Raft::Alone(log) => Some(log.me),
            Raft::Asleep(_, leader) => Some(*leader),
            Raft::Awake(engine) => engine.standing().leader,
        }
    }

    /// Whether the replica may take part.
    #[must_use]
    pub const fn health(&self) -> Health {
        self.health
    }

    /// The indexes up to which entries are applied, known to be committed, and there.
    #[must_use]
    pub fn progress(&self) -> GroupProgress {
        let log = self.log();
        let applied = log.applied;
        let (committed, last) = match &self.raft {
            Raft::Alone(log) => (log.last_index(), log.last_index()),
            Raft::Asleep(log, _) => (applied, log.last_index()),
            Raft::Awake(engine) => (engine.standing().committed, engine.standing().last),
        };
        GroupProgress { image: log.image.index, applied, committed, last }
    }

    /// The term of the entry at `index`, if the log goes from below to above it.
    #[must_use]
    pub fn term_at(&self, index: u64) -> Option<u64> {
        self.log().term(index)
    }

    /// Moves what the replica needs of a segment to the log's end, entries that were applied excepted: an
    /// image is asked for to replace those. False if something could not be read: it is not durable yet, or
    /// damaged.
    pub fn relocate(&mut self, wal: &Wal, segment: SegmentId, fx: &mut GroupEffects) -> bool {
        let log = self.log_mut();
        let applied = log.applied;
        if log.has_entry_in(segment, applied) {
            fx.ask(GroupRequest::Image);
        }
        log.relocate(wal, segment, applied)
    }

    /// Tells the engine what has become durable.
    pub(crate) fn persist(&mut self, wal: &Wal, fx: &mut GroupEffects) {
        let durable = wal.durable_upto();
        if let Some(cache) = self.log_mut().cache.get_mut() {
            cache.durable(durable);
        }
        let mut last = None;
        let is_durable = |round: &mut UnsyncedRound| round.lsn <= durable;
        while let Some(round) = self.unsynced.get_mut().and_then(|it| it.pop_front_if(is_durable)) {
            last = last.max(Some(round.number));
            if let Raft::Alone(log) = &self.raft {
                self.proposals.committed(round.number, log.vote.term, fx);
            }
        }
        if let (Raft::Awake(engine), Some(number)) = (&mut self.raft, last) {
            engine.persisted(number);
        }
    }

    /// Works off what the engine has ready.
    pub(crate) fn drain(&mut self, cx: Context<'_>, fx: &mut GroupEffects) {
        let wal = cx.wal;
        while self.health != Health::Stopped
            && let Raft::Awake(engine) = &mut self.raft
            && let Some(mut round) = engine.ready()
        {
            let Some(new) = new_state(engine.log(), &round, &mut self.stash, &mut self.incoming)
            else {
                return self.stop(fx);
            };
            let (image, has_vote) = (new.image.clone(), new.vote.is_some());
            let written = (!new.is_empty()).then(|| engine.log_mut().append(wal, new));
            if let Some(lsn) = written.filter(|_| has_vote) {
                self.vote_lsn = lsn;
            }
            let committed = round.committed();
            let (messages, is_leader) = (round.take_messages(), round.is_leader);
            let number = engine.advance(round);
            let lsn = written.or_else(|| self.unsynced.back().map(|round| round.lsn));
            match lsn {
                Some(lsn) => self.unsynced.push_back(UnsyncedRound { lsn, number }),
                None => engine.persisted(number),
            }
            let after = if is_leader { None } else { lsn };
            if let Some(image) = image {
                raft_log::replace_files(self.log(), cx.images, lsn.unwrap_or_default());
                restored(self, image, fx);
            }
            self.send(wal, messages, after, fx);
            self.apply(wal, &committed, fx);
        }
    }

    fn send(
        &mut self,
        wal: &Wal,
        messages: Vec<(Message, Vec<EntryId>)>,
        after: Option<Lsn>,
        fx: &mut GroupEffects,
    ) {
        for (mut message, entries) in messages {
            let Raft::Awake(engine) = &mut self.raft else { return };
            if fill(engine.log(), wal, &mut message, &entries, &mut self.outgoing) {
                fx.messages.push(OutgoingMessage { message, after });
            } else {
                // The message counts as one that was lost on its way.
                engine.link_made(message.to);
                if matches!(message.body, MessageBody::ImageOffer(_)) {
                    fx.ask(GroupRequest::Image);
                }
            }
        }
    }

    /// Applies entries that are committed and durable here.
    fn apply(&mut self, wal: &Wal, committed: &[EntryId], fx: &mut GroupEffects) {
        let payloads = self.log().payloads(wal, committed.iter().map(|entry| entry.index));
        let is_cut = payloads.len() < committed.len();
        for (&EntryId { index, term }, payload) in committed.iter().zip(payloads) {
            let Payload { entry_type, bytes } = payload;
            match entry_type {
                EntryType::Commands => {
                    fx.committed.push(Committed { index, term, commands: bytes });
                }
                EntryType::Membership => {
                    if !apply_change(self, wal, index, &bytes, fx) {
                        return self.stop(fx);
                    }
                }
                EntryType::Nothing => {}
            }
            let Raft::Awake(engine) = &mut self.raft else { return };
            engine.applied_upto(index);
            self.proposals.committed(index, term, fx);
        }
        if is_cut {
            return self.stop(fx);
        }
        leave_if_removed(self, fx);
    }

    pub(crate) fn stop(&mut self, fx: &mut GroupEffects) {
        self.health = Health::Stopped;
        fx.ask(GroupRequest::Stopped);
    }
}

/// Makes the only replica of a new group, whose log begins with an image at index 1 of a machine that is
/// there. An image that is too large for the log becomes a file. **Blocks** then.
///
/// # Errors
/// The disk's.
pub fn found_group(
    wal: &Wal,
    owner: Owner,
    me: PeerId,
    machine: Bytes,
    images: &ImageStore,
) -> segments::Result<RaftGroup> {
    let members = Members { voters: vec![me], ..Members::default() };
    let mut image = Image { members, machine, ..Image::default() };
    if !images.is_for_log(image.machine.len()) {
        let key = ImageKey { owner, me, index: 1 };
        let write = ImageWrite { key, machine: image.machine.split_off(0), local: Bytes::new() };
        image.file = Some(write.write(images, wal).outcome?);
    }
    Ok(begin(wal, owner, me, image))
}

/// The number of entries that a member lacks, as far as the leader knows; none on other replicas.
#[must_use]
pub fn lag_of(group: &RaftGroup, peer: PeerId) -> Option<u64> {
    let Raft::Awake(engine) = &group.raft else { return None };
    let standing = engine.standing();
    standing.leads().then(|| standing.last.saturating_sub(engine.matched(peer)))
}

/// Notes in the log, ahead of what the host appends from now on, that all that is applied is committed: a
/// start goes on from there before anybody leads. Returns where the note is; none of a replica alone,
/// whose entries are all committed.
pub fn note_applied(group: &mut RaftGroup, wal: &Wal) -> Option<Lsn> {
    let Raft::Awake(engine) = &mut group.raft else { return None };
    let log = engine.log_mut();
    let commit = log.applied.max(log.vote.commit);
    let vote = Some(Vote { commit, ..log.vote });
    Some(log.append(wal, NewState { vote, ..NewState::default() }))
}

fn begin(wal: &Wal, owner: Owner, me: PeerId, image: Image) -> RaftGroup {
    let mut log = RaftLog::new(owner, me);
    let members = Members { since: 1, ..image.members };
    let image = Image { index: 1, term: 1, is_installed: true, members, ..image };
    let vote = Vote { term: 1, ..Vote::default() };
    log.append(wal, NewState { image: Some(image), vote: Some(vote), entries: Vec::new() });
    RaftGroup::of_log(log, Health::Sound)
}

fn leave_if_removed(group: &mut RaftGroup, fx: &mut GroupEffects) {
    let Raft::Awake(engine) = &mut group.raft else { return };
    if fx.members.as_ref().is_some_and(|members| !members.has(engine.log().me)) {
        // The engine counts on its own progress while it leads.
        engine.follow(None);
        fx.ask(GroupRequest::Gone);
    }
}

fn restored(group: &mut RaftGroup, image: Image, fx: &mut GroupEffects) {
    if matches!(group.health, Health::Damaged(upto) if upto <= image.index) {
        group.health = Health::Sound;
    }
    group.outgoing = None;
    fx.members = Some(group.members());
    fx.committed.clear();
    fx.restored = Some(image);
}

/// Applies a change of members, unless it does not fit: that it does on no replica. False if the engine
/// cannot.
fn apply_change(
    group: &mut RaftGroup,
    wal: &Wal,
    index: u64,
    bytes: &[u8],
    fx: &mut GroupEffects,
) -> bool {
    let Raft::Awake(engine) = &mut group.raft else { return false };
    let members = engine.log().members();
    let change = Change::decode(bytes).ok();
    let next = change.and_then(|change| Some((change, members.after(change, index)?)));
    let Some((change, next)) = next else { return true };
    let can_apply = engine.apply_change(change);
    let log = engine.log_mut();
    log.set_members(next);
    fx.members = Some(log.members());
    // Nobody hears that the change is committed before this replica remembers it.
    let vote = Some(Vote { commit: index.max(log.vote.commit), ..log.vote });
    let lsn = log.append(wal, NewState { vote, ..NewState::default() });
    group.vote_lsn = lsn;
    group.unsynced.push_back(UnsyncedRound { lsn, number: 0 });
    can_apply
}

/// Indexes of a replica's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupProgress {
    /// The index of the image.
    pub image: u64,
    /// The index up to which entries are applied.
    pub applied: u64,
    /// The index up to which entries are known to be committed.
    pub committed: u64,
    /// The index of the last entry.
    pub last: u64,
}

/// Returns the state that a round writes to the log; none if it installs an image that is not here.
fn new_state(
    log: &RaftLog,
    round: &Round,
    stash: &mut Vec<NewEntry>,
    incoming: &mut Option<Box<IncomingImage>>,
) -> Option<NewState> {
    let image = match round.image() {
        Some(at) => {
            let mut whole = incoming.take_if(|it| it.is_whole() && it.offer.index == at.index)?;
            let members = Members { since: at.index, ..whole.offer.members.clone() };
            let (machine, local, file) = (whole.machine(), Bytes::new(), whole.file);
            let (index, term) = (at.index, at.term);
            Some(Image { index, term, is_installed: true, members, machine, local, file })
        }
        None => None,
    };
    let vote = round.vote(log.vote);
    let entries = round.entries().into_iter().map(|EntryId { index, term }| {
        let known = stash.iter().position(|entry| entry.index == index && entry.term == term);
        // A leader's first entry is made by the engine.
        let nothing = || Payload { entry_type: EntryType::Nothing, bytes: Bytes::new() };
        let payload = known.map_or_else(nothing, |at| stash.swap_remove(at).payload);
        NewEntry { index, term, payload }
    });
    Some(NewState { image, vote, entries: entries.collect() })
}

/// Adds to a message of the engine what only the log has. False if that cannot be read.
fn fill(
    log: &RaftLog,
    wal: &Wal,
    message: &mut Message,
    ids: &[EntryId],
    outgoing: &mut Option<Box<Bytes>>,
) -> bool {
    if let MessageBody::Append { entries, .. } = &mut message.body {
        if ids.iter().any(|id| log.term(id.index) != Some(id.term)) {
            return false;
        }
        let payloads = log.payloads(wal, ids.iter().map(|id| id.index));
        let sent = ids.iter().zip(payloads);
        *entries = sent.map(|(id, payload)| SentEntry { term: id.term, payload }).collect();
        return entries.len() == ids.len();
    }
    let MessageBody::ImageOffer(wanted) = &mut message.body else { return true };
    // A member takes no image of a time before it was one.
    let is_for = |it: &ImageOffer| it.index == wanted.index && it.members.has(message.to);
    let Some(offer) = offer(log, wal, outgoing).filter(is_for) else { return false };
    *wanted = offer;
    true
}

/// The image as it is offered to followers; none if it cannot be read.
pub(crate) fn offer(
    log: &RaftLog,
    wal: &Wal,
    outgoing: &mut Option<Box<Bytes>>,
) -> Option<ImageOffer> {
    let (index, term) = (log.image.index, log.image.term);
    let (machine_bytes, checksum) = if let Some(file) = &log.image.file {
        (file.machine_bytes, file.checksum)
    } else {
        if outgoing.is_none() {
            *outgoing = log.read_image(wal).map(|image| Box::new(image.machine));
        }
        let machine = outgoing.as_ref()?;
        (machine.len() as u64, segments::crc32c(machine))
    };
    let members = log.members_at(index);
    Some(ImageOffer { index, term, members, machine_bytes, checksum })
}
