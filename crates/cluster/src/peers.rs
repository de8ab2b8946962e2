//! Messages of other replicas: they are checked, and stepped into the engine or answered.

use crate::checks::is_plausible;
use crate::effects::{GroupEffects, GroupRequest, Health};
use crate::engine::{Engine, Role};
use crate::group::{Context, Raft, RaftGroup};
use crate::images::{self, IncomingImage};
use crate::members::PeerId;
use crate::message::{ImageOffer, Message, MessageBody};
use crate::raft_log::NewEntry;

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
        MessageBody::Vote { is_transfer, .. } => {
            if group.health != Health::Sound || !may_elect(engine, from, *is_transfer, cx) {
                return doubt(group, from, cx, fx);
            }
            if engine.standing().leader.is_none() {
                // The one that asks may lack entries that this one has.
                fx.ask(GroupRequest::CampaignLater);
            }
            engine.step(&message);
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
                engine.follow(None);
                group.has_doubt = false;
            }
        }
        MessageBody::ImageOffer(offer) => take_offer(group, &message, offer, fx),
        MessageBody::ImageWant { index, offset } => {
            give_piece(group, from, [*index, *offset], fx, cx)
        }
        MessageBody::ImagePiece { index, offset, bytes } => {
            if let Some(incoming) = &mut group.incoming
                && incoming.from == from
                && incoming.take(*index, *offset, bytes)
            {
                go_on(group, fx);
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
        group.has_doubt = false;
    }
}

/// Whether a vote may be asked for: not while the leader that the replica knows is alive.
fn may_elect(engine: &Engine, from: PeerId, is_transfer: bool, cx: Context<'_>) -> bool {
    let me = engine.log().me;
    let is_alive = |leader: PeerId| leader == me || cx.living.has(leader);
    is_transfer
        || !engine.standing().leader.is_some_and(|leader| leader != from && is_alive(leader))
}

/// Asks the leader whether it leads, since somebody wants to be elected; the leader itself says so.
fn doubt(group: &mut RaftGroup, from: PeerId, cx: Context<'_>, fx: &mut GroupEffects) {
    let (me, term) = (group.me(), group.term());
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
        && !group.has_doubt
    {
        group.has_doubt = true;
        fx.send(me, leader, term, MessageBody::WhoLeads);
        fx.ask(GroupRequest::TickLater);
    }
}

fn take_offer(group: &mut RaftGroup, message: &Message, offer: &ImageOffer, fx: &mut GroupEffects) {
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
    go_on(group, fx);
}

/// Asks for the next piece of the image, or installs it.
fn go_on(group: &mut RaftGroup, fx: &mut GroupEffects) {
    let (me, term) = (group.me(), group.term());
    let (Some(incoming), Raft::Awake(engine)) = (&group.incoming, &mut group.raft) else { return };
    if incoming.is_whole() {
        let body = MessageBody::ImageOffer(incoming.offer.clone());
        engine.step(&Message { from: incoming.from, to: me, term: incoming.term, body });
    } else {
        let (index, offset) = (incoming.offer.index, incoming.offset());
        fx.send(me, incoming.from, term, MessageBody::ImageWant { index, offset });
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
    if group.outgoing.is_none() {
        group.outgoing = log.read_image(cx.wal).map(|image| image.machine);
    }
    let Some(machine) = &group.outgoing else { return };
    if index == log.image.index {
        if let Some(bytes) = images::piece(machine, offset) {
            fx.send(me, to, term, MessageBody::ImagePiece { index, offset, bytes });
        }
        return;
    }
    let (index, members) = (log.image.index, log.members_at(log.image.index));
    let machine_bytes = machine.len() as u64;
    let offer = ImageOffer { index, term: log.image.term, members, machine_bytes };
    fx.send(me, to, term, MessageBody::ImageOffer(offer));
}
