//! The requests to a coordinator of transactions (part 4, 4.5.2 and 4.5.3): values of messages.

use crate::composite::{any_composite, composites};
use crate::error::DecodeError;
use crate::message::{Section, Sections};
use crate::reader::ValueCursor;
use crate::value::{DEPTH_MAX, DescribedRef, ValueRef};

composites! { 'a;
    /// Begins a transaction.
    Declare<'a> 0x31 "amqp:declare:list" {
        /// The transaction of several resources that this one is a part of.
        global_id: Option<ValueRef<'a>>,
    }

    /// Ends a transaction.
    Discharge<'a> 0x32 "amqp:discharge:list" {
        txn_id: &'a [u8],
        /// The work is to be undone.
        fail: bool = false,
    }
}

any_composite! {
    /// A request to a coordinator of transactions.
    CoordinatorRequest<'a> {
        /// Begins a transaction.
        Declare(Declare<'a>),
        /// Ends a transaction.
        Discharge(Discharge<'a>),
    }
}

impl<'a> CoordinatorRequest<'a> {
    /// The request that is the value of a message.
    ///
    /// # Errors
    /// The first thing that is wrong with the message; [`DecodeError::FieldType`] if it says anything else.
    pub fn of_message(message: &'a [u8]) -> Result<Self, DecodeError> {
        for section in Sections::new(message) {
            if let Section::Value(ValueRef::Described(request)) = section? {
                return Self::of_value(request);
            }
        }
        Err(DecodeError::FieldType)
    }

    fn of_value(request: DescribedRef<'a>) -> Result<Self, DecodeError> {
        let mut cursor = ValueCursor(request.value);
        let read = Self::read_of(request.descriptor, &mut cursor, DEPTH_MAX - 1);
        read.unwrap_or(Err(DecodeError::FieldType))
    }
}
