//! Messages of other replicas: they are checked, and stepped into the engine or answered.

use crate::checks::is_plausible;
use crate::effects::{GroupEffects, GroupRequest, Health};
use crate::engine::{Engine, Role};
use crate::group::{self, Context, Raft, RaftGroup};
use crate::image_store::ImageWrite;
use crate::images::IncomingImage;
use crate::members::PeerId;
use crate::message::{ImageOffer, LogEnd, Message, MessageBody};
use crate::raft_log::{NewEntry, image_key};

/// Takes a message; drops what contradicts the replica's state.
pub(crate) fn receive(
    group: &mut RaftGroup,
    message: Message,
    cx: Context<'_>,
    fx: &mut GroupEffects,
) {
    let Raft::Awake(engine) = &mut group.raft else { return };
    if !is_plausible(engine, &message) {
        return;
    }
    let (me, from, term) = (engine.log().me, message.from, engine.standing().term);
    match &message.body {
        MessageBody::Vote { is_transfer, log, .. } => {
            if group.health != Health::Sound || !may_elect(engine, from, *is_transfer, cx) {
                return doubt(group, message, cx, fx);
            }
            let is_leaderless = engine.standing().leader.is_none();
            let is_ahead = is_ahead(engine, log);
            engine.step(&message);
            if is_leaderless {
                fx.ask(GroupRequest::CampaignLater);
                // The one that asks loses for what it lacks: the next one in order does not wait for that.
                if is_ahead && is_first_but(from, engine, cx) {
                    campaign(group, cx);
                }
            }
        }
        MessageBody::TimeoutNow if group.health != Health::Sound => {}
        MessageBody::Append { prev_index, entries, .. } => {
            let entries = (prev_index + 1..).zip(entries);
            group.stash.extend(entries.map(|(index, entry)| NewEntry {
                index,
                term: entry.term,
                payload: entry.payload.clone(),
            }));
            engine.step(&message);
        }
        MessageBody::Commit { commit } => engine.commit_to(*commit),
        MessageBody::WhoLeads => {
            let leads = engine.standing().leads();
            let commit = engine.commit_for(from).0;
            let answer =
                if leads { MessageBody::Heartbeat { commit } } else { MessageBody::NotLeader };
            fx.send(me, from, term, answer);
        }
        MessageBody::NotLeader => {
            if engine.standing().leader == Some(from) {
                give_up_leader(group, cx, fx);
            }
        }
        MessageBody::ImageOffer(offer) => take_offer(group, &message, offer, cx, fx),
        MessageBody::ImageWant { index, offset } => {
            give_piece(group, from, [*index, *offset], fx, cx)
        }
        MessageBody::ImagePiece { index, offset, bytes } => {
            if let Some(incoming) = &mut group.incoming
                && incoming.from == from
                && incoming.take(*index, *offset, bytes)
            {
                go_on(group, cx, fx);
            }
        }
        MessageBody::Gone => fx.ask(GroupRequest::Gone),
        MessageBody::Appended { .. }
        | MessageBody::Rejected { .. }
        | MessageBody::Voted { .. }
        | MessageBody::Heartbeat { .. }
        | MessageBody::HeartbeatAnswer { .. }
        | MessageBody::TimeoutNow => engine.step(&message),
    }
    if let Raft::Awake(engine) = &group.raft
        && engine.standing().leader == Some(from)
    {
        group.doubt = None;
    }
}

/// Asks for votes, if the replica may.
pub(crate) fn campaign(group: &mut RaftGroup, cx: Context<'_>) {
    let Raft::Awake(engine) = &mut group.raft else { return };
    let (me, members) = (engine.log().me, engine.log().members());
    let has_leader =
        engine.standing().leader.is_some_and(|leader| leader == me || cx.living.has(leader));
    if has_leader || group.health != Health::Sound || !members.has_living_majority(me, cx.living) {
        return;
    }
    if engine.standing().can_campaign && engine.standing().is_settled() {
        engine.campaign();
    }
}

/// Whether the replica's log has entries that one with this end lacks.
fn is_ahead(engine: &Engine, other: &LogEnd) -> bool {
    let last = engine.standing().last;
    engine.log().term(last).map(|term| (term, last)) > Some((other.last_term, other.last_index))
}

/// Whether the replica is the first voter in order that is alive, that one left out.
pub(crate) fn is_first_but(other: PeerId, engine: &Engine, cx: Context<'_>) -> bool {
    let (me, members) = (engine.log().me, engine.log().members());
    let may = |peer: &&PeerId| **peer != other && (**peer == me || cx.living.has(**peer));
    members.voters.iter().find(may) == Some(&me)
}

/// Whether a vote may be asked for: not while the leader that the replica knows is alive.
fn may_elect(engine: &Engine, from: PeerId, is_transfer: bool, cx: Context<'_>) -> bool {
    let me = engine.log().me;
    let is_alive = |leader: PeerId| leader == me || cx.living.has(leader);
    is_transfer
        || !engine.standing().leader.is_some_and(|leader| leader != from && is_alive(leader))
}

/// Follows nobody. Who asked for a vote meanwhile has it: the nodes of a group do not learn of their leader's
/// death at the same time.
pub(crate) fn give_up_leader(group: &mut RaftGroup, cx: Context<'_>, fx: &mut GroupEffects) {
    if let Raft::Awake(engine) = &mut group.raft {
        engine.follow(None);
        if let Some(asked) = group.doubt.take() {
            receive(group, *asked, cx, fx);
        }
    }
}

/// Asks the leader whether it leads, since somebody wants to be elected; the leader itself says so.
fn doubt(group: &mut RaftGroup, asked: Message, cx: Context<'_>, fx: &mut GroupEffects) {
    let (me, term, from) = (group.me(), group.term(), asked.from);
    if let Raft::Awake(engine) = &mut group.raft
        && engine.standing().leads()
        && engine.log().members().has(from)
    {
        let commit = engine.commit_for(from).0;
        return fx.send(me, from, term, MessageBody::Heartbeat { commit });
    }
    let leader =
        group.leader().filter(|leader| *leader != me && *leader != from && cx.living.has(*leader));
    if let Some(leader) = leader
        && group.doubt.replace(Box::new(asked)).is_none()
    {
        fx.send(me, leader, term, MessageBody::WhoLeads);
        fx.ask(GroupRequest::TickLater);
    }
}

fn take_offer(
    group: &mut RaftGroup,
    message: &Message,
    offer: &ImageOffer,
    cx: Context<'_>,
    fx: &mut GroupEffects,
) {
    let Raft::Awake(engine) = &mut group.raft else { return };
    if message.term < engine.standing().term {
        return;
    }
    let is_known = engine.log().term(offer.index) == Some(offer.term);
    if offer.index <= engine.standing().committed || is_known {
        // The engine answers what it has.
        return engine.step(message);
    }
    let before = group.incoming.take().map(|before| *before);
    let incoming = IncomingImage::begin(before, message.from, message.term, offer.clone());
    group.incoming = Some(Box::new(incoming));
    go_on(group, cx, fx);
}

/// Asks for the next piece of the image, has a large one that is whole written, or installs it.
pub(crate) fn go_on(group: &mut RaftGroup, cx: Context<'_>, fx: &mut GroupEffects) {
    let (me, term) = (group.me(), group.term());
    let Raft::Awake(engine) = &mut group.raft else { return };
    let Some(incoming) = &mut group.incoming else { return };
    let (index, offset, from) = (incoming.offer.index, incoming.offset(), incoming.from);
    if !incoming.is_whole() {
        return fx.send(me, from, term, MessageBody::ImageWant { index, offset });
    }
    let machine = incoming.machine();
    if incoming.file.is_none() && !cx.images.is_for_log(machine.len()) {
        if !std::mem::replace(&mut group.is_writing, true) {
            let (key, local) = (image_key(engine.log(), index), bytes::Bytes::new());
            fx.write = Some(ImageWrite { key, machine, local });
        }
    } else if incoming.is_as_offered() {
        let body = MessageBody::ImageOffer(incoming.offer.clone());
        engine.step(&Message { from, to: me, term: incoming.term, body });
    } else {
        group.incoming = None;
        fx.send(me, from, term, MessageBody::ImageWant { index, offset });
    }
}

fn give_piece(
    group: &mut RaftGroup,
    to: PeerId,
    at: [u64; 2],
    fx: &mut GroupEffects,
    cx: Context<'_>,
) {
    let (me, term) = (group.me(), group.term());
    let Raft::Awake(engine) = &mut group.raft else { return };
    let ([index, offset], log) = (at, engine.log());
    if engine.standing().role != Role::Leader {
        return;
    }
    let Some(offer) = group::offer(log, cx.wal, &mut group.outgoing) else { return };
    if index != offer.index {
        return fx.send(me, to, term, MessageBody::ImageOffer(offer));
    }
    let piece = match &log.image.file {
        Some(file) => cx.images.file_piece(image_key(log, index), **file, offset),
        None => group.outgoing.as_ref().and_then(|machine| cx.images.piece(machine, offset)),
    };
    if let Some(bytes) = piece {
        fx.send(me, to, term, MessageBody::ImagePiece { index, offset, bytes });
    } else {
        // The image is damaged: a later one is offered.
        engine.link_made(to);
        fx.ask(GroupRequest::Image);
    }
}
