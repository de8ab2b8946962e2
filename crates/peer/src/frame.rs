//! Frames: how they lie on a connection, and their decoder.
//!
//! ```text
//!  0         3      4
//!  +---------+------+---------+
//!  | length  | kind | body    |    length of the body, little-endian, at most 1 MiB
//!  | u24     | u8   |         |
//!  +---------+------+---------+
//!  begin (1):        class u8, kind u8, total u32     a frame of `total` bytes follows in pieces
//!  piece (2, 3, 4):  bytes of the frame that was begun in class 0, 1 or 2, at most 64 KiB
//! ```
//!
//! Other frames pass between the pieces. In each class one frame at a time is under way.

use crate::connection::LinkClass;
use crate::kinds::{FrameError, FrameKind, Vocabulary};
use bytes::Bytes;
use stdx::record::{Reader, put_u8, put_u32};

/// The bytes of a frame before its body.
pub const FRAME_HEAD_BYTES: usize = 4;
/// A body that does not come in pieces has at most so many bytes.
pub const FRAME_BYTES_MAX: u32 = 1 << 20;
/// Frames with longer bodies are sent in pieces of this size.
pub const PIECE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of the body of a frame's announcement.
const BEGIN_BYTES: u32 = 6;
/// Memory that is taken for an announced frame before its bytes have come.
const RESERVED_BYTES_MAX: usize = 16 << 20;

/// A frame that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFrame<'a> {
    /// The kind.
    pub kind: FrameKind,
    /// The body.
    pub body: FrameBody<'a>,
}

/// The body of a frame that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameBody<'a> {
    /// A part of the input.
    Within(&'a [u8]),
    /// Bytes that came in several inputs or pieces, copied once.
    Whole(Bytes),
}

impl FrameBody<'_> {
    /// The body as bytes of its own, copied unless that has been done.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Within(bytes) => Bytes::copy_from_slice(bytes),
            Self::Whole(bytes) => bytes,
        }
    }
}

impl std::ops::Deref for FrameBody<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Within(bytes) => bytes,
            Self::Whole(bytes) => bytes,
        }
    }
}

/// Appends a frame that needs no pieces.
pub fn put_frame(out: &mut Vec<u8>, kind: FrameKind, body: &[u8]) {
    out.extend(frame_head(kind, body.len()));
    out.extend_from_slice(body);
}

/// The bytes before a body, which is not longer than [`FRAME_BYTES_MAX`].
pub(crate) fn frame_head(kind: FrameKind, n_bytes: usize) -> [u8; FRAME_HEAD_BYTES] {
    debug_assert!(n_bytes <= FRAME_BYTES_MAX as usize, "longer frames are sent in pieces");
    let [low, middle, high, ..] = n_bytes.to_le_bytes();
    [low, middle, high, kind.0]
}

/// The kind and the length of the body of a frame that begins with these bytes.
pub(crate) const fn parse_head(head: [u8; FRAME_HEAD_BYTES]) -> (FrameKind, u32) {
    let [low, middle, high, kind] = head;
    (FrameKind(kind), u32::from_le_bytes([low, middle, high, 0]))
}

/// Appends the announcement of a frame that is sent in pieces.
pub(crate) fn put_begin(out: &mut Vec<u8>, class: LinkClass, kind: FrameKind, n_bytes: u32) {
    out.extend(frame_head(FrameKind::BEGIN, BEGIN_BYTES as usize));
    put_u8(out, class as u8);
    put_u8(out, kind.0);
    put_u32(out, n_bytes);
}

/// The kind of a class's pieces.
pub(crate) const fn piece_kind(class: LinkClass) -> FrameKind {
    FrameKind(FrameKind::FIRST_PIECE.0 + class as u8)
}

/// The class whose pieces have this kind.
fn class_of_piece(kind: FrameKind) -> Option<LinkClass> {
    LinkClass::ALL.into_iter().find(|class| piece_kind(*class) == kind)
}

/// Decodes the frames of a connection from inputs that are cut anywhere. After an error it is not used again.
#[derive(Debug)]
pub struct FrameDecoder {
    vocabulary: Vocabulary,
    progress: FrameProgress,
    /// The frames that come in pieces, by class.
    large: [Option<PartialBody>; LinkClass::ALL.len()],
}

/// The part of a frame that comes next.
#[derive(Debug)]
enum FrameProgress {
    Head { bytes: [u8; FRAME_HEAD_BYTES], n: usize },
    Body(PartialBody),
    Piece { class: LinkClass, n_left: usize },
}

/// A body of which bytes are missing.
#[derive(Debug)]
struct PartialBody {
    kind: FrameKind,
    n_left: usize,
    bytes: Vec<u8>,
}

impl PartialBody {
    /// Takes what it can of the first `n_max` bytes of the input; returns how many those were.
    fn fill(&mut self, input: &mut &[u8], n_max: usize) -> usize {
        let part = take_front(input, n_max.min(self.n_left));
        if self.bytes.capacity() == 0 && !part.is_empty() {
            self.bytes.reserve_exact(self.n_left.min(RESERVED_BYTES_MAX));
        }
        self.bytes.extend_from_slice(part);
        self.n_left -= part.len();
        part.len()
    }

    /// The frame, once its body has come.
    fn next<'a>(&mut self, input: &mut &'a [u8]) -> Option<PeerFrame<'a>> {
        let (kind, n_left) = (self.kind, self.n_left);
        if self.bytes.is_empty() && input.len() >= n_left {
            return Some(PeerFrame { kind, body: FrameBody::Within(take_front(input, n_left)) });
        }
        self.fill(input, n_left);
        let bytes = (self.n_left == 0).then(|| std::mem::take(&mut self.bytes))?;
        Some(Self { kind, n_left: 0, bytes }.into_frame())
    }

    fn into_frame(self) -> PeerFrame<'static> {
        PeerFrame { kind: self.kind, body: FrameBody::Whole(self.bytes.into()) }
    }
}

impl FrameProgress {
    const START: Self = Self::Head { bytes: [0; FRAME_HEAD_BYTES], n: 0 };
}

impl FrameDecoder {
    /// Creates a decoder at the first frame after a handshake.
    #[must_use]
    pub const fn new(vocabulary: Vocabulary) -> Self {
        Self { vocabulary, progress: FrameProgress::START, large: [None, None, None] }
    }

    /// Takes the next frame from the front of `input`; with none, all of the input has been taken.
    ///
    /// # Errors
    /// The peer has violated the rules.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<PeerFrame<'a>>, FrameError> {
        loop {
            let frame = match &mut self.progress {
                FrameProgress::Head { bytes, n } => {
                    let part = take_front(input, FRAME_HEAD_BYTES - *n);
                    bytes.iter_mut().skip(*n).zip(part).for_each(|(to, from)| *to = *from);
                    *n += part.len();
                    if *n < FRAME_HEAD_BYTES {
                        return Ok(None);
                    }
                    let (kind, n_bytes) = parse_head(*bytes);
                    self.progress = self.begin(kind, n_bytes)?;
                    continue;
                }
                FrameProgress::Body(body) => body.next(input),
                FrameProgress::Piece { class, n_left } => {
                    let large = self.large.get_mut(class.place()).and_then(Option::as_mut);
                    *n_left -= large.map_or(0, |large| large.fill(input, *n_left));
                    if *n_left > 0 {
                        return Ok(None);
                    }
                    let slot = self.large.get_mut(class.place());
                    self.progress = FrameProgress::START;
                    match slot.and_then(|large| large.take_if(|large| large.n_left == 0)) {
                        Some(large) => return Ok(Some(large.into_frame())),
                        None => continue,
                    }
                }
            };
            let Some(frame) = frame else { return Ok(None) };
            self.progress = FrameProgress::START;
            if frame.kind != FrameKind::BEGIN {
                return Ok(Some(frame));
            }
            self.announce(&frame.body)?;
        }
    }

    /// Bytes that are held of frames of which others are missing.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let body = match &self.progress {
            FrameProgress::Body(body) => Some(body),
            FrameProgress::Head { .. } | FrameProgress::Piece { .. } => None,
        };
        self.large.iter().flatten().chain(body).map(|body| body.bytes.capacity()).sum()
    }

    /// Checks the head of a frame.
    fn begin(&self, kind: FrameKind, n_bytes: u32) -> Result<FrameProgress, FrameError> {
        let n_left = n_bytes as usize;
        if let Some(class) = class_of_piece(kind) {
            let large = self.large.get(class.place()).and_then(Option::as_ref);
            let large = large.ok_or(FrameError::Pieces("a piece of no frame"))?;
            if n_left == 0 || n_left > large.n_left.min(PIECE_BYTES_MAX) {
                return Err(FrameError::Pieces("a piece of a wrong length"));
            }
            return Ok(FrameProgress::Piece { class, n_left });
        }
        if n_bytes > FRAME_BYTES_MAX {
            let bytes_max = FRAME_BYTES_MAX;
            return Err(FrameError::TooLong { kind: kind.0, n_bytes, bytes_max });
        }
        if kind != FrameKind::BEGIN {
            self.vocabulary.check(kind, n_bytes)?;
        } else if n_bytes != BEGIN_BYTES {
            return Err(FrameError::Pieces("an announcement of a wrong length"));
        }
        Ok(FrameProgress::Body(PartialBody { kind, n_left, bytes: Vec::new() }))
    }

    /// Notes the announcement of a frame in pieces.
    fn announce(&mut self, body: &[u8]) -> Result<(), FrameError> {
        const CUT: FrameError = FrameError::Pieces("an announcement of a wrong length");
        let mut reader = Reader::new(body);
        let class = LinkClass::of_code(reader.u8().map_err(|_| CUT)?);
        let class = class.ok_or(FrameError::Pieces("an announcement in no class"))?;
        let kind = FrameKind(reader.u8().map_err(|_| CUT)?);
        let n_bytes = reader.u32().map_err(|_| CUT)?;
        self.vocabulary.check(kind, n_bytes)?;
        let large = PartialBody { kind, n_left: n_bytes as usize, bytes: Vec::new() };
        match self.large.get_mut(class.place()) {
            Some(slot) if slot.is_none() && n_bytes > 0 => *slot = Some(large),
            Some(_) | None => return Err(FrameError::Pieces("an announcement amid pieces")),
        }
        Ok(())
    }
}

/// Takes at most `n` bytes from the front of the input.
fn take_front<'a>(input: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (front, rest) = input.split_at(n.min(input.len()));
    *input = rest;
    front
}
