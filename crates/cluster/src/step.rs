//! The steps of a replica: who may have something for it, and what it does about that.

use bytes::Bytes;

use crate::effects::{Committed, GroupEffects, GroupRequest, Health, ProposalOutcome, Ticket};
use crate::engine::{Engine, Role};
use crate::entry::{EntryType, Image, Payload};
use crate::group::{Context, Raft, RaftGroup, UnsyncedRound};
use crate::image_store::{ImageWrite, ImageWritten};
use crate::images::IMAGE_BYTES_MAX;
use crate::members::{Change, PeerId};
use crate::message::{Message, MessageBody};
use crate::peers;
use crate::proposals::PROPOSAL_BYTES_MAX;
use crate::raft_log::{NewEntry, NewState, RaftLog, image_key, replace_files};
use crate::sparse::Sparse;

/// Something for a replica.
#[derive(Clone, Debug)]
pub enum GroupStep {
    /// Commands for the machine; they say themselves where they end.
    Propose(Ticket, Bytes),
    /// A message of another replica.
    Peer(Message),
    /// The node's log has become durable up to where the group waits for it.
    Durable,
    /// A node is alive again, by a connection made anew, or suspected to be dead.
    Alive(u16, bool),
    /// The replica is to campaign, unless it knows a leader that is alive.
    Campaign,
    /// A change of members.
    Member(Ticket, Change),
    /// The leader is to hand over to that voter.
    Transfer(PeerId),
    /// Some time has passed since the group asked for it, or was idle.
    Tick,
}

impl RaftGroup {
    /// Steps the replica; the host works off what comes of it, under the same lock.
    pub fn step(&mut self, step: GroupStep, cx: Context<'_>) -> GroupEffects {
        let mut fx = GroupEffects::default();
        if self.health == Health::Sound {
            apply_found(self, cx, &mut fx);
        }
        if self.health == Health::Stopped {
            refuse(&step, &mut fx);
            return fx;
        }
        let before = standing(self);
        let campaigns = matches!(step, GroupStep::Campaign);
        self.persist(cx.wal, &mut fx);
        self.drain(cx, &mut fx);
        match step {
            GroupStep::Propose(ticket, commands) => propose(self, ticket, &commands, cx, &mut fx),
            GroupStep::Peer(message) => {
                wake(self);
                peers::receive(self, message, cx, &mut fx);
            }
            GroupStep::Durable => durable(self, cx, &mut fx),
            GroupStep::Alive(node, is_alive) => node_is(self, node, is_alive, cx, &mut fx),
            GroupStep::Campaign => {
                wake(self);
                peers::campaign(self, cx);
            }
            GroupStep::Member(ticket, change) => change_members(self, ticket, change, cx, &mut fx),
            GroupStep::Transfer(peer) => transfer(self, peer, cx, &mut fx),
            GroupStep::Tick => tick(self, cx, &mut fx),
        }
        self.drain(cx, &mut fx);
        finish(self, before, cx, &mut fx);
        let is_leaderless = self.leader().is_none() && self.members().has_voter(self.me());
        if is_leaderless && (campaigns || standing(self) != before) && self.health == Health::Sound
        {
            fx.ask(GroupRequest::CampaignLater);
        }
        fx
    }

    /// Takes an image of the machine as it was when entries up to `index` were applied; none that exceeds
    /// [`IMAGE_BYTES_MAX`]. One that is too large for the log is [`GroupEffects::write`], unless another is
    /// being written.
    pub fn take_image(
        &mut self,
        index: u64,
        machine: Bytes,
        local: Bytes,
        cx: Context<'_>,
    ) -> GroupEffects {
        let mut fx = GroupEffects::default();
        self.persist(cx.wal, &mut fx);
        self.drain(cx, &mut fx);
        let is_durable = self.unsynced.is_empty();
        let bytes = machine.len() + local.len();
        if is_image_new(self, index) && bytes as u64 <= IMAGE_BYTES_MAX {
            if cx.images.is_for_log(bytes) {
                self.outgoing = Some(Box::new(machine.clone()));
                append_image(self, Image { index, machine, local, ..Image::default() }, cx);
            } else if !std::mem::replace(&mut self.is_writing, true) {
                fx.write = Some(ImageWrite { key: image_key(self.log(), index), machine, local });
            }
        }
        image_taken(self, is_durable, cx, &mut fx);
        fx
    }

    /// Goes on with an image that was to be written.
    pub fn image_written(&mut self, written: ImageWritten, cx: Context<'_>) -> GroupEffects {
        let mut fx = GroupEffects::default();
        self.persist(cx.wal, &mut fx);
        self.drain(cx, &mut fx);
        let is_durable = self.unsynced.is_empty();
        if written.key == image_key(self.log(), written.key.index) {
            self.is_writing = false;
            take_written(self, &written, cx, &mut fx);
            self.drain(cx, &mut fx);
        } else {
            written.discard(cx.images);
        }
        image_taken(self, is_durable, cx, &mut fx);
        fx
    }
}

/// Whether an image of the machine at `index` may replace the one that is there.
fn is_image_new(group: &RaftGroup, index: u64) -> bool {
    let log = group.log();
    index > log.image.index && index <= log.applied && group.health == Health::Sound
}

/// Appends an image of the machine as it was at `index`.
fn append_image(group: &mut RaftGroup, image: Image, cx: Context<'_>) {
    let log = group.log_mut();
    let (term, members) = (log.term(image.index).unwrap_or(0), log.members_at(image.index));
    let image = Some(Image { term, members, ..image });
    let lsn = log.append(cx.wal, NewState { image, ..NewState::default() });
    replace_files(log, cx.images, lsn);
    group.unsynced.push_back(UnsyncedRound { lsn, number: 0 });
}

/// Takes over a file: of the image that the replica was offered, or of its own.
fn take_written(
    group: &mut RaftGroup,
    written: &ImageWritten,
    cx: Context<'_>,
    fx: &mut GroupEffects,
) {
    let index = written.key.index;
    let is_new = is_image_new(group, index);
    match (&written.outcome, &mut group.incoming) {
        (Err(_), None) => {}
        // An image that is whole is written again after a while.
        (Err(_), Some(_)) => return fx.ask(GroupRequest::TickLater),
        (Ok(file), Some(incoming)) if incoming.is_of(index, file) => incoming.file = Some(*file),
        (Ok(file), _) if is_new => {
            group.outgoing = None;
            append_image(group, Image { index, file: Some(*file), ..Image::default() }, cx);
        }
        (Ok(_), _) => written.discard(cx.images),
    }
    if group.incoming.as_ref().is_some_and(|incoming| incoming.is_whole()) {
        peers::go_on(group, cx, fx);
    }
}

/// Ends a step that has, or has not, taken an image.
fn image_taken(group: &mut RaftGroup, is_durable: bool, cx: Context<'_>, fx: &mut GroupEffects) {
    if is_durable {
        leave_alone(group, cx, fx);
    }
    offer_again(group, fx);
    finish(group, standing(group), cx, fx);
}

/// The replica's part, and the leader.
fn standing(group: &RaftGroup) -> (Role, Option<PeerId>) {
    (group.role(), group.leader())
}

/// Has followers that are behind the image ask for it.
fn offer_again(group: &mut RaftGroup, fx: &mut GroupEffects) {
    let Raft::Awake(engine) = &mut group.raft else { return };
    let (me, term, image) = (engine.log().me, engine.standing().term, engine.log().image.index);
    if engine.standing().leads() {
        for peer in engine.log().members().all().filter(|peer| *peer != me) {
            if engine.matched(peer) < image {
                let (commit, _) = engine.commit_for(peer);
                fx.send(me, peer, term, MessageBody::Heartbeat { commit });
            }
        }
    }
}

fn finish(
    group: &mut RaftGroup,
    before: (Role, Option<PeerId>),
    cx: Context<'_>,
    fx: &mut GroupEffects,
) {
    if let Some(stash) = group.stash.get_mut() {
        stash.clear();
    }
    if before.0 == Role::Leader && group.role() != Role::Leader {
        let leader = group.leader();
        group.proposals.end(leader, fx);
        if group.leader().is_none() {
            tell_leaderless(group, fx);
        }
    }
    let leads = group.role() == Role::Leader;
    if let Raft::Awake(engine) = &mut group.raft {
        let (me, term) = (engine.log().me, engine.standing().term);
        let members = engine.log().members();
        for peer in members.all().filter(|peer| leads && *peer != me) {
            let (commit, is_news) = engine.commit_for(peer);
            if is_news {
                fx.send(me, peer, term, MessageBody::Commit { commit });
            }
        }
        let sent = if leads { engine.matched_by_living(cx.living) } else { u64::MAX };
        let upto = engine.standing().durable.min(engine.log().applied);
        engine.log_mut().trim_cache(upto, sent, cx.cache);
        let committed = engine.standing().committed;
        group.incoming.take_if(|incoming| incoming.offer.index <= committed);
        if group.outgoing.is_some()
            && !(leads && engine.sends_images())
            && group.unsynced.is_empty()
        {
            group.outgoing = None;
        }
    }
    if let Some(cache) = group.log_mut().cache.get_mut() {
        cache.count(cx.cache);
    }
    if group.unsynced.is_empty() {
        group.unsynced = Sparse::default();
    }
    fx.durable_at = group.unsynced.back().map(|round| round.lsn);
    // No word of a term leaves before the term is durable, nor that of a leader before its own vote.
    if group.vote_lsn > cx.wal.durable_upto() {
        let held = fx.messages.iter_mut().filter(|sent| sent.after.is_none());
        held.for_each(|sent| sent.after = Some(group.vote_lsn));
    }
}

/// Tells the followers of one that led that nobody does: they would wait for it while its node is alive.
fn tell_leaderless(group: &RaftGroup, fx: &mut GroupEffects) {
    let (me, term) = (group.me(), group.term());
    for peer in group.members().all().filter(|peer| *peer != me) {
        fx.send(me, peer, term, MessageBody::NotLeader);
    }
}

fn propose(
    group: &mut RaftGroup,
    ticket: Ticket,
    commands: &Bytes,
    cx: Context<'_>,
    fx: &mut GroupEffects,
) {
    let takes = match &group.raft {
        Raft::Alone(_) => group.leaving.is_none() || group.proposals.has_room(commands.len()),
        Raft::Asleep(..) => false,
        Raft::Awake(engine) => {
            engine.standing().leads()
                && !engine.standing().is_transferring
                && group.proposals.has_room(commands.len())
        }
    };
    if !takes || commands.is_empty() || commands.len() > PROPOSAL_BYTES_MAX {
        fx.answers.push((ticket, ProposalOutcome::Refused(group.leader())));
        return;
    }
    if let Raft::Alone(log) = &mut group.raft
        && group.leaving.is_none()
    {
        let (index, term) = (log.last_index() + 1, log.vote.term);
        let payload = Payload { entry_type: EntryType::Commands, bytes: commands.clone() };
        let entries = vec![NewEntry { index, term, payload }];
        let lsn = log.append(cx.wal, NewState { entries, ..NewState::default() });
        log.applied = index;
        group.proposals.sent([index, term], vec![ticket], commands.len());
        group.unsynced.push_back(UnsyncedRound { lsn, number: index });
        fx.committed.push(Committed { index, term, commands: commands.clone() });
        return;
    }
    group.proposals.gather(ticket, commands);
    if matches!(group.raft, Raft::Awake(_))
        && (group.unsynced.is_empty() || group.proposals.is_full())
    {
        flush(group, fx);
    }
}

/// Makes an entry of the commands that were gathered.
fn flush(group: &mut RaftGroup, fx: &mut GroupEffects) {
    let Raft::Awake(engine) = &mut group.raft else { return };
    let (bytes, tickets) = group.proposals.take_gathered();
    let (entry_type, n_bytes) = (EntryType::Commands, bytes.len());
    match engine.propose() {
        Some(id) => {
            let payload = Payload { entry_type, bytes };
            group.stash.push(NewEntry { index: id.index, term: id.term, payload });
            group.proposals.sent([id.index, id.term], tickets, n_bytes);
        }
        None => {
            fx.answers.extend(tickets.into_iter().map(|it| (it, ProposalOutcome::Refused(None))))
        }
    }
}

fn durable(group: &mut RaftGroup, cx: Context<'_>, fx: &mut GroupEffects) {
    if let Raft::Alone(log) = &mut group.raft {
        let waits = group.unsynced.iter().find(|round| round.number > 0);
        let durable = waits.map_or_else(|| log.last_index(), |round| round.number - 1);
        log.trim_cache(durable, durable, cx.cache);
        if group.leaving.is_some() && group.unsynced.is_empty() {
            fx.ask(GroupRequest::Image);
        }
    } else if group.proposals.has_gathered() && group.unsynced.is_empty() {
        flush(group, fx);
    }
}

/// Applies what a replica alone has found at its start: all of it is committed.
fn apply_found(group: &mut RaftGroup, cx: Context<'_>, fx: &mut GroupEffects) {
    let Raft::Alone(log) = &mut group.raft else { return };
    let last = log.last_index();
    if log.applied == last {
        return;
    }
    let found = log.applied + 1..=last;
    for (index, payload) in found.clone().zip(log.payloads(cx.wal, found)) {
        let Some(term) = log.term(index) else { break };
        log.applied = index;
        if payload.entry_type == EntryType::Commands {
            fx.committed.push(Committed { index, term, commands: payload.bytes });
        }
    }
    if log.applied < last {
        group.stop(fx);
    }
}

fn node_is(
    group: &mut RaftGroup,
    node: u16,
    is_alive: bool,
    cx: Context<'_>,
    fx: &mut GroupEffects,
) {
    let is_leaders = group.leader().is_some_and(|leader| leader.node() == node);
    if !is_alive && is_leaders {
        wake(group);
    }
    let Raft::Awake(engine) = &mut group.raft else { return };
    let (me, members) = (engine.log().me, engine.log().members());
    if engine.standing().leads() {
        let term = engine.standing().term;
        for peer in members.all().filter(|peer| is_alive && peer.node() == node && *peer != me) {
            engine.link_made(peer);
            let (commit, _) = engine.commit_for(peer);
            fx.send(me, peer, term, MessageBody::Heartbeat { commit });
        }
        if !members.has_living_majority(me, cx.living) {
            engine.follow(None);
        }
    } else if let Some(leader) = engine.standing().leader.filter(|_| is_leaders && !is_alive) {
        let is_first = peers::is_first_but(leader, engine, cx);
        peers::give_up_leader(group, cx, fx);
        if is_first {
            peers::campaign(group, cx);
        }
    } else if engine.standing().leader.is_none() && members.has_voter(me) {
        fx.ask(GroupRequest::CampaignLater);
    }
}

fn change_members(
    group: &mut RaftGroup,
    ticket: Ticket,
    change: Change,
    cx: Context<'_>,
    fx: &mut GroupEffects,
) {
    let refused = (ticket, ProposalOutcome::Refused(group.leader()));
    let fits = group.members().after(change, 0).is_some();
    match &mut group.raft {
        Raft::Alone(_) if fits && group.leaving.is_none() => {
            group.leaving = Some(Box::new((ticket, change)));
            durable(group, cx, fx);
        }
        Raft::Awake(engine) if fits && engine.standing().leads() => {
            let is_ready = match change {
                Change::AddLearner(_) => true,
                Change::Promote(peer) => engine.matched(peer) >= engine.standing().committed,
                // A leader hands over first.
                Change::Remove(peer) => peer != engine.log().me,
            };
            let may =
                is_ready && !engine.has_pending_change() && !engine.standing().is_transferring;
            let Some(id) = may.then(|| engine.propose_change(change)).flatten() else {
                return fx.answers.push(refused);
            };
            let mut bytes = Vec::new();
            change.encode(&mut bytes);
            let payload = Payload { entry_type: EntryType::Membership, bytes: bytes.into() };
            group.stash.push(NewEntry { index: id.index, term: id.term, payload });
            group.proposals.sent([id.index, id.term], vec![ticket], 0);
        }
        Raft::Alone(_) | Raft::Asleep(..) | Raft::Awake(_) => fx.answers.push(refused),
    }
}

/// Begins to agree with others, once everything is durable and in the image.
fn leave_alone(group: &mut RaftGroup, cx: Context<'_>, fx: &mut GroupEffects) {
    let Raft::Alone(log) = &mut group.raft else { return };
    if group.leaving.is_none() || log.image.index != log.last_index() {
        return;
    }
    let none = RaftLog::new(log.owner, log.me);
    let Some(mut engine) = Engine::start(std::mem::replace(&mut **log, none)) else {
        return group.stop(fx);
    };
    engine.campaign();
    group.raft = Raft::Awake(Box::new(engine));
    group.drain(cx, fx);
    if let Some((ticket, change)) = group.leaving.take().map(|leaving| *leaving) {
        change_members(group, ticket, change, cx, fx);
    }
    if group.proposals.has_gathered() {
        flush(group, fx);
    }
    group.drain(cx, fx);
}

fn transfer(group: &mut RaftGroup, peer: PeerId, cx: Context<'_>, fx: &mut GroupEffects) {
    if let Raft::Awake(engine) = &mut group.raft
        && engine.standing().leads()
        && engine.log().members().has_voter(peer)
        && cx.living.has(peer)
    {
        engine.transfer_to(Some(peer));
        fx.ask(GroupRequest::TickLater);
    }
}

fn tick(group: &mut RaftGroup, cx: Context<'_>, fx: &mut GroupEffects) {
    let Raft::Awake(engine) = &mut group.raft else { return };
    engine.transfer_to(None);
    if group.doubt.is_some() {
        peers::give_up_leader(group, cx, fx);
    } else if group.incoming.as_ref().is_some_and(|incoming| incoming.is_whole()) {
        peers::go_on(group, cx, fx);
    } else if group.unsynced.is_empty() && group.proposals.is_idle() && group.incoming.is_none() {
        engine.shrink();
        // Emptied vectors keep their memory otherwise.
        (group.stash, group.proposals) = (Sparse::default(), Sparse::default());
        fall_asleep(group);
    }
}

fn fall_asleep(group: &mut RaftGroup) {
    let Raft::Awake(engine) = &mut group.raft else { return };
    let is_done = engine.standing().is_settled() && engine.log().applied == engine.standing().last;
    if let Some(leader) =
        engine.standing().leader.filter(|_| is_done && engine.standing().role == Role::Follower)
    {
        let none = Raft::Alone(Box::new(RaftLog::new(engine.log().owner, engine.log().me)));
        if let Raft::Awake(engine) = std::mem::replace(&mut group.raft, none) {
            let mut log = engine.into_log();
            log.shrink();
            group.raft = Raft::Asleep(Box::new(log), leader);
        }
    }
}

fn wake(group: &mut RaftGroup) {
    let Raft::Asleep(log, leader) = &mut group.raft else { return };
    let (none, leader) = (RaftLog::new(log.owner, log.me), *leader);
    match Engine::start(std::mem::replace(&mut **log, none)) {
        Some(mut engine) => {
            engine.follow(Some(leader));
            group.raft = Raft::Awake(Box::new(engine));
        }
        None => group.health = Health::Stopped,
    }
}

/// Refuses what a replica that has stopped was asked for.
fn refuse(step: &GroupStep, fx: &mut GroupEffects) {
    if let GroupStep::Propose(ticket, _) | GroupStep::Member(ticket, _) = step {
        fx.answers.push((*ticket, ProposalOutcome::Refused(None)));
    }
}
