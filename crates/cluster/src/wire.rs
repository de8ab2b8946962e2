//! Messages as bytes, for frames between nodes; integers are little-endian.
//!
//! ```text
//! message  kind u8, from u64, to u64, term u64, then by kind:
//!   append           prev index u64, prev term u64, commit u64, n u32,
//!                    n times (term u64, type u8, length u32), payloads one behind the other
//!   appended         index u64, commit u64
//!   rejected         index u64, hint index u64, hint term u64, commit u64
//!   vote, pre-vote   is transfer u8,
//!                    end of the log (last index u64, last term u64, commit u64, commit term u64)
//!   voted, pre-voted is granted u8, end of the log
//!   heartbeat, its answer, commit   commit u64
//!   image offer      index u64, term u64, bytes u64, members
//!   image want       index u64, offset u64
//!   image piece      index u64, offset u64, bytes
//!   timeout now, who leads, not leader, gone   nothing
//! ```
//!
//! The group stands in the frame. Payloads are written from where they lie, and read as parts of the frame.

use bytes::Bytes;
use stdx::record::{Reader, RecordError, put_bool, put_u8, put_u32, put_u64};

use crate::engine::APPEND_BYTES_MAX;
use crate::entry::{EntryType, Payload, number};
use crate::images::PIECE_BYTES;
use crate::members::{Members, PeerId};
use crate::message::{ImageOffer, LogEnd, Message, MessageBody, SentEntry};

/// Most entries in one append.
pub const APPEND_ENTRIES_MAX: usize = 1 << 16;

/// Bytes of an entry in front of the payloads.
const ENTRY_HEAD_BYTES: usize = 13;

const _: () =
    assert!(APPEND_ENTRIES_MAX as u64 >= APPEND_BYTES_MAX / 18, "entries have heads in the log");

impl Message {
    /// Appends the message's bytes to `out`, payloads excepted: those follow it, in the order in which they
    /// are returned.
    pub fn encode(&self, out: &mut Vec<u8>) -> Vec<Bytes> {
        put_u8(out, kind(&self.body));
        [self.from.0, self.to.0, self.term].into_iter().for_each(|field| put_u64(out, field));
        match &self.body {
            MessageBody::Append { prev_index, prev_term, commit, entries } => {
                put_all(out, &[*prev_index, *prev_term, *commit]);
                put_length(out, entries.len());
                for SentEntry { term, payload } in entries {
                    put_u64(out, *term);
                    put_u8(out, payload.entry_type.number());
                    put_length(out, payload.bytes.len());
                }
                return entries.iter().map(|entry| entry.payload.bytes.clone()).collect();
            }
            MessageBody::Appended { index, commit } => put_all(out, &[*index, *commit]),
            MessageBody::Rejected { index, hint_index, hint_term, commit } => {
                put_all(out, &[*index, *hint_index, *hint_term, *commit]);
            }
            MessageBody::Vote { is_transfer: flag, log, .. }
            | MessageBody::Voted { is_granted: flag, log, .. } => {
                put_bool(out, *flag);
                put_all(out, &[log.last_index, log.last_term, log.commit, log.commit_term]);
            }
            MessageBody::Heartbeat { commit }
            | MessageBody::HeartbeatAnswer { commit }
            | MessageBody::Commit { commit } => put_u64(out, *commit),
            MessageBody::ImageOffer(ImageOffer { index, term, members, machine_bytes }) => {
                put_all(out, &[*index, *term, *machine_bytes]);
                members.encode(out);
            }
            MessageBody::ImageWant { index, offset } => put_all(out, &[*index, *offset]),
            MessageBody::ImagePiece { index, offset, bytes } => {
                put_all(out, &[*index, *offset]);
                return vec![bytes.clone()];
            }
            MessageBody::TimeoutNow
            | MessageBody::WhoLeads
            | MessageBody::NotLeader
            | MessageBody::Gone => {}
        }
        Vec::new()
    }

    /// Reads a message, which `bytes` are from the first to the last.
    ///
    /// # Errors
    /// The bytes are no message, or exceed a limit.
    pub fn decode(bytes: &Bytes) -> Result<Self, RecordError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8()?;
        let (from, to) = (PeerId(reader.u64()?), PeerId(reader.u64()?));
        let term = number(&mut reader)?;
        let body = match kind {
            KIND_APPEND => append(&mut reader, bytes)?,
            KIND_IMAGE_PIECE => {
                let (index, offset) = (number(&mut reader)?, number(&mut reader)?);
                let piece = bytes.slice_ref(reader.take(reader.rest().len().min(PIECE_BYTES))?);
                MessageBody::ImagePiece { index, offset, bytes: piece }
            }
            _ => small(kind, &mut reader)?,
        };
        let is_whole = reader.is_empty();
        is_whole.then_some(Self { from, to, term, body }).ok_or(RecordError::Invalid)
    }
}

const KIND_APPEND: u8 = 1;
const KIND_APPENDED: u8 = 2;
const KIND_REJECTED: u8 = 3;
const KIND_VOTE: u8 = 4;
const KIND_PRE_VOTE: u8 = 5;
const KIND_VOTED: u8 = 6;
const KIND_PRE_VOTED: u8 = 7;
const KIND_HEARTBEAT: u8 = 8;
const KIND_HEARTBEAT_ANSWER: u8 = 9;
const KIND_COMMIT: u8 = 10;
const KIND_TIMEOUT_NOW: u8 = 11;
const KIND_WHO_LEADS: u8 = 12;
const KIND_NOT_LEADER: u8 = 13;
const KIND_IMAGE_OFFER: u8 = 14;
const KIND_IMAGE_WANT: u8 = 15;
const KIND_IMAGE_PIECE: u8 = 16;
const KIND_GONE: u8 = 17;

const fn kind(body: &MessageBody) -> u8 {
    match body {
        MessageBody::Append { .. } => KIND_APPEND,
        MessageBody::Appended { .. } => KIND_APPENDED,
        MessageBody::Rejected { .. } => KIND_REJECTED,
        MessageBody::Vote { is_pre: false, .. } => KIND_VOTE,
        MessageBody::Vote { is_pre: true, .. } => KIND_PRE_VOTE,
        MessageBody::Voted { is_pre: false, .. } => KIND_VOTED,
        MessageBody::Voted { is_pre: true, .. } => KIND_PRE_VOTED,
        MessageBody::Heartbeat { .. } => KIND_HEARTBEAT,
        MessageBody::HeartbeatAnswer { .. } => KIND_HEARTBEAT_ANSWER,
        MessageBody::Commit { .. } => KIND_COMMIT,
        MessageBody::TimeoutNow => KIND_TIMEOUT_NOW,
        MessageBody::WhoLeads => KIND_WHO_LEADS,
        MessageBody::NotLeader => KIND_NOT_LEADER,
        MessageBody::ImageOffer(_) => KIND_IMAGE_OFFER,
        MessageBody::ImageWant { .. } => KIND_IMAGE_WANT,
        MessageBody::ImagePiece { .. } => KIND_IMAGE_PIECE,
        MessageBody::Gone => KIND_GONE,
    }
}

fn small(kind: u8, reader: &mut Reader<'_>) -> Result<MessageBody, RecordError> {
    Ok(match kind {
        KIND_APPENDED => MessageBody::Appended { index: number(reader)?, commit: number(reader)? },
        KIND_REJECTED => MessageBody::Rejected {
            index: number(reader)?,
            hint_index: number(reader)?,
            hint_term: number(reader)?,
            commit: number(reader)?,
        },
        KIND_VOTE | KIND_PRE_VOTE => MessageBody::Vote {
            is_pre: kind == KIND_PRE_VOTE,
            is_transfer: reader.bool()?,
            log: log_end(reader)?,
        },
        KIND_VOTED | KIND_PRE_VOTED => MessageBody::Voted {
            is_pre: kind == KIND_PRE_VOTED,
            is_granted: reader.bool()?,
            log: log_end(reader)?,
        },
        KIND_HEARTBEAT => MessageBody::Heartbeat { commit: number(reader)? },
        KIND_HEARTBEAT_ANSWER => MessageBody::HeartbeatAnswer { commit: number(reader)? },
        KIND_COMMIT => MessageBody::Commit { commit: number(reader)? },
        KIND_TIMEOUT_NOW => MessageBody::TimeoutNow,
        KIND_WHO_LEADS => MessageBody::WhoLeads,
        KIND_NOT_LEADER => MessageBody::NotLeader,
        KIND_IMAGE_OFFER => {
            let (index, term) = (number(reader)?, number(reader)?);
            let machine_bytes = number(reader)?;
            let members = Members::decode(reader)?;
            MessageBody::ImageOffer(ImageOffer { index, term, members, machine_bytes })
        }
        KIND_IMAGE_WANT => {
            MessageBody::ImageWant { index: number(reader)?, offset: number(reader)? }
        }
        KIND_GONE => MessageBody::Gone,
        _ => return Err(RecordError::Invalid),
    })
}

fn log_end(reader: &mut Reader<'_>) -> Result<LogEnd, RecordError> {
    let (last_index, last_term) = (number(reader)?, number(reader)?);
    let (commit, commit_term) = (number(reader)?, number(reader)?);
    Ok(LogEnd { last_index, last_term, commit, commit_term })
}

fn append(reader: &mut Reader<'_>, frame: &Bytes) -> Result<MessageBody, RecordError> {
    let (prev_index, prev_term, commit) = (number(reader)?, number(reader)?, number(reader)?);
    let n = usize::try_from(reader.u32()?).map_err(|_| RecordError::Invalid)?;
    if n > APPEND_ENTRIES_MAX {
        return Err(RecordError::Invalid);
    }
    let mut heads = Reader::new(reader.take(n * ENTRY_HEAD_BYTES)?);
    let mut entries = Vec::with_capacity(n);
    for _ in 0..n {
        let (term, entry_type) = (number(&mut heads)?, EntryType::of_number(heads.u8()?)?);
        let length = usize::try_from(heads.u32()?).map_err(|_| RecordError::Invalid)?;
        let bytes = frame.slice_ref(reader.take(length)?);
        entries.push(SentEntry { term, payload: Payload { entry_type, bytes } });
    }
    Ok(MessageBody::Append { prev_index, prev_term, commit, entries })
}

fn put_all(out: &mut Vec<u8>, fields: &[u64]) {
    fields.iter().for_each(|field| put_u64(out, *field));
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    put_u32(out, u32::try_from(length).unwrap_or(u32::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::entry::NUMBER_MAX;

    fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
        prop::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from)
    }

    fn entry() -> impl Strategy<Value = SentEntry> {
        (0..=NUMBER_MAX, 0..3_u8, bytes(40)).prop_map(|(term, entry_type, bytes)| {
            let entry_type = EntryType::of_number(entry_type).unwrap();
            SentEntry { term, payload: Payload { entry_type, bytes } }
        })
    }

    fn members() -> impl Strategy<Value = Members> {
        (0..=NUMBER_MAX, prop::collection::btree_set(1..u64::MAX, 0..9), 0..5_usize).prop_map(
            |(since, peers, n)| {
                let peers: Vec<_> = peers.into_iter().map(PeerId).collect();
                let (voters, learners) = peers.split_at(n.min(peers.len()));
                Members { since, voters: voters.to_vec(), learners: learners.to_vec() }
            },
        )
    }

    fn body() -> impl Strategy<Value = MessageBody> {
        let n = || 0..=NUMBER_MAX;
        let log =
            || {
                [n(), n(), n(), n()].prop_map(|[last_index, last_term, commit, commit_term]| {
                    LogEnd { last_index, last_term, commit, commit_term }
                })
            };
        prop_oneof![
            ([n(), n(), n()], prop::collection::vec(entry(), 0..6)).prop_map(
                |([prev_index, prev_term, commit], entries)| {
                    MessageBody::Append { prev_index, prev_term, commit, entries }
                }
            ),
            [n(), n()].prop_map(|[index, commit]| MessageBody::Appended { index, commit }),
            [n(), n(), n(), n()].prop_map(|[index, hint_index, hint_term, commit]| {
                MessageBody::Rejected { index, hint_index, hint_term, commit }
            }),
            (any::<[bool; 2]>(), log()).prop_map(|([is_pre, is_transfer], log)| {
                MessageBody::Vote { is_pre, is_transfer, log }
            }),
            (any::<[bool; 2]>(), log()).prop_map(|([is_pre, is_granted], log)| {
                MessageBody::Voted { is_pre, is_granted, log }
            }),
            n().prop_map(|commit| MessageBody::Heartbeat { commit }),
            n().prop_map(|commit| MessageBody::HeartbeatAnswer { commit }),
            n().prop_map(|commit| MessageBody::Commit { commit }),
            prop::sample::select(vec![
                MessageBody::TimeoutNow,
                MessageBody::WhoLeads,
                MessageBody::NotLeader,
                MessageBody::Gone
            ]),
            ([n(), n(), n()], members()).prop_map(|([index, term, machine_bytes], members)| {
                MessageBody::ImageOffer(ImageOffer { index, term, members, machine_bytes })
            }),
            [n(), n()].prop_map(|[index, offset]| MessageBody::ImageWant { index, offset }),
            ([n(), n()], bytes(300)).prop_map(|([index, offset], bytes)| MessageBody::ImagePiece {
                index,
                offset,
                bytes
            }),
        ]
    }

    fn whole(message: &Message) -> Bytes {
        let mut out = Vec::new();
        let payloads = message.encode(&mut out);
        payloads.iter().for_each(|payload| out.extend_from_slice(payload));
        out.into()
    }

    proptest! {
        #[test]
        fn messages_are_read_back(from: u64, to: u64, term in 0..=NUMBER_MAX, body in body()) {
            let message = Message { from: PeerId(from), to: PeerId(to), term, body };
            prop_assert_eq!(Message::decode(&whole(&message)), Ok(message));
        }

        #[test]
        fn cut_messages_are_refused(term in 0..=NUMBER_MAX, body in body(), cut: u16) {
            let bytes = whole(&Message { from: PeerId(1), to: PeerId(2), term, body });
            let cut = bytes.slice(..usize::from(cut) % bytes.len());
            // A piece of an image ends where its frame does.
            prop_assert!(Message::decode(&cut).is_err() || cut[0] == KIND_IMAGE_PIECE);
        }

        #[test]
        fn any_bytes_are_read_or_refused(kind in 0..20_u8, rest in bytes(200)) {
            let bytes = Bytes::from([[kind].as_slice(), &rest].concat());
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(whole(&message), bytes);
            }
        }
    }
}
