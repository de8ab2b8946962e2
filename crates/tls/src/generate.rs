//! Certificates to try TLS out with: an authority, and what it issues for a server and a client.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use std::time::{Duration, SystemTime};

/// The time for which certificates are valid: they are for trying out.
const VALID: Duration = Duration::from_secs(365 * 86_400);
/// The time by which validity begins early: clocks differ.
const BEFORE: Duration = Duration::from_secs(86_400);

/// The server and the client of the certificates.
#[derive(Clone, Debug)]
pub struct Names {
    /// The names and addresses that clients connect to.
    pub hosts: Vec<String>,
    /// The client's user.
    pub user: String,
}

/// Files by name, each with its text: certificates, and keys (`*_key.pem`).
///
/// # Errors
/// A name cannot be in a certificate.
pub fn generate(names: &Names) -> Result<Vec<(&'static str, String)>, Error> {
    let mut authority = params("Leveret trial CA", Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate()?;
    let mut files = vec![
        ("ca_certificate.pem", authority.self_signed(&authority_key)?.pem()),
        ("ca_key.pem", authority_key.serialize_pem()),
    ];
    let issuer = Issuer::new(authority, authority_key);
    let host = names.hosts.first().map_or("localhost", String::as_str);
    let as_client = ExtendedKeyUsagePurpose::ClientAuth;
    // A node shows its certificate to its peers, too, which it dials as a client.
    let both = vec![ExtendedKeyUsagePurpose::ServerAuth, as_client.clone()];
    let server = (host, names.hosts.clone(), both);
    let client = (names.user.as_str(), Vec::new(), vec![as_client]);
    for (of, certificate, key) in [
        (server, "server_certificate.pem", "server_key.pem"),
        (client, "client_certificate.pem", "client_key.pem"),
    ] {
        let (name, hosts, purposes) = of;
        let mut params = params(name, hosts)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = purposes;
        params.use_authority_key_identifier_extension = true;
        let pair = KeyPair::generate()?;
        files.push((certificate, params.signed_by(&pair, &issuer)?.pem()));
        files.push((key, pair.serialize_pem()));
    }
    Ok(files)
}

fn params(common_name: &str, hosts: Vec<String>) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let now = SystemTime::now();
    params.not_before = (now - BEFORE).into();
    params.not_after = (now + VALID).into();
    Ok(params)
}
