//! The entries of a group in the node's log, of four kinds; integers are little-endian.
//!
//! ```text
//! 32 entry  version u8, index u64, term u64, type u8, payload
//! 33 vote   version u8, peer u64, term u64, vote u64, commit u64
//! 34 image  version u8, peer u64, index u64, term u64, is installed u8, members,
//!           bytes of the machine (u32 length), local part
//! 34, version 2: as above up to the members, then the file: bytes of the machine u64, of the local part u64,
//!           crc32c of the machine u32
//! 35 gone   version u8, peer u64
//! ```

use bytes::Bytes;
use stdx::record::{Reader, RecordError, put_bool, put_bytes, put_u8, put_u32, put_u64};

use crate::members::{Members, PeerId};

/// The kind of an entry of a group.
pub const KIND_ENTRY: u8 = 32;
/// The kind of a vote.
pub const KIND_VOTE: u8 = 33;
/// The kind of an image.
pub const KIND_IMAGE: u8 = 34;
/// The kind of a group's end on this node.
pub const KIND_GONE: u8 = 35;

/// The version of all four kinds.
const VERSION: u8 = 1;
/// The version of an image that lies in a file.
const VERSION_FILED: u8 = 2;

/// Largest index and term: what is above cannot have been reached by counting.
pub const NUMBER_MAX: u64 = 1 << 60;

/// The purpose of an entry of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryType {
    /// Commands of the group's machine.
    Commands,
    /// A change of the members.
    Membership,
    /// The first entry of a leader.
    Nothing,
}

impl EntryType {
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Commands => 0,
            Self::Membership => 1,
            Self::Nothing => 2,
        }
    }

    pub(crate) const fn of_number(number: u8) -> Result<Self, RecordError> {
        match number {
            0 => Ok(Self::Commands),
            1 => Ok(Self::Membership),
            2 => Ok(Self::Nothing),
            3..=u8::MAX => Err(RecordError::Invalid),
        }
    }
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The entry's type.
    pub entry_type: EntryType,
    /// The bytes, which the type gives a meaning.
    pub bytes: Bytes,
}

/// The term that a replica knows, and its vote in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    /// The term.
    pub term: u64,
    /// The replica that was voted for; 0 if none was.
    pub vote: PeerId,
    /// An index that is known to be committed, at least that of the last change of members that is: without
    /// it, a replica that starts again could wait for the votes of members that have been removed.
    pub commit: u64,
}

/// The state of a group at an entry, in place of all entries up to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The index of the last entry that is in it.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
    /// Whether it came from a leader: entries above it that were there before count for nothing.
    pub is_installed: bool,
    /// The members at that entry.
    pub members: Members,
    /// The machine's bytes, equal on all replicas.
    pub machine: Bytes,
    /// The part that this replica alone needs.
    pub local: Bytes,
    /// The file that has both parts. An entry of the log that names a file has neither itself.
    pub file: Option<ImageFile>,
}

/// The content of an image's file: the machine's bytes, then the local part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFile {
    /// The bytes of the machine.
    pub machine_bytes: u64,
    /// The bytes of the local part.
    pub local_bytes: u64,
    /// The CRC32C of the machine's bytes.
    pub checksum: u32,
}

/// An entry of the log that a group has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRecord<'a> {
    /// An entry of the group.
    Entry {
        /// The entry's number.
        index: u64,
        /// The term of the leader that made it.
        term: u64,
        /// The entry's type.
        entry_type: EntryType,
        /// The payload.
        payload: &'a [u8],
    },
    /// A vote of this replica.
    Vote(PeerId, Vote),
    /// An image of this replica.
    Image(PeerId, Image),
    /// The replica has been removed from this node.
    Gone(PeerId),
}

/// Whether entries of that kind belong to groups.
#[must_use]
pub const fn is_of_group(kind: u8) -> bool {
    matches!(kind, KIND_ENTRY | KIND_VOTE | KIND_IMAGE | KIND_GONE)
}

impl<'a> LogRecord<'a> {
    /// Reads an entry of the log.
    ///
    /// # Errors
    /// The bytes are none that this version writes.
    pub fn decode(kind: u8, bytes: &'a [u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8()?;
        if version != VERSION && (version, kind) != (VERSION_FILED, KIND_IMAGE) {
            return Err(RecordError::Invalid);
        }
        match kind {
            KIND_ENTRY => {
                let (index, term) = (number(&mut reader)?, number(&mut reader)?);
                let entry_type = EntryType::of_number(reader.u8()?)?;
                Ok(Self::Entry { index, term, entry_type, payload: reader.rest() })
            }
            KIND_VOTE => {
                let peer = PeerId(reader.u64()?);
                let (term, vote) = (number(&mut reader)?, PeerId(reader.u64()?));
                Ok(Self::Vote(peer, Vote { term, vote, commit: number(&mut reader)? }))
            }
            KIND_IMAGE => image(&mut reader, version == VERSION_FILED),
            KIND_GONE => Ok(Self::Gone(PeerId(reader.u64()?))),
            _ => Err(RecordError::Invalid),
        }
    }
}

fn image<'a>(reader: &mut Reader<'a>, is_filed: bool) -> Result<LogRecord<'a>, RecordError> {
    let peer = PeerId(reader.u64()?);
    let (index, term) = (number(reader)?, number(reader)?);
    let is_installed = reader.bool()?;
    let members = Members::decode(reader)?;
    let mut image = Image { index, term, is_installed, members, ..Image::default() };
    if is_filed {
        let (machine_bytes, local_bytes) = (reader.u64()?, reader.u64()?);
        image.file = Some(ImageFile { machine_bytes, local_bytes, checksum: reader.u32()? });
    } else {
        image.machine = Bytes::copy_from_slice(reader.bytes()?);
        image.local = Bytes::copy_from_slice(reader.rest());
    }
    Ok(LogRecord::Image(peer, image))
}

/// Reads an index or a term.
pub(crate) fn number(reader: &mut Reader<'_>) -> Result<u64, RecordError> {
    let number = reader.u64()?;
    if number > NUMBER_MAX { Err(RecordError::Invalid) } else { Ok(number) }
}

/// The bytes in front of an entry's payload.
pub(crate) fn entry_head(index: u64, term: u64, entry_type: EntryType) -> [u8; 18] {
    let mut head = [0; 18];
    let fields = [VERSION].into_iter().chain(index.to_le_bytes()).chain(term.to_le_bytes());
    let fields = fields.chain([entry_type.number()]);
    head.iter_mut().zip(fields).for_each(|(byte, field)| *byte = field);
    head
}

pub(crate) fn encode_vote(peer: PeerId, vote: Vote) -> Vec<u8> {
    let mut out = vec![VERSION];
    [peer.0, vote.term, vote.vote.0, vote.commit]
        .into_iter()
        .for_each(|field| put_u64(&mut out, field));
    out
}

/// The bytes of an image, in the file's place or with both parts.
pub(crate) fn encode_image(peer: PeerId, image: &Image) -> Vec<u8> {
    let mut out = vec![if image.file.is_some() { VERSION_FILED } else { VERSION }];
    [peer.0, image.index, image.term].into_iter().for_each(|field| put_u64(&mut out, field));
    put_bool(&mut out, image.is_installed);
    image.members.encode(&mut out);
    if let Some(ImageFile { machine_bytes, local_bytes, checksum }) = image.file {
        [machine_bytes, local_bytes].into_iter().for_each(|field| put_u64(&mut out, field));
        put_u32(&mut out, checksum);
    } else {
        put_bytes(&mut out, &image.machine);
        out.extend_from_slice(&image.local);
    }
    out
}

/// The bytes that say that a replica has been removed here.
pub(crate) fn encode_gone(peer: PeerId) -> Vec<u8> {
    let mut out = Vec::new();
    put_u8(&mut out, VERSION);
    put_u64(&mut out, peer.0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn records_are_read_back() {
        let (peer, vote) = (PeerId(7 << 48 | 3), Vote { term: 9, vote: PeerId(4), commit: 3 });
        let head = entry_head(5, 2, EntryType::Membership);
        let entry = [head.as_slice(), b"ab"].concat();
        let wanted = LogRecord::Entry {
            index: 5,
            term: 2,
            entry_type: EntryType::Membership,
            payload: b"ab",
        };
        assert_eq!(LogRecord::decode(KIND_ENTRY, &entry), Ok(wanted));
        let written = encode_vote(peer, vote);
        assert_eq!(LogRecord::decode(KIND_VOTE, &written), Ok(LogRecord::Vote(peer, vote)));
        let members = Members { since: 1, voters: vec![peer], learners: vec![PeerId(8)] };
        let (machine, local) = (Bytes::from_static(b"m"), Bytes::from_static(b"l"));
        let head = Image { index: 5, term: 2, is_installed: true, members, ..Image::default() };
        let file = ImageFile { machine_bytes: 1 << 30, local_bytes: 7, checksum: 9 };
        let filed = Image { file: Some(file), ..head.clone() };
        for (image, n_optional) in [(Image { machine, local, ..head }, 1), (filed, 0)] {
            let written = encode_image(peer, &image);
            assert_eq!(LogRecord::decode(KIND_IMAGE, &written), Ok(LogRecord::Image(peer, image)));
            for cut in 0..written.len() - n_optional {
                assert!(LogRecord::decode(KIND_IMAGE, &written[..cut]).is_err(), "cut at {cut}");
            }
        }
        let gone = encode_gone(peer);
        assert_eq!(LogRecord::decode(KIND_GONE, &gone), Ok(LogRecord::Gone(peer)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(kind in 30_u8..40, bytes: Vec<u8>) {
            let record = LogRecord::decode(kind, &bytes);
            let known = if kind == KIND_IMAGE { VERSION_FILED } else { VERSION };
            prop_assert!(record.is_err() || (is_of_group(kind) && (1..=known).contains(&bytes[0])));
        }
    }
}
