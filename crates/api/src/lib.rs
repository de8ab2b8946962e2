//! The vocabulary of the management API that a node and its command line tool share: codes of errors, columns
//! of lists, names and limits.
//! Knows names and numbers. Never requests, values of columns, queues, output formats.
//! Start reading at [`ErrorCode`] and [`QueueColumn`].

mod columns;
mod error_code;
mod names;

pub use columns::{
    BindingColumn, ChannelColumn, ConnectionColumn, ConsumerColumn, ExchangeColumn, LINK_COLUMNS,
    QueueColumn, SESSION_COLUMNS,
};
pub use error_code::ErrorCode;
pub use names::{PeriodUnit, protocol_name};

/// The control socket's file inside the data directory.
pub const SOCKET_FILE: &str = "ctl.sock";
/// The header that names the node that an operator means; any other node refuses the request.
pub const NODE_HEADER: &str = "leveret-node";
/// The header of an answer that names the nodes that have no part in it since they did not answer in time,
/// joined by commas.
pub const UNANSWERED_HEADER: &str = "leveret-unanswered";
/// The types of queue, as operators are told them.
pub const QUEUE_TYPES: [&str; 3] = ["quorum", "stream", "classic"];
/// The longest document of definitions that is imported, bytes: some two million queues.
pub const DOCUMENT_BYTES_MAX: usize = 256 * 1024 * 1024;
