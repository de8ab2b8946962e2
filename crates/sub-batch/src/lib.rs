//! Sub-batches, which stream clients publish as one entry, unpacked for consumers that know only messages.
//! Must never know sockets, files, streams, or what a message is.
//! Start reading at [`unpack`].
//!
//! | compression | as the official clients write it |
//! |---|---|
//! | gzip | members of RFC 1952 |
//! | Snappy | the framing format, not bare blocks |
//! | LZ4 | the frame format, not bare blocks |
//! | Zstandard | one frame of RFC 8878 |

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

// The compressions come with their dependencies.
