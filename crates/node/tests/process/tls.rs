//! Listeners with TLS, and certificates as logins.

use super::support::node::{Node, binary};
use super::support::wait_until;
use amqp091::method::{ConnectionOpen, ConnectionStartOk, ConnectionTuneOk};
use amqp091::{Frame, Method, decode_frame};
use rcgen::{CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use testing::client::{DEADLINE, HEADER, Login};

/// COMPAT: the older keys of the HTTP API's listener, with certificates of its own.
#[test]
fn older_keys_give_the_http_api_tls() {
    let certificates = Certificates::new();
    let own = |key: &str, file: &str| {
        format!("management.listener.ssl_opts.{key}={}", certificates.path(file).display())
    };
    let settings = [
        "management.enabled=true".to_owned(),
        "management.listener.ip=127.0.0.1".to_owned(),
        "management.listener.port=0".to_owned(),
        "management.listener.ssl=true".to_owned(),
        own("certfile", "server_certificate.pem"),
        own("keyfile", "server_key.pem"),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let node = Node::start(&settings);
    let mut plain = TcpStream::connect(node.http_address()).unwrap();
    plain.set_read_timeout(Some(DEADLINE)).unwrap();
    plain.write_all(b"GET /api/overview HTTP/1.1\r\nhost: here\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).unwrap();
    assert!(!answer.starts_with(b"HTTP/1.1 2"), "{:?}", String::from_utf8_lossy(&answer));
    assert!(node.ctl(&["listeners"]).contains("https"));
    drop(node.stop());
    let refused = Node::try_start(&settings[..4]).err().expect("it has no certificate");
    assert!(refused.contains("certfile"), "{refused}");
}

/// As `openssl x509 -req` makes them without extensions; until 2126.
#[test]
fn certificates_of_version_1_are_served_and_those_of_clients_are_told() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/tls");
    let (certfile, keyfile) = (dir.join("v1_certificate.pem"), dir.join("v1_key.pem"));
    let certificates = Certificates::new();
    let node = Node::start(&[
        "listeners.ssl.1=127.0.0.1:0",
        &format!("ssl_options.certfile={}", certfile.display()),
        &format!("ssl_options.keyfile={}", keyfile.display()),
        &certificates.setting("cacertfile", "ca_certificate.pem"),
        "ssl_options.verify=verify_peer",
    ]);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let anyone = Arc::new(::tls::AcceptAnyCert::new(&provider));
    let key = PrivateKeyDer::from_pem_file(&keyfile).unwrap();
    let key = provider.key_provider.load_private_key(key).unwrap();
    let chain = vec![CertificateDer::from_pem_file(&certfile).unwrap()];
    let identity = rustls::sign::CertifiedKey::new(chain, key);
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(anyone);
    let mut client = Client::new(node.first_address(), builder.clone().with_no_client_auth());
    assert!(client.mechanisms().contains("PLAIN"));
    let resolver = Arc::new(rustls::sign::SingleCertAndKey::from(identity));
    Client::new(node.first_address(), builder.with_client_cert_resolver(resolver)).refused();
    node.expect_logged(1, "certificate is of X.509 version 1, and has to be of version 3");
    node.expect_logged(1, "(certificate of CN=localhost)");
    let mismatched = certificates.setting("keyfile", "server_key.pem");
    let certfile = format!("ssl_options.certfile={}", certfile.display());
    let refused = Node::try_start(&["listeners.ssl.1=127.0.0.1:0", &certfile, &mismatched]).err();
    assert!(refused.is_some_and(|told| told.contains("ssl_options.keyfile")));
    drop(node.stop());
}

/// Clients of one address wait for each other: one from elsewhere has its turn before them.
#[test]
fn handshakes_of_one_address_keep_nobody_else_waiting() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/tls");
    // A key of RSA, which takes a node longest.
    let settings = [
        "listeners.ssl.1=127.0.0.1:0".to_owned(),
        format!("ssl_options.certfile={}", dir.join("v1_certificate.pem").display()),
        format!("ssl_options.keyfile={}", dir.join("v1_key.pem").display()),
    ];
    let node = Node::start(&settings.each_ref().map(String::as_str));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let anyone = Arc::new(::tls::AcceptAnyCert::new(&provider));
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(anyone)
        .with_no_client_auth();
    let session = |config| {
        ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap()
    };
    let mut hello = Vec::new();
    session(config.clone()).write_tls(&mut hello).unwrap();
    let flood: Vec<TcpStream> = std::iter::repeat_with(|| socket(node.first_address()))
        .take(1_000)
        .inspect(|mut socket| socket.write_all(&hello).unwrap())
        .collect();
    let elsewhere = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let elsewhere = elsewhere.unwrap();
    elsewhere.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    elsewhere.connect(&node.first_address().into()).unwrap();
    let elsewhere = TcpStream::from(elsewhere);
    elsewhere.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut newcomer = Client(StreamOwned::new(session(config), elsewhere), Vec::new());
    assert!(newcomer.mechanisms().contains("PLAIN"));
    let is_waiting = |socket: &&TcpStream| {
        socket.set_nonblocking(true).unwrap();
        socket.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    assert!(flood.iter().filter(is_waiting).count() > 0, "it came after all of the flood");
    drop(flood);
    node.stop();
}

/// Certificates in a directory.
struct Certificates {
    dir: TempDir,
}

impl Certificates {
    fn new() -> Self {
        let it = Self { dir: tempfile::tempdir().unwrap() };
        it.renew();
        it
    }

    /// Others take the place of all of them.
    fn renew(&self) {
        let hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let names = ::tls::Names { hosts, user: "guest".to_owned() };
        for (name, text) in ::tls::generate(&names).unwrap() {
            std::fs::write(self.path(name), text).unwrap();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn setting(&self, key: &str, file: &str) -> String {
        format!("ssl_options.{key}={}", self.path(file).display())
    }

    /// The settings of a node with these certificates, and others.
    fn settings(&self, others: &[&str]) -> Vec<String> {
        let mut settings = vec![
            "listeners.ssl.1=127.0.0.1:0".to_owned(),
            self.setting("certfile", "server_certificate.pem"),
            self.setting("keyfile", "server_key.pem"),
            self.setting("cacertfile", "ca_certificate.pem"),
        ];
        settings.extend(others.iter().map(|&other| other.to_owned()));
        settings
    }

    fn node(&self, others: &[&str]) -> Node {
        self.try_node(others).unwrap_or_else(|told| panic!("the node does not start: {told}"))
    }

    fn try_node(&self, others: &[&str]) -> Result<Node, String> {
        let settings = self.settings(others);
        Node::try_start(&settings.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// A client's certificate that the authority issues for a time around now, in seconds.
    fn issue(&self, name: &str, from_s: i64, to_s: i64) -> Identity {
        let authority = std::fs::read_to_string(self.path("ca_certificate.pem")).unwrap();
        let key = std::fs::read_to_string(self.path("ca_key.pem")).unwrap();
        let key = KeyPair::from_pem(&key).unwrap();
        let mut of_authority = CertificateParams::new(Vec::new()).unwrap();
        of_authority.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        of_authority.distinguished_name = rcgen::DistinguishedName::new();
        of_authority.distinguished_name.push(DnType::CommonName, "Leveret trial CA");
        drop(authority);
        let issuer = Issuer::new(of_authority, key);
        let mut params = CertificateParams::new(vec!["app.example".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Leveret");
        params.distinguished_name.push(DnType::CommonName, name);
        let at = |s: i64| {
            let distance = Duration::from_secs(s.unsigned_abs());
            if s < 0 { SystemTime::now() - distance } else { SystemTime::now() + distance }
        };
        params.not_before = at(from_s).into();
        params.not_after = at(to_s).into();
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let certificate = params.signed_by(&pair, &issuer).unwrap();
        let key = PrivateKeyDer::try_from(pair.serialize_der()).unwrap();
        (vec![certificate.der().clone()], key)
    }

    fn client_identity(&self) -> Identity {
        let certificate =
            CertificateDer::from_pem_file(self.path("client_certificate.pem")).unwrap();
        (vec![certificate], PrivateKeyDer::from_pem_file(self.path("client_key.pem")).unwrap())
    }

    fn config(&self, identity: Option<Identity>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca_certificate.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        match identity {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
            None => builder.with_no_client_auth(),
        }
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// A client of AMQP 0-9-1 that does no more than log in.
struct Client(StreamOwned<ClientConnection, TcpStream>, Vec<u8>);

fn socket(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket
}

impl Client {
    fn new(address: SocketAddr, config: ClientConfig) -> Self {
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        Self(StreamOwned::new(session, socket(address)), Vec::new())
    }

    /// Says what the handshake fails with.
    fn refused(mut self) -> std::io::Error {
        let written = self.0.write_all(HEADER);
        written.and_then(|()| self.0.read_exact(&mut [0; 8])).unwrap_err()
    }

    /// The names of the mechanisms, or the text of a close, or the method.
    fn next(&mut self) -> String {
        loop {
            if let Some((Frame { payload, .. }, n)) = decode_frame(&self.1, 131_072).unwrap() {
                let shown = match Method::decode(payload).unwrap() {
                    Method::ConnectionStart(it) => {
                        String::from_utf8(it.mechanisms.to_vec()).unwrap()
                    }
                    Method::ConnectionClose(it) => {
                        String::from_utf8(it.reply_text.to_vec()).unwrap()
                    }
                    other => other.name().to_owned(),
                };
                self.1.drain(..n);
                return shown;
            }
            let mut bytes = [0; 4096];
            let n = self.0.read(&mut bytes).unwrap();
            assert_ne!(n, 0, "the node has closed the connection");
            self.1.extend_from_slice(&bytes[..n]);
        }
    }

    fn mechanisms(&mut self) -> String {
        self.0.write_all(HEADER).unwrap();
        self.next()
    }

    /// Opens the virtual host.
    fn open(&mut self) {
        let mut out = Vec::new();
        let tune_ok = ConnectionTuneOk { channel_max: 2047, frame_max: 131_072, heartbeat: 0 };
        tune_ok.encode_frame(0, &mut out);
        ConnectionOpen { virtual_host: b"/", ..ConnectionOpen::default() }
            .encode_frame(0, &mut out);
        self.0.write_all(&out).unwrap();
        assert_eq!(self.next(), "connection.open-ok");
    }

    /// The answer to a login.
    fn log_in(&mut self, mechanism: &str, response: &str) -> String {
        let (mechanism, response) = (mechanism.as_bytes(), response.as_bytes());
        let mut out = Vec::new();
        ConnectionStartOk { mechanism, response, ..ConnectionStartOk::default() }
            .encode_frame(0, &mut out);
        self.0.write_all(&out).unwrap();
        self.next()
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[test]
fn clients_log_in_over_both_versions_and_by_their_certificate() {
    let certificates = Certificates::new();
    let node = certificates.node(&[
        "ssl_options.verify=verify_peer",
        "ssl_cert_login_from=common_name",
        "auth_mechanisms.1=PLAIN",
        "auth_mechanisms.2=EXTERNAL",
    ]);
    for version in ["tlsv1.2", "tlsv1.3"] {
        let (_, only) = ::tls::VERSIONS.iter().find(|(name, _)| *name == version).unwrap();
        let mut config = certificates.config(Some(certificates.client_identity()));
        let provider = Arc::clone(config.crypto_provider());
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(certificates.path("ca_certificate.pem")).unwrap();
        roots.add(ca).unwrap();
        let (chain, key) = certificates.client_identity();
        config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[only])
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
        let mut client = Client::new(node.first_address(), config);
        assert_eq!(client.mechanisms(), "PLAIN EXTERNAL");
        assert_eq!(client.log_in("EXTERNAL", ""), "connection.tune", "{version}");
    }
    // Without a certificate there is the password.
    let mut client = Client::new(node.first_address(), certificates.config(None));
    assert_eq!(client.mechanisms(), "PLAIN EXTERNAL");
    assert_eq!(client.log_in("PLAIN", "\0guest\0guest"), "connection.tune");
    let mut nameless = Client::new(node.first_address(), certificates.config(None));
    nameless.mechanisms();
    nameless.0.sock.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut stranger = Client::new(
        node.first_address(),
        certificates.config(Some(certificates.issue("nobody", -60, 60))),
    );
    stranger.mechanisms();
    let mut plain = testing::client::Client::raw(node.address());
    plain.write(HEADER);
    let start = plain.next();
    let Method::ConnectionStart(offered) = start.method() else { panic!("{}", start.show()) };
    assert_eq!(offered.mechanisms, b"PLAIN", "there are no certificates without TLS");
    let mut out = Vec::new();
    let start_ok = ConnectionStartOk { mechanism: b"EXTERNAL", ..ConnectionStartOk::default() };
    start_ok.encode_frame(0, &mut out);
    nameless.0.write_all(&out).unwrap();
    stranger.0.write_all(&out).unwrap();
    node.expect_logged(
        1,
        "EXTERNAL login refused: connection peer presented no TLS (x.509) certificate",
    );
    node.expect_logged(1, "EXTERNAL login refused: user 'nobody' - invalid credentials");
    node.stop();
}

#[test]
fn a_handshake_that_fails_is_told_in_words() {
    let certificates = Certificates::new();
    let node = certificates.node(&[
        "stream.listeners.ssl.1=127.0.0.1:0",
        "ssl_options.verify=verify_peer",
        "ssl_options.fail_if_no_peer_cert=true",
    ]);
    let address = node.first_address();
    let failed = |why: &str| node.expect_logged(1, &format!("TLS handshake failed: {why}"));
    let speak = |bytes: &[u8]| {
        let mut socket = socket(address);
        socket.write_all(bytes).unwrap();
        // It may be reset instead of closed.
        drop(socket.read_to_end(&mut Vec::new()));
    };
    // Who looks whether the port is open has not failed.
    drop(socket(address));
    speak(HEADER);
    failed("plain AMQP on a TLS port");
    speak(b"GET / HTTP/1.1\r\n\r\n");
    failed("plain HTTP on a TLS port");
    speak(b"\0\0\0\x20\0\x11\0\x01");
    failed("the plain stream protocol on a TLS port");
    speak(b"what is this?");
    failed("it does not speak TLS");
    // A hello of TLS 1.0: version, random, no session, one suite, no compression.
    let mut hello = vec![0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 1];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0xc0, 0x14, 1, 0]);
    speak(&hello);
    failed("client offers TLS 1.0 only");

    Client::new(address, certificates.config(None)).refused();
    failed("client shows no certificate");
    let day = 86_400;
    let expired = certificates.issue("late", -9 * day, -3 * day - 60);
    Client::new(address, certificates.config(Some(expired))).refused();
    failed("certificate expired 3 days ago (certificate of CN=late,O=Leveret)");
    let early = certificates.issue("early", 2 * day + 3600, 9 * day);
    Client::new(address, certificates.config(Some(early))).refused();
    failed("certificate is not valid before 2 days from now");
    let foreign = Certificates::new().client_identity();
    Client::new(address, certificates.config(Some(foreign))).refused();
    failed("unknown CA (certificate of CN=guest)");
    let strangers = Certificates::new();
    Client::new(address, strangers.config(Some(certificates.client_identity()))).refused();
    failed("client does not accept this node's certificate: unknown CA");

    let counted = node.ctl(&["list_tls_failures", "-q"]);
    for row in ["not_tls\t4", "bad_certificate\t3", "refused_by_client\t1", "lost\t0"] {
        assert!(counted.contains(row), "{counted}");
    }
    // Nobody else was disturbed, and TLS on a port without it is told too.
    for plain in [node.address(), node.stream_address()] {
        let mut socket = socket(plain);
        socket.write_all(&hello).unwrap();
        drop(socket.read_to_end(&mut Vec::new()));
    }
    node.expect_logged(2, "refused: TLS on a port without TLS");
    let identity = Some(certificates.client_identity());
    assert_eq!(
        Client::new(address, certificates.config(identity)).mechanisms(),
        "PLAIN AMQPLAIN ANONYMOUS"
    );
    node.stop();
}

/// A header of the PROXY protocol, version 2, of a client whose certificate has this name, verified or not.
fn proxy_header(name: &str, verify: u8) -> Vec<u8> {
    let field = |kind: u8, value: &[u8]| {
        let mut bytes = vec![kind];
        bytes.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        bytes.extend(value);
        bytes
    };
    let mut ssl = vec![7, 0, 0, 0, verify];
    ssl.extend(field(0x21, b"TLSv1.3"));
    ssl.extend(field(0x22, name.as_bytes()));
    ssl.extend(field(0x23, b"TLS_AES_256_GCM_SHA384"));
    let mut rest = vec![127, 0, 0, 1, 127, 0, 0, 1, 1, 2, 3, 4];
    rest.extend(field(0x20, &ssl));
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11".to_vec();
    header.extend(u16::try_from(rest.len()).unwrap().to_be_bytes());
    header.extend(rest);
    header
}

#[test]
fn a_proxy_that_ends_tls_says_who_the_client_is() {
    let node = Node::start(&[
        "proxy_protocol=true",
        "auth_mechanisms.1=EXTERNAL",
        "ssl_cert_login_from=common_name",
    ]);
    let external = Login { mechanism: "EXTERNAL", user: "", password: "", ..Login::default() };
    let verified = proxy_header("guest", 0);
    let client =
        testing::client::Client::login(node.address(), Login { before: &verified, ..external });
    let listed =
        node.ctl(&["list_connections", "-q", "user", "ssl", "ssl_protocol", "peer_cert_subject"]);
    assert!(listed.contains("guest\ttrue\ttlsv1.3\tCN=guest"), "{listed}");
    client.close();
    let unverified = proxy_header("guest", 1);
    let login = Login { before: &unverified, capable: true, ..external };
    let answer = testing::client::Client::introduced(node.address(), login).next().show();
    assert!(answer.contains("ACCESS_REFUSED"), "{answer}");
    node.expect_logged(1, "connection peer presented no TLS (x.509) certificate");
    node.stop();
}

#[test]
fn half_a_handshake_ends_in_time() {
    let certificates = Certificates::new();
    let node = certificates.node(&["ssl_handshake_timeout=50"]);
    let mut half = socket(node.first_address());
    half.write_all(&[0x16, 3, 1, 0x40, 0, 1]).unwrap();
    drop(half.read_to_end(&mut Vec::new()));
    node.expect_logged(1, "TLS handshake failed: not done within 50 ms");
    node.stop();
}

#[test]
fn a_chain_of_certificates_that_is_too_long_is_not_waited_for() {
    let certificates = Certificates::new();
    let node = certificates.node(&["ssl_options.verify=verify_peer"]);
    let authority = CertificateDer::from_pem_file(certificates.path("ca_certificate.pem")).unwrap();
    let (mut chain, key) = certificates.client_identity();
    chain.extend(std::iter::repeat_n(authority, 100));
    Client::new(node.first_address(), certificates.config(Some((chain, key)))).refused();
    node.expect_logged(1, "TLS handshake failed: client's certificates are too large");
    Client::new(node.first_address(), certificates.config(None)).mechanisms();
    node.stop();
}

/// They begin as clients do, have the node make keys and sign, and say nothing more.
#[test]
fn a_crowd_of_handshakes_is_forgotten_and_disturbs_nobody() {
    const CROWD: usize = 500;
    let certificates = Certificates::new();
    let node = certificates.node(&["ssl_handshake_timeout=1000"]);
    let before = node.rss();
    let mut bystander = testing::client::Client::guest(node.address());
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::new(certificates.config(None)), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    let crowd: Vec<TcpStream> = (0..CROWD)
        .map(|_| {
            let mut socket = socket(node.first_address());
            socket.write_all(&hello).unwrap();
            socket
        })
        .collect();
    bystander.round_trip();
    let counted = format!("too_slow\t{CROWD}");
    wait_until("their time is over", || node.ctl(&["list_tls_failures", "-q"]).contains(&counted));
    bystander.round_trip();
    bystander.close();
    let grown = node.rss().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    drop(crowd);
    node.stop();
}

#[test]
fn what_makes_no_listener_keeps_the_node_from_starting() {
    let certificates = Certificates::new();
    let refused = |others: &[&str], why: &str| {
        let told = certificates.try_node(others).err().unwrap();
        assert!(told.contains(why), "{told}");
    };
    refused(&["ssl_options.certfile=/nowhere"], "`ssl_options.certfile` /nowhere: cannot be read");
    refused(&["ssl_options.ciphers.1=RC4-MD5"], "`ssl_options.ciphers`: none of them is there");
    refused(&["ssl_options.versions.1=tlsv1.1"], "`ssl_options.versions`: none of them is there");
    refused(&["ssl_options.fail_if_no_peer_cert=true"], "needs `ssl_options.verify = verify_peer`");
    refused(
        &["ssl_options.crl_check=true"],
        "`ssl_options.crl_check`: it needs verify = verify_peer",
    );
    let checked = ["ssl_options.crl_check=true", "ssl_options.verify=verify_peer"];
    refused(&checked, "`ssl_options.crl_sources`: there is no list in them");
    let swapped = certificates.setting("keyfile", "client_key.pem");
    refused(&[&swapped], "client_key.pem: ");
    write(&certificates.path("server_key.pem"), ENCRYPTED_KEY);
    refused(&[], "it is encrypted, and `ssl_options.password` is not set");
    refused(&["ssl_options.password=wrong"], "`ssl_options.password` does not open it");
    let right = "ssl_options.password=secret";
    // It is opened, and another certificate's.
    refused(&[right], "`ssl_options.keyfile` ");
}

/// Made by `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes256 -pass pass:secret`.
const ENCRYPTED_KEY: &str = include_str!("tls/encrypted_key.pem");

#[test]
fn certificates_are_replaced_while_clients_are_connected() {
    let certificates = Certificates::new();
    let node = certificates.node(&[]);
    let mut before = Client::new(node.first_address(), certificates.config(None));
    before.mechanisms();
    // A key alone fits nothing: what there was stays.
    let key = std::fs::read(certificates.path("server_key.pem")).unwrap();
    std::fs::copy(certificates.path("client_key.pem"), certificates.path("server_key.pem"))
        .unwrap();
    let told = node.ctl_refused(&["reload_certificates"]);
    assert!(told.contains("`ssl_options.keyfile`"), "{told}");
    Client::new(node.first_address(), certificates.config(None)).mechanisms();
    std::fs::write(certificates.path("server_key.pem"), key).unwrap();
    // The files have changed: nobody has to say so.
    certificates.renew();
    wait_until("the new certificate is shown", || {
        let mut client = Client::new(node.first_address(), certificates.config(None));
        client.0.write_all(HEADER).is_ok()
    });
    assert_eq!(before.log_in("PLAIN", "\0guest\0guest"), "connection.tune");
    node.stop();
}

/// Of the API and of Prometheus, with certificates of one's own or those of all.
#[test]
fn http_is_encrypted() {
    let certificates = Certificates::new();
    let own = |key: &str, file: &str| {
        certificates.setting(key, file).replace("ssl_options", "management.ssl")
    };
    let node = certificates.node(&[
        "listeners.ssl=none",
        "management.enabled=true",
        "management.ssl.ip=127.0.0.1",
        "management.ssl.port=0",
        &own("certfile", "server_certificate.pem"),
        &own("keyfile", "server_key.pem"),
        "prometheus.enabled=true",
        "prometheus.ssl.ip=127.0.0.1",
        "prometheus.ssl.port=0",
    ]);
    let ask = |address: SocketAddr, path: &str| {
        let mut client = Client::new(address, certificates.config(None)).0;
        let login = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=";
        write!(client, "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{login}\r\n\r\n")?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    let shown = ask(node.first_address(), "/api/overview").unwrap();
    for part in ["HTTP/1.1 200", "\"https\"", "strict-transport-security: max-age="] {
        assert!(shown.contains(part), "no {part} in {shown}");
    }
    let shown = ask(node.http_address(), "/metrics").unwrap();
    assert!(shown.contains("leveret_certificate_not_after_seconds"), "{shown}");
    certificates.renew();
    wait_until("both show the new certificates", || {
        let is_shown = |address, path| ask(address, path).is_ok();
        is_shown(node.first_address(), "/api/whoami") && is_shown(node.http_address(), "/metrics")
    });
    // Who does not speak TLS is counted.
    socket(node.first_address()).write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    wait_until("it is counted", || {
        node.ctl(&["list_tls_failures", "-q"]).contains("management.ssl\tnot_tls\t1")
    });
    wait_until("it is logged", || node.log().contains("TLS handshake failed: "));
    node.stop();
}

#[test]
fn certificates_are_replaced_under_load_and_no_message_is_lost() {
    let certificates = Certificates::new();
    let node = certificates.node(&[]);
    let mut load = Command::new(binary())
        .args(["perf", "-h", &format!("amqps://localhost:{}", node.first_address().port())])
        .args([
            "-x",
            "2",
            "-y",
            "2",
            "-r",
            "1000",
            "-C",
            "2000",
            "-D",
            "2000",
            "-c",
            "100",
            "-f",
            "persistent",
        ])
        .env("SSL_CERT_FILE", certificates.path("ca_certificate.pem"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("all are connected", || {
        node.ctl(&["list_connections", "-q", "state"]).matches("running").count() >= 4
    });
    let mut n_replaced = 0;
    wait_until("each consumer has had its messages", || {
        certificates.renew();
        node.ctl(&["reload_certificates"]);
        n_replaced += 1;
        load.try_wait().unwrap().is_some_and(|status| status.success())
    });
    eprintln!("{n_replaced} times replaced");
    node.stop();
}

#[test]
fn the_encryption_of_connections_is_listed() {
    let certificates = Certificates::new();
    let node = certificates.node(&[
        "ssl_options.verify=verify_peer",
        "ssl_cert_login_from=common_name",
        "auth_mechanisms.1=EXTERNAL",
    ]);
    let identity = Some(certificates.client_identity());
    let mut client = Client::new(node.first_address(), certificates.config(identity));
    client.mechanisms();
    client.log_in("EXTERNAL", "");
    client.open();
    let columns =
        ["list_connections", "-q", "user", "ssl", "ssl_protocol", "ssl_key_exchange", "ssl_cipher"];
    let listed = node.ctl(&columns);
    assert!(listed.contains("guest\ttrue\ttlsv1.3\tany\taes_256_gcm"), "{listed}");
    let columns = ["list_connections", "-q", "peer_cert_subject", "peer_cert_issuer"];
    let listed = node.ctl(&columns);
    assert!(listed.contains("CN=guest\tCN=Leveret trial CA"), "{listed}");
    node.stop();
}
