//! Certificates, keys and lists of revoked certificates, from files.

use crate::Certificate;
use crate::options::{Error, Options};
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject as _, SectionKind};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A certificate with its chain, and its key.
pub(crate) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Larger files are not read: nothing of the kind is.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The reason for a certificate that cannot be taken apart.
pub(crate) const DAMAGED: &str = "a certificate in it is damaged";

fn read(options: &Options, option: &str, path: &Path) -> Result<Vec<u8>, Error> {
    let wrong = |error: std::io::Error| {
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        options.wrong_file(option, path, format!("cannot be read: {text}"))
    };
    if path.as_os_str().is_empty() {
        return Err(options.not_set(option));
    }
    if fs::metadata(path).map_err(wrong)?.len() > FILE_BYTES_MAX {
        return Err(options.wrong_file(option, path, "it is too large"));
    }
    fs::read(path).map_err(wrong)
}

pub(crate) fn certificates(
    options: &Options,
    option: &str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read(options, option, path)?;
    let all = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(options.wrong_file(option, path, without(&text, "certificate"))),
        Err(error) => Err(options.wrong_file(option, path, damaged(&error))),
    }
}

/// The reason why a file has no such thing.
fn without(text: &[u8], wanted: &str) -> String {
    let has = |label: &[u8]| text.windows(label.len()).any(|at| at == label);
    // A sequence of ASN.1 that is longer than 127 bytes.
    if matches!(text, [0x30, 0x81 | 0x82, ..]) {
        return "it is DER, not PEM; 'openssl x509' and 'openssl pkey' with -inform der convert it"
            .to_owned();
    }
    if !has(b"-----BEGIN ") {
        return "it is not PEM".to_owned();
    }
    let other = [("certificate", &b" CERTIFICATE-----"[..]), ("private key", b"PRIVATE KEY-----")];
    let other = other.into_iter().find(|(kind, label)| *kind != wanted && has(label));
    let other = other.map_or_else(String::new, |(kind, _)| format!(", but a {kind}"));
    format!("there is no {wanted} in it{other}")
}

/// The reason why PEM cannot be read.
fn damaged(error: &pem::Error) -> String {
    let why = match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no END line",
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line is broken",
        pem::Error::Base64Decode(_) | _ => "a section is not base64",
    };
    format!("its PEM is damaged: {why}")
}

/// The authorities of a file, and what their certificates say.
pub(crate) fn roots(
    options: &Options,
    path: &Path,
) -> Result<(RootCertStore, Vec<Certificate>), Error> {
    let mut roots = RootCertStore::empty();
    let damaged = || options.wrong_file("cacertfile", path, DAMAGED);
    let mut parsed = Vec::new();
    for certificate in certificates(options, "cacertfile", path)? {
        parsed.extend(Certificate::parse(&certificate));
        roots.add(certificate).map_err(|_| damaged())?;
    }
    Ok((roots, parsed))
}

pub(crate) fn key(
    options: &Options,
    option: &str,
    path: &Path,
) -> Result<PrivateKeyDer<'static>, Error> {
    let text = read(options, option, path)?;
    let wrong = |why: &str| options.wrong_file(option, path, why);
    if text.windows(10).any(|at| at == b"Proc-Type:") {
        return Err(wrong(
            "it is encrypted in a form of old; 'openssl pkcs8 -topk8 -v2 aes256' makes one that can be read",
        ));
    }
    // A block of that kind stands for no key by itself.
    const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";
    let label = format!("-----BEGIN {ENCRYPTED}-----");
    if !text.windows(label.len()).any(|at| at == label.as_bytes()) {
        let found = PrivateKeyDer::from_pem_slice(&text);
        return found.map_err(|error| match matches!(error, pem::Error::NoItemsFound) {
            true => wrong(&without(&text, "private key")),
            false => wrong(&damaged(&error)),
        });
    }
    let password = options.password.as_ref();
    let password = password.ok_or_else(|| {
        wrong(&format!("it is encrypted, and `{}.password` is not set", options.key))
    })?;
    let der = encrypted_block(&text, ENCRYPTED).ok_or_else(|| wrong("it is damaged"))?;
    let decrypted = EncryptedPrivateKeyInfoRef::try_from(der.as_slice())
        .and_then(|key| key.decrypt(password))
        .map_err(|_| wrong(&format!("`{}.password` does not open it", options.key)))?;
    let key = PrivateKeyDer::try_from(decrypted.as_bytes().to_vec());
    key.map_err(|_| wrong("the key in it is damaged"))
}

/// The bytes of a PEM block with this label, which rustls does not know.
fn encrypted_block(text: &[u8], label: &str) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (block, _) = rest.split_once(&format!("-----END {label}-----"))?;
    // Under the label of a certificate the block can be decoded; nothing takes it for one.
    let as_known = format!("-----BEGIN CERTIFICATE-----{block}-----END CERTIFICATE-----\n");
    let mut sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(as_known.as_bytes());
    sections.next()?.ok().map(|(_, der)| der)
}

pub(crate) fn crls(
    options: &Options,
    paths: &[PathBuf],
) -> Result<Vec<CertificateRevocationListDer<'static>>, Error> {
    let option = "crl_sources";
    let mut all = Vec::new();
    for path in files_of(paths) {
        let bytes = read(options, option, &path)?;
        if bytes.starts_with(b"-----") {
            for crl in CertificateRevocationListDer::pem_slice_iter(&bytes) {
                all.push(crl.map_err(|error| options.wrong_file(option, &path, damaged(&error)))?);
            }
        } else {
            all.push(CertificateRevocationListDer::from(bytes));
        }
    }
    if all.is_empty() { Err(options.wrong(option, "there is no list in them")) } else { Ok(all) }
}

/// The files, and those in the directories.
fn files_of(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        match fs::read_dir(path) {
            Ok(entries) => {
                let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
                files.extend(paths.filter(|path| path.is_file()));
            }
            Err(_) => files.push(path.clone()),
        }
    }
    files.sort();
    files
}

/// The marks of files by which a change is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamps(Vec<(PathBuf, Option<Stamp>)>);

/// Number, size, and time of change.
type Stamp = (u64, u64, i64, i64);

impl Stamps {
    pub(crate) fn of(options: &Options) -> Self {
        let identities = options.identity.iter().chain(options.by_name.values());
        let mut paths: Vec<PathBuf> =
            identities.flat_map(|(certificate, key)| [certificate.clone(), key.clone()]).collect();
        paths.extend(options.cacertfile.clone());
        paths.extend(files_of(&options.crls.1));
        let stamp = |of: Metadata| (of.ino(), of.size(), of.mtime(), of.mtime_nsec());
        let stamped = |path: PathBuf| {
            let stamp = fs::metadata(&path).ok().map(stamp);
            (path, stamp)
        };
        Self(paths.into_iter().map(stamped).collect())
    }
}
