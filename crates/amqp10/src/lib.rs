//! AMQP 1.0's types and message sections: bytes to values, and back (OASIS AMQP 1.0, parts 1 and 3.2).
//! Must never know sockets, clocks, links, or what a message is for.
//! Start reading at [`ValueRef`], then [`Items`], then [`MessageRef`].

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

mod code;
mod encode;
mod error;
mod message;
mod properties;
mod reader;
mod value;

pub use encode::{Items, put_described, put_list, put_map};
pub use error::DecodeError;
pub use message::{
    Body, Header, MessageRef, Section, Sections, put_application_properties,
    put_message_annotations, sole_data,
};
pub use properties::{Group, Properties};
pub use value::{ArrayRef, DEPTH_MAX, DescribedRef, Descriptor, ListRef, MapRef, ValueRef};
