//! Checks of messages against what a replica knows: the engine would panic on a contradiction, or believe it.

use crate::engine::{Engine, Role};
use crate::entry::NUMBER_MAX;
use crate::images::IMAGE_BYTES_MAX;
use crate::message::{ImageOffer, LogEnd, Message, MessageBody, SentEntry};

/// Whether a message for this replica may be handled.
pub(crate) fn is_plausible(engine: &Engine, message: &Message) -> bool {
    let Message { from, to, term, body } = message;
    let me = engine.log().me;
    if *to != me || *from == me || from.0 == 0 || !(1..=NUMBER_MAX).contains(term) {
        return false;
    }
    let last_index = engine.standing().last;
    match body {
        MessageBody::Append { prev_index, prev_term, entries, .. } => {
            is_from_leader(engine, message) && are_entries(*prev_index, *prev_term, *term, entries)
        }
        MessageBody::Heartbeat { commit } => {
            is_from_leader(engine, message) && *commit <= last_index
        }
        MessageBody::Commit { commit } => {
            *term == engine.standing().term
                && !engine.standing().leads()
                && is_from_leader(engine, message)
                && *commit <= last_index
        }
        MessageBody::ImageOffer(offer) => {
            is_from_leader(engine, message) && is_image(engine, offer, *term)
        }
        MessageBody::Appended { index, .. } => {
            *index <= last_index || engine.standing().role != Role::Leader
        }
        MessageBody::Rejected { index, hint_index, hint_term, .. } => {
            [index, hint_index, hint_term].iter().all(|number| **number <= NUMBER_MAX)
        }
        MessageBody::Vote { log, .. } => is_log_end(log),
        // A candidate has asked for votes after all it has was durable, and has got nothing since.
        MessageBody::Voted { log, .. } => is_log_end(log) && engine.standing().is_settled(),
        MessageBody::TimeoutNow => {
            engine.standing().leader == Some(*from)
                && engine.standing().can_campaign
                && engine.standing().is_settled()
        }
        MessageBody::HeartbeatAnswer { .. }
        | MessageBody::WhoLeads
        | MessageBody::NotLeader
        | MessageBody::ImageWant { .. }
        | MessageBody::ImagePiece { .. }
        | MessageBody::Gone => true,
    }
}

/// Whether the sender may lead in its term: a term has one leader.
fn is_from_leader(engine: &Engine, message: &Message) -> bool {
    message.term != engine.standing().term
        || engine.standing().leader.is_none_or(|leader| leader == message.from)
}

fn are_entries(prev_index: u64, prev_term: u64, term: u64, entries: &[SentEntry]) -> bool {
    let mut highest = prev_term;
    let are_ordered = entries.iter().all(|entry| {
        let is_next = entry.term >= highest.max(1) && entry.term <= term;
        highest = entry.term;
        is_next
    });
    let is_begin = prev_index == 0 && prev_term == 0;
    let is_behind = prev_index > 0 && (1..=term).contains(&prev_term);
    are_ordered && (is_begin || is_behind) && prev_index <= NUMBER_MAX - entries.len() as u64
}

fn is_image(engine: &Engine, offer: &ImageOffer, term: u64) -> bool {
    let ImageOffer { index, term: image_term, members, machine_bytes, checksum: _ } = offer;
    (1..=NUMBER_MAX).contains(index)
        && (1..=term).contains(image_term)
        && !members.voters.is_empty()
        && members.are_distinct()
        && members.has(engine.log().me)
        && members.since <= *index
        && *machine_bytes <= IMAGE_BYTES_MAX
}

fn is_log_end(log: &LogEnd) -> bool {
    [log.last_index, log.last_term, log.commit, log.commit_term].iter().all(|it| *it <= NUMBER_MAX)
}
