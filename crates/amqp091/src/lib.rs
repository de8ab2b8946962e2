//! AMQP 0-9-1 on the wire, for both sides: bytes to frames, methods, properties, tables, and back.
//! Must never know sockets, clocks, queues or what a method means.
//! Start reading at `frame`, then `method`, `content`, `table`.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

pub mod content;
pub mod error;
mod fast_path;
pub mod frame;
pub mod method;
mod method_id;
pub mod reply;
mod short_string;
pub mod spec;
pub mod table;
mod wire;

pub use content::{ContentHeader, Properties, PropertiesRef};
pub use error::{FieldError, WireError};
pub use fast_path::{WholeAck, WholePublish, whole_ack, whole_publish};
pub use frame::{Frame, FrameKind, ProtocolHeader, decode_frame};
pub use method::Method;
pub use method_id::MethodId;
pub use reply::ReplyCode;
pub use short_string::ShortString;
pub use table::{Table, TableRef, Value, ValueRef};
