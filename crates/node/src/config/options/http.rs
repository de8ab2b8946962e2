//! The options of the HTTP API and of Prometheus.

use super::fits;
use crate::config::option::{ConfigOption, options};
use http::MessageAccess;
use net::ListenAddress;
use std::ops::RangeInclusive;

const COUNT: RangeInclusive<u64> = 1..=u32::MAX as u64;

const PORT: RangeInclusive<u64> = 0..=65_535;

const TIME: RangeInclusive<u64> = 1..=600_000;

const AGE: RangeInclusive<u64> = 0..=525_600_000;

const COLORS: &[&str] = &["gray", "red", "orange", "green", "blue", "purple"];

/// Options of one of the listeners, of the API or of Prometheus, with TLS or without.
macro_rules! listener {
    ($start:literal, $kind:ident.$place:ident, $port:expr, $ip:literal) => {
        options! {
            concat!($start, ".port") =>
                Integer(PORT, "", |d, v| d.config.http.$kind.$place.port = Some(fits(v))),
                $port;
            concat!($start, ".ip") => Text(|d, v| d.config.http.$kind.$place.ip = Some(v.to_owned())), $ip;
            concat!($start, ".max_connections = 20000") => IntegerOrInfinity("connections", |d, v| {
                let most = v.and_then(|most| usize::try_from(most).ok());
                d.config.http.$kind.$place.limits.connections_max =
                    most.unwrap_or(usize::MAX).min(CONNECTIONS_MAX);
            }),
                "Maximum number of concurrent connections; further ones wait.";
        }
    };
}

/// Limits of one of the listeners.
macro_rules! limits {
    ($start:literal, $kind:ident.$place:ident) => {
        options! {
            concat!($start, ".compress = true") =>
                Flag(|d, v| d.config.http.$kind.$place.limits.compresses = v),
                "Compress responses for clients that accept it.";
            concat!($start, ".request_timeout = 10000") =>
                Integer(TIME, "milliseconds", |d, v| d.config.http.$kind.$place.limits.request_timeout_ms = v),
                "Time limit for the TLS handshake, and for a request's head on a connection.";
            concat!($start, ".idle_timeout = 10000") =>
                Integer(TIME, "milliseconds", |d, v| d.config.http.$kind.$place.limits.idle_timeout_ms = v),
                "Time limit for a request's body, and for a client that does not read its response.";
            concat!($start, ".max_keepalive") =>
                Integer(COUNT, "requests", |d, v| d.config.http.$kind.$place.limits.requests_max = v),
                "Maximum number of requests per connection; no limit when unset.";
        }
    };
}

/// Most connections that a number is kept of.
const CONNECTIONS_MAX: usize = usize::MAX >> 3;

/// Every option of theirs that Leveret acts on.
pub(in crate::config) const OPTIONS: &[&[ConfigOption]] = &[
    options! {
        "management.enabled = true" => Flag(|d, v| d.config.http.api.is_enabled = v),
            "Enable the HTTP API and the web UI. `leveret ctl` does not need them.";
    },
    listener!(
        "management.tcp",
        api.tcp,
        "Port of the HTTP API. When unset, 15672; the node starts even if that port is in use.",
        "IP address of the HTTP API; all when unset."
    ),
    limits!("management.tcp", api.tcp),
    listener!(
        "management.ssl",
        api.ssl,
        "Port of the HTTP API over TLS; 15671 if another `management.ssl` key is set. Uses the certificates \
         of `management.ssl`, otherwise those of `ssl_options`. A plain port is then opened only if a \
         `management.tcp` key is set.",
        "IP address of the TLS port; all when unset."
    ),
    limits!("management.ssl", api.ssl),
    options! {
        "management.listener.port" =>
            Integer(PORT, "", |d, v| d.config.http.api.older.port = Some(fits(v))),
            "Port of a listener by RabbitMQ's older keys; 15672 if another of them is set. Replaces the \
             default listener, and one of `management.tcp` or `management.ssl` with the same address. Has \
             no effect if both `management.tcp` and `management.ssl` are set.";
        "management.listener.ip" => Text(|d, v| d.config.http.api.older.ip = Some(v.to_owned())),
            "IP address of this listener; all when unset.";
        "management.listener.ssl" => Flag(|d, v| d.config.http.api.older_has_tls = Some(v)),
            "Use TLS on this listener, with the certificates of `management.listener.ssl_opts`, otherwise \
             those of `ssl_options`.";
        "management.listener.ssl_opts" => Nothing(|_| {}), "`none`: no certificates of its own.";
    },
    limits!("management.listener.server", api.older),
    options! {
        "management.ssl.backlog = 1024" =>
            Integer(COUNT, "connections", |d, v| d.config.http.api.ssl.limits.backlog = fits(v)),
            "Length of the accept queue.";
        "management.http.max_body_size = 20000000" =>
            ByteSize(1_024..=1 << 30, |d, v| d.config.http.settings.body_bytes_max = fits(v)),
            "Maximum size of a request body.";
        "management.path_prefix" => Text(|d, v| d.config.http.settings.set_prefix(v)),
            "Path prefix of the HTTP API and the web UI, for reverse proxies.";
        "management.cors.allow_origins = none" => Nothing(|d| d.config.http.settings.origins.clear()),
            "`none` rejects requests from other origins.";
        "management.cors.allow_origins.$name" =>
            NamedText(|d, _, v| d.config.http.settings.origins.push(v.to_owned())),
            "Origin permitted to use the HTTP API from a browser, such as `https://tools.example.org`; `*` \
             permits all. Cookie logins of other origins are read-only.";
        "management.cors.max_age = 1800" =>
            Integer(AGE, "seconds", |d, v| d.config.http.settings.origins_age_s = v),
            "Time for which browsers may cache CORS preflight responses.";
        "management.csp.policy = script-src 'self'; object-src 'self'" =>
            Text(|d, v| d.config.http.settings.set_header("content-security-policy", v)),
            "`Content-Security-Policy` response header.";
        "management.hsts.policy" =>
            Text(|d, v| d.config.http.settings.set_header("strict-transport-security", v)),
            "`Strict-Transport-Security` response header over TLS. `max-age=31536000` by default if there \
             is no plain port.";
        "management.headers.content_type_options = nosniff" =>
            Text(|d, v| d.config.http.settings.set_header("x-content-type-options", v)),
            "`X-Content-Type-Options` response header.";
        "management.headers.frame_options" =>
            Text(|d, v| d.config.http.settings.set_header("x-frame-options", v)),
            "`X-Frame-Options` response header.";
        "management.headers.referrer_policy = same-origin" =>
            Text(|d, v| d.config.http.settings.set_header("referrer-policy", v)),
            "`Referrer-Policy` response header.";
        "management.headers.xss_protection" =>
            Text(|d, v| d.config.http.settings.set_header("x-xss-protection", v)),
            "`X-XSS-Protection` response header.";
        "management.http.hide_allow_header = false" =>
            Flag(|d, v| d.config.http.settings.shows_allowed = !v),
            "Omit the `Allow` response header.";
        "management.disable_basic_auth = false" =>
            Flag(|d, v| d.config.http.settings.restrictions.refuses_passwords = v),
            "Disable login with user name and password; only the control socket is left then.";
        "management.login_session_timeout = 480" =>
            Integer(AGE, "minutes", |d, v| d.config.http.settings.login_ms = v * 60_000),
            "Lifetime of a cookie login.";
        "management.disable_stats = false" => Flag(|d, v| d.config.http.settings.is_plain = v),
            "Omit statistics from queue lists; requests may override this with `disable_stats`.";
        "management.enable_queue_totals = false" => Flag(|d, v| d.config.http.settings.has_totals = v),
            "Include message counts in queue lists without statistics.";
        "management.restrictions.operator_policy_changes.disabled = false" =>
            Flag(|d, v| d.config.http.settings.restrictions.keeps_operator_policies = v),
            "Reject changes of operator policies over HTTP.";
        "management.restrictions.quorum_queue_replica_operations.disabled = false" =>
            Flag(|d, v| d.config.http.settings.restrictions.keeps_members = v),
            "Reject adding and deleting quorum queue members over HTTP.";
        "management.definitions.require_json_extension = false" =>
            Flag(|d, v| d.config.http.settings.restrictions.needs_json_files = v),
            "Require the extension `.json` for uploaded definitions.";
        "management.http_log_dir", also "http_dispatch.access_log_dir" => Text(|d, v| {
            d.log.access_dir = Some(v.into());
            d.config.http.settings.logs_access = true;
        }),
            "Directory of the HTTP access log `access.log`, relative to the data directory; off when \
             unset. Apache's combined log format, in UTC, rotated by `log.file.rotation`.";
        "management.message_access = full" =>
            OneOf(MessageAccess, config.http.settings.restrictions.message_access),
            "Parts of messages readable over HTTP: everything, all but bodies, or nothing. Leveret's own \
             key.";
        "management.ui.label" => Text(|d, v| d.config.http.settings.look.label = v.into()),
            "Label of the environment on every page of the web UI, such as `production`. Leveret's own \
             key.";
        "management.ui.color = gray" =>
            Word(COLORS, |d, v| d.config.http.settings.look.color = v.into()),
            "Color of the environment label. Leveret's own key.";
        "management.undo_window = 600" =>
            Integer(0..=604_800, "seconds", |d, v| d.config.http.undo_window_s = v),
            "Time for which purges, deletions and removals over HTTP and `leveret ctl` can be \
             [undone](messages.md#undo); 0 disables undo. Uses at most 1 GiB and 5 % of the free disk \
             space. Leveret's own key.";
        "trace_files.directory = traces" => Text(|d, v| d.config.http.trace_dir = v.into()),
            "Directory of trace files (`PUT /api/traces`), relative to the data directory. Leveret's own \
             key.";
        "prometheus.enabled = true" => Flag(|d, v| d.config.http.metrics.is_enabled = v),
            "Enable the Prometheus listener.";
    },
    listener!(
        "prometheus.tcp",
        metrics.tcp,
        "Port of `/metrics`. When unset, 15692; the node starts even if that port is in use.",
        "IP address of `/metrics`; all when unset."
    ),
    limits!("prometheus.tcp", metrics.tcp),
    options! {
        "prometheus.tcp.listener" => AddressOrNone(|d, v| {
            let older = &mut d.config.http.metrics.older;
            (older.ip, older.port) = match v {
                None => (None, None),
                Some(ListenAddress::Every(port)) => (None, Some(port)),
                Some(ListenAddress::One(at)) => (Some(at.ip().to_string()), Some(at.port())),
            };
    }),
            "Address and port together, instead of `prometheus.tcp.ip` and `prometheus.tcp.port`; `none` is \
             unset.";
    },
    listener!(
        "prometheus.ssl",
        metrics.ssl,
        "Port of `/metrics` over TLS; 15691 if another `prometheus.ssl` key is set. Uses the certificates of \
         `prometheus.ssl`, otherwise those of `ssl_options`. A plain port is then opened only if a \
         `prometheus.tcp` key is set.",
        "IP address of the TLS port; all when unset."
    ),
    limits!("prometheus.ssl", metrics.ssl),
    options! {
        "prometheus.ssl.backlog = 1024" =>
            Integer(COUNT, "connections", |d, v| d.config.http.metrics.ssl.limits.backlog = fits(v)),
            "Length of the accept queue.";
        "prometheus.return_per_object_metrics = false" =>
            Flag(|d, v| d.config.http.settings.metrics.is_per_object = v),
            "Serve `/metrics/per-object` at `/metrics`.";
        "prometheus.path = /metrics" => Text(|d, v| d.config.http.settings.metrics.path = v.to_owned()),
            "Path of the metrics.";
        "prometheus.authentication.enabled = false" =>
            Flag(|d, v| d.config.http.settings.metrics.needs_login = v),
            "Require user name and password for metrics.";
    },
];
