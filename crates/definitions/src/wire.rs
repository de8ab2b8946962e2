//! Asks and answers as bytes between nodes.
//!
//! ```text
//! ask    = version:u8 request attempt:u64 term:u64 basis user:str n:u32 (len:u32 command)*
//! basis  = 0 | 1 index:u64
//! answer = version:u8 request attempt:u64 body
//! body   = 0 | 1 index:u64 0 n:u32 effect* | 1 index:u64 1 | 1 index:u64 2 refusal
//! refusal = 0 | 1 error | 2
//! ```
//! Bodies: declined; decided, with the decisions done, was done, refused. Refusals: moved, a command's, too
//! large. Effects have the definitions that they are about, not their ids: another change may have deleted
//! these when the asker has applied the ask.

use std::sync::Arc;

use meta::{Command, Done, MetaError, Name};
use stdx::record::{Reader, RecordError, put_bool, put_bytes, put_str, put_u8, put_u32, put_u64};

use crate::ask::{
    ASK_COMMANDS_MAX, AnswerBody, Ask, AskAnswer, Decision, Question, Refusal, RequestId,
};
use crate::entry::ENTRY_BYTES_MAX;

/// Most bytes of an ask and of an answer between nodes.
pub const ASK_BYTES_MAX: usize = ENTRY_BYTES_MAX;

const VERSION: u8 = 1;
/// Most bytes of the name of a user.
const USER_BYTES_MAX: usize = 255;

const DECLINED: u8 = 0;
const DECIDED: u8 = 1;

const DONE: u8 = 0;
const WAS_DONE: u8 = 1;
const REFUSED: u8 = 2;

const MOVED: u8 = 0;
const COMMAND: u8 = 1;
const TOO_LARGE: u8 = 2;

impl Ask {
    /// Returns the ask as bytes.
    ///
    /// # Errors
    /// [`Refusal::TooLarge`]: no leader would take it, and the asker is to be answered so.
    pub fn encode(&self) -> Result<Vec<u8>, Refusal> {
        let Question { commands, basis, user } = &*self.question;
        let mut out = vec![VERSION];
        self.request.encode(&mut out);
        put_u64(&mut out, self.attempt);
        put_u64(&mut out, self.term);
        put_bool(&mut out, basis.is_some());
        basis.iter().for_each(|index| put_u64(&mut out, *index));
        put_str(&mut out, user);
        let n = u32::try_from(commands.len()).or(Err(Refusal::TooLarge))?;
        put_u32(&mut out, n);
        let mut encoded = Vec::new();
        for command in commands {
            encoded.clear();
            command.encode(&mut encoded);
            put_bytes(&mut out, &encoded);
            if out.len() > ASK_BYTES_MAX {
                return Err(Refusal::TooLarge);
            }
        }
        let is_fit = commands.len() <= ASK_COMMANDS_MAX && user.len() <= USER_BYTES_MAX;
        if is_fit { Ok(out) } else { Err(Refusal::TooLarge) }
    }

    /// Reads an ask of another node.
    ///
    /// # Errors
    /// Bytes that are cut, of a later version, damaged, or over a limit.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut r = opened(bytes)?;
        let request = RequestId::read(&mut r)?;
        let (attempt, term) = (r.u64()?, r.u64()?);
        let basis = r.bool()?.then(|| r.u64()).transpose()?;
        let user = r.str()?;
        if user.len() > USER_BYTES_MAX {
            return Err(RecordError::Invalid);
        }
        let user = Name::from(user);
        let commands = read_list(&mut r, |r| Command::decode(r.bytes()?))?;
        closed(r)?;
        let question = Arc::new(Question { commands, basis, user });
        Ok(Self { request, attempt, term, question })
    }
}

impl AskAnswer {
    /// Returns the answer as bytes. The effects of commands are left out if they are too long together.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        self.request.encode(&mut out);
        put_u64(&mut out, self.attempt);
        match &self.body {
            AnswerBody::Declined => put_u8(&mut out, DECLINED),
            AnswerBody::Decided { index, decision } => {
                put_u8(&mut out, DECIDED);
                put_u64(&mut out, *index);
                decision.encode(&mut out);
            }
        }
        out
    }

    /// Reads an answer of the leader.
    ///
    /// # Errors
    /// Bytes that are cut, of a later version, damaged, or over a limit.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut r = opened(bytes)?;
        let request = RequestId::read(&mut r)?;
        let attempt = r.u64()?;
        let body = match r.u8()? {
            DECLINED => AnswerBody::Declined,
            DECIDED => AnswerBody::Decided { index: r.u64()?, decision: Decision::read(&mut r)? },
            2..=u8::MAX => return Err(RecordError::Invalid),
        };
        closed(r)?;
        Ok(Self { request, attempt, body })
    }
}

impl Decision {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Done(done) => encode_effects(done, out),
            Self::WasDone => put_u8(out, WAS_DONE),
            Self::Refused(refusal) => {
                put_u8(out, REFUSED);
                refusal.encode(out);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, RecordError> {
        Ok(match r.u8()? {
            DONE => Self::Done(read_list(r, Done::read)?),
            WAS_DONE => Self::WasDone,
            REFUSED => Self::Refused(Refusal::read(r)?),
            3..=u8::MAX => return Err(RecordError::Invalid),
        })
    }
}

impl Refusal {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Moved => put_u8(out, MOVED),
            Self::Command(error) => {
                put_u8(out, COMMAND);
                error.encode(out);
            }
            Self::TooLarge => put_u8(out, TOO_LARGE),
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, RecordError> {
        Ok(match r.u8()? {
            MOVED => Self::Moved,
            COMMAND => Self::Command(MetaError::read(r)?),
            TOO_LARGE => Self::TooLarge,
            3..=u8::MAX => return Err(RecordError::Invalid),
        })
    }
}

/// Appends the effects, or what else is true of the ask if they are too long together.
fn encode_effects(done: &[Done], out: &mut Vec<u8>) {
    let start = out.len();
    put_u8(out, DONE);
    put_u32(out, u32::try_from(done.len()).expect("an ask has ASK_COMMANDS_MAX at most"));
    for effect in done {
        effect.encode(out);
        if out.len() > ASK_BYTES_MAX {
            out.truncate(start);
            if done.iter().any(Done::is_change) {
                put_u8(out, WAS_DONE);
            } else {
                out.extend([REFUSED, TOO_LARGE]);
            }
            return;
        }
    }
}

fn read_list<T>(
    r: &mut Reader<'_>,
    item: fn(&mut Reader<'_>) -> Result<T, RecordError>,
) -> Result<Vec<T>, RecordError> {
    let n = usize::try_from(r.u32()?).unwrap_or(usize::MAX);
    if n > ASK_COMMANDS_MAX {
        return Err(RecordError::Invalid);
    }
    (0..n).map(|_| item(r)).collect()
}

fn opened(bytes: &[u8]) -> Result<Reader<'_>, RecordError> {
    let mut r = Reader::new(bytes);
    let is_fit = bytes.len() <= ASK_BYTES_MAX && r.u8()? == VERSION;
    if is_fit { Ok(r) } else { Err(RecordError::Invalid) }
}

fn closed(r: Reader<'_>) -> Result<(), RecordError> {
    if r.is_empty() { Ok(()) } else { Err(RecordError::Invalid) }
}
