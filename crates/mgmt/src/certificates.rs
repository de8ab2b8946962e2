//! The certificates of TLS listeners: those in use, and how they are read again.

use crate::Management;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A certificate that listeners show to clients.
#[derive(Clone, Debug)]
pub struct CertificateInUse {
    /// The key of the options that name its file.
    pub options: String,
    /// Its file.
    pub file: PathBuf,
    /// Its content.
    pub certificate: tls::Certificate,
}

impl Management {
    /// The certificates in use.
    #[must_use]
    pub fn certificates(&self) -> Vec<CertificateInUse> {
        let mut found = Vec::new();
        for tls in &self.tls {
            found.extend(tls.current().certificates.iter().map(|(file, certificate)| {
                let (options, file) = (tls.key().to_owned(), file.clone());
                CertificateInUse { options, file, certificate: certificate.clone() }
            }));
        }
        found
    }

    /// The files of the certificates in use, and the end of each, seconds since 1970.
    #[must_use]
    pub fn certificate_ends(&self) -> Vec<(String, i64)> {
        let ends = self.certificates().into_iter();
        let ends = ends.map(|it| (it.file.display().to_string(), it.certificate.not_after_s));
        // Listeners may have the same file.
        ends.collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    /// The certificates in use that are no good any more in so long.
    #[must_use]
    pub fn certificates_expiring_within(&self, span: Duration) -> Vec<CertificateInUse> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let until_s = i64::try_from((now + span).as_secs()).unwrap_or(i64::MAX);
        let mut found = self.certificates();
        found.retain(|it| it.certificate.not_after_s < until_s);
        found
    }
}

/// Reads certificates again, and says in the log what came of it.
///
/// # Errors
/// What is wrong with them: those in use stay.
pub fn reload_certificates(tls: &tls::Context) -> Result<(), tls::Errors> {
    let reloaded = tls.reload();
    match &reloaded {
        Ok(()) => {
            tracing::info!("TLS: reloaded certificates, for new connections");
            tls.current().warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        }
        Err(error) => {
            tracing::warn!("TLS: cannot reload certificates, the current ones stay in use: {error}")
        }
    }
    reloaded
}
