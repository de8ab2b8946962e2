//! The kinds of frames, from which level on they are known, and how long they may be.

/// The kind of a frame. Those below 32 are this crate's; others are of who sends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameKind(pub u8);

impl FrameKind {
    /// The last frame of a connection: why its sender refuses to go on.
    pub const REFUSED: Self = Self(0);
    /// The announcement of a frame that comes in pieces.
    pub(crate) const BEGIN: Self = Self(1);
    /// A piece of the frame announced for a class; the kinds that follow are those of the other classes.
    pub(crate) const FIRST_PIECE: Self = Self(2);
    /// The identity of a node at the beginning of a connection.
    pub(crate) const HELLO: Self = Self(8);
    /// A dialler's proof of the cookie.
    pub(crate) const PROOF: Self = Self(9);
    /// An acceptor's proof of the cookie, which ends a handshake.
    pub(crate) const WELCOME: Self = Self(10);
    /// A pulse.
    pub const PULSE: Self = Self(16);
}

/// A peer's violation of the rules of frames: the connection ends with this text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A kind that does not belong here, or is of a newer level.
    #[error("frames of kind {kind} are unknown at level {level}: check the versions of both nodes")]
    UnknownKind {
        /// The kind.
        kind: u8,
        /// The connection's level.
        level: u16,
    },
    /// A body over its limit.
    #[error(
        "a frame of kind {kind} has {n_bytes} bytes and may have {bytes_max}: check that max_message_size \
         is the same on both nodes"
    )]
    TooLong {
        /// The kind.
        kind: u8,
        /// Its length, announced or that of the frame itself.
        n_bytes: u32,
        /// The limit.
        bytes_max: u32,
    },
    /// A piece or an announcement where none belongs.
    #[error("the pieces of a frame are out of order: {0}")]
    Pieces(&'static str),
}

/// A kind that a connection may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindRow {
    /// The kind.
    pub kind: FrameKind,
    /// The first level at which nodes know it.
    pub level: u16,
    /// The length of a body at most.
    pub bytes_max: u32,
}

/// The kinds that a connection carries at its level.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    level: u16,
    rows: Vec<KindRow>,
}

impl Vocabulary {
    /// The kinds of these tables that are known at `level`, and refusals.
    #[must_use]
    pub fn new(level: u16, tables: &[&[KindRow]]) -> Self {
        const REFUSED: KindRow = KindRow { kind: FrameKind::REFUSED, level: 0, bytes_max: 1_024 };
        let rows = tables.iter().copied().flatten().filter(|row| row.level <= level);
        let mut rows: Vec<KindRow> = std::iter::once(&REFUSED).chain(rows).copied().collect();
        rows.sort_by_key(|row| row.kind);
        Self { level, rows }
    }

    /// Checks the length of a frame's body against its kind.
    ///
    /// # Errors
    /// The kind is unknown at the connection's level, or the body too long for it.
    pub(crate) fn check(&self, kind: FrameKind, n_bytes: u32) -> Result<(), FrameError> {
        let found = self.rows.binary_search_by_key(&kind, |row| row.kind).ok();
        let Some(row) = found.and_then(|at| self.rows.get(at)) else {
            return Err(FrameError::UnknownKind { kind: kind.0, level: self.level });
        };
        let bytes_max = row.bytes_max;
        if n_bytes > bytes_max {
            return Err(FrameError::TooLong { kind: kind.0, n_bytes, bytes_max });
        }
        Ok(())
    }
}
