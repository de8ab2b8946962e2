//! Commands of other nodes' sessions, which have no answer. Those for unknown links are passed over: their
//! queue may have ended the link meanwhile.

use super::links::RemoteLink;
use super::peer_session::PeerSession;
use crate::broker::Broker;
use crate::session::{SETTLES_AT_ONCE, Turn, give_back_many};
use queue::Return;
use queue_type::AckTimeout;
use queues::ReleaseRef;
use remote::commands::SessionCommand;
use remote::wire::read_record;
use session::{CreditRequest, LinkId, MessageChanges, Outcome, Position, Settle};
use std::collections::HashSet;
use std::sync::Arc;

impl PeerSession {
    /// Carries out a command.
    pub(super) async fn command(
        &self,
        broker: &Arc<Broker>,
        turn: &mut Turn,
        command: SessionCommand,
    ) {
        match command {
            SessionCommand::Settle { link, outcome, positions, changes } => {
                if let Some(found) = self.links.get(link) {
                    let how = Settlement { link: LinkId(link), outcome, changes };
                    settle(turn, &found, how, &positions).await;
                }
            }
            SessionCommand::Credit { link, bytes } => {
                if let Some(found) = self.links.get(link)
                    && found.outbox.add_credit(bytes)
                {
                    let _steps = found.link.resume();
                }
            }
            SessionCommand::Flow { link, credit } => {
                if let Some(found) = self.links.get(link) {
                    let channel = found.link.channel();
                    found.link.flow(&CreditRequest { channel, link: LinkId(link), ..credit });
                }
            }
            SessionCommand::Prefetch { link, prefetch } => {
                if let Some(found) = self.links.get(link) {
                    found.link.set_prefetch(prefetch);
                }
            }
            SessionCommand::Detach { links, how } => self.detach(broker, turn, &links, how).await,
            SessionCommand::Recover { link, upto, kept } => {
                if let Some(found) = self.links.get(link) {
                    recover(turn, &found, upto, kept.into_iter().collect()).await;
                }
            }
            SessionCommand::Reply { token, record } => {
                if let Ok(message) = read_record(&record) {
                    let _is_awaited = broker.replies.deliver(&token, message);
                }
            }
            SessionCommand::Overdue(AckTimeout { connection, channel, timeout_ms }) => {
                if let Some(connection) = broker.connections.get(connection) {
                    connection.note_overdue(channel, timeout_ms);
                }
            }
            SessionCommand::Touch(id) => {
                if let Some(queue) = self.find_queue(broker, turn, id).await {
                    queue.touch();
                }
            }
        }
    }
}

/// The settlement of messages of one link.
struct Settlement {
    link: LinkId,
    outcome: Outcome,
    changes: Option<MessageChanges>,
}

/// Settles messages of a link; very many, in slices, come back to their queue together.
async fn settle(
    turn: &mut Turn,
    RemoteLink { link, outbox }: &RemoteLink,
    Settlement { link: id, outcome, changes }: Settlement,
    positions: &[Position],
) {
    outbox.settled(positions);
    let goes_back = matches!(outcome, Outcome::Modified | Outcome::Released);
    let _returning = (goes_back && positions.len() > SETTLES_AT_ONCE).then(|| link.begin_return());
    let channel = link.channel();
    for part in positions.chunks(SETTLES_AT_ONCE) {
        let settle =
            |position: &Position| Settle { channel, link: id, position: *position, outcome };
        let settles: Vec<Settle> = part.iter().map(settle).collect();
        // The client's node refuses what the queue's mode does not take.
        let _by_mode = match &changes {
            None => link.settle(&settles, turn.wakes()),
            Some(changes) => link.modify(&settles, changes, turn.wakes()),
        };
        turn.did(part.len()).await;
    }
}

/// Requeues what a link holds of the deliveries up to `upto`, but for `kept`: its client gets the later ones
/// behind the answer to its request.
async fn recover(turn: &mut Turn, found: &RemoteLink, upto: u64, mut kept: HashSet<u64>) {
    let RemoteLink { link, outbox } = found;
    kept.extend(outbox.delivered_after(upto));
    if let Some(mut release) = ReleaseRef::of(std::iter::once((link, kept.clone()))) {
        give_back_many(turn, &mut release, Return::Released).await;
        release.requeue_all();
    }
    outbox.came_back(upto, &kept);
}
