//! Words for damage: of a place in a file, and of files that are missing.

/// A place where something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, relative to the disk's root.
    pub file: String,
    /// The place in it, in bytes.
    pub at: u64,
    /// The offset of the chunk's first message, if the index tells.
    pub offset: Option<u64>,
    /// Messages in it, as far as is known.
    pub n_messages: u64,
    /// The defect.
    pub what: &'static str,
}

/// The lack of something that was synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The file or directory, and what is wrong with it.
    pub what: String,
    /// Messages that are lost by it, at most.
    pub n_messages: u64,
}
