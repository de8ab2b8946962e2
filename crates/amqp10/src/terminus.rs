//! The ends of links: where messages come from and go to (part 3, 3.5; part 4, 4.5.1).

use crate::composite::{any_composite, composites, read_descriptor};
use crate::delivery_state::DeliveryState;
use crate::error::DecodeError;
use crate::field::{FieldValue, Symbol, Symbols, TerminusDurability};
use crate::reader::ValueCursor;
use crate::value::{MapRef, ValueRef};

/// A terminus without a life of its own ends with its session.
const SESSION_END: Symbol<'static> = Symbol("session-end");

composites! { 'a;
    /// The node that messages come from.
    SourceTerminus<'a> 0x28 "amqp:source:list" {
        address: Option<ValueRef<'a>>,
        durable: TerminusDurability = TerminusDurability::None,
        expiry_policy: Symbol<'a> = SESSION_END,
        /// Seconds.
        timeout: u32 = 0,
        /// The receiver asks for a node to be made.
        dynamic: bool = false,
        dynamic_node_properties: MapRef<'a> = MapRef::EMPTY,
        distribution_mode: Option<Symbol<'a>>,
        /// The filters; none if the receiver asks for none.
        filter: Option<MapRef<'a>>,
        /// The outcome of deliveries that no outcome is given for.
        default_outcome: Option<DeliveryState<'a>>,
        /// Names of the outcomes that may be given.
        outcomes: Symbols<'a> = Symbols::NONE,
        capabilities: Symbols<'a> = Symbols::NONE,
    }

    /// The node that messages go to.
    TargetTerminus<'a> 0x29 "amqp:target:list" {
        address: Option<ValueRef<'a>>,
        durable: TerminusDurability = TerminusDurability::None,
        expiry_policy: Symbol<'a> = SESSION_END,
        /// Seconds.
        timeout: u32 = 0,
        /// The sender asks for a node to be made.
        dynamic: bool = false,
        dynamic_node_properties: MapRef<'a> = MapRef::EMPTY,
        capabilities: Symbols<'a> = Symbols::NONE,
    }

    /// The end of a link that controls transactions.
    Coordinator<'a> 0x30 "amqp:coordinator:list" { capabilities: Symbols<'a> = Symbols::NONE, }
}

any_composite! {
    /// The end of a link that receives.
    LinkTarget<'a> {
        /// A node.
        Terminus(TargetTerminus<'a>),
        /// A coordinator of transactions.
        Coordinator(Coordinator<'a>),
    }
}

impl Copy for LinkTarget<'_> {}

impl<'a> FieldValue<'a> for LinkTarget<'a> {
    fn read(cursor: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError> {
        let descriptor = read_descriptor(cursor)?;
        Self::read_of(descriptor, cursor, levels).unwrap_or(Err(DecodeError::FieldType))
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}
