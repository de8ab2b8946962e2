//! The real binary under real sockets, real signals and clients that mean no good.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::print_stderr,
    reason = "tests"
)]

mod access;
mod backup;
mod blame;
mod browse;
mod budgets;
mod bulk;
mod close_handshake;
mod clusters;
mod connection_churn;
mod crowd;
mod ctl;
mod data_dir_formats;
mod definitions;
mod delayed_exchange;
mod descriptors;
mod disk;
mod disk_full;
mod durability;
mod events;
mod explain;
mod expressions;
mod federation;
mod floods;
mod floods_amqp;
mod frames;
mod guessing;
mod hostile;
mod http_api;
mod http_budgets;
mod http_figures;
mod http_strangers;
mod import;
mod jms_topics;
mod live;
mod logs;
mod malformed_frames;
mod metric_names;
mod missing;
mod otel;
mod perf_amqp10;
mod perf_streams;
mod readme;
mod redrive;
mod repair;
mod resend;
mod run_dir;
mod semantics;
mod short;
mod slow_consumers;
mod start;
mod stream_enemies;
mod stream_hostile;
mod stream_protocol;
mod stream_retention;
mod streams_lost;
mod support;
mod tail;
mod tls;
mod transcript;
mod undo;
mod wide;
