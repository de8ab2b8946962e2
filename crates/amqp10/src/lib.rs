//! AMQP 1.0: types, message sections, frames and performatives <-> bytes (OASIS AMQP 1.0; parts 1, 2, 3, and
//! of 4 and 5 what frames hold).
//! Must never know sockets, clocks, the state of links, or what a message is for.
//! Start reading at [`ValueRef`], then [`MessageRef`], then [`decode_frame`] and [`Performative`].

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

mod code;
mod composite;
mod condition;
mod coordination;
mod delivery_state;
mod encode;
mod error;
mod field;
mod frame;
mod message;
mod message_head;
mod percent;
mod performative;
mod properties;
mod protocol_header;
mod reader;
mod sasl;
mod serial;
mod terminus;
mod usual_forms;
mod value;

pub use condition::{AmqpError, Condition};
pub use coordination::{CoordinatorRequest, Declare, Discharge};
pub use delivery_state::{
    Accepted, Declared, DeliveryOutcome, DeliveryState, Modified, PassingState, Received, Rejected,
    Released, TransactionalState,
};
pub use encode::{Items, put_described, put_list, put_map};
pub use error::DecodeError;
pub use field::{
    DELIVERY_TAG_BYTES_MAX, DeliveryTag, ReceiverSettleMode, Role, SaslCode, SenderSettleMode,
    Symbol, Symbols, TerminusDurability,
};
pub use frame::{
    FRAME_BYTES_MIN_MAX, FRAME_HEADER_BYTES, FrameError, FrameRef, FrameType, decode_frame,
    end_frame, frame_size, put_empty_frame, put_frame,
};
pub use message::{
    Body, Header, MessageOutline, MessageRef, Section, Sections, put_application_properties,
    put_message_annotations, sole_data, split_message_annotations,
};
pub use message_head::{MessageHead, annotated_bytes, head_bytes};
pub use percent::{percent_decoded, put_percent_decoded, put_percent_encoded};
pub use performative::{
    Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Performative, Transfer,
};
pub use properties::{Group, Properties};
pub use protocol_header::{PROTOCOL_HEADER_BYTES, ProtocolLayer};
pub use sasl::{
    SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslPerformative, SaslResponse,
};
pub use serial::SerialNumber;
pub use terminus::{Coordinator, LinkTarget, SourceTerminus, TargetTerminus};
pub use usual_forms::{WholeTransfer, usual_acceptance, usual_transfer};
pub use value::{ArrayRef, DEPTH_MAX, DescribedRef, Descriptor, ListRef, MapRef, ValueRef};
