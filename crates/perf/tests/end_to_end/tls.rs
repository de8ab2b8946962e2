//! TLS in front of the test broker, with a certificate from an authority made for the test.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};

/// Bytes go to the client in pieces that end in the middle of records, and of their lengths.
const PIECE_BYTES: usize = 1003;

/// The certificate authority of the test brokers.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A file that names it as somebody to trust.
    pub(super) fn file(&self) -> PathBuf {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let path = path.join(format!("authority-{}.pem", std::process::id()));
        std::fs::write(&path, &self.pem).unwrap();
        path
    }

    /// A certificate for a name, and its key.
    fn vouch_for(&self, name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }
}

/// Decrypts for a broker that speaks no TLS.
pub(super) struct Terminator {
    pub(super) port: u16,
    /// The names clients asked for.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Terminator {
    /// In front of the broker on a port, with a certificate for `name`.
    pub(super) fn start(
        broker_port: u16,
        authority: &Authority,
        name: &str,
        version: &'static SupportedProtocolVersion,
    ) -> Self {
        let (certificate, key) = authority.vouch_for(name);
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let names = Arc::clone(&asked);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (config, names) = (Arc::clone(&config), Arc::clone(&names));
                let client = client.unwrap();
                // Clients that break off are part of the tests.
                std::thread::spawn(move || drop(join(client, broker_port, config, &names)));
            }
        });
        Self { port, asked }
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// Passes bytes on in both directions until one side ends.
fn join(
    mut client: TcpStream,
    broker_port: u16,
    config: Arc<ServerConfig>,
    names: &Mutex<Vec<String>>,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut client)?;
    }
    names.lock().unwrap().extend(session.server_name().map(str::to_owned));
    let broker = TcpStream::connect(("127.0.0.1", broker_port))?;
    broker.set_nodelay(true)?;
    let session = Arc::new(Mutex::new(session));
    let (encrypting, from, to) = (Arc::clone(&session), broker.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        drop(encrypt(from, &to, &encrypting));
        drop(to.shutdown(Shutdown::Both));
    });
    let result = decrypt(client, &broker, &session);
    drop(broker.shutdown(Shutdown::Both));
    result
}

fn encrypt(
    mut from: TcpStream,
    mut to: &TcpStream,
    session: &Mutex<ServerConnection>,
) -> io::Result<()> {
    let mut plain = vec![0; 64 * 1024];
    loop {
        let n = from.read(&mut plain)?;
        let mut encrypted = Vec::new();
        {
            let mut session = session.lock().unwrap();
            match n {
                0 => session.send_close_notify(),
                n => session.writer().write_all(&plain[..n])?,
            }
            while session.wants_write() {
                session.write_tls(&mut encrypted)?;
            }
        }
        for piece in encrypted.chunks(PIECE_BYTES) {
            to.write_all(piece)?;
        }
        if n == 0 {
            return Ok(());
        }
    }
}

fn decrypt(
    mut from: TcpStream,
    mut to: &TcpStream,
    session: &Mutex<ServerConnection>,
) -> io::Result<()> {
    let mut encrypted = vec![0; 64 * 1024];
    // The first bytes may have come with the end of the handshake.
    let mut rest: &[u8] = &[];
    loop {
        let mut plain = Vec::new();
        let has_ended = {
            let mut session = session.lock().unwrap();
            if !rest.is_empty() {
                session.read_tls(&mut rest)?;
            }
            let state = session.process_new_packets().map_err(io::Error::other)?;
            plain.resize(state.plaintext_bytes_to_read(), 0);
            session.reader().read_exact(&mut plain)?;
            state.peer_has_closed()
        };
        to.write_all(&plain)?;
        if has_ended {
            return Ok(());
        }
        if rest.is_empty() {
            let n = from.read(&mut encrypted)?;
            if n == 0 {
                return Ok(());
            }
            rest = &encrypted[..n];
        }
    }
}
