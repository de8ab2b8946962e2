//! Entries of the definitions' group as bytes.
//!
//! ```text
//! entries = (len:u32 entry)*     entry   = version:u8 request user:str (class:u8 len:u32 command)*
//! class   = 0 | 1                request = node:u16 boot:u32 n:u64
//! ```
//! Classes: 0 for durable facts of definitions, 1 for transient ones. Later versions have others.

use meta::{Command, Fact, FactClass, Name};
use stdx::record::{Reader, RecordError, put_bytes, put_str, put_u8, put_u16, put_u32, put_u64};

use crate::ask::RequestId;

/// Most bytes of one entry.
pub const ENTRY_BYTES_MAX: usize = 64 << 20;

const VERSION: u8 = 1;
const DURABLE: u8 = 0;
const TRANSIENT: u8 = 1;

/// A change as the group's log has it. One without facts changes nothing and is not remembered: its commit
/// shows that the leader led when it decided an ask that changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct DefinitionsEntry {
    /// The ask it was made for.
    pub request: RequestId,
    /// The user on whose behalf it was made.
    pub user: Name,
    /// The facts, in order.
    pub facts: Vec<Fact>,
}

impl RequestId {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_u16(out, self.node);
        put_u32(out, self.boot);
        put_u64(out, self.n);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, RecordError> {
        Ok(Self { node: r.u16()?, boot: r.u32()?, n: r.u64()? })
    }
}

impl DefinitionsEntry {
    /// Returns the entry as a proposal.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (mut body, mut command) = (Vec::new(), Vec::new());
        put_u8(&mut body, VERSION);
        self.request.encode(&mut body);
        put_str(&mut body, &self.user);
        for fact in &self.facts {
            put_u8(&mut body, if fact.class == FactClass::Durable { DURABLE } else { TRANSIENT });
            command.clear();
            fact.command.encode(&mut command);
            put_bytes(&mut body, &command);
        }
        let mut out = Vec::with_capacity(body.len() + size_of::<u32>());
        put_bytes(&mut out, &body);
        out
    }

    /// Reads the next of several entries.
    ///
    /// # Errors
    /// An entry that is cut, of a later version, or damaged.
    pub fn read(entries: &mut Reader<'_>) -> Result<Self, RecordError> {
        let mut r = Reader::new(entries.bytes()?);
        if r.u8()? != VERSION {
            return Err(RecordError::Invalid);
        }
        let request = RequestId::read(&mut r)?;
        let user = Name::from(r.str()?);
        let mut facts = Vec::new();
        while !r.is_empty() {
            let class = match r.u8()? {
                DURABLE => FactClass::Durable,
                TRANSIENT => FactClass::Transient,
                2..=u8::MAX => return Err(RecordError::Invalid),
            };
            facts.push(Fact { class, command: Command::decode(r.bytes()?)? });
        }
        Ok(Self { request, user, facts })
    }
}
