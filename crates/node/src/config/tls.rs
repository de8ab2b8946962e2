//! The settings of TLS while they are applied.

use super::{ConfigError, Listeners, ListenersDraft};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tls::{LoginFrom, Options, SanKind, Verify};

#[derive(Debug)]
pub(super) struct TlsDraft {
    pub(super) listeners: ListenersDraft,
    pub(super) stream_listeners: ListenersDraft,
    pub(super) certfile: Option<PathBuf>,
    pub(super) keyfile: Option<PathBuf>,
    /// Certificate and key, by the name they have in the configuration.
    pub(super) by_name: BTreeMap<String, (PathBuf, PathBuf)>,
    pub(super) verifies: bool,
    pub(super) versions: BTreeMap<String, String>,
    pub(super) ciphers: BTreeMap<String, String>,
    pub(super) crl_paths: BTreeMap<String, PathBuf>,
    pub(super) login_from: LoginFrom,
    pub(super) san: (SanKind, usize),
    /// The settings that depend on no other.
    pub(super) options: Options,
}

impl Default for TlsDraft {
    fn default() -> Self {
        Self {
            listeners: ListenersDraft::default(),
            stream_listeners: ListenersDraft::default(),
            certfile: None,
            keyfile: None,
            by_name: BTreeMap::new(),
            verifies: false,
            versions: BTreeMap::new(),
            ciphers: BTreeMap::new(),
            crl_paths: BTreeMap::new(),
            login_from: LoginFrom::DistinguishedName,
            san: (SanKind::Dns, 0),
            options: Options::new("ssl_options"),
        }
    }
}

impl TlsDraft {
    /// A contradiction.
    pub(super) fn check(&self) -> Option<ConfigError> {
        let in_vain = self.options.verify == Verify::Always && !self.verifies;
        in_vain.then_some(ConfigError::Contradiction(
            "`ssl_options.fail_if_no_peer_cert = true` needs `ssl_options.verify = verify_peer`: clients are not \
             asked for certificates otherwise",
        ))
    }

    /// Puts everything in its place; the part of a certificate that is a user's name.
    pub(super) fn finish(self, listeners: &mut Listeners) -> LoginFrom {
        let mut options = self.options;
        if self.verifies && options.verify == Verify::No {
            options.verify = Verify::IfShown;
        }
        options.identity = self.certfile.zip(self.keyfile);
        options.by_name = self.by_name.into_values().collect();
        options.versions = self.versions.into_values().collect();
        options.ciphers = self.ciphers.into_values().collect();
        options.crls.1 = self.crl_paths.into_values().collect();
        listeners.tls = options;
        listeners.ssl = self.listeners.finish().unwrap_or_default();
        listeners.stream_ssl = self.stream_listeners.finish().unwrap_or_default();
        match self.login_from {
            LoginFrom::San(..) => LoginFrom::San(self.san.0, self.san.1),
            from @ (LoginFrom::DistinguishedName | LoginFrom::CommonName) => from,
        }
    }
}
