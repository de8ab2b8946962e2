//! Blobs: runs of bytes written once, named by a [`BlobId`], counted by reference, each with a checksum.

/// Names a blob in its store; stays valid while the blob is referenced, also when its file is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId {
    /// Number of the file.
    pub file: u32,
    /// Number of the blob in its file.
    pub index: u32,
}
