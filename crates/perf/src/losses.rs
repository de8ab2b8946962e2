//! Connections that end without being asked to, and may be made again.

use client::Closed;

/// The reply code of a broker that goes away, or whose operator closes connections.
const CONNECTION_FORCED: u16 = 320;

/// A connection ended without being asked to: it may be made again.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Lost(pub(crate) String);

/// Whether what went wrong is that a connection ended, through nothing that was asked on it.
pub(crate) fn is_loss(error: &anyhow::Error) -> bool {
    let is_forced = |closed: &Closed| closed.code == CONNECTION_FORCED;
    error.downcast_ref::<Lost>().is_some() || error.downcast_ref().is_some_and(is_forced)
}
