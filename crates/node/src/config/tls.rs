//! The settings of TLS while they are applied.

use super::{ConfigError, Listeners, ListenersDraft};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tls::{LoginFrom, Options, SanKind, Verify};

/// The beginning of the keys that all listeners share.
pub(super) const SHARED: &str = "ssl_options";
/// Beginnings of keys that replace the shared ones: of HTTP, of Prometheus, of HTTP by older keys; and those
/// of the syslog server, which shares none.
pub(super) const OWN: [&str; 4] =
    ["management.ssl", "prometheus.ssl", "management.listener.ssl_opts", SYSLOG];
const SYSLOG: &str = "log.syslog.ssl_options";

/// The settings of TLS listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    pub(crate) shared: Options,
    /// Settings of the keys in [`OWN`], in that order; `None` where the shared ones count.
    pub(crate) own: [Option<Options>; OWN.len()],
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self { shared: Options::new(SHARED), own: [None, None, None, None] }
    }
}

impl TlsOptions {
    /// The settings for the syslog server: it is verified where nothing else is said.
    pub(crate) fn of_syslog(&self) -> Options {
        let [.., set] = &self.own;
        set.clone().unwrap_or_else(|| Keys::new(SYSLOG).finish())
    }
}

#[derive(Debug)]
pub(super) struct TlsDraft {
    pub(super) listeners: ListenersDraft,
    pub(super) stream_listeners: ListenersDraft,
    pub(super) login_from: LoginFrom,
    pub(super) san: (SanKind, usize),
    /// The keys that are being set: the shared ones, but within [`Self::switch`].
    pub(super) keys: Keys,
    own: [Option<Keys>; OWN.len()],
}

/// The settings behind one beginning of keys.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) certfile: Option<PathBuf>,
    pub(super) keyfile: Option<PathBuf>,
    /// Certificate and key, by the name they have in the configuration.
    pub(super) by_name: BTreeMap<String, (PathBuf, PathBuf)>,
    pub(super) verifies: bool,
    pub(super) versions: BTreeMap<String, String>,
    pub(super) ciphers: BTreeMap<String, String>,
    pub(super) crl_paths: BTreeMap<String, PathBuf>,
    /// The settings that depend on no other.
    pub(super) options: Options,
}

impl Default for TlsDraft {
    fn default() -> Self {
        Self {
            listeners: ListenersDraft::default(),
            stream_listeners: ListenersDraft::default(),
            login_from: LoginFrom::DistinguishedName,
            san: (SanKind::Dns, 0),
            keys: Keys::new(SHARED),
            own: [None, None, None, None],
        }
    }
}

impl TlsDraft {
    /// Puts the keys of a listener's own in the place of the shared ones, or those back.
    pub(super) fn switch(&mut self, own: Option<usize>) {
        if let Some((keys, key)) = own.and_then(|at| self.own.get_mut(at).zip(OWN.get(at))) {
            std::mem::swap(&mut self.keys, keys.get_or_insert_with(|| Keys::new(key)));
        }
    }

    /// The contradiction between the settings, if they have one.
    pub(super) fn check(&self) -> Option<ConfigError> {
        let in_vain = |keys: &Keys| keys.options.verify == Verify::Always && !keys.verifies;
        let is_any = in_vain(&self.keys) || self.own.iter().flatten().any(in_vain);
        is_any.then_some(ConfigError::Contradiction(
            "`ssl_options.fail_if_no_peer_cert = true` needs `ssl_options.verify = verify_peer`: clients are not \
             asked for certificates otherwise",
        ))
    }

    /// Moves the settings into the listeners; returns the part of a certificate that is a user's name.
    pub(super) fn finish(self, listeners: &mut Listeners) -> LoginFrom {
        let own = self.own.map(|keys| keys.map(Keys::finish));
        listeners.tls = TlsOptions { shared: self.keys.finish(), own };
        listeners.ssl = self.listeners.finish().unwrap_or_default();
        listeners.stream_ssl = self.stream_listeners.finish().unwrap_or_default();
        match self.login_from {
            LoginFrom::San(..) => LoginFrom::San(self.san.0, self.san.1),
            from @ (LoginFrom::DistinguishedName | LoginFrom::CommonName) => from,
        }
    }
}

impl Keys {
    fn new(key: &'static str) -> Self {
        Self {
            certfile: None,
            keyfile: None,
            by_name: BTreeMap::new(),
            verifies: key == SYSLOG,
            versions: BTreeMap::new(),
            ciphers: BTreeMap::new(),
            crl_paths: BTreeMap::new(),
            options: Options::new(key),
        }
    }

    fn finish(self) -> Options {
        let mut options = self.options;
        if self.verifies && options.verify == Verify::No {
            options.verify = Verify::IfShown;
        }
        // The path of what is not set is empty.
        let pair = (self.certfile, self.keyfile);
        let is_set = pair.0.is_some() || pair.1.is_some();
        options.identity = is_set.then(|| (pair.0.unwrap_or_default(), pair.1.unwrap_or_default()));
        options.by_name = self.by_name;
        options.versions = self.versions.into_values().collect();
        options.ciphers = self.ciphers.into_values().collect();
        options.crls.1 = self.crl_paths.into_values().collect();
        options
    }
}
