//! The options of the HTTP API and of Prometheus.

use super::fits;
use crate::config::kind::{Kind, Range, Zero};
use crate::config::option::{ConfigOption, row};

const PORT: Range = Range { min: 0, max: 65_535, zero: Zero::Plain };

/// Every option of theirs that Leveret acts on.
pub(in crate::config) const OPTIONS: &[ConfigOption] = &[
    row(
        "management.enabled",
        "true",
        Kind::Flag(|d, v| d.config.http.is_enabled = v),
        "Whether there is an HTTP API. `leveret ctl` works without it.",
    ),
    row(
        "management.tcp.port",
        "",
        Kind::Integer(PORT, "", |d, v| d.config.http.port = Some(fits(v))),
        "The port of the HTTP API. If none is given it is 15672; in use, that does not keep the node from \
         starting.",
    ),
    row(
        "management.tcp.ip",
        "",
        Kind::Text(|d, v| d.config.http.ip = Some(v.to_owned())),
        "The address that the HTTP API listens on; all of them when not set.",
    ),
    row(
        "management.http.max_body_size",
        "20000000",
        Kind::ByteSize(Range { min: 1_024, max: 1 << 30, zero: Zero::Plain }, |d, v| {
            d.config.http.body_bytes_max = fits(v)
        }),
        "Longest body of a request of the HTTP API.",
    ),
    row(
        "prometheus.enabled",
        "true",
        Kind::Flag(|d, v| d.config.http.metrics.is_enabled = v),
        "Whether there is a listener for Prometheus.",
    ),
    row(
        "prometheus.tcp.port",
        "",
        Kind::Integer(PORT, "", |d, v| d.config.http.metrics.port = Some(fits(v))),
        "The port of `/metrics`. If none is given it is 15692; in use, that does not keep the node from starting.",
    ),
    row(
        "prometheus.tcp.ip",
        "",
        Kind::Text(|d, v| d.config.http.metrics.ip = Some(v.to_owned())),
        "The address that `/metrics` is on; all of them when not set.",
    ),
    row(
        "prometheus.return_per_object_metrics",
        "false",
        Kind::Flag(|d, v| d.config.http.metrics.per_object = v),
        "Whether `/metrics` answers as `/metrics/per-object` does.",
    ),
];
