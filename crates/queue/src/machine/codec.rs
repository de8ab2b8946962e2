//! The written form of commands.
//!
//! ```text
//! version u8 | clock ms u64 | kind u8 | fields in the order of their declaration
//! list: n u32 | n items     option: is there u8 | u64     name: length u32 | bytes
//! ```

use super::bounds::{NAME_BYTES_MAX, NOTE_BYTES_MAX};
use super::command::{Attach, Command, Get, Modify, Named, Outcome, Put};
use super::items::{Items, put_option, read_option};
use super::settings::Settings;
use crate::{LinkCredit, Return};
use stdx::UnixMs;
use stdx::record::{Reader, RecordError, put_bool, put_bytes, put_i64, put_u8, put_u32, put_u64};

/// The version of the written forms of commands, and of machines whose consumers have prefetch limits alone.
pub const VERSION: u8 = 1;

pub(super) fn read_version(reader: &mut Reader<'_>) -> Result<(), RecordError> {
    if reader.u8()? == VERSION { Ok(()) } else { Err(RecordError::Invalid) }
}

impl<'a> Command<'a> {
    /// Appends the command, and when it is applied.
    pub fn write(&self, now_ms: UnixMs, out: &mut Vec<u8>) {
        put_u8(out, VERSION);
        put_u64(out, now_ms.get());
        match self {
            Self::Put(put) => write_put(put, out),
            Self::Attach(terms) => {
                put_u8(out, if terms.has_link_credit { 20 } else { 2 });
                write_attach(terms, out);
            }
            Self::Prefetch { consumer, prefetch } => {
                put_kind(out, 3, *consumer);
                put_u32(out, *prefetch);
            }
            Self::Cancel { consumer } => put_kind(out, 4, *consumer),
            Self::Detach { consumer, how } => {
                put_kind(out, 5, *consumer);
                put_bool(out, *how == Return::Failed);
            }
            Self::Settle { consumer, outcome, numbers } => {
                put_kind(out, 6, *consumer);
                put_u8(out, outcome_code(*outcome));
                numbers.put(out);
            }
            Self::Modify(modify) => write_modify(modify, out),
            Self::Get(get) => write_get(get, out),
            Self::Purge { request } => put_kind(out, 8, *request),
            Self::Tick => put_u8(out, 9),
            Self::Declared => put_u8(out, 10),
            Self::Node { node, is_up } => {
                put_kind(out, 11, u64::from(*node));
                put_bool(out, *is_up);
            }
            Self::Settings(settings) => {
                put_u8(out, 12);
                settings.write(out);
            }
            Self::Departed { numbers } => {
                put_u8(out, 13);
                numbers.put(out);
            }
            Self::PublishersGone { publishers } => {
                put_u8(out, 14);
                publishers.put(out);
            }
            Self::Close { request, if_unused, if_empty } => {
                put_kind(out, 15, *request);
                put_bool(out, *if_unused);
                put_bool(out, *if_empty);
            }
            Self::Reopen => put_u8(out, 16),
            Self::Remove { request, positions } => {
                put_kind(out, 17, *request);
                positions.put(out);
            }
            Self::Reschedule { until_ms, positions } => {
                put_kind(out, 18, until_ms.get());
                positions.put(out);
            }
            Self::Flow { consumer, seen, drain } => {
                put_kind(out, 21, *consumer);
                write_link_credit(*seen, out);
                put_bool(out, *drain);
            }
        }
    }

    /// Reads a command from the front of `reader`, and when it is applied. Nothing is allocated.
    ///
    /// # Errors
    /// It is no command, or one of a later version.
    pub fn read(reader: &mut Reader<'a>) -> Result<(UnixMs, Self), RecordError> {
        read_version(reader)?;
        let now_ms = UnixMs::from_raw(reader.u64()?);
        let command = match reader.u8()? {
            1 => Self::Put(read_put(reader, false)?),
            2 => Self::Attach(read_attach(reader, false)?),
            3 => Self::Prefetch { consumer: reader.u64()?, prefetch: reader.u32()? },
            4 => Self::Cancel { consumer: reader.u64()? },
            5 => Self::Detach { consumer: reader.u64()?, how: read_how(reader)? },
            6 => {
                let (consumer, outcome) = (reader.u64()?, read_outcome(reader)?);
                Self::Settle { consumer, outcome, numbers: Items::read(reader)? }
            }
            7 => Self::Get(read_get(reader)?),
            8 => Self::Purge { request: reader.u64()? },
            9 => Self::Tick,
            10 => Self::Declared,
            11 => {
                let node = u32::try_from(reader.u64()?).map_err(|_| RecordError::Invalid)?;
                Self::Node { node, is_up: reader.bool()? }
            }
            12 => Self::Settings(Settings::read(reader)?),
            13 => Self::Departed { numbers: Items::read(reader)? },
            14 => Self::PublishersGone { publishers: Items::read(reader)? },
            15 => Self::Close {
                request: reader.u64()?,
                if_unused: reader.bool()?,
                if_empty: reader.bool()?,
            },
            16 => Self::Reopen,
            17 => Self::Remove { request: reader.u64()?, positions: Items::read(reader)? },
            18 => {
                let until_ms = UnixMs::from_raw(reader.u64()?);
                Self::Reschedule { until_ms, positions: Items::read(reader)? }
            }
            19 => Self::Put(read_put(reader, true)?),
            20 => Self::Attach(read_attach(reader, true)?),
            21 => Self::Flow {
                consumer: reader.u64()?,
                seen: read_link_credit(reader)?,
                drain: reader.bool()?,
            },
            22 => Self::Modify(read_modify(reader)?),
            0 | 23..=u8::MAX => return Err(RecordError::Invalid),
        };
        Ok((now_ms, command))
    }
}

fn put_kind(out: &mut Vec<u8>, kind: u8, id: u64) {
    put_u8(out, kind);
    put_u64(out, id);
}

fn write_put(put: &Put<'_>, out: &mut Vec<u8>) {
    put_kind(out, if put.ignores_length { 19 } else { 1 }, put.publisher);
    put_u64(out, put.first);
    put_bool(out, put.confirms);
    put_bool(out, put.named.is_some());
    if let Some(named) = &put.named {
        put_bytes(out, named.name);
        put_u64(out, named.first);
    }
    put.arrivals.put(out);
}

fn read_put<'a>(reader: &mut Reader<'a>, ignores_length: bool) -> Result<Put<'a>, RecordError> {
    let (publisher, first, confirms) = (reader.u64()?, reader.u64()?, reader.bool()?);
    let named = if reader.bool()? {
        let (name, first) = (reader.bytes()?, reader.u64()?);
        if name.len() > NAME_BYTES_MAX {
            return Err(RecordError::Invalid);
        }
        Some(Named { name, first })
    } else {
        None
    };
    let arrivals = Items::read(reader)?;
    Ok(Put { publisher, first, confirms, ignores_length, named, arrivals })
}

pub(super) fn write_attach(terms: &Attach, out: &mut Vec<u8>) {
    put_u64(out, terms.consumer);
    put_u32(out, terms.node);
    put_u32(out, terms.prefetch);
    put_i64(out, terms.priority);
    put_option(out, terms.timeout_ms);
}

pub(super) fn write_link_credit(credit: LinkCredit, out: &mut Vec<u8>) {
    put_u32(out, credit.delivery_count);
    put_u32(out, credit.credit);
}

pub(super) fn read_link_credit(reader: &mut Reader<'_>) -> Result<LinkCredit, RecordError> {
    Ok(LinkCredit { delivery_count: reader.u32()?, credit: reader.u32()? })
}

pub(super) fn read_attach(
    reader: &mut Reader<'_>,
    has_link_credit: bool,
) -> Result<Attach, RecordError> {
    Ok(Attach {
        consumer: reader.u64()?,
        node: reader.u32()?,
        prefetch: reader.u32()?,
        has_link_credit,
        priority: reader.i64()?,
        timeout_ms: read_option(reader)?,
    })
}

fn write_modify(modify: &Modify<'_>, out: &mut Vec<u8>) {
    put_kind(out, 22, modify.consumer);
    put_u8(out, outcome_code(modify.outcome));
    put_option(out, modify.until_ms.map(UnixMs::get));
    put_bytes(out, modify.notes);
    modify.numbers.put(out);
}

fn read_modify<'a>(reader: &mut Reader<'a>) -> Result<Modify<'a>, RecordError> {
    let (consumer, outcome) = (reader.u64()?, read_outcome(reader)?);
    let until_ms = read_option(reader)?.map(UnixMs::from_raw);
    let notes = reader.bytes()?;
    if notes.len() > NOTE_BYTES_MAX {
        return Err(RecordError::Invalid);
    }
    Ok(Modify { consumer, outcome, until_ms, notes, numbers: Items::read(reader)? })
}

fn write_get(get: &Get, out: &mut Vec<u8>) {
    put_kind(out, 7, get.request);
    put_bool(out, get.settles);
    put_u64(out, get.consumer);
    put_u32(out, get.node);
    put_option(out, get.timeout_ms);
}

fn read_get(reader: &mut Reader<'_>) -> Result<Get, RecordError> {
    Ok(Get {
        request: reader.u64()?,
        settles: reader.bool()?,
        consumer: reader.u64()?,
        node: reader.u32()?,
        timeout_ms: read_option(reader)?,
    })
}

fn read_how(reader: &mut Reader<'_>) -> Result<Return, RecordError> {
    Ok(if reader.bool()? { Return::Failed } else { Return::Released })
}

const fn outcome_code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Accepted => 0,
        Outcome::Returned(Return::Released) => 1,
        Outcome::Returned(Return::Failed) => 2,
        Outcome::Rejected(Return::Released) => 3,
        Outcome::Rejected(Return::Failed) => 4,
        Outcome::Unsent => 5,
    }
}

fn read_outcome(reader: &mut Reader<'_>) -> Result<Outcome, RecordError> {
    Ok(match reader.u8()? {
        0 => Outcome::Accepted,
        1 => Outcome::Returned(Return::Released),
        2 => Outcome::Returned(Return::Failed),
        3 => Outcome::Rejected(Return::Released),
        4 => Outcome::Rejected(Return::Failed),
        5 => Outcome::Unsent,
        6..=u8::MAX => return Err(RecordError::Invalid),
    })
}
