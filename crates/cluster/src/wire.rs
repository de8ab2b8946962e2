//! Messages as bytes, for frames between nodes; integers are little-endian.
//!
//! ```text
//! message  kind u8, from u64, to u64, term u64, then by kind:
//!    1 append            prev index u64, prev term u64, commit u64, n u32,
//!                        n times (term u64, type u8, length u32), payloads one behind the other
//!    2 appended          index u64, commit u64
//!    3 rejected          index u64, hint index u64, hint term u64, commit u64
//!    4 vote, 5 pre-vote  is transfer u8,
//!                        end of the log (last index u64, last term u64, commit u64, commit term u64)
//!    6 voted, 7 pre-voted  is granted u8, end of the log
//!    8 heartbeat, 9 its answer, 10 commit  commit u64
//!   11 timeout now, 12 who leads, 13 not leader, 17 gone  nothing
//!   14 image offer       index u64, term u64, bytes u64, their crc32c u32, members
//!   15 image want        index u64, offset u64
//!   16 image piece       index u64, offset u64, bytes
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
use crate::proposals::PROPOSAL_BYTES_MAX;

/// Most entries in one append.
pub const APPEND_ENTRIES_MAX: usize = 1 << 16;

/// Most bytes of a message: the largest entry, and others in front of it.
pub const MESSAGE_BYTES_MAX: usize = PROPOSAL_BYTES_MAX + (4 << 20);

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
            MessageBody::ImageOffer(ImageOffer {
                index,
                term,
                members,
                machine_bytes,
                checksum,
            }) => {
                put_all(out, &[*index, *term, *machine_bytes]);
                put_u32(out, *checksum);
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
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(RecordError::Invalid);
        }
        let mut reader = Reader::new(bytes);
        let kind = reader.u8()?;
        let (from, to) = (PeerId(reader.u64()?), PeerId(reader.u64()?));
        let term = number(&mut reader)?;
        let body = match kind {
            1 => append(&mut reader, bytes)?,
            16 => {
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

const fn kind(body: &MessageBody) -> u8 {
    match body {
        MessageBody::Append { .. } => 1,
        MessageBody::Appended { .. } => 2,
        MessageBody::Rejected { .. } => 3,
        MessageBody::Vote { is_pre: false, .. } => 4,
        MessageBody::Vote { is_pre: true, .. } => 5,
        MessageBody::Voted { is_pre: false, .. } => 6,
        MessageBody::Voted { is_pre: true, .. } => 7,
        MessageBody::Heartbeat { .. } => 8,
        MessageBody::HeartbeatAnswer { .. } => 9,
        MessageBody::Commit { .. } => 10,
        MessageBody::TimeoutNow => 11,
        MessageBody::WhoLeads => 12,
        MessageBody::NotLeader => 13,
        MessageBody::ImageOffer(_) => 14,
        MessageBody::ImageWant { .. } => 15,
        MessageBody::ImagePiece { .. } => 16,
        MessageBody::Gone => 17,
    }
}

fn small(kind: u8, reader: &mut Reader<'_>) -> Result<MessageBody, RecordError> {
    Ok(match kind {
        2 => MessageBody::Appended { index: number(reader)?, commit: number(reader)? },
        3 => MessageBody::Rejected {
            index: number(reader)?,
            hint_index: number(reader)?,
            hint_term: number(reader)?,
            commit: number(reader)?,
        },
        4 | 5 => MessageBody::Vote {
            is_pre: kind == 5,
            is_transfer: reader.bool()?,
            log: log_end(reader)?,
        },
        6 | 7 => MessageBody::Voted {
            is_pre: kind == 7,
            is_granted: reader.bool()?,
            log: log_end(reader)?,
        },
        8 => MessageBody::Heartbeat { commit: number(reader)? },
        9 => MessageBody::HeartbeatAnswer { commit: number(reader)? },
        10 => MessageBody::Commit { commit: number(reader)? },
        11 => MessageBody::TimeoutNow,
        12 => MessageBody::WhoLeads,
        13 => MessageBody::NotLeader,
        14 => {
            let (index, term) = (number(reader)?, number(reader)?);
            let (machine_bytes, checksum) = (number(reader)?, reader.u32()?);
            let members = Members::decode(reader)?;
            MessageBody::ImageOffer(ImageOffer { index, term, members, machine_bytes, checksum })
        }
        15 => MessageBody::ImageWant { index: number(reader)?, offset: number(reader)? },
        17 => MessageBody::Gone,
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
            ([n(), n(), n()], members(), any::<u32>()).prop_map(|(at, members, checksum)| {
                let [index, term, machine_bytes] = at;
                let offer = ImageOffer { index, term, members, machine_bytes, checksum };
                MessageBody::ImageOffer(offer)
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
            prop_assert!(Message::decode(&cut).is_err() || cut[0] == 16);
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
