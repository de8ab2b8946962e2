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
            "Compress responses for clients that accept it.",
        )
    };
    ($start:literal, $key:literal, $kind:ident.$place:ident, request_timeout_ms) => {
        row(
            concat!($start, $key),
            Kind::Integer(TIME, "milliseconds", |d, v| {
                d.config.http.$kind.$place.limits.request_timeout_ms = v
            }),
            "Time limit for the TLS handshake, and for a request's head on a connection.",
        )
    };
    ($start:literal, $key:literal, $kind:ident.$place:ident, idle_timeout_ms) => {
        row(
            concat!($start, $key),
            Kind::Integer(TIME, "milliseconds", |d, v| {
                d.config.http.$kind.$place.limits.idle_timeout_ms = v
            }),
            "Time limit for a request's body, and for a client that does not read its response.",
        )
    };
    ($start:literal, $key:literal, $kind:ident.$place:ident, requests_max) => {
        row(
            concat!($start, $key),
            Kind::Integer(COUNT, "requests", |d, v| {
                d.config.http.$kind.$place.limits.requests_max = v
            }),
            "Maximum number of requests per connection; no limit when unset.",
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
                "Maximum number of concurrent connections; further ones wait.",
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
        "Enable the HTTP API and the web UI. `leveret ctl` does not need them.",
    )],
    listener!(
        "management.tcp",
        api.tcp,
        "Port of the HTTP API. When unset, 15672; the node starts even if that port is in use.",
        "IP address of the HTTP API; all when unset."
    ),
    listener!(
        "management.ssl",
        api.ssl,
        "Port of the HTTP API over TLS; 15671 if another `management.ssl` key is set. Uses the certificates \
         of `management.ssl`, otherwise those of `ssl_options`. A plain port is then opened only if a \
         `management.tcp` key is set.",
        "IP address of the TLS port; all when unset."
    ),
    &[
        row(
            "management.listener.port",
            Kind::Integer(PORT, "", |d, v| d.config.http.api.older.port = Some(fits(v))),
            "Port of a listener by RabbitMQ's older keys; 15672 if another of them is set. Replaces the default \
             listener, and one of `management.tcp` or `management.ssl` with the same address. Has no effect if \
             both `management.tcp` and `management.ssl` are set.",
        ),
        row(
            "management.listener.ip",
            Kind::Text(|d, v| d.config.http.api.older.ip = Some(v.to_owned())),
            "IP address of this listener; all when unset.",
        ),
        row(
            "management.listener.ssl",
            Kind::Flag(|d, v| d.config.http.api.older_has_tls = Some(v)),
            "Use TLS on this listener, with the certificates of `management.listener.ssl_opts`, otherwise those of \
             `ssl_options`.",
        ),
        row(
            "management.listener.ssl_opts",
            Kind::Nothing(|_| {}),
            "`none`: no certificates of its own.",
        ),
        limit!("management.listener.server", ".compress = true", api.older, compresses),
        limit!("management.listener.server", ".request_timeout = 10000", api.older, request_timeout_ms),
        limit!("management.listener.server", ".idle_timeout = 10000", api.older, idle_timeout_ms),
        limit!("management.listener.server", ".max_keepalive", api.older, requests_max),
        row(
            "management.ssl.backlog = 1024",
            Kind::Integer(COUNT, "connections", |d, v| d.config.http.api.ssl.limits.backlog = fits(v)),
            "Length of the accept queue.",
        ),
        row(
            "management.http.max_body_size = 20000000",
            Kind::ByteSize(1_024..=1 << 30, |d, v| d.config.http.settings.body_bytes_max = fits(v)),
            "Maximum size of a request body.",
        ),
        row(
            "management.path_prefix",
            Kind::Text(|d, v| d.config.http.settings.set_prefix(v)),
            "Path prefix of the HTTP API and the web UI, for reverse proxies.",
        ),
        row(
            "management.cors.allow_origins = none",
            Kind::Nothing(|d| d.config.http.settings.origins.clear()),
            "`none` rejects requests from other origins.",
        ),
        row(
            "management.cors.allow_origins.$name",
            Kind::NamedText(|d, _, v| d.config.http.settings.origins.push(v.to_owned())),
            "Origin permitted to use the HTTP API from a browser, such as `https://tools.example.org`; `*` permits \
             all. Cookie logins of other origins are read-only.",
        ),
        row(
            "management.cors.max_age = 1800",
            Kind::Integer(AGE, "seconds", |d, v| d.config.http.settings.origins_age_s = v),
            "Time for which browsers may cache CORS preflight responses.",
        ),
        row(
            "management.csp.policy = script-src 'self'; object-src 'self'",
            Kind::Text(|d, v| d.config.http.settings.set_header("content-security-policy", v)),
            "`Content-Security-Policy` response header.",
        ),
        row(
            "management.hsts.policy",
            Kind::Text(|d, v| d.config.http.settings.set_header("strict-transport-security", v)),
            "`Strict-Transport-Security` response header over TLS. `max-age=31536000` by default if there is no \
             plain port.",
        ),
        row(
            "management.headers.content_type_options = nosniff",
            Kind::Text(|d, v| d.config.http.settings.set_header("x-content-type-options", v)),
            "`X-Content-Type-Options` response header.",
        ),
        row(
            "management.headers.frame_options",
            Kind::Text(|d, v| d.config.http.settings.set_header("x-frame-options", v)),
            "`X-Frame-Options` response header.",
        ),
        row(
            "management.headers.referrer_policy = same-origin",
            Kind::Text(|d, v| d.config.http.settings.set_header("referrer-policy", v)),
            "`Referrer-Policy` response header.",
        ),
        row(
            "management.headers.xss_protection",
            Kind::Text(|d, v| d.config.http.settings.set_header("x-xss-protection", v)),
            "`X-XSS-Protection` response header.",
        ),
        row(
            "management.http.hide_allow_header = false",
            Kind::Flag(|d, v| d.config.http.settings.shows_allowed = !v),
            "Omit the `Allow` response header.",
        ),
        row(
            "management.disable_basic_auth = false",
            Kind::Flag(|d, v| d.config.http.settings.restrictions.refuses_passwords = v),
            "Disable login with user name and password; only the control socket is left then.",
        ),
        row(
            "management.login_session_timeout = 480",
            Kind::Integer(AGE, "minutes", |d, v| d.config.http.settings.login_ms = v * 60_000),
            "Lifetime of a cookie login.",
        ),
        row(
            "management.disable_stats = false",
            Kind::Flag(|d, v| d.config.http.settings.is_plain = v),
            "Omit statistics from queue lists; requests may override this with `disable_stats`.",
        ),
        row(
            "management.enable_queue_totals = false",
            Kind::Flag(|d, v| d.config.http.settings.has_totals = v),
            "Include message counts in queue lists without statistics.",
        ),
        row(
            "management.restrictions.operator_policy_changes.disabled = false",
            Kind::Flag(|d, v| d.config.http.settings.restrictions.keeps_operator_policies = v),
            "Reject changes of operator policies over HTTP.",
        ),
        row(
            "management.restrictions.quorum_queue_replica_operations.disabled = false",
            Kind::Flag(|d, v| d.config.http.settings.restrictions.keeps_members = v),
            "Reject adding and deleting quorum queue members over HTTP.",
        ),
        row(
            "management.definitions.require_json_extension = false",
            Kind::Flag(|d, v| d.config.http.settings.restrictions.needs_json_files = v),
            "Require the extension `.json` for uploaded definitions.",
        ),
        row(
            "management.http_log_dir",
            Kind::Text(|d, v| {
                d.log.access_dir = Some(v.into());
                d.config.http.settings.logs_access = true;
            }),
            "Directory of the HTTP access log `access.log`, relative to the data directory; off when unset. \
             Apache's combined log format, in UTC, rotated by `log.file.rotation`.",
        )
        .also("http_dispatch.access_log_dir"),
        row(
            "management.message_access = full",
            Kind::Word(&MessageAccess::NAMES, |d, v| d.config.http.settings.restrictions.message_access = MessageAccess::of_name(v).unwrap_or_default()),
            "Parts of messages readable over HTTP: everything, all but bodies, or nothing. Leveret's own key.",
        ),
        row(
            "management.ui.label",
            Kind::Text(|d, v| d.config.http.settings.look.label = v.into()),
            "Label of the environment on every page of the web UI, such as `production`. Leveret's own key.",
        ),
        row(
            "management.ui.color = gray",
            Kind::Word(&["gray", "red", "orange", "green", "blue", "purple"], |d, v| d.config.http.settings.look.color = v.into()),
            "Color of the environment label. Leveret's own key.",
        ),
        row(
            "management.undo_window = 600",
            Kind::Integer(0..=604_800, "seconds", |d, v| d.config.http.undo_window_s = v),
            "Time for which purges, deletions and removals over HTTP and `leveret ctl` can be \
             [undone](messages.md#undo); 0 disables undo. Uses at most 1 GiB and 5 % of the free disk space. \
             Leveret's own key.",
        ),
        row(
            "trace_files.directory = traces",
            Kind::Text(|d, v| d.config.http.trace_dir = v.into()),
            "Directory of trace files (`PUT /api/traces`), relative to the data directory. Leveret's own key.",
        ),
        row(
            "prometheus.enabled = true",
            Kind::Flag(|d, v| d.config.http.metrics.is_enabled = v),
            "Enable the Prometheus listener.",
        ),
    ],
    listener!(
        "prometheus.tcp",
        metrics.tcp,
        "Port of `/metrics`. When unset, 15692; the node starts even if that port is in use.",
        "IP address of `/metrics`; all when unset."
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
        "Address and port together, instead of `prometheus.tcp.ip` and `prometheus.tcp.port`; `none` is unset.",
    )],
    listener!(
        "prometheus.ssl",
        metrics.ssl,
        "Port of `/metrics` over TLS; 15691 if another `prometheus.ssl` key is set. Uses the certificates of \
         `prometheus.ssl`, otherwise those of `ssl_options`. A plain port is then opened only if a \
         `prometheus.tcp` key is set.",
        "IP address of the TLS port; all when unset."
    ),
    &[
        row(
            "prometheus.ssl.backlog = 1024",
            Kind::Integer(COUNT, "connections", |d, v| d.config.http.metrics.ssl.limits.backlog = fits(v)),
            "Length of the accept queue.",
        ),
        row(
            "prometheus.return_per_object_metrics = false",
            Kind::Flag(|d, v| d.config.http.settings.metrics.is_per_object = v),
            "Serve `/metrics/per-object` at `/metrics`.",
        ),
        row(
            "prometheus.path = /metrics",
            Kind::Text(|d, v| d.config.http.settings.metrics.path = v.to_owned()),
            "Path of the metrics.",
        ),
        row(
            "prometheus.authentication.enabled = false",
            Kind::Flag(|d, v| d.config.http.settings.metrics.needs_login = v),
            "Require user name and password for metrics.",
        ),
    ],
];
