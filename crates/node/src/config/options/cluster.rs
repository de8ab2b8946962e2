//! The options of connections with other nodes.

use super::fits;
use crate::config::option::{ConfigOption, options};

/// Every option of connections with other nodes that Leveret acts on.
pub(in crate::config) const OPTIONS: &[ConfigOption] = options! {
    "distribution.listener.port_range.min" =>
        Integer(1..=65_535, "", |d, v| d.config.listeners.distribution.port = Some(fits(v))),
        "Port that other nodes connect to; 25672 when unset. The node listens there if a key of this \
         section or `RABBITMQ_ERLANG_COOKIE` is set, or the file `.erlang.cookie` is in the data directory; \
         this file is created when the cookie is needed and not set. It must be accessible by the node's \
         user only.";
    "distribution.listener.interface" =>
        Text(|d, v| d.config.listeners.distribution.interface = Some(v.to_owned())),
        "IP address of this port; all when unset.";
    "metadata_store.khepri.default_timeout = 30000" =>
        Integer(1..=3_600_000, "milliseconds", |d, v| d.config.definitions.change_timeout_ms = v),
        "Time in which the cluster decides on a change of definitions. A change that no majority of the \
         nodes has made by then is refused as timed out; it may be made nevertheless.";
    "cluster.tls.certfile" => Text(|d, v| {
        d.config.listeners.distribution.tls().identity.get_or_insert_default().0 = v.into();
    }),
        "Certificate that the node shows to other nodes, in PEM, followed by its intermediate certificates. \
         Must be for servers and clients, and for the host in the node's name. Connections between nodes \
         have TLS if a key of `cluster.tls` is set: on all nodes of a cluster, or on none. Files are \
         reloaded when they change. Leveret's own key, as all of `cluster.tls`.";
    "cluster.tls.keyfile" => Text(|d, v| {
        d.config.listeners.distribution.tls().identity.get_or_insert_default().1 = v.into();
    }),
        "Private key of the certificate in PEM, optionally encrypted (PKCS #8).";
    "cluster.tls.password" =>
        Text(|d, v| d.config.listeners.distribution.tls().password = Some(v.to_owned())),
        "Password of an encrypted private key.";
    "cluster.tls.cacertfile" =>
        Text(|d, v| d.config.listeners.distribution.tls().cacertfile = Some(v.into())),
        "CA certificates trusted for the certificates of other nodes, in PEM.";
};
