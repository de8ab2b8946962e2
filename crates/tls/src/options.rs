//! The settings of TLS, as a listener names them.

use rustls::crypto::aws_lc_rs;
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion, version};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// RabbitMQ's names of the versions there are, newest first.
pub const VERSIONS: [(&str, &SupportedProtocolVersion); 2] =
    [("tlsv1.3", &version::TLS13), ("tlsv1.2", &version::TLS12)];

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Verify {
    /// Clients are not asked for a certificate (`verify_none`).
    #[default]
    No,
    /// Clients are asked, and a certificate that is shown is verified (`verify_peer`).
    IfShown,
    /// Clients must show a certificate (`fail_if_no_peer_cert`).
    Always,
}

stdx::named! {
    /// The certificates that are looked up in lists of revoked ones.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub enum CrlCheck {
        /// All certificates of the client's chain.
        Chain = "true",
        /// No certificate.
        #[default]
        No = "false",
        /// The client's own certificate.
        Peer = "peer",
        /// All certificates that there is a list for.
        BestEffort = "best_effort",
    }
}

/// The settings of the listeners that share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The beginning of their keys in the configuration.
    pub key: &'static str,
    /// Certificate and key; the certificate's file may have its chain behind it. The path of one that is not
    /// set is empty.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Further ones, by their name in the configuration, for clients that ask for a name that stands in one
    /// of these certificates.
    pub by_name: BTreeMap<String, (PathBuf, PathBuf)>,
    /// The password of encrypted keys.
    pub password: Option<String>,
    /// Authorities whose clients are trusted.
    pub cacertfile: Option<PathBuf>,
    /// Whether clients show certificates.
    pub verify: Verify,
    /// Certificates that may stand between a client's and the authority's.
    pub depth: usize,
    /// RabbitMQ's names of the versions; all there are if empty.
    pub versions: Vec<String>,
    /// Names of cipher suites, OpenSSL's or IANA's; all there are if empty.
    pub ciphers: Vec<String>,
    /// Whether the node's order of cipher suites counts, rather than the client's.
    pub prefers_own_order: bool,
    /// Whether clients may resume sessions.
    pub resumes: bool,
    /// Lists of revoked certificates: files, or directories of such files.
    pub crls: (CrlCheck, Vec<PathBuf>),
}

impl Options {
    /// Creates options with nothing set, for keys that begin with `key`.
    #[must_use]
    pub fn new(key: &'static str) -> Self {
        // COMPAT: Erlang's depth.
        Self { key, depth: 10, prefers_own_order: true, resumes: true, ..Self::default() }
    }

    /// Warnings of unknown versions and ciphers, for the log.
    #[must_use]
    pub fn unknown(&self) -> Vec<String> {
        let is_version = |name: &&String| VERSIONS.iter().any(|(known, _)| known == name);
        let is_cipher = |name: &&String| suite(name).is_some();
        let versions = self.versions.iter().filter(|name| !is_version(name));
        let versions = versions.map(|name| {
            format!("`{}.versions`: there is no {name} here, which is broken", self.key)
        });
        let ciphers = self.ciphers.iter().filter(|name| !is_cipher(name)).map(|name| {
            format!("`{}.ciphers`: there is no {name}; see 'leveret ctl cipher_suites'", self.key)
        });
        versions.chain(ciphers).collect()
    }

    pub(crate) fn chosen_versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, Error> {
        let is_chosen =
            |name: &str| self.versions.is_empty() || self.versions.iter().any(|it| it == name);
        let chosen =
            VERSIONS.iter().filter(|(name, _)| is_chosen(name)).map(|(_, version)| *version);
        self.any(chosen.collect(), "versions", "none of them is there: tlsv1.3 and tlsv1.2 are")
    }

    pub(crate) fn chosen_ciphers(&self) -> Result<Vec<SupportedCipherSuite>, Error> {
        if self.ciphers.is_empty() {
            return Ok(aws_lc_rs::DEFAULT_CIPHER_SUITES.to_vec());
        }
        let chosen = self.ciphers.iter().filter_map(|name| suite(name)).collect();
        self.any(chosen, "ciphers", "none of them is there; see 'leveret ctl cipher_suites'")
    }

    fn any<T>(&self, chosen: Vec<T>, option: &str, why: &str) -> Result<Vec<T>, Error> {
        if chosen.is_empty() { Err(self.wrong(option, why)) } else { Ok(chosen) }
    }

    pub(crate) fn wrong(&self, option: &str, why: impl ToString) -> Error {
        Error { key: format!("{}.{option}", self.key), file: None, why: why.to_string() }
    }

    /// Whether there is a certificate with its key.
    #[must_use]
    pub fn has_identity(&self) -> bool {
        let is_set = |(certfile, keyfile): &(PathBuf, PathBuf)| {
            !certfile.as_os_str().is_empty() && !keyfile.as_os_str().is_empty()
        };
        self.identity.as_ref().is_some_and(is_set)
    }

    /// The error of a certificate without its key, and the other way round.
    pub(crate) fn not_set(&self, option: &str) -> Error {
        let user = self.user();
        self.wrong(option, format!("not set; {user} must have a certificate and its private key"))
    }

    /// The user of the files.
    fn user(&self) -> &'static str {
        USERS.iter().find(|(key, _)| *key == self.key).map_or(self.key, |(_, user)| user)
    }

    pub(crate) fn wrong_file(&self, option: &str, path: &Path, why: impl ToString) -> Error {
        let user = self.user();
        let content = CONTENTS.iter().find(|(known, _)| option.rsplit('.').next() == Some(*known));
        let used =
            content.map_or_else(String::new, |(_, content)| format!("{content} of {user}, "));
        Error { file: Some((used, path.to_owned())), ..self.wrong(option, why) }
    }
}

/// The users of files, by the beginning of their keys.
const USERS: [(&str, &str); 6] = [
    ("cluster.tls", "connections with other nodes"),
    ("ssl_options", "the AMQP and stream listeners"),
    ("management.ssl", "the HTTP API"),
    ("management.listener.ssl_opts", "the HTTP API"),
    ("prometheus.ssl", "the metrics listener"),
    ("log.syslog.ssl_options", "the connection to the syslog server"),
];

/// The contents of files, by the end of their keys.
const CONTENTS: [(&str, &str); 4] = [
    ("certfile", "certificate"),
    ("keyfile", "private key"),
    ("cacertfile", "CA certificates"),
    ("crl_sources", "revocation lists"),
];

/// The reason why certificates, keys and settings make no listener. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    key: String,
    /// The file and its use.
    file: Option<(String, PathBuf)>,
    why: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, file, why } = self;
        match file {
            Some((used, path)) => write!(f, "{used}`{key}` {}: {why}", path.display()),
            None => write!(f, "`{key}`: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// All reasons at once, at least one. Displays as one line.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Error::to_string).collect::<Vec<_>>().join("; "))]
pub struct Errors(pub Vec<Error>);

impl Errors {
    /// The value; an error is noted.
    pub(crate) fn note<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.0.push(error)).ok()
    }
}

/// OpenSSL's names of the cipher suites there are.
#[must_use]
pub fn cipher_suites() -> Vec<String> {
    aws_lc_rs::ALL_CIPHER_SUITES.iter().map(|suite| openssl_name(suite.suite())).collect()
}

fn suite(name: &str) -> Option<SupportedCipherSuite> {
    let is_it = |it: CipherSuite| openssl_name(it) == name || iana_name(it) == name;
    aws_lc_rs::ALL_CIPHER_SUITES.iter().copied().find(|suite| is_it(suite.suite()))
}

fn iana_name(suite: CipherSuite) -> String {
    suite.as_str().unwrap_or_default().replace("TLS13_", "TLS_")
}

/// RabbitMQ's names of the exchange of keys and of the cipher.
pub(crate) fn erlang_names(suite: CipherSuite) -> (String, String) {
    let name = iana_name(suite).to_lowercase();
    let (key_exchange, cipher) = name.split_once("_with_").unwrap_or(("any", &name));
    let cipher = cipher.trim_start_matches("tls_");
    let cipher = cipher.rsplit_once("_sha").map_or(cipher, |(cipher, _)| cipher);
    (key_exchange.trim_start_matches("tls_").to_owned(), cipher.to_owned())
}

fn openssl_name(suite: CipherSuite) -> String {
    let name = iana_name(suite);
    let Some((key_exchange, cipher)) = name.split_once("_WITH_") else { return name };
    let cipher = cipher.replace("AES_", "AES").replace("POLY1305_SHA256", "POLY1305");
    format!("{}_{cipher}", key_exchange.trim_start_matches("TLS_")).replace('_', "-")
}
