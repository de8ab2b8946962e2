//! TLS over a socket: whom to trust, and the bytes of one session.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, bail};
use rustls::client::{ClientConfig, ClientConnection};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::{CertificateError, RootCertStore};

use super::{Received, Sent};
use tls::AcceptAnyCert;

/// Size of one read from the socket: two of TLS's largest records.
const ENCRYPTED_BYTES: usize = 32 * 1024;

/// The brokers whose certificates are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Anyone's.
    Everyone,
    /// Certificates for the broker's name, issued by an authority that this system trusts.
    System,
}

/// The encryption of connections. Its costly parts are made once, for the first connection.
#[derive(Clone, Debug)]
pub struct Encryption {
    /// The brokers that are trusted.
    pub trust: Trust,
    /// The name to ask for, if it is not the host's.
    pub server_name: Option<ServerName<'static>>,
    made: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl Encryption {
    /// Creates an encryption that trusts these, and asks for a name if one is given.
    pub fn new(trust: Trust, server_name: Option<ServerName<'static>>) -> Self {
        Self { trust, server_name, made: Arc::default() }
    }

    fn config(&self) -> anyhow::Result<Arc<ClientConfig>> {
        if let Some(made) = self.made.get() {
            return Ok(Arc::clone(made));
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = client_config(self.trust, provider)?;
        Ok(Arc::clone(self.made.get_or_init(|| Arc::new(config))))
    }
}

fn client_config(trust: Trust, provider: Arc<CryptoProvider>) -> anyhow::Result<ClientConfig> {
    let accept_any_cert = Arc::new(AcceptAnyCert::new(&provider));
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match trust {
        Trust::Everyone => builder.dangerous().with_custom_certificate_verifier(accept_any_cert),
        Trust::System => builder.with_root_certificates(system_roots()?),
    };
    Ok(builder.with_no_client_auth())
}

fn system_roots() -> anyhow::Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Systems carry the odd certificate that cannot be used; the others can.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        bail!("this system trusts nobody: {}", why.join("; "));
    }
    Ok(roots)
}

/// An encrypted connection.
#[derive(Debug)]
pub struct Session {
    pub(super) socket: TcpStream,
    tls: ClientConnection,
    /// Bytes read from the socket; decrypted up to `used`, filled up to `filled`.
    encrypted: Vec<u8>,
    used: usize,
    filled: usize,
    /// Whether the last read took all the socket had.
    is_drained: bool,
    /// Whether the broker has said goodbye: input that comes now counts for nothing.
    is_ended: bool,
}

impl Session {
    /// Agrees on keys with the broker `host`, on a socket that waits.
    ///
    /// # Errors
    /// The broker is not trusted, speaks no TLS, or none that is known here.
    pub fn open(
        mut socket: TcpStream,
        host: &str,
        encryption: &Encryption,
    ) -> anyhow::Result<Self> {
        let config = encryption.config().context("TLS")?;
        let name = match &encryption.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned()).context("TLS: the host's name")?,
        };
        let mut tls = ClientConnection::new(config, name)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket).map_err(explained)?;
        }
        let encrypted = vec![0; ENCRYPTED_BYTES];
        Ok(Self { socket, tls, encrypted, used: 0, filled: 0, is_drained: false, is_ended: false })
    }

    pub(super) fn owes_bytes(&self) -> bool {
        self.tls.wants_write()
    }

    /// Reads until one read gives something: bytes of it that have no room in `into` are for the next call.
    pub(super) fn receive(&mut self, into: &mut [u8]) -> io::Result<Received> {
        loop {
            let n = self.decrypt(into)?;
            if n > 0 {
                let may_be_more = n == into.len() || !self.is_drained || self.is_ended;
                return Ok(Received { n, may_be_more });
            }
            let filled = if self.is_ended { 0 } else { self.socket.read(&mut self.encrypted)? };
            if filled == 0 {
                return Ok(Received { n: 0, may_be_more: false });
            }
            self.is_drained = filled < self.encrypted.len();
            (self.used, self.filled) = (0, filled);
        }
    }

    /// Decrypts what was read until that is used up or there is no more room.
    fn decrypt(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut n = 0;
        loop {
            match self.tls.reader().read(into.get_mut(n..).unwrap_or_default()) {
                Ok(more) => n += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let mut unused = self.encrypted.get(self.used..self.filled).unwrap_or_default();
            if n == into.len() || unused.is_empty() || self.is_ended {
                return Ok(n);
            }
            self.used += self.tls.read_tls(&mut unused)?;
            let state = self.tls.process_new_packets().map_err(io::Error::other)?;
            self.is_ended = state.peer_has_closed();
        }
    }

    /// Encrypts no more before what was encrypted is out, so that memory is bounded.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<Sent> {
        if !self.flush()? {
            return Ok(Sent { n: 0, is_blocked: true });
        }
        let n = self.tls.writer().write(bytes)?;
        Ok(Sent { n, is_blocked: !self.flush()? })
    }

    pub(super) fn send_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let Sent { n, is_blocked } = self.send(bytes)?;
            if is_blocked {
                return Err(io::ErrorKind::TimedOut.into());
            }
            bytes = bytes.get(n..).unwrap_or_default();
        }
        Ok(())
    }

    /// Writes what is encrypted; `false` if the socket does not take all of it.
    fn flush(&mut self) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Drop for Session {
    /// Says goodbye, without which the broker would have to think that something was cut off.
    fn drop(&mut self) {
        self.tls.send_close_notify();
        // The broker may be gone already.
        drop(self.flush());
    }
}

/// A handshake's error, worded for people.
#[expect(clippy::wildcard_enum_match_arm, reason = "rustls has many errors, all with a text")]
fn explained(error: io::Error) -> anyhow::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(tls) = inner else { return anyhow::Error::new(error).context("TLS") };
    let why = match tls {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is issued by nobody this system trusts".to_owned()
        }
        rustls::Error::InvalidMessage(_) => format!("it does not speak TLS: {tls}"),
        _ => tls.to_string(),
    };
    anyhow::anyhow!("TLS: {why}")
}

#[cfg(test)]
mod tests;
