//! Outcomes that clients give to the deliveries of a session, in ranges.

use super::{SessionEndpoint, SessionIo};
use crate::fault::ProtocolFault;
use crate::outcomes::{DeliveryRange, put_settled};
use crate::outgoing::UnsettledMessage;
use crate::requests::{LinkRequest, ModifiedMessage};
use amqp10::{
    Condition, DeliveryOutcome, DeliveryState, Disposition, MapRef, PassingState, Role,
    SerialNumber, ValueRef,
};
use session::{ChannelId, Outcome, Settle};

impl SessionEndpoint {
    /// Takes the outcomes of a range of deliveries.
    pub(super) fn disposition(
        &mut self,
        io: &mut SessionIo<'_>,
        disposition: &Disposition<'_>,
    ) -> Result<(), ProtocolFault> {
        let Disposition { role, first, settled, state, .. } = *disposition;
        let last = disposition.last.unwrap_or(first);
        let outcome = match (role, state) {
            // The client settles what it has sent: the server has done so before.
            (Role::Sender, _) => return Ok(()),
            (Role::Receiver, Some(DeliveryState::Outcome(outcome))) => outcome,
            // Without an outcome that of the source holds.
            (Role::Receiver, None) if settled => DeliveryOutcome::Released(amqp10::Released {}),
            (Role::Receiver, None | Some(DeliveryState::Passing(PassingState::Received(_)))) => {
                return Ok(());
            }
            (
                Role::Receiver,
                Some(
                    DeliveryState::Passing(
                        PassingState::Declared(_) | PassingState::Transactional(_),
                    )
                    | DeliveryState::Other(_),
                ),
            ) => return self.refuse_outcome(io, first, last),
        };
        let channel = ChannelId(self.channel);
        let n_requests = io.requests.len();
        self.unsettled.settle(first, last, |_, message| {
            io.requests.push(settle_request(channel, &message, &outcome));
        });
        if !settled && io.requests.len() > n_requests {
            let range = DeliveryRange { first, last: disposition.last };
            put_settled(self.channel, Role::Sender, range, state, io.out);
        }
        Ok(())
    }

    /// Detaches the links of deliveries with an outcome that is not known.
    fn refuse_outcome(
        &mut self,
        io: &mut SessionIo<'_>,
        first: SerialNumber,
        last: SerialNumber,
    ) -> Result<(), ProtocolFault> {
        let mut handles = Vec::new();
        self.unsettled.settle(first, last, |_, message| handles.push(message.handle));
        handles.sort_unstable();
        handles.dedup();
        for handle in handles {
            let fault =
                ProtocolFault::link(Condition::NotImplemented, "unsupported delivery state");
            self.fail_link(io, handle, fault)?;
        }
        Ok(())
    }
}

/// The request to the broker that follows from an outcome.
fn settle_request(
    channel: ChannelId,
    message: &UnsettledMessage,
    outcome: &DeliveryOutcome<'_>,
) -> LinkRequest {
    let UnsettledMessage { link, position, .. } = *message;
    let outcome = match outcome {
        DeliveryOutcome::Accepted(_) => Outcome::Accepted,
        DeliveryOutcome::Rejected(_) => Outcome::Rejected,
        DeliveryOutcome::Released(_) => Outcome::Released,
        DeliveryOutcome::Modified(modified)
            if modified.undeliverable_here || modified.message_annotations != MapRef::EMPTY =>
        {
            let mut annotations = Vec::new();
            ValueRef::Map(modified.message_annotations).encode(&mut annotations);
            return LinkRequest::Modify(Box::new(ModifiedMessage {
                channel,
                link,
                position,
                is_failed: modified.delivery_failed,
                is_undeliverable: modified.undeliverable_here,
                annotations,
            }));
        }
        DeliveryOutcome::Modified(modified) if modified.delivery_failed => Outcome::Modified,
        DeliveryOutcome::Modified(_) => Outcome::Released,
    };
    LinkRequest::Settle(Settle { channel, link, position, outcome })
}
