//! The settings of the API, and what of them stands in the headers of every answer.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use std::time::Duration;

/// Settings of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting that is on or off")]
pub struct Settings {
    /// Longest body of a request.
    pub body_bytes_max: usize,
    /// Settings of the endpoints of Prometheus.
    pub metrics: MetricsSettings,
    /// The look of the web UI, and the beginning of all addresses.
    pub look: ui::Look,
    /// Places whose pages may ask, beside the node's own; `*` are all.
    pub origins: Vec<String>,
    /// Time that browsers may remember `origins`, seconds.
    pub origins_age_s: u64,
    /// Whether answers say which methods their address has.
    pub shows_allowed: bool,
    /// Time that a login with a cookie holds, milliseconds.
    pub login_ms: u64,
    /// Whether lists of queues are without figures.
    pub is_plain: bool,
    /// Whether lists without figures still have the numbers of messages.
    pub has_totals: bool,
    /// Refused changes.
    pub restrictions: Restrictions,
    /// Whether requests are told to the log, as [`ACCESS`](crate::ACCESS).
    pub logs_access: bool,
    /// Headers of every answer; that of HSTS goes over TLS alone.
    headers: HeaderMap,
}

/// Settings of the endpoints of Prometheus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSettings {
    /// The address of the figures.
    pub path: String,
    /// Whether the figures name objects without being asked to.
    pub is_per_object: bool,
    /// Whether a user's name and password are needed.
    pub needs_login: bool,
}

stdx::named! {
    /// The parts of messages that users may look at.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum MessageAccess {
        /// The whole message.
        #[default]
        Full = "full",
        /// The message without its body.
        Headers = "headers",
        /// No message at all.
        None = "none",
    }
}

/// Refusals of requests that the API would serve otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the configuration")]
pub struct Restrictions {
    /// Whether operator policies cannot be changed.
    pub keeps_operator_policies: bool,
    /// Whether logins with a name and a password are refused.
    pub refuses_passwords: bool,
    /// Whether members of quorum queues cannot be changed.
    pub keeps_members: bool,
    /// Whether definitions are taken only from files with the right name.
    pub needs_json_files: bool,
    /// The parts of messages that are shown.
    pub message_access: MessageAccess,
}

/// Limits of the connections of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections_max: usize,
    /// Requests of a connection.
    pub requests_max: u64,
    /// Time that a client has to agree on keys, and to send the head of a request, milliseconds.
    pub request_timeout_ms: u64,
    /// Time that a client has to send the rest of a request, and may read nothing of its answer,
    /// milliseconds.
    pub idle_timeout_ms: u64,
    /// Whether answers are compressed.
    pub compresses: bool,
    /// Connections the kernel may hold before they are accepted.
    pub backlog: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 20_000,
            requests_max: u64::MAX,
            request_timeout_ms: 10_000,
            idle_timeout_ms: 10_000,
            compresses: true,
            backlog: 1_024,
        }
    }
}

impl Limits {
    pub(crate) const fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    pub(crate) const fn idle_timeout(&self) -> Duration {
        Duration::from_millis(self.idle_timeout_ms)
    }
}

impl Default for MetricsSettings {
    fn default() -> Self {
        Self { path: "/metrics".to_owned(), is_per_object: false, needs_login: false }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let headers = [
            (header::CACHE_CONTROL, "no-cache"),
            (header::CONTENT_SECURITY_POLICY, "script-src 'self'; object-src 'self'"),
            (header::REFERRER_POLICY, "same-origin"),
            (header::VARY, "accept, accept-encoding, origin"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        Self {
            body_bytes_max: 20_000_000,
            metrics: MetricsSettings::default(),
            look: ui::Look::default(),
            origins: Vec::new(),
            origins_age_s: 1_800,
            shows_allowed: true,
            login_ms: 8 * 3_600_000,
            is_plain: false,
            has_totals: false,
            restrictions: Restrictions::default(),
            logs_access: false,
            headers: headers
                .map(|(name, it)| (name, HeaderValue::from_static(it)))
                .into_iter()
                .collect(),
        }
    }
}

/// Changes that the configuration may switch off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restriction {
    OperatorPolicies,
    QuorumMembers,
}

impl Settings {
    /// Puts a header into every answer.
    pub fn set_header(&mut self, name: &'static str, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
    }

    /// Tells browsers to use TLS only, unless that header is set already: no listener is without.
    pub fn expect_tls(&mut self) {
        let policy = HeaderValue::from_static("max-age=31536000");
        self.headers.entry(header::STRICT_TRANSPORT_SECURITY).or_insert(policy);
    }

    /// Sets the beginning of all addresses.
    pub fn set_prefix(&mut self, prefix: &str) {
        let prefix = prefix.trim_matches('/');
        let slash = if prefix.is_empty() { "" } else { "/" };
        self.look.prefix = format!("{slash}{prefix}");
    }

    /// The reason why a change is refused, if it is switched off.
    pub(crate) fn restricts(&self, change: Restriction) -> Option<&'static str> {
        let (is_restricted, told) = match change {
            Restriction::OperatorPolicies => (
                self.restrictions.keeps_operator_policies,
                "changing operator policies over HTTP is disabled",
            ),
            Restriction::QuorumMembers => (
                self.restrictions.keeps_members,
                "changing members of quorum queues over HTTP is disabled",
            ),
        };
        is_restricted.then_some(told)
    }

    /// The headers that an answer has not set itself.
    pub(crate) fn fill(&self, headers: &mut HeaderMap, is_encrypted: bool) {
        for (name, value) in &self.headers {
            if is_encrypted || name != header::STRICT_TRANSPORT_SECURITY {
                headers.entry(name).or_insert_with(|| value.clone());
            }
        }
    }

    /// Whether pages of an origin may send requests to the API.
    pub(crate) fn allows(&self, origin: &str) -> bool {
        origin != "null" && self.origins.iter().any(|allowed| allowed == "*" || allowed == origin)
    }
}
