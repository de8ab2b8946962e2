//! The states of deliveries (part 3, 3.4; part 4, 4.5.5 and 4.5.8).

use crate::composite::{any_composite, composites, read_descriptor};
use crate::condition::AmqpError;
use crate::error::DecodeError;
use crate::field::FieldValue;
use crate::reader::ValueCursor;
use crate::value::{DescribedRef, MapRef, ValueRef};

composites! { 'a;
    /// The place up to which a receiver has a delivery; not the end of it.
    Received 0x23 "amqp:received:list" { section_number: u32, section_offset: u64, }

    /// The outcome of a message that is done with.
    Accepted 0x24 "amqp:accepted:list" {}

    /// The outcome of a message that cannot be processed.
    Rejected<'a> 0x25 "amqp:rejected:list" { error: Option<AmqpError<'a>>, }

    /// The outcome of a message that was not processed and will not be.
    Released 0x26 "amqp:released:list" {}

    /// The outcome of a message that was not processed, with changes to be made to it.
    Modified<'a> 0x27 "amqp:modified:list" {
        /// The delivery counts as failed.
        delivery_failed: bool = false,
        /// The message is not to be delivered on this link again.
        undeliverable_here: bool = false,
        /// Annotations to be merged into those of the message.
        message_annotations: MapRef<'a> = MapRef::EMPTY,
    }

    /// The outcome of a message that asked for a transaction.
    Declared<'a> 0x33 "amqp:declared:list" { txn_id: &'a [u8], }

    /// A state that is provisional until its transaction ends.
    TransactionalState<'a> 0x34 "amqp:transactional-state:list" {
        txn_id: &'a [u8],
        outcome: Option<DeliveryOutcome<'a>>,
    }
}

any_composite! {
    /// The outcomes of the specification, which end a delivery.
    DeliveryOutcome<'a> {
        /// The message is done with.
        Accepted(Accepted),
        /// The message cannot be processed.
        Rejected(Rejected<'a>),
        /// The message was not processed.
        Released(Released),
        /// The message was not processed, and is to be changed.
        Modified(Modified<'a>),
    }
}

impl Copy for DeliveryOutcome<'_> {}

impl<'a> FieldValue<'a> for DeliveryOutcome<'a> {
    fn read(cursor: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError> {
        let descriptor = read_descriptor(cursor)?;
        Self::read_of(descriptor, cursor, levels).unwrap_or(Err(DecodeError::FieldType))
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

any_composite! {
    /// The states of the specification that are no outcomes of messages.
    PassingState<'a> {
        /// A part of the delivery has arrived.
        Received(Received),
        /// A transaction has begun.
        Declared(Declared<'a>),
        /// The outcome holds if the transaction does.
        Transactional(TransactionalState<'a>),
    }
}

impl Copy for PassingState<'_> {}

/// The state of a delivery at one of its ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeliveryState<'a> {
    /// The delivery has ended.
    Outcome(DeliveryOutcome<'a>),
    /// The delivery goes on, or is part of a transaction.
    Passing(PassingState<'a>),
    /// A state of another standard.
    Other(DescribedRef<'a>),
}

impl<'a> DeliveryState<'a> {
    /// The delivery is accepted.
    pub const ACCEPTED: Self = Self::Outcome(DeliveryOutcome::Accepted(Accepted {}));

    /// The delivery is released.
    pub const RELEASED: Self = Self::Outcome(DeliveryOutcome::Released(Released {}));

    /// The delivery is rejected.
    #[must_use]
    pub const fn rejected(error: Option<AmqpError<'a>>) -> Self {
        Self::Outcome(DeliveryOutcome::Rejected(Rejected { error }))
    }
}

impl<'a> FieldValue<'a> for DeliveryState<'a> {
    #[inline]
    fn read(cursor: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError> {
        let before = *cursor;
        let descriptor = read_descriptor(cursor)?;
        if let Some(outcome) = DeliveryOutcome::read_of(descriptor, cursor, levels) {
            return outcome.map(Self::Outcome);
        }
        if let Some(state) = PassingState::read_of(descriptor, cursor, levels) {
            return state.map(Self::Passing);
        }
        *cursor = before;
        let value = ValueRef::read_valid(cursor, levels)?;
        let ValueRef::Described(described) = value else { return Err(DecodeError::FieldType) };
        Ok(Self::Other(described))
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Outcome(outcome) => outcome.encode(out),
            Self::Passing(state) => state.encode(out),
            Self::Other(described) => ValueRef::Described(*described).encode(out),
        }
    }
}
