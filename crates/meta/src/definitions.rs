//! Definitions as a document, in the format RabbitMQ exports and imports: JSON in, commands out, and
//! the other way round. Never files: the document is a value.
//!
//! Start reading at [`export()`] and [`import()`].

mod changes;
mod error;
mod export;
mod import;
mod rules;
mod steps;
mod table;

#[cfg(test)]
mod tests;

pub use changes::{ObjectChange, object_changes};
pub use error::{ImportError, ImportErrors};
pub use export::{
    Document, Origin, export, export_vhost, policy, topic_grant, user, user_limits,
    user_permissions, vhost_limits,
};
pub use import::{Import, Step, import};
pub use rules::{GoesOn, ImportRules};
pub use table::{from_json as table_from_json, is_flat, to_json as table_to_json};

use sha2::{Digest, Sha256};

/// The lists a document has, and the fields their objects have. Others are left alone.
const LISTS: [(&str, &str); 10] = [
    ("users", "name, password, password_hash, hashing_algorithm, tags, limits"),
    ("vhosts", "name, description, tags, default_queue_type, metadata, limits, tracing"),
    ("permissions", "user, vhost, configure, write, read"),
    ("topic_permissions", "user, vhost, exchange, write, read"),
    ("parameters", "vhost, component, name, value"),
    ("global_parameters", "name, value"),
    ("policies", "vhost, name, pattern, apply-to, definition, priority"),
    ("queues", "vhost, name, type, durable, auto_delete, exclusive, arguments"),
    ("exchanges", "vhost, name, type, durable, auto_delete, internal, arguments, policy"),
    ("bindings", "vhost, source, destination, destination_type, routing_key, arguments"),
];

/// The keys of a document about itself.
const ABOUT: &str = "\
    rabbit_version, rabbitmq_version, product_name, product_version, rabbitmq_definition_format, \
    original_cluster_name, original_vhost_name, explanation, vhost, description, tags, \
    default_queue_type, metadata, limits";

/// The parameter component that stands for the limits of a virtual host, and the only name in it.
const VHOST_LIMITS: (&str, &str) = ("vhost-limits", "limits");

/// The parameter component that operator policies are exported as.
const OPERATOR_POLICY: &str = "operator_policy";

/// The global parameter that holds the [`fingerprint`] of what was imported last; never exported.
pub const FINGERPRINT_PARAMETER: &str = "imported_definition_hash_value";

/// The digest that tells documents apart, so that an imported one need not be imported again.
#[must_use]
pub fn fingerprint<'t>(texts: impl Iterator<Item = &'t [u8]>) -> String {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update(text.len().to_be_bytes());
        digest.update(text);
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a global parameter is the node's own business.
fn is_internal(parameter: &str) -> bool {
    parameter.starts_with("internal") || parameter == FINGERPRINT_PARAMETER
}
