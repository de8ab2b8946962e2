//! An entry: all that was taken away at once, in a file of its own.
//!
//! ```text
//! 0         4          8      9
//! +---------+----------+------+---------+
//! | bytes n | crc32c   | kind | payload |   one record behind the other; integers are little-endian
//! +---------+----------+------+---------+
//!   u32       of kind    u8     n bytes
//!             and payload
//!
//! kind  record    payload
//! 1     head      version u8, virtual host, queue, what u8, by, at u64, until u64; in version 2 id u64,
//!                 bytes u64 and messages u64 of a stream; then encoded commands (see crate `meta`) that make
//!                 the queue again, each as bytes
//! 2     portion   n u32, then for each message its position u64 and its record as bytes
//! 3     out       number of a portion u32, whether all of it u8, otherwise positions u64: these messages are
//!                 not, or no longer, to be brought back
//! 4     whole     messages u64 that were taken away and are not here
//! 5     moved     id u64 that the files of the stream are about to be given to
//! ```
//! A portion is synced before its messages are taken away. After a crash at any time, each message is
//! therefore in its queue, in the entry, or in both. The files of a deleted stream stay where they are: while
//! its id is defined they are the stream's, otherwise the entry's. A stream is brought back with a new id:
//! while that one is not defined, files that were given to it are the entry's, and a start moves them back.

use message::{MessageRef, OwnedMessage, parse_record};
use meta::{Command, Name};
use segments::{Disk, DiskFile, FileError, IoContext as _, OpenMode, crc32c};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use stdx::UnixMs;
use stdx::record::{Reader, RecordError, put_bool, put_bytes, put_str, put_u8, put_u32, put_u64};
use stream::Stream;

/// The directory of the files.
pub(crate) const DIR: &str = "undo";
const VERSION: u8 = 1;
/// The version of an entry with a stream.
const VERSION_OF_STREAM: u8 = 2;
const HEADER_BYTES: usize = 9;
/// Bytes that a record may have to be read; portions may have more.
const READ_BYTES_MAX: usize = 64 << 20;

const HEAD: u8 = 1;
const PORTION: u8 = 2;
const OUT: u8 = 3;
const WHOLE: u8 = 4;
const MOVED: u8 = 5;

stdx::named! {
    /// The act that took messages away.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Act {
        /// The queue was purged.
        Purge = "purge",
        /// The queue was deleted.
        Delete = "delete",
        /// Picked messages were removed.
        Remove = "remove",
    }
}

/// A message that was taken away, as its entry has it.
#[derive(Clone, Debug)]
pub struct RemovedMessage {
    /// Position that the message had in its queue.
    pub position: u64,
    /// The message.
    pub message: OwnedMessage,
}

/// The act of an entry, its user and queue, and for how long the entry is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The virtual host.
    pub vhost: Name,
    /// The queue.
    pub queue: Name,
    /// The act.
    pub act: Act,
    /// The user; empty for an operator of the machine.
    pub by: String,
    /// When the act began, in Unix milliseconds.
    pub at_ms: UnixMs,
    /// Until when the act can be undone, in Unix milliseconds.
    pub until_ms: UnixMs,
    /// The stream, if the act deleted one.
    pub stream: Option<KeptStream>,
}

/// A deleted stream whose files stay in the directory of its id; figures are as of the deletion's begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptStream {
    /// The stream's id.
    pub id: u64,
    /// Bytes of the stream's segments.
    pub bytes: u64,
    /// Messages in the stream.
    pub n_messages: u64,
}

impl Head {
    fn encode(&self, definitions: &[Command]) -> Vec<u8> {
        let mut out = vec![if self.stream.is_some() { VERSION_OF_STREAM } else { VERSION }];
        put_str(&mut out, self.vhost.as_str());
        put_str(&mut out, self.queue.as_str());
        put_u8(&mut out, self.act as u8);
        put_str(&mut out, &self.by);
        put_u64(&mut out, self.at_ms.get());
        put_u64(&mut out, self.until_ms.get());
        if let Some(KeptStream { id, bytes, n_messages }) = self.stream {
            [id, bytes, n_messages].into_iter().for_each(|it| put_u64(&mut out, it));
        }
        for command in definitions {
            let mut encoded = Vec::new();
            command.encode(&mut encoded);
            put_bytes(&mut out, &encoded);
        }
        out
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let version = reader.u8()?;
        if ![VERSION, VERSION_OF_STREAM].contains(&version) {
            return Err(RecordError::Invalid);
        }
        Ok(Self {
            vhost: Name::from(reader.str()?),
            queue: Name::from(reader.str()?),
            act: *Act::ALL.get(usize::from(reader.u8()?)).ok_or(RecordError::Invalid)?,
            by: reader.str()?.to_owned(),
            at_ms: UnixMs::from_raw(reader.u64()?),
            until_ms: UnixMs::from_raw(reader.u64()?),
            stream: match version {
                VERSION => None,
                _ => Some(KeptStream {
                    id: reader.u64()?,
                    bytes: reader.u64()?,
                    n_messages: reader.u64()?,
                }),
            },
        })
    }
}

/// Messages in the form of a portion.
#[derive(Debug)]
pub(crate) struct PortionRecord {
    payload: Vec<u8>,
    n: u32,
}

impl PortionRecord {
    pub(crate) fn new() -> Self {
        Self { payload: vec![0; 4], n: 0 }
    }

    pub(crate) fn push(&mut self, position: u64, message: &MessageRef<'_>) {
        put_u64(&mut self.payload, position);
        let length_at = self.payload.len();
        put_u32(&mut self.payload, 0);
        message::put_head(&mut self.payload, message);
        self.payload.extend_from_slice(message.body.bytes());
        let length = (self.payload.len() - length_at - 4) as u64;
        put_at(&mut self.payload, length_at, u32::try_from(length).expect("messages are < 4 GiB"));
        self.n += 1;
        put_at(&mut self.payload, 0, self.n);
    }

    pub(crate) const fn n(&self) -> u64 {
        self.n as u64
    }

    pub(crate) const fn size_bytes(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }
}

fn put_at(bytes: &mut [u8], at: usize, number: u32) {
    let place = bytes.get_mut(at..at + 4).expect("it is there");
    place.copy_from_slice(&number.to_le_bytes());
}

#[derive(Clone, Debug)]
struct Portion {
    at: u64,
    n: u64,
    /// Positions of the messages that are not to be brought back; `None` if these are all.
    out: Option<BTreeSet<u64>>,
}

impl Portion {
    fn n_left(&self) -> u64 {
        self.out.as_ref().map_or(0, |out| self.n.saturating_sub(out.len() as u64))
    }
}

/// The work that an entry is busy with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Busy {
    /// No work: the entry is idle.
    #[default]
    No,
    /// The entry is being written.
    Taking,
    /// The entry is being brought back.
    BringingBack,
}

/// The contents of a file.
#[derive(Debug, Default)]
struct Contents {
    end: u64,
    portions: Vec<Portion>,
    /// Messages that were taken away and are not in the entry; `None` unless the act came to its end.
    n_left_out: Option<u64>,
    is_damaged: bool,
    busy: Busy,
    /// The stream whose files are this entry's.
    stream: Option<KeptStream>,
    /// The id that the stream's files were given to last.
    moved_to: Option<u64>,
    /// The deleted stream, while publishers may still write into its files.
    unended: Option<Arc<Stream>>,
}

/// An entry: all that one act took away.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) head: Head,
    contents: Mutex<Contents>,
}

/// An entry as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoEntry {
    /// The entry's id.
    pub id: u64,
    /// The act, its user and queue.
    pub head: Head,
    /// Messages that can be brought back.
    pub n_messages: u64,
    /// Messages that were taken away and cannot be brought back; `None` if a crash interrupted the act, so
    /// that messages may still be in their queue.
    pub n_left_out: Option<u64>,
    /// Bytes that the entry takes on disk.
    pub bytes: u64,
    /// Whether a part of the file cannot be read.
    pub is_damaged: bool,
    /// The work that the entry is busy with.
    pub busy: Busy,
}

impl UndoEntry {
    /// Reads the entry in a file; also returns how many of its messages can be read.
    ///
    /// # Errors
    /// The disk's, or the file has no head.
    pub fn read(disk: &dyn Disk, id: u64) -> Result<(Self, usize)> {
        let entry = Entry::open(disk, id)?;
        let file = disk.open(&name_of(id), OpenMode::Existing).context("open", &name_of(id))?;
        let messages = entry.portions().into_iter().filter_map(|at| entry.messages(&*file, at));
        let n_messages = messages.map(|messages| messages.len()).sum();
        entry.definitions(&*file);
        Ok((entry.shown(), n_messages))
    }
}

pub(crate) fn name_of(id: u64) -> String {
    format!("{DIR}/{id}.undo")
}

type Result<T, E = FileError> = std::result::Result<T, E>;

impl Entry {
    /// Makes an entry, with the commands that make its queue again.
    pub(crate) fn create(
        disk: &dyn Disk,
        id: u64,
        head: Head,
        definitions: &[Command],
    ) -> Result<(Self, Box<dyn DiskFile>)> {
        let name = name_of(id);
        disk.create_dir(DIR).context("create", DIR)?;
        let file = disk.open(&name, OpenMode::New).context("create", &name)?;
        let contents = Contents { busy: Busy::Taking, stream: head.stream, ..Contents::default() };
        let entry = Self { id, head, contents: Mutex::new(contents) };
        entry.append(&*file, HEAD, &entry.head.encode(definitions))?;
        file.sync_data().context("sync", &name)?;
        disk.sync_dir(DIR).context("sync", DIR)?;
        disk.sync_dir("").context("sync", "")?;
        Ok((entry, file))
    }

    /// Reads an entry from its file; of portions only how many messages they have.
    pub(crate) fn open(disk: &dyn Disk, id: u64) -> Result<Self> {
        let name = name_of(id);
        let file = disk.open(&name, OpenMode::Existing).context("open", &name)?;
        let length = file.len().context("size", &name)?;
        let head = read(&*file, 0, length).filter(|(kind, _)| *kind == HEAD);
        let corrupt = || FileError::Corrupt { file: name.clone(), offset: 0, what: "no head" };
        let (_, head) = head.ok_or_else(corrupt)?;
        let head = Head::decode(&mut Reader::new(&head)).map_err(|_| corrupt())?;
        let mut contents = Contents { stream: head.stream, ..Contents::default() };
        while contents.end < length {
            match contents.note(&*file, length) {
                Some(bytes) => contents.end += bytes,
                None => {
                    contents.is_damaged = true;
                    break;
                }
            }
        }
        Ok(Self { id, head, contents: Mutex::new(contents) })
    }

    pub(crate) fn shown(&self) -> UndoEntry {
        let contents = stdx::lock(&self.contents);
        UndoEntry {
            id: self.id,
            head: self.head.clone(),
            n_messages: contents
                .portions
                .iter()
                .map(Portion::n_left)
                .fold(contents.stream.map_or(0, |stream| stream.n_messages), u64::saturating_add),
            n_left_out: contents.n_left_out,
            bytes: contents.bytes(),
            is_damaged: contents.is_damaged,
            busy: contents.busy,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        stdx::lock(&self.contents).bytes()
    }

    /// The stream whose files are this entry's.
    pub(crate) fn stream(&self) -> Option<KeptStream> {
        stdx::lock(&self.contents).stream
    }

    /// Notes that the files of `stream` are this entry's; `None` if they are those of a stream that exists.
    pub(crate) fn set_stream(&self, stream: Option<KeptStream>) {
        stdx::lock(&self.contents).stream = stream;
    }

    /// Notes durably that the files of the entry's stream are about to be given to another id.
    pub(crate) fn note_move(&self, file: &dyn DiskFile, id: u64) -> Result<()> {
        self.append(file, MOVED, &id.to_le_bytes())?;
        stdx::lock(&self.contents).moved_to = Some(id);
        file.sync_data().context("sync", &name_of(self.id))
    }

    /// The id that the stream's files were given to last.
    pub(crate) fn moved_to(&self) -> Option<u64> {
        stdx::lock(&self.contents).moved_to
    }

    /// Ends writing into the files of the entry's stream, which is `stream` if it was just deleted; returns
    /// false while somebody still writes. The caller waits for the disk.
    pub(crate) fn end_writing(&self, stream: Option<Arc<Stream>>) -> bool {
        let stream = stream.or_else(|| stdx::lock(&self.contents).unended.take());
        let unended = stream.filter(|stream| !stream::end_writing(stream));
        let has_ended = unended.is_none();
        stdx::lock(&self.contents).unended = unended;
        has_ended
    }

    pub(crate) fn is_busy(&self) -> bool {
        stdx::lock(&self.contents).busy != Busy::No
    }

    /// Cuts off the part of the file that cannot be read, so that records can be appended.
    pub(crate) fn mend(&self, file: &dyn DiskFile) -> Result<()> {
        let (end, is_damaged) = {
            let contents = stdx::lock(&self.contents);
            (contents.end, contents.is_damaged)
        };
        if is_damaged { file.set_len(end).context("cut", &name_of(self.id)) } else { Ok(()) }
    }

    /// Begins or ends work on the entry; returns false if the entry is busy with something already.
    pub(crate) fn set_busy(&self, busy: Busy) -> bool {
        let mut contents = stdx::lock(&self.contents);
        let may = busy == Busy::No || contents.busy == Busy::No;
        contents.busy = if may { busy } else { contents.busy };
        may
    }

    /// Writes a portion down durably; returns its number.
    pub(crate) fn put(&self, file: &dyn DiskFile, portion: &PortionRecord) -> Result<u32> {
        let at = self.append(file, PORTION, &portion.payload)?;
        file.sync_data().context("sync", &name_of(self.id))?;
        let portions = &mut stdx::lock(&self.contents).portions;
        portions.push(Portion { at, n: portion.n(), out: Some(BTreeSet::new()) });
        Ok(u32::try_from(portions.len() - 1).unwrap_or(u32::MAX))
    }

    /// Notes that messages of a portion are not to be brought back: those at these positions, or all.
    pub(crate) fn leave_out(
        &self,
        file: &dyn DiskFile,
        number: u32,
        positions: Option<&[u64]>,
    ) -> Result<()> {
        let mut payload = Vec::new();
        put_u32(&mut payload, number);
        put_bool(&mut payload, positions.is_none());
        positions.unwrap_or_default().iter().for_each(|at| put_u64(&mut payload, *at));
        self.append(file, OUT, &payload)?;
        stdx::lock(&self.contents).leave_out(number, positions.map(<[u64]>::to_vec));
        Ok(())
    }

    /// Notes that the act came to its end, and that `n_left_out` of its messages are not in the entry.
    pub(crate) fn end(&self, file: &dyn DiskFile, n_left_out: u64) -> Result<()> {
        self.append(file, WHOLE, &n_left_out.to_le_bytes())?;
        stdx::lock(&self.contents).n_left_out = Some(n_left_out);
        file.sync_data().context("sync", &name_of(self.id))
    }

    /// The commands that make the queue again.
    pub(crate) fn definitions(&self, file: &dyn DiskFile) -> Option<Vec<Command>> {
        let (_, payload) = read(file, 0, stdx::lock(&self.contents).end)?;
        let (mut reader, mut commands) = (Reader::new(&payload), Vec::new());
        Head::decode(&mut reader).ok()?;
        while !reader.is_empty() {
            commands.push(Command::decode(reader.bytes().ok()?).ok()?);
        }
        Some(commands)
    }

    /// The numbers of the portions that have messages to be brought back.
    pub(crate) fn portions(&self) -> Vec<u32> {
        let contents = stdx::lock(&self.contents);
        let numbered = (0..).zip(&contents.portions);
        numbered.filter(|(_, it)| it.n_left() > 0).map(|(number, _)| number).collect()
    }

    /// The messages of a portion that are to be brought back; `None` if the portion cannot be read, which is
    /// noted as damage.
    pub(crate) fn messages(&self, file: &dyn DiskFile, number: u32) -> Option<Vec<RemovedMessage>> {
        let (portion, end) = {
            let contents = stdx::lock(&self.contents);
            (contents.portions.get(number as usize)?.clone(), contents.end)
        };
        let found = read(file, portion.at, end).filter(|(kind, _)| *kind == PORTION);
        let found = found.and_then(|(_, payload)| parse_portion(&payload, &portion).ok());
        if found.is_none() {
            stdx::lock(&self.contents).is_damaged = true;
        }
        found
    }

    /// Appends a record; returns its place in the file.
    fn append(&self, file: &dyn DiskFile, kind: u8, payload: &[u8]) -> Result<u64> {
        let mut record = vec![0; HEADER_BYTES];
        record.extend_from_slice(payload);
        let length = u32::try_from(payload.len()).expect("records are < 4 GiB");
        put_at(&mut record, 0, length);
        if let Some(place) = record.get_mut(HEADER_BYTES - 1) {
            *place = kind;
        }
        let crc = crc32c(record.get(HEADER_BYTES - 1..).unwrap_or_default());
        put_at(&mut record, 4, crc);
        let at = stdx::lock(&self.contents).end;
        if let Err(error) = file.write_at(at, &record) {
            // A partly written record would be taken for one that a crash has torn.
            file.set_len(at).ok();
            return Err(error).context("write", &name_of(self.id));
        }
        stdx::lock(&self.contents).end = at + record.len() as u64;
        Ok(at)
    }
}

impl Contents {
    fn bytes(&self) -> u64 {
        self.end.saturating_add(self.stream.map_or(0, |stream| stream.bytes))
    }

    /// Takes note of the next record; returns its length, or `None` if the record cannot be read.
    fn note(&mut self, file: &dyn DiskFile, length: u64) -> Option<u64> {
        let (n, kind) = header(file, self.end)?;
        let bytes = (HEADER_BYTES + n) as u64;
        let ends_at = self.end.checked_add(bytes)?;
        if ends_at > length {
            return None;
        }
        // A crash may have torn the last record, so all of it is read.
        if ends_at == length {
            read(file, self.end, length)?;
        }
        match kind {
            HEAD => {}
            PORTION => {
                let mut n = [0; 4];
                let read = file.read_at(self.end + HEADER_BYTES as u64, &mut n).ok()?;
                let n = u64::from(u32::from_le_bytes(n));
                let portion = Portion { at: self.end, n, out: Some(BTreeSet::new()) };
                self.portions.push(portion);
                (read == 4).then_some(())?;
            }
            OUT => {
                let (_, payload) = read(file, self.end, length)?;
                let mut reader = Reader::new(&payload);
                let (number, is_all) = (reader.u32().ok()?, reader.bool().ok()?);
                let positions = std::iter::from_fn(|| reader.u64().ok()).collect();
                self.leave_out(number, (!is_all).then_some(positions));
            }
            WHOLE => {
                let (_, payload) = read(file, self.end, length)?;
                self.n_left_out = Some(Reader::new(&payload).u64().ok()?);
            }
            MOVED => {
                let (_, payload) = read(file, self.end, length)?;
                self.moved_to = Some(Reader::new(&payload).u64().ok()?);
            }
            _ => return None,
        }
        Some(bytes)
    }

    fn leave_out(&mut self, number: u32, positions: Option<Vec<u64>>) {
        let Some(portion) = self.portions.get_mut(number as usize) else { return };
        match (positions, &mut portion.out) {
            (Some(positions), Some(out)) => out.extend(positions),
            (None, out) => *out = None,
            (Some(_), None) => {}
        }
    }
}

/// Returns the payload's length and the kind of the record at `at`.
fn header(file: &dyn DiskFile, at: u64) -> Option<(usize, u8)> {
    let mut header = [0; HEADER_BYTES];
    let n = file.read_at(at, &mut header).ok()?;
    let [n0, n1, n2, n3, .., kind] = header;
    let length = u32::from_le_bytes([n0, n1, n2, n3]);
    (n == HEADER_BYTES).then_some((usize::try_from(length).ok()?, kind))
}

/// Returns the kind and payload of the record at `at`, if it is intact and ends by `end`.
fn read(file: &dyn DiskFile, at: u64, end: u64) -> Option<(u8, Vec<u8>)> {
    let (n, kind) = header(file, at)?;
    let ends_at = at.checked_add((HEADER_BYTES + n) as u64)?;
    if ends_at > end || (kind != PORTION && n > READ_BYTES_MAX) {
        return None;
    }
    let mut record = vec![0; HEADER_BYTES + n];
    if file.read_at(at, &mut record).ok()? != record.len() {
        return None;
    }
    let [.., c0, c1, c2, c3, _] = *record.first_chunk::<HEADER_BYTES>()?;
    let is_right = crc32c(record.get(HEADER_BYTES - 1..)?) == u32::from_le_bytes([c0, c1, c2, c3]);
    is_right.then(|| (kind, record.split_off(HEADER_BYTES)))
}

fn parse_portion(payload: &[u8], portion: &Portion) -> Result<Vec<RemovedMessage>, RecordError> {
    let (mut reader, mut messages) = (Reader::new(payload), Vec::new());
    for _ in 0..reader.u32()? {
        let (position, record) = (reader.u64()?, reader.bytes()?);
        let message = parse_record(record, None).map_err(|_| RecordError::Invalid)?;
        if portion.out.as_ref().is_some_and(|out| !out.contains(&position)) {
            messages.push(RemovedMessage { position, message: OwnedMessage::new(&message) });
        }
    }
    Ok(messages)
}
