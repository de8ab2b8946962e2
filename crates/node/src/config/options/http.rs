//! The options of the HTTP API and of Prometheus.

use super::fits;
use crate::config::kind::Kind;
use crate::config::option::{ConfigOption, row};
use http::MessageAccess;
use net::ListenAddress;
use std::ops::RangeInclusive;

const COUNT: RangeInclusive<u64> = 1..=u32::MAX as u64;

const PORT: RangeInclusive<u64> = 0..=65_535;

const TIME: RangeInclusive<u64> = 1..=600_000;

const AGE: RangeInclusive<u64> = 0..=525_600_000;

/// A limit of one of the listeners.
macro_rules! limit {
    ($start:literal, $key:literal, $kind:ident.$place:ident, compresses) => {
        row(
            concat!($start, $key),
            Kind::Flag(|d, v| d.config.http.$kind.$place.limits.compresses = v),
            "Whether answers are compressed for clients that take that.",
        )
    };
    ($start:literal, $key:literal, $kind:ident.$place:ident, request_timeout_ms) => {
        row(
            concat!($start, $key),
            Kind::Integer(TIME, "milliseconds", |d, v| d.config.http.$kind.$place.limits.request_timeout_ms = v),
            "Time that a client has to agree on keys, and to send the head of its first or next request.",
        )
    };
    ($start:literal, $key:literal, $kind:ident.$place:ident, idle_timeout_ms) => {
        row(
            concat!($start, $key),
            Kind::Integer(TIME, "milliseconds", |d, v| d.config.http.$kind.$place.limits.idle_timeout_ms = v),
            "Time that it has to send the body of a request, and may read nothing of an answer.",
        )
    };
    ($start:literal, $key:literal, $kind:ident.$place:ident, requests_max) => {
        row(
            concat!($start, $key),
            Kind::Integer(COUNT, "requests", |d, v| d.config.http.$kind.$place.limits.requests_max = v),
            "Most requests on one connection; no limit when not set.",
        )
    };
}

/// Options of one of the listeners, of the API or of Prometheus, with TLS or without.
macro_rules! listener {
    ($start:literal, $kind:ident.$place:ident, $port:expr, $ip:literal) => {
        &[
            row(
                concat!($start, ".port"),
                Kind::Integer(PORT, "", |d, v| d.config.http.$kind.$place.port = Some(fits(v))),
                $port,
            ),
            row(
                concat!($start, ".ip"),
                Kind::Text(|d, v| d.config.http.$kind.$place.ip = Some(v.to_owned())),
                $ip,
            ),
            row(
                concat!($start, ".max_connections = 20000"),
                Kind::IntegerOrInfinity("connections", |d, v| {
                    let most = v.and_then(|most| usize::try_from(most).ok());
                    d.config.http.$kind.$place.limits.connections_max =
                        most.unwrap_or(usize::MAX).min(CONNECTIONS_MAX);
                }),
                "Most connections to it at a time; more wait.",
            ),
            limit!($start, ".compress = true", $kind.$place, compresses),
            limit!($start, ".request_timeout = 10000", $kind.$place, request_timeout_ms),
            limit!($start, ".idle_timeout = 10000", $kind.$place, idle_timeout_ms),
            limit!($start, ".max_keepalive", $kind.$place, requests_max),
        ]
    };
}
/// Most connections that a number is kept of.
const CONNECTIONS_MAX: usize = usize::MAX >> 3;

/// Every option of theirs that Leveret acts on.
pub(in crate::config) const OPTIONS: &[&[ConfigOption]] = &[
    &[row(
        "management.enabled = true",
        Kind::Flag(|d, v| d.config.http.api.is_enabled = v),
        "Whether there is an HTTP API. `leveret ctl` works without it.",
    )],
    listener!(
        "management.tcp",
        api.tcp,
        "The port of the HTTP API. If none is given it is 15672; in use, that does not keep the node from \
         starting.",
        "The address that the HTTP API listens on; all of them when not set."
    ),
    listener!(
        "management.ssl",
        api.ssl,
        "The port of the HTTP API with TLS, 15671 if another of the keys `management.ssl` is set. \
         It has the certificates that these name, or those of `ssl_options`. Without TLS there is a port \
         besides only if one of the keys `management.tcp` is set.",
        "The address of the port with TLS; all of them when not set."
    ),
    &[
        row(
            "management.listener.port",
            Kind::Integer(PORT, "", |d, v| d.config.http.api.older.port = Some(fits(v))),
            "The port of a listener by the keys that are older than `management.tcp` and `management.ssl`, 15672 \
             if another of them is set. It takes the place of a default listener, and of one of the newer keys at \
             the same address, and stands beside others; where both kinds of these are set, the older ones have \
             no effect.",
        ),
        row(
            "management.listener.ip",
            Kind::Text(|d, v| d.config.http.api.older.ip = Some(v.to_owned())),
            "Its address; all of them when not set.",
        ),
        row(
            "management.listener.ssl",
            Kind::Flag(|d, v| d.config.http.api.older_has_tls = Some(v)),
            "Whether it has TLS, with the certificates that the keys `management.listener.ssl_opts` name, which are \
             those of `ssl_options`, or with the latter's.",
        ),
        row(
            "management.listener.ssl_opts",
            Kind::Nothing(|_| {}),
            "`none` names no certificates.",
        ),
        limit!("management.listener.server", ".compress = true", api.older, compresses),
        limit!("management.listener.server", ".request_timeout = 10000", api.older, request_timeout_ms),
        limit!("management.listener.server", ".idle_timeout = 10000", api.older, idle_timeout_ms),
        limit!("management.listener.server", ".max_keepalive", api.older, requests_max),
        row(
            "management.ssl.backlog = 1024",
            Kind::Integer(COUNT, "connections", |d, v| d.config.http.api.ssl.limits.backlog = fits(v)),
            "Length of its queue of connections not yet accepted.",
        ),
        row(
            "management.http.max_body_size = 20000000",
            Kind::ByteSize(1_024..=1 << 30, |d, v| d.config.http.settings.body_bytes_max = fits(v)),
            "Longest body of a request of the HTTP API.",
        ),
        row(
            "management.path_prefix",
            Kind::Text(|d, v| d.config.http.settings.set_prefix(v)),
            "The beginning of all addresses of the HTTP API, for a proxy that shares a host between several.",
        ),
        row(
            "management.cors.allow_origins = none",
            Kind::Nothing(|d| d.config.http.settings.origins.clear()),
            "Pages of no other place may use the HTTP API.",
        ),
        row(
            "management.cors.allow_origins.$name",
            Kind::NamedText(|d, _, v| d.config.http.settings.origins.push(v.to_owned())),
            "A place whose pages may use the HTTP API from a browser, such as `https://tools.example.org`; `*` is \
             all of them. With a cookie they may change nothing.",
        ),
        row(
            "management.cors.max_age = 1800",
            Kind::Integer(AGE, "seconds", |d, v| d.config.http.settings.origins_age_s = v),
            "Time that browsers may remember what such a page may do.",
        ),
        row(
            "management.csp.policy = script-src 'self'; object-src 'self'",
            Kind::Text(|d, v| d.config.http.settings.set_header("content-security-policy", v)),
            "The header `Content-Security-Policy` of answers.",
        ),
        row(
            "management.hsts.policy",
            Kind::Text(|d, v| d.config.http.settings.set_header("strict-transport-security", v)),
            "The header `Strict-Transport-Security` of answers over TLS. Where there is no port without TLS it is \
             `max-age=31536000` if nothing is said.",
        ),
        row(
            "management.headers.content_type_options = nosniff",
            Kind::Text(|d, v| d.config.http.settings.set_header("x-content-type-options", v)),
            "The header `X-Content-Type-Options` of answers.",
        ),
        row(
            "management.headers.frame_options",
            Kind::Text(|d, v| d.config.http.settings.set_header("x-frame-options", v)),
            "The header `X-Frame-Options` of answers.",
        ),
        row(
            "management.headers.referrer_policy = same-origin",
            Kind::Text(|d, v| d.config.http.settings.set_header("referrer-policy", v)),
            "The header `Referrer-Policy` of answers.",
        ),
        row(
            "management.headers.xss_protection",
            Kind::Text(|d, v| d.config.http.settings.set_header("x-xss-protection", v)),
            "The header `X-XSS-Protection` of answers.",
        ),
        row(
            "management.http.hide_allow_header = false",
            Kind::Flag(|d, v| d.config.http.settings.shows_allowed = !v),
            "Whether answers leave out which methods their address has.",
        ),
        row(
            "management.disable_basic_auth = false",
            Kind::Flag(|d, v| d.config.http.settings.restrictions.refuses_passwords = v),
            "Whether nobody may log in to the HTTP API with a name and a password; there is no other way yet but \
             the control socket.",
        ),
        row(
            "management.login_session_timeout = 480",
            Kind::Integer(AGE, "minutes", |d, v| d.config.http.settings.login_ms = v * 60_000),
            "Time that a login with a cookie holds.",
        ),
        row(
            "management.disable_stats = false",
            Kind::Flag(|d, v| d.config.http.settings.is_plain = v),
            "Whether lists of queues are without figures; a request may say otherwise (`disable_stats`).",
        ),
        row(
            "management.enable_queue_totals = false",
            Kind::Flag(|d, v| d.config.http.settings.has_totals = v),
            "Whether these lists have the numbers of messages all the same.",
        ),
        row(
            "management.restrictions.operator_policy_changes.disabled = false",
            Kind::Flag(|d, v| d.config.http.settings.restrictions.keeps_operator_policies = v),
            "Whether operator policies cannot be changed by HTTP.",
        ),
        row(
            "management.restrictions.quorum_queue_replica_operations.disabled = false",
            Kind::Flag(|d, v| d.config.http.settings.restrictions.keeps_members = v),
            "Whether members of quorum queues cannot be added or deleted by HTTP.",
        ),
        row(
            "management.definitions.require_json_extension = false",
            Kind::Flag(|d, v| d.config.http.settings.restrictions.needs_json_files = v),
            "Whether a file of definitions in a form has to have a name that ends in `.json`.",
        ),
        row(
            "management.http_log_dir",
            Kind::Text(|d, v| {
                d.log.access_dir = Some(v.into());
                d.config.http.settings.logs_access = true;
            }),
            "A directory, inside the data directory if it is relative: each request to the HTTP API and to \
             Prometheus is a line of `access.log` there, in Apache's combined form, times in UTC. \
             `log.file.rotation` says when it moves itself away.",
        )
        .also("http_dispatch.access_log_dir"),
        row(
            "management.message_access = full",
            Kind::Word(&MessageAccess::NAMES, |d, v| d.config.http.settings.restrictions.message_access = MessageAccess::of_name(v).unwrap_or_default()),
            "How much of messages users may look at by HTTP: all, all but bodies, or nothing. Leveret's own key.",
        ),
        row(
            "management.ui.label",
            Kind::Text(|d, v| d.config.http.settings.look.label = v.into()),
            "The environment that the node is part of, shown on every page of the web UI: `production`. \
             Leveret's own key.",
        ),
        row(
            "management.ui.color = gray",
            Kind::Word(&["gray", "red", "orange", "green", "blue", "purple"], |d, v| d.config.http.settings.look.color = v.into()),
            "The color of that label. Leveret's own key.",
        ),
        row(
            "management.undo_window = 600",
            Kind::Integer(0..=604_800, "seconds", |d, v| d.config.http.undo_window_s = v),
            "How long what is purged, deleted or removed by HTTP and `leveret ctl` can be \
             [brought back](messages.md#undo); 0 is not at all. It takes 1 GiB, and 5 % of the free disk, at \
             most. Leveret's own key.",
        ),
        row(
            "trace_files.directory = traces",
            Kind::Text(|d, v| d.config.http.trace_dir = v.into()),
            "The directory of the files that traces are written to (`PUT /api/traces`), inside the data \
             directory if it is relative. Leveret's own key.",
        ),
        row(
            "prometheus.enabled = true",
            Kind::Flag(|d, v| d.config.http.metrics.is_enabled = v),
            "Whether there is a listener for Prometheus.",
        ),
    ],
    listener!(
        "prometheus.tcp",
        metrics.tcp,
        "The port of `/metrics`. If none is given it is 15692; in use, that does not keep the node from \
         starting.",
        "The address that `/metrics` is on; all of them when not set."
    ),
    &[row(
        "prometheus.tcp.listener",
        Kind::AddressOrNone(|d, v| {
            let older = &mut d.config.http.metrics.older;
            (older.ip, older.port) = match v {
                None => (None, None),
                Some(ListenAddress::Every(port)) => (None, Some(port)),
                Some(ListenAddress::One(at)) => (Some(at.ip().to_string()), Some(at.port())),
            };
        }),
        "Address and port in one, in the place of `prometheus.tcp.ip` and `prometheus.tcp.port`; `none` says \
         nothing.",
    )],
    listener!(
        "prometheus.ssl",
        metrics.ssl,
        "The port of `/metrics` with TLS, 15691 if another of the keys `prometheus.ssl` is set. \
         It has the certificates that these name, or those of `ssl_options`. Without TLS there is a port \
         besides only if one of the keys `prometheus.tcp` is set.",
        "The address of the port with TLS; all of them when not set."
    ),
    &[
        row(
            "prometheus.ssl.backlog = 1024",
            Kind::Integer(COUNT, "connections", |d, v| d.config.http.metrics.ssl.limits.backlog = fits(v)),
            "Length of its queue of connections not yet accepted.",
        ),
        row(
            "prometheus.return_per_object_metrics = false",
            Kind::Flag(|d, v| d.config.http.settings.metrics.is_per_object = v),
            "Whether `/metrics` answers as `/metrics/per-object` does.",
        ),
        row(
            "prometheus.path = /metrics",
            Kind::Text(|d, v| d.config.http.settings.metrics.path = v.to_owned()),
            "The address of the figures.",
        ),
        row(
            "prometheus.authentication.enabled = false",
            Kind::Flag(|d, v| d.config.http.settings.metrics.needs_login = v),
            "Whether figures are for users alone, with name and password.",
        ),
    ],
];
