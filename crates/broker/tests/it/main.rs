//! The broker without a protocol: requests in, and what its clients are told.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's helpers may panic")]
#![expect(clippy::wildcard_enum_match_arm, reason = "other events say nothing here")]
#![expect(clippy::disallowed_methods, reason = "deadlines need a clock, and samples are files")]

mod answers;
mod browsing;
mod classic_v1;
mod client;
mod closing;
mod cluster_definitions;
mod cluster_world;
mod confirm_on;
mod confirms;
mod consumer_timeout;
mod crashes;
mod deep_bodies;
mod delayed_exchange;
mod delivery;
mod events;
mod exchanges;
mod formats;
mod forms;
mod leftovers;
mod link_credit;
mod message_store;
mod paging;
mod planned;
mod properties;
mod queue_policies;
mod quorum;
mod remote_queues;
mod remote_sessions;
mod remote_world;
mod sent_on;
mod sharding;
mod single_active;
mod stream_filters;
mod stream_queues;
mod streams;
mod streams_beside_queues;
mod topics;
mod unbinding;
mod undo;
mod undo_fuzz;
mod waiting;
