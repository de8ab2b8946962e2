//! The options of connections with other nodes.

use super::fits;
use crate::config::PeerDiscovery;
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
    "cluster_formation.peer_discovery_backend = classic_config" =>
        Word(&PeerDiscovery::NAMES, |d, v| {
            d.config.listeners.distribution.discovery.backend = PeerDiscovery::of_name(v).unwrap_or_default();
        }),
        "Where a node with an empty data directory finds the nodes that it forms a cluster with: in \
         `cluster_formation.classic_config`, or behind the host name `cluster_formation.dns.hostname`. \
         Nodes with data ignore all keys of `cluster_formation`; so do nodes that nobody is named to.";
    "cluster_formation.classic_config.nodes.$node" => NamedText(|d, name, v| {
        d.config.listeners.distribution.discovery.nodes.insert(name.to_owned(), v.to_owned());
    }),
        "Name of a node that is to form the cluster, as in `rabbit@a.example`. All nodes list all of them, \
         their own names too. The node is reached at this node's own distribution port unless the name ends \
         with another one, as in `rabbit@a.example:25673`, which is Leveret's own form.";
    "cluster_formation.dns.hostname" =>
        Text(|d, v| d.config.listeners.distribution.discovery.hostname = Some(v.to_owned())),
        "Host name whose addresses are those of all nodes that are to form the cluster; for the backend \
         `dns`. The nodes tell their names. With it set `cluster_formation.target_cluster_size_hint`: \
         addresses may come late.";
    "cluster_formation.target_cluster_size_hint = 1" =>
        Integer(1..=64, "nodes", |d, v| d.config.listeners.distribution.discovery.target_size = fits(v)),
        "Number of nodes that the cluster is to have. If fewer are found, the others are counted as not \
         answering: a new cluster needs a majority of as many.";
    "cluster_formation.discovery_retry_limit = infinity" =>
        IntegerOrInfinity("attempts", |d, v| d.config.listeners.distribution.discovery.retry_limit = v),
        "Number of attempts after which a node that does not hear a majority of the nodes stops. By default \
         it waits for ever, and logs for whom.";
    "cluster_formation.discovery_retry_interval = 1000" =>
        Integer(10..=600_000, "milliseconds", |d, v| {
            d.config.listeners.distribution.discovery.retry_interval_ms = v;
        }),
        "Interval between two attempts.";
    "cluster.serve_without_quorum = false" =>
        Flag(|d, v| d.config.definitions.serves_without_quorum = v),
        "Accept clients although no majority of the cluster's nodes runs, 5 s after a start: with the \
         definitions that this node knows, which nobody can change meanwhile. Leveret's own key.";
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
