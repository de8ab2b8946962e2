use crate::{
    Certificate, Context, Failure, Hello, LoginFrom, Names, Options, Reason, SanKind, Session,
    Verify, generate,
};
use proptest::prelude::*;
use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

fn write_certificates(dir: &Path) -> Options {
    let names = Names { hosts: vec!["localhost".to_owned()], user: "app".to_owned() };
    for (name, text) in generate(&names).unwrap() {
        std::fs::write(dir.join(name), text).unwrap();
    }
    Options {
        identity: Some((dir.join("server_certificate.pem"), dir.join("server_key.pem"))),
        cacertfile: Some(dir.join("ca_certificate.pem")),
        verify: Verify::IfShown,
        ..Options::new("ssl_options")
    }
}

/// A node's certificates, and the configuration of a client that trusts it.
static SITE: LazyLock<(Context, Arc<ClientConfig>)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new(write_certificates(dir.path())).unwrap();
    let mut roots = RootCertStore::empty();
    let authority = dir.path().join("ca_certificate.pem");
    roots.add(rustls::pki_types::CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (context, Arc::new(config))
});

/// The node's side, with what it keeps and what it has decrypted.
struct Node {
    session: Session,
    kept: Vec<u8>,
    plain: Vec<u8>,
}

impl Node {
    fn new() -> Self {
        let session = Session::new(Arc::clone(&SITE.0.current().config)).unwrap();
        Self { session, kept: Vec::new(), plain: Vec::new() }
    }

    /// Whether the session goes on; the answer is appended to `out`.
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        self.kept.extend_from_slice(bytes);
        let plain = &mut self.plain;
        let mut take = |bytes: &[u8]| plain.extend_from_slice(bytes);
        match self.session.process(&mut self.kept, &mut take, out) {
            Ok(processed) => {
                self.kept.drain(..processed.n_used);
                true
            }
            Err(error) => {
                self.session.farewell(&mut self.kept, out);
                assert!(!Failure::explain(&error, Hello::new(bytes)).text.is_empty());
                false
            }
        }
    }
}

fn client() -> ClientConnection {
    ClientConnection::new(Arc::clone(&SITE.1), ServerName::try_from("localhost").unwrap()).unwrap()
}

fn said(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

fn hear(client: &mut ClientConnection, mut bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).unwrap();
        client.process_new_packets().unwrap();
        drop(client.reader().read_to_end(&mut plain));
    }
    plain
}

/// A client and a node that have agreed, their words cut into pieces of `n` bytes.
fn agreed(n: usize) -> (ClientConnection, Node) {
    let (mut client, mut node) = (client(), Node::new());
    while client.is_handshaking() || client.wants_write() {
        for piece in said(&mut client).chunks(n) {
            let mut out = Vec::new();
            assert!(node.take(piece, &mut out));
            hear(&mut client, &out);
        }
    }
    (client, node)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn bytes_arrive_whole_both_ways(
        n in 1_usize..3_000,
        bytes in proptest::collection::vec(any::<u8>(), 0..50_000),
    ) {
        let (mut client, mut node) = agreed(n);
        let mut out = Vec::new();
        node.session.encrypt(&mut node.kept, &bytes, &mut out).unwrap();
        prop_assert_eq!(&hear(&mut client, &out), &bytes);
        client.writer().write_all(&bytes).unwrap();
        let (mut encrypted, mut out) = (said(&mut client), Vec::new());
        client.send_close_notify();
        encrypted.extend(said(&mut client));
        for piece in encrypted.chunks(n) {
            prop_assert!(node.take(piece, &mut out));
        }
        prop_assert_eq!(&node.plain, &bytes);
        node.session.close(&mut node.kept, &mut out);
        prop_assert!(!out.is_empty());
    }

    /// Noise in the place of a handshake, in the midst of it or behind it ends the session and nothing else.
    #[test]
    fn noise_is_refused(
        n_good in 0_usize..2_000,
        at in any::<proptest::sample::Index>(),
        noise in proptest::collection::vec(any::<u8>(), 1..600),
        is_open in any::<bool>(),
    ) {
        let (mut client, mut node) = if is_open { agreed(500) } else { (client(), Node::new()) };
        client.writer().write_all(&vec![7; n_good]).unwrap();
        let mut bytes = said(&mut client);
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes.splice(at..(at + noise.len()).min(bytes.len()), noise.iter().copied());
        }
        bytes.extend_from_slice(&noise);
        let mut out = Vec::new();
        let goes_on = bytes.chunks(97).all(|piece| node.take(piece, &mut out));
        if !goes_on {
            prop_assert!(node.session.encrypt(&mut node.kept, b"x", &mut out).is_err());
        }
    }
}

#[test]
fn a_certificate_names_its_user() {
    let mut params =
        CertificateParams::new(vec!["a.example".to_owned(), "b.example".to_owned()]).unwrap();
    params.subject_alt_names.push(SanType::Rfc822Name("u@example".try_into().unwrap()));
    params.subject_alt_names.push(SanType::IpAddress("10.0.0.7".parse().unwrap()));
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CountryName, "DE");
    params.distinguished_name.push(DnType::OrganizationName, "#1, \"Häsin\" + Co ");
    params.distinguished_name.push(DnType::CommonName, "app");
    let key = KeyPair::generate().unwrap();
    let certificate = Certificate::parse(params.self_signed(&key).unwrap().der()).unwrap();
    let subject = r#"CN=app,O=\#1\, \"H\C3\A4sin\" \+ Co\ ,C=DE"#;
    assert_eq!(certificate.login(LoginFrom::DistinguishedName), Some(subject));
    assert_eq!(certificate.login(LoginFrom::CommonName), Some("app"));
    let san = |kind, index| certificate.login(LoginFrom::San(kind, index));
    assert_eq!(san(SanKind::Dns, 1), Some("b.example"));
    assert_eq!(san(SanKind::Email, 0), Some("u@example"));
    assert_eq!(san(SanKind::Ip, 0), Some("10.0.0.7"));
    assert_eq!((san(SanKind::Dns, 2), san(SanKind::Uri, 0)), (None, None));
    assert_eq!(Certificate::parse(b"0"), None);
}

#[test]
fn a_broken_replacement_leaves_what_there_was() {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new(write_certificates(dir.path())).unwrap();
    let serial = || context.current().certificates[0].1.serial.clone();
    let before = serial();
    assert!(!context.is_outdated());
    std::fs::write(dir.path().join("server_key.pem"), "nothing of use").unwrap();
    assert!(context.is_outdated());
    let told = context.reload().unwrap_err().to_string();
    assert!(told.contains("server_key.pem: it is not PEM"), "{told}");
    assert!(!context.is_outdated(), "it is told once");
    assert_eq!(serial(), before);
    write_certificates(dir.path());
    assert!(context.is_outdated());
    context.reload().unwrap();
    assert_ne!(serial(), before);
    context.count(Reason::NotTls);
    let counted: Vec<u64> = context.failures().map(|(_, n)| n).collect();
    assert_eq!(counted, [1, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn names_every_wrong_file_in_an_operators_words() {
    let dir = tempfile::tempdir().unwrap();
    let written = write_certificates(dir.path());
    let file = |name: &str| dir.path().join(name);
    let read = |name: &str| std::fs::read(file(name)).unwrap();
    let (certificate, key) = (read("server_certificate.pem"), read("server_key.pem"));
    let der = rustls::pki_types::CertificateDer::from_pem_slice(&certificate).unwrap();
    let half = |text: &[u8]| text[..text.len() / 2].to_vec();
    let block = |body: &str| {
        format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n").into_bytes()
    };
    let cases: [(&[u8], &[u8], &[&str]); 7] = [
        (
            &certificate,
            &read("client_key.pem"),
            &["key.pem: the key does not belong to the certificate"],
        ),
        (
            &key,
            &certificate,
            &[
                "cert.pem: there is no certificate in it, but a private key",
                "key.pem: there is no private key in it, but a certificate",
            ],
        ),
        (
            &half(&certificate),
            &half(&key),
            &[
                "cert.pem: its PEM is damaged: a section has no END line",
                "key.pem: its PEM is damaged: a section has no END line",
            ],
        ),
        (b"nonsense", b"", &["cert.pem: it is not PEM", "key.pem: it is not PEM"]),
        (&der, &key, &["cert.pem: it is DER, not PEM"]),
        (&block("?"), &key, &["cert.pem: its PEM is damaged: a section is not base64"]),
        (&block("AAAA"), &key, &["cert.pem: a certificate in it is damaged"]),
    ];
    std::fs::write(file("ca.pem"), "nothing").unwrap();
    let wrong = Options {
        identity: Some((file("cert.pem"), file("key.pem"))),
        cacertfile: Some(file("ca.pem")),
        by_name: [("x".to_owned(), ("/nowhere/cert.pem".into(), "/nowhere/key.pem".into()))].into(),
        ..written
    };
    for (certificate, key, reasons) in cases {
        std::fs::write(file("cert.pem"), certificate).unwrap();
        std::fs::write(file("key.pem"), key).unwrap();
        let told = Context::new(wrong.clone()).unwrap_err();
        let told: Vec<String> = told.0.iter().map(ToString::to_string).collect();
        let others = [
            "private key of the AMQP and stream listeners, `ssl_options.sni.x.keyfile` /nowhere/key.pem: \
             cannot be read: No such file or directory",
            "certificate of the AMQP and stream listeners, `ssl_options.sni.x.certfile` \
             /nowhere/cert.pem: cannot be read",
            "CA certificates of the AMQP and stream listeners, `ssl_options.cacertfile` ",
        ];
        for reason in reasons.iter().chain(&others) {
            let n_told = told.iter().filter(|line| line.contains(reason)).count();
            assert_eq!(n_told, 1, "{reason}: {told:?}");
        }
        assert_eq!(told.len(), reasons.len() + others.len(), "{told:?}");
    }
}

#[test]
fn names_the_missing_key_of_a_certificate_and_its_listener() {
    let dir = tempfile::tempdir().unwrap();
    let written = write_certificates(dir.path());
    let (certfile, keyfile) = written.identity.clone().unwrap();
    let sni = |pair| [("x".to_owned(), pair)].into();
    let with = |identity| Options { identity, ..written.clone() };
    let of_http = Options { identity: None, ..Options::new("management.ssl") };
    let amqp = "the AMQP and stream listeners";
    let cases = [
        (with(Some((certfile.clone(), PathBuf::new()))), &["`ssl_options.keyfile`"][..], amqp),
        (with(Some((PathBuf::new(), keyfile))), &["`ssl_options.certfile`"], amqp),
        (with(None), &["`ssl_options.certfile`", "`ssl_options.keyfile`"], amqp),
        (of_http, &["`management.ssl.certfile`", "`management.ssl.keyfile`"], "the HTTP API"),
        (
            Options { by_name: sni((certfile, PathBuf::new())), ..written.clone() },
            &["`ssl_options.sni.x.keyfile`"],
            amqp,
        ),
    ];
    for (options, missing, user) in cases {
        let told = Context::new(options).unwrap_err().0;
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        let why =
            |key| format!("{key}: not set; {user} must have a certificate and its private key");
        assert_eq!(told, missing.iter().map(why).collect::<Vec<_>>());
    }
}

#[test]
fn warns_of_expired_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = write_certificates(dir.path());
    assert_eq!(Context::new(options.clone()).unwrap().current().warnings, []);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2019, 1, 1);
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let (certfile, keyfile) = (dir.path().join("old.pem"), dir.path().join("old_key.pem"));
    std::fs::write(&certfile, params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(&keyfile, key.serialize_pem()).unwrap();
    let both = [&certfile, &dir.path().join("ca_certificate.pem")].map(std::fs::read);
    std::fs::write(&certfile, both.map(Result::unwrap).concat()).unwrap();
    options.cacertfile = Some(certfile.clone());
    options.identity = Some((certfile, keyfile));
    let warnings = Context::new(options.clone()).unwrap().current().warnings.clone();
    let expired =
        "old.pem: the certificate of CN=rcgen self signed cert expired at 2020-01-01T00:00:00Z";
    let told: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert!(told.len() == 2 && told.iter().all(|line| line.ends_with(expired)), "{told:?}");
    std::fs::write(dir.path().join("old.pem"), "nothing").unwrap();
    let unused = Options { verify: Verify::No, ..write_certificates(dir.path()) };
    let unused = Options { cacertfile: Some(dir.path().join("old.pem")), ..unused };
    let told = Context::new(unused.clone()).unwrap().current().warnings.clone();
    assert!(told.len() == 1 && told[0].to_string().ends_with("old.pem: it is not PEM"), "{told:?}");
    let both = Context::new(Options { ciphers: vec!["none".to_owned()], ..unused }).unwrap_err();
    assert!(both.0.len() == 2 && both.0[1] == told[0], "warnings come with errors: {both}");
}
