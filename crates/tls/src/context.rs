//! The certificates and settings in effect, replaced when their files are.

use crate::certificate::is_for_key;
use crate::files::{self, Identity, Stamps};
use crate::options::{CrlCheck, Error, Options, Verify};
use crate::verifier::Verifier;
use crate::{Certificate, Reason};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, server};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Certificates and settings of the listeners that share them.
#[derive(Debug)]
pub struct Context {
    options: Options,
    current: Mutex<Arc<Loaded>>,
    /// The files as they were when they were read last, with success or not.
    tried: Mutex<Stamps>,
    failures: [AtomicU64; Reason::ALL.len()],
}

/// The contents of the files.
#[derive(Debug)]
pub struct Loaded {
    /// For new connections.
    pub config: Arc<ServerConfig>,
    /// The node's own certificates, by their files.
    pub certificates: Vec<(PathBuf, Certificate)>,
}

impl Context {
    /// Reads everything.
    ///
    /// # Errors
    /// The setting or file that makes no listener.
    pub fn new(options: Options) -> Result<Self, Error> {
        let tried = Mutex::new(Stamps::of(&options));
        let current = Mutex::new(Arc::new(load(&options)?));
        Ok(Self { options, current, tried, failures: Default::default() })
    }

    /// The contents that count for new connections.
    #[must_use]
    pub fn current(&self) -> Arc<Loaded> {
        Arc::clone(&stdx::lock(&self.current))
    }

    /// The beginning of the keys of its settings.
    pub const fn key(&self) -> &'static str {
        self.options.key
    }

    /// Whether files are others than when they were read last.
    pub fn is_outdated(&self) -> bool {
        *stdx::lock(&self.tried) != Stamps::of(&self.options)
    }

    /// Reads everything anew, for connections that come from now on.
    ///
    /// # Errors
    /// The setting or file that is wrong: everything stays as it was.
    pub fn reload(&self) -> Result<(), Error> {
        // Held: of two that read at once the one that began last is to have the last word.
        let mut tried = stdx::lock(&self.tried);
        *tried = Stamps::of(&self.options);
        let loaded = Arc::new(load(&self.options)?);
        *stdx::lock(&self.current) = loaded;
        Ok(())
    }

    /// Counts a handshake that failed.
    pub fn count(&self, reason: Reason) {
        let counted = Reason::ALL.iter().zip(&self.failures).find(|(it, _)| **it == reason);
        if let Some((_, n)) = counted {
            n.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many handshakes failed, by reason.
    pub fn failures(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.failures.iter().map(|n| n.load(Ordering::Relaxed)))
    }
}

fn load(options: &Options) -> Result<Loaded, Error> {
    let provider = CryptoProvider {
        cipher_suites: options.chosen_ciphers()?,
        ..aws_lc_rs::default_provider()
    };
    let provider = Arc::new(provider);
    let (identities, certificates) = identities(options, &provider)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&options.chosen_versions()?)
        .map_err(|error| options.wrong("versions", error))?;
    let builder = match verifier(options, &provider)? {
        Some(verifier) => builder.with_client_cert_verifier(Arc::new(verifier)),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(identities));
    config.ignore_client_order = options.prefers_own_order;
    if options.resumes {
        config.ticketer =
            aws_lc_rs::Ticketer::new().map_err(|error| options.wrong("reuse_sessions", error))?;
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Loaded { config: Arc::new(config), certificates })
}

/// The node's certificates: one for everybody, and those for clients that ask for a name.
#[derive(Debug)]
struct Identities {
    usual: Arc<CertifiedKey>,
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Identities {
    /// COMPAT: who asks for a name that is not known gets what everybody gets, as with Erlang.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let wanted = hello.server_name().filter(|_| !self.by_name.is_empty());
        let named = wanted.and_then(|name| {
            let wildcard = || Some(format!("*.{}", name.split_once('.')?.1));
            self.by_name.get(name).or_else(|| self.by_name.get(&wildcard()?))
        });
        Some(Arc::clone(named.unwrap_or(&self.usual)))
    }
}

fn identities(
    options: &Options,
    provider: &CryptoProvider,
) -> Result<(Identities, Vec<(PathBuf, Certificate)>), Error> {
    let Some((certfile, keyfile)) = &options.identity else {
        return Err(
            options.wrong("certfile", "certfile and keyfile have to be set for a TLS listener")
        );
    };
    let mut certificates = Vec::new();
    let mut read = |certfile: &PathBuf, keyfile: &PathBuf| {
        let chain = files::certificates(options, "certfile", certfile)?;
        let identity: Identity = (chain, files::key(options, keyfile)?);
        let parsed = identity.0.first().and_then(|der| Certificate::parse(der));
        let parsed =
            parsed.ok_or_else(|| options.wrong_file("certfile", certfile, "it is damaged"))?;
        let key = certified_key(identity, &parsed, provider)
            .map_err(|error| options.wrong_file("keyfile", keyfile, error))?;
        let hosts: Vec<String> = parsed.hosts().map(str::to_ascii_lowercase).collect();
        certificates.push((certfile.clone(), parsed));
        Ok((Arc::new(key), hosts))
    };
    let (usual, _) = read(certfile, keyfile)?;
    let mut by_name = HashMap::new();
    for (certfile, keyfile) in &options.by_name {
        let (key, hosts) = read(certfile, keyfile)?;
        by_name.extend(hosts.into_iter().map(|host| (host, Arc::clone(&key))));
    }
    Ok((Identities { usual, by_name }, certificates))
}

/// A certificate with its key. rustls cannot read one of version 1, but serves it.
fn certified_key(
    (chain, key): Identity,
    parsed: &Certificate,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, rustls::Error> {
    if parsed.version != 1 {
        return CertifiedKey::from_der(chain, key, provider);
    }
    let key = CertifiedKey::new(chain, provider.key_provider.load_private_key(key)?);
    let public = key.key.public_key();
    let is_pair = |certificate| public.is_none_or(|public| is_for_key(certificate, &public));
    match key.end_entity_cert() {
        Ok(certificate) if is_pair(certificate) => Ok(key),
        Ok(_) => Err(rustls::InconsistentKeys::KeyMismatch.into()),
        Err(error) => Err(error),
    }
}

fn verifier(options: &Options, provider: &Arc<CryptoProvider>) -> Result<Option<Verifier>, Error> {
    let (check, crl_paths) = &options.crls;
    if options.verify == Verify::No {
        return if *check == CrlCheck::No {
            Ok(None)
        } else {
            Err(options.wrong("crl_check", "it needs verify = verify_peer"))
        };
    }
    let Some(path) = &options.cacertfile else {
        return Err(options.wrong("cacertfile", "verify = verify_peer needs it"));
    };
    let roots = Arc::new(files::roots(options, path)?);
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    if options.verify == Verify::IfShown {
        builder = builder.allow_unauthenticated();
    }
    if *check != CrlCheck::No {
        builder = builder.with_crls(files::crls(options, crl_paths)?);
    }
    builder = match check {
        CrlCheck::No => builder,
        CrlCheck::Peer => {
            builder.only_check_end_entity_revocation().enforce_revocation_expiration()
        }
        CrlCheck::Chain => builder.enforce_revocation_expiration(),
        CrlCheck::BestEffort => builder.allow_unknown_revocation_status(),
    };
    let inner: Result<Arc<dyn ClientCertVerifier>, server::VerifierBuilderError> = builder.build();
    let inner = inner.map_err(|error| match error {
        server::VerifierBuilderError::InvalidCrl(error) => options.wrong(
            "crl_sources",
            format!(
                "{error:?}: lists have to be of version 2, with a number and their authority's key"
            ),
        ),
        server::VerifierBuilderError::NoRootAnchors | _ => {
            options.wrong_file("cacertfile", path, error)
        }
    })?;
    Ok(Some(Verifier { inner, depth: options.depth }))
}
