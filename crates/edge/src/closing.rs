//! The end of a connection, as its front sees it coming.

/// The way to close a connection once everything before is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseMode {
    /// Half-close, then wait at most this many milliseconds for the peer to close, dropping what it sends, so
    /// that what was written is not lost to a reset.
    Linger(u64),
    /// Keep the socket open and silent until the peer closes it, or this many milliseconds are over. The
    /// client closes once its close was answered: a client that finds the end of the stream first takes a
    /// clean close for a failure. Peers that fail to log in are slowed down.
    Hold(u64),
}

/// The progress of a connection's close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// No close has begun.
    No,
    /// A close was put in; the client's answer is awaited.
    Sent,
    /// The output has ended: nothing may follow.
    Ended,
}
