//! Messages that a full queue did not take, on their way to where its dead letters go.

use meta::QueueDef;
use queue::Reason;
use queue_type::{DeadLetter, Incoming, RefusedItem, RejectedDeadLetters};
use std::sync::Arc;

/// Messages that a queue did not take and has dead-lettered instead.
pub(super) fn dead_letters_of(
    queue: &Arc<QueueDef>,
    refused: &[RefusedItem],
    messages: &[Incoming<'_>],
) -> Option<RejectedDeadLetters> {
    let to = refused.iter().find_map(|refused| refused.dead_letter_to.clone())?;
    let dead = refused.iter().filter(|refused| refused.dead_letter_to.is_some());
    let dead = dead.filter_map(|refused| messages.get(refused.item as usize));
    let letters = dead.map(|dead| DeadLetter::of(&dead.message, Reason::MaxLen)).collect();
    Some(RejectedDeadLetters { from: Arc::clone(queue), to, letters })
}
