//! Frames as they are carried out.

use remote::commands::SessionCommand;
use remote::requests::SessionRequest;
use remote::wire::PutFrame;

/// The request of a frame.
#[derive(Debug)]
pub(super) enum SessionInput {
    Put(PutFrame),
    Command(SessionCommand),
    Request(u64, Box<SessionRequest>),
}
