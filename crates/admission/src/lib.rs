//! Which sockets a node keeps, and whose turn it is: descriptors, places of strangers, turns of work.
//! Never what is spoken over a socket, who its client is, or what a turn is used for.
//! Start reading at [`Admission`].

mod descriptors;
mod places;
mod turns;

pub use descriptors::Descriptors;
pub use places::{Place, Places};
pub use turns::in_turns;

use std::sync::Arc;
use tokio::sync::Semaphore;

/// Sockets of clients that have not shown who they are, at a time, whatever they speak, and never more than
/// half of the descriptors there are for connections.
const STRANGERS_MAX: u64 = 16_384;
/// Steps of handshakes of TLS that are worked out at a time: between them other connections have their turns.
const TLS_TURNS_MAX: usize = 2;

/// The bounds that the listeners of all protocols share.
#[derive(Debug)]
pub struct Admission {
    /// The descriptors that connections may have.
    pub descriptors: Arc<Descriptors>,
    /// Sockets of clients that have not shown who they are.
    pub strangers: Arc<Places>,
    /// Turns of handshakes of TLS, which take long to work out.
    pub tls_turns: Semaphore,
}

impl Admission {
    /// Bounds for a process that may have these descriptors.
    #[must_use]
    pub fn new(descriptors: Arc<Descriptors>) -> Arc<Self> {
        let strangers = Places::new(STRANGERS_MAX.min(descriptors.below_reserve() / 2));
        Arc::new(Self { descriptors, strangers, tls_turns: Semaphore::new(TLS_TURNS_MAX) })
    }
}
