//! Exchanges and bindings of one virtual host: which queues a message goes to. Filters of messages.
//! Knows names, keys, headers, sections, also bodies for filters. Never sockets, clocks, queues, users.
//! Start reading at [`Routes`], then [`topic`](ExchangeKind::Topic) in `topic.rs`.

pub mod erlang;

mod binding;
mod choice;
mod comparable;
mod destination;
mod digest;
mod error;
mod exchange;
mod exchange_kind;
mod federation;
mod headers;
mod headers_index;
mod message;
mod name;
mod routes;
mod selector;
mod small_map;
mod targets;
mod topic;
mod topic_rule;
mod topic_rules;

pub use binding::Binding;
pub use destination::Destination;
pub use error::BindingError;
pub use exchange_kind::{Downstream, ExchangeKind, ExchangeRules, HashOn};
pub use message::Message;
pub use name::{Name, QueueId, RoutingKey};
pub use routes::{ExchangeVersion, Passage, RouteOutcome, Routed, Routes, Trace, TraceStep};
pub use selector::{Candidate, Filter, FilterError, LinkFilters, SectionsFilter};
pub use topic::TopicPattern;
pub use topic_rule::{MATCH_KEY, NO_LOCAL, SQL_SELECTOR};
