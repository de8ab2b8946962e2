//! Which sockets a node keeps, and whose turn it is: descriptors, places of strangers, turns of work.
//! Never what is spoken over a socket, who its client is, or what a turn is used for.
//! Start reading at [`Admission`].

mod descriptors;
mod fair;
mod places;
mod turns;

pub use descriptors::Descriptors;
pub use fair::{FairTurns, TooMany, Turn, TurnKey, TurnLimits};
pub use places::{Place, Places};
pub use turns::in_turns;

use std::net::IpAddr;
use std::sync::Arc;

/// The most sockets, at a time, of clients that have not logged in, whatever they speak; never more than half
/// of the descriptors there are for connections.
const STRANGERS_MAX: u64 = 16_384;
/// The most steps of handshakes of TLS that are worked out at a time: between them other connections have
/// their turns.
const TLS_TURNS_MAX: usize = 2;

/// The bounds that the listeners of all protocols share.
#[derive(Debug)]
pub struct Admission {
    /// The descriptors that connections may have.
    pub descriptors: Arc<Descriptors>,
    /// The sockets of clients that have not logged in.
    pub strangers: Arc<Places>,
    /// Turns of handshakes of TLS, which take long to work out.
    tls_turns: Arc<FairTurns>,
}

impl Admission {
    /// Bounds for a process that may have these descriptors.
    #[must_use]
    pub fn new(descriptors: Arc<Descriptors>) -> Arc<Self> {
        let strangers = Places::new(STRANGERS_MAX.min(descriptors.below_reserve() / 2));
        // All of those who may wait are strangers.
        let waiting_max = usize::try_from(STRANGERS_MAX).unwrap_or(usize::MAX);
        let tls_turns = FairTurns::new(TurnLimits {
            of_node_max: TLS_TURNS_MAX,
            of_user_max: TLS_TURNS_MAX,
            waiting_max,
            waiting_of_asker_max: waiting_max,
        });
        Arc::new(Self { descriptors, strangers, tls_turns })
    }

    /// Waits for the turn of a step of a handshake of TLS: clients of one network wait for each other, and
    /// for one of each other network. None when too many wait.
    pub async fn tls_turn(&self, network: IpAddr) -> Option<Turn> {
        self.tls_turns.begin(&TurnKey { user: String::new(), address: network }).await.ok()
    }
}
