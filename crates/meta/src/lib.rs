//! The broker's definitions, as one pure state machine: virtual hosts, users, permissions, policies,
//! parameters, exchanges, queues, bindings. Never sockets, files, clocks, messages, protocol codes.
//! Start reading at [`State`], then [`Command`] and [`Outcome`].

mod binding_place;
mod checks;
mod command;
mod confirm_on;
mod consumer_arguments;
pub mod definitions;
mod error;
mod exchange;
mod exchange_settings;
mod explain;
mod field;
mod json_count;
mod legacy;
mod limit;
mod node_limits;
mod nodes;
mod outcome;
mod parameter;
mod parameters;
mod password;
mod pattern;
mod permission;
mod placement;
mod policies;
mod policy;
mod queue;
mod queue_arguments;
mod queue_home;
mod queue_name;
mod queue_settings;
mod queue_type;
mod queues;
mod resource;
mod setting;
mod sharding;
mod state;
mod stream_settings;
mod super_stream;
mod user;
mod users;
mod vhost;
mod vhost_defaults;
mod vhost_metadata;
mod vhosts;

pub use binding_place::BindingPlace;
pub use checks::parse_exchange_kind;
pub use command::{BindingSpec, Command, DestinationName, ExchangeDeclare, NamedBy, QueueDeclare};
pub use confirm_on::{ConfirmOn, ConfirmSettings, WithoutConsumer};
pub use error::{ErrorKind, MetaError};
pub use exchange::{EVENT_EXCHANGE, ExchangeDef, LOG_EXCHANGE, NODE_EXCHANGES, node_exchange};
pub use exchange_settings::{Deduplication, ExchangeSettings};
pub use explain::{
    AccessReason, Origin, PolicyEffect, SettingSource, Standing, policy_effects, policy_standings,
    setting_sources,
};
pub use json_count::{JSON_VALUES_MAX, JsonCount};
pub use legacy::{legacy_queue_version, legacy_v1_queues};
pub use limit::limit_reached;
pub use node_limits::{NodeLimits, NodeQueueTypes};
pub use nodes::{ClusterAddress, ClusterNode, ClusterNodes};
pub use outcome::{ChangeFacts, Done, Fact, FactClass, Misfit, Outcome, Removed};
pub use parameter::Json;
pub use parameters::{CLUSTER_NAME, GlobalParameters, Parameter, Parameters};
pub use password::{HashAlgorithm, PasswordHash, Salt};
pub use pattern::Pattern;
pub use permission::{Permissions, TopicGrant, TopicPermissions, TopicUse};
pub use placement::wants_balance;
pub use policies::Policies;
pub use policy::{ApplyTo, Policy, PolicyScope, PolicySpec};
pub use queue::QueueDef;
pub use queue_home::QueueHome;
pub use queue_name::{delayed_queue_of, without_line_ends};
pub use queue_settings::{
    DeadLetterSettings, DeadLetterStrategy, DelayedRetry, LengthLimits, Overflow, QueueSettings,
    RetryType,
};
pub use queue_type::{ConnectionId, QueueKind, QueueVersion};
pub use queues::Queues;
pub use resource::{Permission, Resource, ResourceKind};
pub use routing::{
    Binding, Candidate, Destination, ExchangeKind, Filter, FilterError, Message, Name, Passage,
    QueueId, RouteOutcome, Routes, RoutingKey, TopicPattern, Trace, TraceStep,
};
pub use setting::argument::{MILLISECONDS_MAX, age_ms};
pub use sharding::{Sharded, Sharding, shard_name};
pub use state::{
    Resharding, RestoreError, SnapshotOf, State, begin_term, pass_queue_ids, settle_homes, shards,
    stream_settings, take_queue_id,
};
pub use stream_settings::{StreamSettings, stream_arguments};
pub use super_stream::{
    BoundPartition, SuperStream, SuperStreamError, delete_super_stream, partitions,
    super_stream_bindings, super_stream_partition_index, super_stream_route,
};
pub use user::{User, UserLimits};
pub use users::Users;
pub use vhost::{BindingView, Vhost};
pub use vhost_defaults::{DefaultLimits, DefaultPolicy, DefaultUser, VhostDefaults};
pub use vhost_metadata::{VhostLimits, VhostMetadata};

#[cfg(test)]
mod tests;
