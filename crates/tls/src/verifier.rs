//! The verification of clients' certificates: rustls', with a limit to the length of chains.

use crate::Certificate;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// The subject of the certificate that was refused last on this thread: a session's error names none.
    static REFUSED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The subject of a certificate that this thread has refused since it was asked last.
pub(crate) fn take_refused() -> Option<String> {
    REFUSED.take()
}

#[derive(Debug)]
pub(crate) struct Verifier {
    pub(crate) inner: Arc<dyn ClientCertVerifier>,
    pub(crate) depth: usize,
}

impl Verifier {
    /// Whether no more certificates stand between the client's and the authority's than may. Certificates
    /// that are their own issuers do not count (RFC 5280, 6.1).
    fn is_short(&self, intermediates: &[CertificateDer<'_>]) -> bool {
        let parsed = intermediates.iter().map(|der| Certificate::parse(der));
        let counts =
            |it: &Option<Certificate>| it.as_ref().is_none_or(|it| it.subject != it.issuer);
        parsed.filter(counts).count() <= self.depth
    }
}

impl ClientCertVerifier for Verifier {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = if self.is_short(intermediates) {
            self.inner.verify_client_cert(end_entity, intermediates, now)
        } else {
            Err(CertificateError::UnknownIssuer.into())
        };
        if verified.is_err() {
            REFUSED.set(Certificate::parse(end_entity).map(|it| it.subject));
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
