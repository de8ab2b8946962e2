//! The consensus engine of a group: the one file that names crate `raft`.
//!
//! Entries are handed to the engine without their payloads, and its messages are translated from and to ours.
//! The engine panics on input that contradicts what it knows; what a peer says is checked before
//! (`checks.rs`).

use raft::eraftpb::{
    ConfChange, ConfChangeType, ConfState, Entry as RawEntry, EntryType as RawType, HardState,
    Message as RawMessage, MessageType, Snapshot,
};
use raft::{
    Config, GetEntriesContext, INVALID_ID, ProgressState, RaftState, RawNode, Ready,
    SnapshotStatus, StateRole, Storage, StorageError,
};

use crate::entry::Vote;
use crate::members::{Change, LivingNodes, Members, PeerId};
use crate::message::{ImageOffer, LogEnd, Message, MessageBody};
use crate::raft_log::RaftLog;

/// Most bytes of payloads in one append; a larger one goes alone.
pub const APPEND_BYTES_MAX: u64 = 1 << 20;
/// Most appends on their way to one follower.
const APPENDS_IN_FLIGHT_MAX: usize = 64;

/// A replica's part in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The replica takes entries from a leader.
    Follower,
    /// The replica asks for votes.
    Candidate,
    /// The replica makes entries.
    Leader,
}

/// Where a replica stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) term: u64,
    pub(crate) role: Role,
    pub(crate) leader: Option<PeerId>,
    /// The index up to which entries are known to be committed.
    pub(crate) committed: u64,
    /// The index up to which entries are durable.
    pub(crate) durable: u64,
    /// The index of the last entry.
    pub(crate) last: u64,
    /// Whether the replica may campaign: it votes, has applied all it knows committed, and does not lead.
    pub(crate) can_campaign: bool,
    /// Whether the leader takes no proposals, since it hands over.
    pub(crate) is_transferring: bool,
}

impl Standing {
    pub(crate) fn leads(&self) -> bool {
        self.role == Role::Leader
    }

    /// Whether the whole log is durable.
    pub(crate) const fn is_settled(&self) -> bool {
        self.durable == self.last
    }
}

/// The engine of a replica that is awake.
pub(crate) struct Engine {
    node: RawNode<RaftLog>,
}

/// The work that the engine has ready; [`Engine::advance`] ends it.
pub(crate) struct Round {
    ready: Ready,
    /// Whether its messages may leave before what it writes is durable.
    pub(crate) is_leader: bool,
}

/// An entry without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryId {
    pub(crate) index: u64,
    pub(crate) term: u64,
}

impl EntryId {
    fn of(entry: &RawEntry) -> Self {
        Self { index: entry.index, term: entry.term }
    }
}

impl Engine {
    /// Starts the engine on what is durable; none if the members in the log are none.
    pub(crate) fn start(log: RaftLog) -> Option<Self> {
        // No `batch_append`: it joins appends of one step to a message beyond all limits, and each step is
        // worked off at once.
        let config = Config {
            id: log.me.0,
            applied: log.applied,
            max_size_per_msg: APPEND_BYTES_MAX,
            max_inflight_msgs: APPENDS_IN_FLIGHT_MAX,
            pre_vote: true,
            skip_bcast_commit: true,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        RawNode::new(&config, log, &logger).ok().map(|node| Self { node })
    }

    pub(crate) fn log(&self) -> &RaftLog {
        self.node.store()
    }

    pub(crate) fn log_mut(&mut self) -> &mut RaftLog {
        self.node.mut_store()
    }

    /// Ends the engine; nothing is under way in it.
    pub(crate) fn into_log(self) -> RaftLog {
        self.node.raft.r.raft_log.store
    }

    /// Where the replica stands.
    pub(crate) fn standing(&self) -> Standing {
        let raft = &self.node.raft;
        let role = match raft.state {
            StateRole::Follower => Role::Follower,
            StateRole::PreCandidate | StateRole::Candidate => Role::Candidate,
            StateRole::Leader => Role::Leader,
        };
        let may_lead = raft.promotable() && role != Role::Leader;
        Standing {
            term: raft.term,
            role,
            leader: (raft.leader_id != INVALID_ID).then_some(PeerId(raft.leader_id)),
            committed: raft.raft_log.committed,
            durable: raft.raft_log.persisted,
            last: raft.raft_log.last_index(),
            can_campaign: may_lead && raft.raft_log.applied == raft.raft_log.committed,
            is_transferring: raft.lead_transferee.is_some(),
        }
    }

    pub(crate) fn campaign(&mut self) {
        // The engine's refusal is told by its role.
        let _refused = self.node.campaign().is_err();
    }

    /// Hands over to a voter, or does so no longer.
    pub(crate) fn transfer_to(&mut self, peer: Option<PeerId>) {
        match peer {
            Some(peer) => self.node.transfer_leader(peer.0),
            None => self.node.raft.abort_leader_transfer(),
        }
    }

    /// Follows that leader from now on, or nobody, in the same term.
    pub(crate) fn follow(&mut self, leader: Option<PeerId>) {
        let term = self.node.raft.term;
        self.node.raft.become_follower(term, leader.map_or(INVALID_ID, |leader| leader.0));
    }

    /// Makes an entry, whose payload the caller has; none if the engine takes none now.
    pub(crate) fn propose(&mut self) -> Option<EntryId> {
        self.node.propose(Vec::new(), Vec::new()).ok()?;
        Some(self.last_entry())
    }

    fn last_entry(&self) -> EntryId {
        EntryId { index: self.node.raft.raft_log.last_index(), term: self.node.raft.term }
    }

    /// Whether a change of members may not be applied here yet.
    pub(crate) fn has_pending_change(&self) -> bool {
        self.node.raft.has_pending_conf()
    }

    /// Makes the entry of a change of members.
    pub(crate) fn propose_change(&mut self, change: Change) -> Option<EntryId> {
        self.node.propose_conf_change(Vec::new(), raw_change(change)).ok()?;
        Some(self.last_entry())
    }

    /// Applies a committed change of members. False if the engine cannot.
    pub(crate) fn apply_change(&mut self, change: Change) -> bool {
        self.node.apply_conf_change(&raw_change(change)).is_ok()
    }

    pub(crate) fn applied_upto(&mut self, index: u64) {
        self.node.advance_apply_to(index);
        self.log_mut().applied = index;
    }

    /// Takes over the leader's word that everything up to `commit` is committed.
    pub(crate) fn commit_to(&mut self, commit: u64) {
        self.node.raft.raft_log.commit_to(commit);
    }

    /// Steps a message that was checked.
    pub(crate) fn step(&mut self, message: &Message) {
        let Some(raw) = raw_message(message) else { return };
        // Answers of replicas that are no members are of no interest.
        let _unknown = self.node.step(raw).is_err();
        if let Some(progress) = self.node.raft.mut_prs().get_mut(message.from.0)
            && progress.next_idx <= progress.matched
        {
            // The follower has lost what it had; taking it for less is always safe.
            progress.matched = progress.next_idx.saturating_sub(1);
        }
    }

    /// The follower's connection is made anew: what was on its way is lost.
    pub(crate) fn link_made(&mut self, peer: PeerId) {
        self.node.report_snapshot(peer.0, SnapshotStatus::Failure);
        self.node.report_unreachable(peer.0);
    }

    /// Returns the commit index that the leader may tell a follower, and whether that is news.
    pub(crate) fn commit_for(&mut self, peer: PeerId) -> (u64, bool) {
        let committed = self.node.raft.raft_log.committed;
        let Some(progress) = self.node.raft.mut_prs().get_mut(peer.0) else { return (0, false) };
        let commit = progress.matched.min(committed);
        let is_news = commit > progress.committed_index;
        progress.update_committed(commit);
        (commit, is_news)
    }

    /// The index up to which all members that are alive have the leader's log.
    pub(crate) fn matched_by_living(&self, living: &LivingNodes) -> u64 {
        let me = self.log().me.0;
        let is_other = |peer: u64| peer != me && living.has(PeerId(peer));
        let others = self.node.raft.prs().iter().filter(|(peer, _)| is_other(**peer));
        others.map(|(_, progress)| progress.matched).min().unwrap_or(u64::MAX)
    }

    /// The index up to which a member has the leader's log.
    pub(crate) fn matched(&self, peer: PeerId) -> u64 {
        self.node.raft.prs().get(peer.0).map_or(0, |progress| progress.matched)
    }

    /// Whether a follower waits for an image.
    pub(crate) fn sends_images(&self) -> bool {
        self.node.raft.prs().iter().any(|(_, progress)| progress.state == ProgressState::Snapshot)
    }

    pub(crate) fn ready(&mut self) -> Option<Round> {
        if !self.node.has_ready() {
            return None;
        }
        let ready = self.node.ready();
        Some(Round { ready, is_leader: self.node.raft.state == StateRole::Leader })
    }

    /// Ends a round whose state is in the log; returns its number, which is told once that is durable.
    pub(crate) fn advance(&mut self, round: Round) -> u64 {
        let number = round.ready.number();
        self.node.advance_append_async(round.ready);
        number
    }

    /// Notes that the round of that number and those before are durable.
    pub(crate) fn persisted(&mut self, number: u64) {
        self.node.on_persist_ready(number);
        let (applied, raft_log) = (self.log().applied, &self.node.raft.raft_log);
        // An image counts as applied once it is durable.
        if raft_log.applied < applied && applied <= raft_log.committed.min(raft_log.persisted) {
            self.node.advance_apply_to(applied);
        }
    }

    /// Sets emptied vectors anew, which keep their memory otherwise.
    pub(crate) fn shrink(&mut self) {
        let raft = &mut self.node.raft;
        raft.msgs = Vec::new();
        raft.r.raft_log.unstable.entries = Vec::new();
        raft.maybe_free_inflight_buffers();
    }
}

impl Round {
    /// Index and term of an image to be installed.
    pub(crate) fn image(&self) -> Option<EntryId> {
        let at = self.ready.snapshot().get_metadata();
        (at.index != 0).then_some(EntryId { index: at.index, term: at.term })
    }

    /// The vote, where it differs from the last one.
    pub(crate) fn vote(&self, last: Vote) -> Option<Vote> {
        let state = self.ready.hs()?;
        let vote = Vote { term: state.term, vote: PeerId(state.vote), ..last };
        (vote != last).then_some(vote)
    }

    pub(crate) fn entries(&self) -> Vec<EntryId> {
        self.ready.entries().iter().map(EntryId::of).collect()
    }

    pub(crate) fn committed(&self) -> Vec<EntryId> {
        self.ready.committed_entries().iter().map(EntryId::of).collect()
    }

    /// Takes the messages, appends without their payloads.
    pub(crate) fn take_messages(&mut self) -> Vec<(Message, Vec<EntryId>)> {
        let mut raw = self.ready.take_messages();
        raw.append(&mut self.ready.take_persisted_messages());
        raw.iter().filter_map(message_of).collect()
    }
}

fn raw_change(change: Change) -> ConfChange {
    let mut raw = ConfChange::default();
    let (change_type, peer) = match change {
        Change::AddLearner(peer) => (ConfChangeType::AddLearnerNode, peer),
        Change::Promote(peer) => (ConfChangeType::AddNode, peer),
        Change::Remove(peer) => (ConfChangeType::RemoveNode, peer),
    };
    raw.set_change_type(change_type);
    raw.node_id = peer.0;
    raw
}

fn raw_members(members: &Members) -> ConfState {
    let mut state = ConfState::default();
    state.set_voters(members.voters.iter().map(|peer| peer.0).collect());
    state.set_learners(members.learners.iter().map(|peer| peer.0).collect());
    state
}

fn raw_snapshot(offer: &ImageOffer) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let metadata = snapshot.mut_metadata();
    metadata.index = offer.index;
    metadata.term = offer.term;
    metadata.set_conf_state(raw_members(&offer.members));
    snapshot
}

/// A message as the engine wants it, without payloads; none if it is not for the engine.
fn raw_message(message: &Message) -> Option<RawMessage> {
    let mut raw = RawMessage::default();
    (raw.from, raw.to, raw.term) = (message.from.0, message.to.0, message.term);
    let message_type = match &message.body {
        MessageBody::Append { prev_index, prev_term, commit, entries } => {
            (raw.index, raw.log_term, raw.commit) = (*prev_index, *prev_term, *commit);
            let entries = (prev_index + 1..).zip(entries);
            let entries =
                entries.map(|(index, entry)| raw_entry(index, entry.term, &entry.payload));
            raw.set_entries(entries.collect::<Vec<_>>().into());
            MessageType::MsgAppend
        }
        MessageBody::Appended { index, commit } => {
            (raw.index, raw.commit) = (*index, *commit);
            MessageType::MsgAppendResponse
        }
        MessageBody::Rejected { index, hint_index, hint_term, commit } => {
            (raw.index, raw.reject, raw.commit) = (*index, true, *commit);
            (raw.reject_hint, raw.log_term) = (*hint_index, *hint_term);
            MessageType::MsgAppendResponse
        }
        MessageBody::Vote { is_pre, is_transfer, log } => {
            set_log_end(&mut raw, log);
            if *is_transfer {
                raw.context = raft::CAMPAIGN_TRANSFER.into();
            }
            if *is_pre { MessageType::MsgRequestPreVote } else { MessageType::MsgRequestVote }
        }
        MessageBody::Voted { is_pre, is_granted, log } => {
            set_log_end(&mut raw, log);
            raw.reject = !is_granted;
            let pre = MessageType::MsgRequestPreVoteResponse;
            if *is_pre { pre } else { MessageType::MsgRequestVoteResponse }
        }
        MessageBody::Heartbeat { commit } => {
            raw.commit = *commit;
            MessageType::MsgHeartbeat
        }
        MessageBody::HeartbeatAnswer { commit } => {
            raw.commit = *commit;
            MessageType::MsgHeartbeatResponse
        }
        MessageBody::TimeoutNow => MessageType::MsgTimeoutNow,
        MessageBody::ImageOffer(offer) => {
            raw.set_snapshot(raw_snapshot(offer));
            MessageType::MsgSnapshot
        }
        MessageBody::Commit { .. }
        | MessageBody::WhoLeads
        | MessageBody::NotLeader
        | MessageBody::ImageWant { .. }
        | MessageBody::ImagePiece { .. }
        | MessageBody::Gone => return None,
    };
    raw.set_msg_type(message_type);
    Some(raw)
}

fn set_log_end(raw: &mut RawMessage, log: &LogEnd) {
    (raw.index, raw.log_term) = (log.last_index, log.last_term);
    (raw.commit, raw.commit_term) = (log.commit, log.commit_term);
}

/// A message of the engine and the entries that it carries; none if it is one that stays here.
fn message_of(raw: &RawMessage) -> Option<(Message, Vec<EntryId>)> {
    let log = LogEnd {
        last_index: raw.index,
        last_term: raw.log_term,
        commit: raw.commit,
        commit_term: raw.commit_term,
    };
    let body = match raw.get_msg_type() {
        MessageType::MsgAppend => MessageBody::Append {
            prev_index: raw.index,
            prev_term: raw.log_term,
            commit: raw.commit,
            entries: Vec::new(),
        },
        MessageType::MsgAppendResponse if raw.reject => MessageBody::Rejected {
            index: raw.index,
            hint_index: raw.reject_hint,
            hint_term: raw.log_term,
            commit: raw.commit,
        },
        MessageType::MsgAppendResponse => {
            MessageBody::Appended { index: raw.index, commit: raw.commit }
        }
        kind @ (MessageType::MsgRequestVote | MessageType::MsgRequestPreVote) => {
            MessageBody::Vote {
                is_pre: kind == MessageType::MsgRequestPreVote,
                is_transfer: raw.context == raft::CAMPAIGN_TRANSFER,
                log,
            }
        }
        kind @ (MessageType::MsgRequestVoteResponse | MessageType::MsgRequestPreVoteResponse) => {
            let is_pre = kind == MessageType::MsgRequestPreVoteResponse;
            MessageBody::Voted { is_pre, is_granted: !raw.reject, log }
        }
        MessageType::MsgHeartbeat => MessageBody::Heartbeat { commit: raw.commit },
        MessageType::MsgHeartbeatResponse => MessageBody::HeartbeatAnswer { commit: raw.commit },
        MessageType::MsgTimeoutNow => MessageBody::TimeoutNow,
        MessageType::MsgSnapshot => {
            let at = raw.get_snapshot().get_metadata();
            let (index, term) = (at.index, at.term);
            MessageBody::ImageOffer(ImageOffer { index, term, ..ImageOffer::default() })
        }
        // Proposals are made where the leader is, and reads are not asked of the engine.
        MessageType::MsgHup
        | MessageType::MsgBeat
        | MessageType::MsgPropose
        | MessageType::MsgUnreachable
        | MessageType::MsgSnapStatus
        | MessageType::MsgCheckQuorum
        | MessageType::MsgTransferLeader
        | MessageType::MsgReadIndex
        | MessageType::MsgReadIndexResp => return None,
    };
    let (from, to, term) = (PeerId(raw.from), PeerId(raw.to), raw.term);
    let entries = raw.get_entries().iter().map(EntryId::of).collect();
    Some((Message { from, to, term, body }, entries))
}

fn raw_entry(index: u64, term: u64, payload: &crate::entry::Payload) -> RawEntry {
    let is_change = payload.entry_type == crate::entry::EntryType::Membership;
    raw_entry_of(index, term, is_change)
}

fn raw_entry_of(index: u64, term: u64, is_change: bool) -> RawEntry {
    let mut entry = RawEntry::default();
    (entry.index, entry.term) = (index, term);
    let entry_type = if is_change { RawType::EntryConfChange } else { RawType::EntryNormal };
    entry.set_entry_type(entry_type);
    entry
}

impl Storage for RaftLog {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let mut state = HardState::default();
        (state.term, state.vote) = (self.vote.term, self.vote.vote.0);
        state.commit = self.applied.max(self.sure_commit());
        Ok(RaftState::new(state, raw_members(&self.members())))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> raft::Result<Vec<RawEntry>> {
        if low <= self.image.index {
            return Err(StorageError::Compacted.into());
        }
        let sends = context.can_async();
        let budget = max_size.into().filter(|_| sends).unwrap_or(u64::MAX);
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for index in low..high {
            let Some(term) = self.term(index) else { break };
            bytes += self.entry_bytes(index);
            if bytes > budget && !entries.is_empty() {
                break;
            }
            entries.push(raw_entry_of(index, term, self.is_change(index)));
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        let is_above = index > self.image.index;
        let missing = if is_above { StorageError::Unavailable } else { StorageError::Compacted };
        self.term(index).ok_or_else(|| missing.into())
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.image.index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last_index())
    }

    fn snapshot(&self, _request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        if self.image.index == 0 {
            return Err(StorageError::SnapshotTemporarilyUnavailable.into());
        }
        let (index, term) = (self.image.index, self.image.term);
        let members = self.members_at(index);
        Ok(raw_snapshot(&ImageOffer { index, term, members, ..ImageOffer::default() }))
    }
}
