//! The certificates and settings in effect, replaced when their files are.

use crate::certificate::is_for_key;
use crate::files::{self, Identity, Stamps};
use crate::options::{CrlCheck, Error, Errors, Options, Verify};
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
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

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
    /// The configuration for new connections.
    pub config: Arc<ServerConfig>,
    /// The node's own certificates, by their files.
    pub certificates: Vec<(PathBuf, Certificate)>,
    /// Reasons why peers may reject certificates that the node uses all the same.
    pub warnings: Vec<Error>,
}

impl Context {
    /// Reads everything.
    ///
    /// # Errors
    /// The settings and files that make no listener, all of them.
    pub fn new(options: Options) -> Result<Self, Errors> {
        let tried = Mutex::new(Stamps::of(&options));
        let current = Mutex::new(Arc::new(load(&options)?));
        Ok(Self { options, current, tried, failures: Default::default() })
    }

    /// The contents that count for new connections.
    #[must_use]
    pub fn current(&self) -> Arc<Loaded> {
        Arc::clone(&stdx::lock(&self.current))
    }

    /// The settings, of which a client that shows the same certificate can be made too.
    #[must_use]
    pub const fn options(&self) -> &Options {
        &self.options
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
    /// The settings and files that are wrong: everything stays as it was.
    pub fn reload(&self) -> Result<(), Errors> {
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

    /// The number of handshakes that failed, by reason.
    pub fn failures(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.failures.iter().map(|n| n.load(Ordering::Relaxed)))
    }
}

fn load(options: &Options) -> Result<Loaded, Errors> {
    let mut errors = Errors::default();
    let suites = errors.note(options.chosen_ciphers());
    let versions = errors.note(options.chosen_versions());
    let provider = CryptoProvider {
        cipher_suites: suites.unwrap_or_else(|| aws_lc_rs::DEFAULT_CIPHER_SUITES.to_vec()),
        ..aws_lc_rs::default_provider()
    };
    let provider = Arc::new(provider);
    let mut warnings = Vec::new();
    let identities = identities(options, &provider, &mut errors, &mut warnings);
    let verifier = verifier(options, &provider, &mut warnings);
    let (Some(verifier), Some(versions), Some((identities, certificates)), true) =
        (errors.note(verifier), versions, identities, errors.0.is_empty())
    else {
        // The warnings are told with the errors: whoever mends the one mends the other.
        errors.0.extend(warnings);
        return Err(errors);
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|_| Errors(vec![options.wrong("versions", NO_SUITE)]))?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(Arc::new(verifier)),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(identities));
    config.ignore_client_order = options.prefers_own_order;
    if options.resumes {
        let no_ticketer =
            |_| Errors(vec![options.wrong("reuse_sessions", "no randomness for session tickets")]);
        config.ticketer = aws_lc_rs::Ticketer::new().map_err(no_ticketer)?;
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Loaded { config: Arc::new(config), certificates, warnings })
}

pub(crate) const NO_SUITE: &str = "no cipher suite of `ciphers` belongs to these versions";

/// The reasons why clients may reject a certificate that the node uses.
fn doubts(options: &Options, option: &str, path: &Path, certificate: &Certificate) -> Vec<Error> {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let is_past = |at_s: i64| u64::try_from(at_s).is_ok_and(|at_s| at_s <= now_s) || at_s < 0;
    let subject = &certificate.subject;
    let (from, to) = certificate.validity.split_once(" - ").unwrap_or_default();
    let told = [
        (is_past(certificate.not_after_s), format!("the certificate of {subject} expired at {to}")),
        (
            !is_past(certificate.not_before_s),
            format!("the certificate of {subject} is not valid before {from}"),
        ),
        (
            certificate.version == 1 && option.ends_with("certfile") && option != "cacertfile",
            format!(
                "the certificate of {subject} is X.509 version 1, which some clients reject; 'openssl x509 -req -in \
                 REQUEST.csr -CA CA.pem -CAkey CA_KEY.pem -CAcreateserial -days 365 -extfile \
                 <(echo subjectAltName=DNS:HOST) -out {}' creates one of version 3",
                path.display()
            ),
        ),
    ];
    let told = told.into_iter().filter(|(is_so, _)| *is_so);
    told.map(|(_, why)| options.wrong_file(option, path, why)).collect()
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
    errors: &mut Errors,
    warnings: &mut Vec<Error>,
) -> Option<(Identities, Vec<(PathBuf, Certificate)>)> {
    let mut certificates = Vec::new();
    // `sni` is the part of the keys that names an additional certificate.
    let mut read = |sni: &str, (certfile, keyfile): &(PathBuf, PathBuf)| {
        let [of_cert, of_key] = ["certfile", "keyfile"].map(|option| format!("{sni}{option}"));
        let chain = files::certificates(options, &of_cert, certfile).and_then(|chain| {
            let all: Vec<_> = chain.iter().map(|der| Certificate::parse(der)).collect();
            for known in all.iter().flatten() {
                warnings.extend(doubts(options, &of_cert, certfile, known));
            }
            let damaged = || options.wrong_file(&of_cert, certfile, files::DAMAGED);
            let parsed = all.into_iter().next().flatten();
            Ok((chain, parsed.ok_or_else(damaged)?))
        });
        let (chain, key) = (errors.note(chain), errors.note(files::key(options, &of_key, keyfile)));
        let ((chain, parsed), key) = (chain?, key?);
        let key = certified_key((chain, key), &parsed, provider)
            .map_err(|error| not_a_pair(options, sni, certfile, keyfile, &error));
        let key = errors.note(key)?;
        let hosts: Vec<String> = parsed.hosts().map(str::to_ascii_lowercase).collect();
        certificates.push((certfile.clone(), parsed));
        Some((Arc::new(key), hosts))
    };
    let usual = options.identity.clone().unwrap_or_default();
    let usual = read("", &usual);
    let mut by_name = HashMap::new();
    let mut named = |(name, pair): (&String, _)| read(&format!("sni.{name}."), pair);
    for (key, hosts) in options.by_name.iter().filter_map(&mut named) {
        by_name.extend(hosts.into_iter().map(|host| (host, Arc::clone(&key))));
    }
    Some((Identities { usual: usual?.0, by_name }, certificates))
}

/// The reason why a certificate and a key make no identity.
pub(crate) fn not_a_pair(
    options: &Options,
    sni: &str,
    certfile: &Path,
    keyfile: &Path,
    error: &rustls::Error,
) -> Error {
    if let rustls::Error::InvalidCertificate(_) = error {
        return options.wrong_file(&format!("{sni}certfile"), certfile, files::DAMAGED);
    }
    let option = format!("{sni}keyfile");
    if let rustls::Error::InconsistentKeys(_) = error {
        let why = format!("the key does not belong to the certificate {}", certfile.display());
        return options.wrong_file(&option, keyfile, why);
    }
    let why = "the key is damaged, or of a kind that TLS does not use; RSA, ECDSA and Ed25519 are";
    options.wrong_file(&option, keyfile, why)
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

fn verifier(
    options: &Options,
    provider: &Arc<CryptoProvider>,
    warnings: &mut Vec<Error>,
) -> Result<Option<Verifier>, Error> {
    let (check, crl_paths) = &options.crls;
    if options.verify == Verify::No {
        // The file is not used, and yet nobody wants it wrong.
        let path = options.cacertfile.as_ref();
        warnings.extend(path.and_then(|path| files::roots(options, path).err()));
        return if *check == CrlCheck::No {
            Ok(None)
        } else {
            Err(options.wrong("crl_check", "it needs verify = verify_peer"))
        };
    }
    let Some(path) = &options.cacertfile else {
        return Err(options.wrong("cacertfile", "verify = verify_peer needs it"));
    };
    let (roots, certificates) = files::roots(options, path)?;
    let roots = Arc::new(roots);
    warnings
        .extend(certificates.iter().flat_map(|known| doubts(options, "cacertfile", path, known)));
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
        server::VerifierBuilderError::InvalidCrl(_) => options.wrong(
            "crl_sources",
            "a list is damaged or lacks something: lists have to be of version 2, with a number \
             and their authority's key",
        ),
        server::VerifierBuilderError::NoRootAnchors | _ => {
            options.wrong_file("cacertfile", path, "there is no CA certificate in it")
        }
    })?;
    Ok(Some(Verifier { inner, depth: options.depth }))
}
