//! The options of the HTTP API and of Prometheus.

use super::fits;
use crate::config::kind::{Kind, Range, Zero};
use crate::config::option::{ConfigOption, row};

const PORT: Range = Range { min: 0, max: 65_535, zero: Zero::Plain };

const AGE: Range = Range { min: 0, max: 525_600_000, zero: Zero::Plain };

/// Every option of theirs that Leveret acts on.
pub(in crate::config) const OPTIONS: &[ConfigOption] = &[
    row(
        "management.enabled",
        "true",
        Kind::Flag(|d, v| d.config.http.api.is_enabled = v),
        "Whether there is an HTTP API. `leveret ctl` works without it.",
    ),
    row(
        "management.tcp.port",
        "",
        Kind::Integer(PORT, "", |d, v| d.config.http.api.tcp.port = Some(fits(v))),
        "The port of the HTTP API. If none is given it is 15672; in use, that does not keep the node from \
         starting.",
    ),
    row(
        "management.tcp.ip",
        "",
        Kind::Text(|d, v| d.config.http.api.tcp.ip = Some(v.to_owned())),
        "The address that the HTTP API listens on; all of them when not set.",
    ),
    row(
        "management.ssl.port",
        "",
        Kind::Integer(PORT, "", |d, v| d.config.http.api.ssl.port = Some(fits(v))),
        "The port of the HTTP API with TLS, 15671 if another of the keys `management.ssl` is set. \
         It has the certificates that these name, or those of `ssl_options`. Without TLS there is a port \
         besides only if one of the keys `management.tcp` is set.",
    ),
    row(
        "management.ssl.ip",
        "",
        Kind::Text(|d, v| d.config.http.api.ssl.ip = Some(v.to_owned())),
        "The address of the port with TLS; all of them when not set.",
    ),
    row(
        "management.http.max_body_size",
        "20000000",
        Kind::ByteSize(Range { min: 1_024, max: 1 << 30, zero: Zero::Plain }, |d, v| {
            d.config.http.settings.body_bytes_max = fits(v)
        }),
        "Longest body of a request of the HTTP API.",
    ),
    row(
        "management.path_prefix",
        "",
        Kind::Text(|d, v| d.config.http.settings.set_prefix(v)),
        "The beginning of all addresses of the HTTP API, for a proxy that shares a host between several.",
    ),
    row(
        "management.cors.allow_origins",
        "none",
        Kind::Nothing(|d| d.config.http.settings.origins.clear()),
        "Pages of no other place may use the HTTP API.",
    ),
    row(
        "management.cors.allow_origins.$name",
        "",
        Kind::NamedText(|d, _, v| d.config.http.settings.origins.push(v.to_owned())),
        "A place whose pages may use the HTTP API from a browser, such as `https://tools.example.org`; `*` is \
         all of them. With a cookie they may change nothing.",
    ),
    row(
        "management.cors.max_age",
        "1800",
        Kind::Integer(AGE, "seconds", |d, v| d.config.http.settings.origins_age_s = v),
        "Time that browsers may remember what such a page may do.",
    ),
    row(
        "management.csp.policy",
        "script-src 'self'; object-src 'self'",
        Kind::Text(|d, v| d.config.http.settings.set_header("content-security-policy", v)),
        "The header `Content-Security-Policy` of answers.",
    ),
    row(
        "management.hsts.policy",
        "",
        Kind::Text(|d, v| d.config.http.settings.set_header("strict-transport-security", v)),
        "The header `Strict-Transport-Security` of answers over TLS. Where there is no port without TLS it is \
         `max-age=31536000` if nothing is said.",
    ),
    row(
        "management.headers.content_type_options",
        "nosniff",
        Kind::Text(|d, v| d.config.http.settings.set_header("x-content-type-options", v)),
        "The header `X-Content-Type-Options` of answers.",
    ),
    row(
        "management.headers.frame_options",
        "",
        Kind::Text(|d, v| d.config.http.settings.set_header("x-frame-options", v)),
        "The header `X-Frame-Options` of answers.",
    ),
    row(
        "management.headers.referrer_policy",
        "same-origin",
        Kind::Text(|d, v| d.config.http.settings.set_header("referrer-policy", v)),
        "The header `Referrer-Policy` of answers.",
    ),
    row(
        "management.headers.xss_protection",
        "",
        Kind::Text(|d, v| d.config.http.settings.set_header("x-xss-protection", v)),
        "The header `X-XSS-Protection` of answers.",
    ),
    row(
        "management.http.hide_allow_header",
        "false",
        Kind::Flag(|d, v| d.config.http.settings.shows_allowed = !v),
        "Whether answers leave out which methods their address has.",
    ),
    row(
        "management.login_session_timeout",
        "480",
        Kind::Integer(AGE, "minutes", |d, v| d.config.http.settings.login_ms = v * 60_000),
        "Time that a login with a cookie holds.",
    ),
    row(
        "management.disable_stats",
        "false",
        Kind::Flag(|d, v| d.config.http.settings.is_plain = v),
        "Whether lists of queues are without figures; a request may say otherwise (`disable_stats`).",
    ),
    row(
        "management.enable_queue_totals",
        "false",
        Kind::Flag(|d, v| d.config.http.settings.has_totals = v),
        "Whether these lists have the numbers of messages all the same.",
    ),
    row(
        "management.restrictions.operator_policy_changes.disabled",
        "false",
        Kind::Flag(|d, v| d.config.http.settings.keeps_operator_policies = v),
        "Whether operator policies cannot be changed by HTTP.",
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
        Kind::Integer(PORT, "", |d, v| d.config.http.metrics.tcp.port = Some(fits(v))),
        "The port of `/metrics`. If none is given it is 15692; in use, that does not keep the node from starting.",
    ),
    row(
        "prometheus.tcp.ip",
        "",
        Kind::Text(|d, v| d.config.http.metrics.tcp.ip = Some(v.to_owned())),
        "The address that `/metrics` is on; all of them when not set.",
    ),
    row(
        "prometheus.ssl.port",
        "",
        Kind::Integer(PORT, "", |d, v| d.config.http.metrics.ssl.port = Some(fits(v))),
        "The port of `/metrics` with TLS, 15691 if another of the keys `prometheus.ssl` is set. \
         It has the certificates that these name, or those of `ssl_options`. Without TLS there is a port \
         besides only if one of the keys `prometheus.tcp` is set.",
    ),
    row(
        "prometheus.ssl.ip",
        "",
        Kind::Text(|d, v| d.config.http.metrics.ssl.ip = Some(v.to_owned())),
        "The address of the port with TLS; all of them when not set.",
    ),
    row(
        "prometheus.return_per_object_metrics",
        "false",
        Kind::Flag(|d, v| d.config.http.settings.metrics.is_per_object = v),
        "Whether `/metrics` answers as `/metrics/per-object` does.",
    ),
    row(
        "prometheus.path",
        "/metrics",
        Kind::Text(|d, v| d.config.http.settings.metrics.path = v.to_owned()),
        "The address of the figures.",
    ),
    row(
        "prometheus.authentication.enabled",
        "false",
        Kind::Flag(|d, v| d.config.http.settings.metrics.needs_login = v),
        "Whether figures are for users alone, with name and password.",
    ),
];
