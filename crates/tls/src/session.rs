//! The bytes of one session: of the peer in, for the peer out. What is not whole is kept by the caller.

use crate::Certificate;
use crate::options::erlang_names;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, ProtocolVersion, ServerConfig};
use std::sync::Arc;

/// Bytes that a record takes beside what it carries, at most, and those it carries.
const RECORD_OVERHEAD_BYTES: usize = 64;
const RECORD_BYTES: usize = 16 * 1024;

/// A side of a session.
pub struct Session {
    tls: Side,
    /// The peer has said that nothing follows.
    is_ended: bool,
    /// The session has failed: rustls must not be asked for more than the alert.
    is_failed: bool,
}

stdx::debug_of!(|it: Session| is_ended = it.is_ended);

/// The side that the session's owner is on.
enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// Applies an expression to either side, whose connections are of two types.
macro_rules! of_side {
    ($side:expr, $tls:ident => $body:expr) => {
        match $side {
            Side::Server($tls) => $body,
            Side::Client($tls) => $body,
        }
    };
}

/// The outcome of a look at bytes of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processed {
    /// Bytes that are done with; the others are to be shown again, with what follows.
    pub n_used: usize,
    /// The handshake is over.
    pub is_open: bool,
    /// The peer has said that nothing follows.
    pub is_ended: bool,
}

/// The agreement of the two sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// RabbitMQ's name of the version.
    pub version: String,
    /// RabbitMQ's name of the exchange of keys.
    pub key_exchange: String,
    /// RabbitMQ's name of the cipher.
    pub cipher: String,
    /// The certificate that the peer has shown, and that was verified.
    pub certificate: Option<Box<Certificate>>,
}

impl Session {
    /// A session at its beginning; `None` if the system has no random numbers.
    #[must_use]
    pub fn new(config: Arc<ServerConfig>) -> Option<Self> {
        let tls = Side::Server(UnbufferedServerConnection::new(config).ok()?);
        Some(Self { tls, is_ended: false, is_failed: false })
    }

    /// A client's session with the server of this name or address, which [`Session::process`] begins without
    /// bytes; `None` if that is no name, or the system has no random numbers.
    #[must_use]
    pub fn client(config: Arc<ClientConfig>, server: &str) -> Option<Self> {
        let server = ServerName::try_from(server.to_owned()).ok()?;
        let tls = Side::Client(UnbufferedClientConnection::new(config, server).ok()?);
        Some(Self { tls, is_ended: false, is_failed: false })
    }

    /// Works off all of `incoming` that is whole. The application's bytes are given to `plain`, those for the
    /// peer are appended to `out`.
    ///
    /// # Errors
    /// The peer does not speak TLS, or not as it is wanted: the session is over.
    pub fn process(
        &mut self,
        incoming: &mut [u8],
        plain: &mut dyn FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<Processed, rustls::Error> {
        if self.is_failed {
            return Err(rustls::Error::HandshakeNotComplete);
        }
        let mut n_used = 0;
        of_side!(&mut self.tls, tls => loop {
            let rest = incoming.get_mut(n_used..).unwrap_or_default();
            let UnbufferedStatus { discard, state } = tls.process_tls_records(rest);
            n_used += discard;
            let state = state.inspect_err(|_| self.is_failed = true);
            let is_open = match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        n_used += record.discard;
                        plain(record.payload);
                    }
                    continue;
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    put(out, 0, |space| data.encode(space).map_err(needed_to_encode));
                    continue;
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    continue;
                }
                ConnectionState::PeerClosed => {
                    self.is_ended = true;
                    continue;
                }
                ConnectionState::WriteTraffic(_) | ConnectionState::Closed => true,
                ConnectionState::BlockedHandshake => false,
                // No early data is ever asked for.
                ConnectionState::ReadEarlyData(_) | _ => {
                    return Err(rustls::Error::HandshakeNotComplete);
                }
            };
            return Ok(Processed { n_used, is_open, is_ended: self.is_ended });
        })
    }

    /// The alert that tells the peer of a failure.
    pub fn farewell(&mut self, incoming: &mut [u8], out: &mut Vec<u8>) {
        of_side!(&mut self.tls, tls => {
            if let UnbufferedStatus { state: Ok(ConnectionState::EncodeTlsData(mut data)), .. } =
                tls.process_tls_records(incoming)
            {
                put(out, 0, |space| data.encode(space).map_err(needed_to_encode));
            }
        });
    }

    /// Encrypts `bytes` behind what is in `out`. `kept` is what was not whole of the peer's bytes.
    ///
    /// # Errors
    /// The session is over.
    pub fn encrypt(
        &mut self,
        kept: &mut Vec<u8>,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), rustls::Error> {
        self.settle(kept, out)?;
        let n_records = bytes.len().div_ceil(RECORD_BYTES) + 1;
        let n_bytes = bytes.len() + n_records * RECORD_OVERHEAD_BYTES;
        of_side!(&mut self.tls, tls => {
            let ConnectionState::WriteTraffic(mut traffic) = tls.process_tls_records(kept).state?
            else {
                return Err(rustls::Error::HandshakeNotComplete);
            };
            let is_put =
                put(out, n_bytes, |space| traffic.encrypt(bytes, space).map_err(needed_to_encrypt));
            if is_put { Ok(()) } else { Err(rustls::Error::EncryptError) }
        })
    }

    /// Tells the peer that nothing follows.
    pub fn close(&mut self, kept: &mut Vec<u8>, out: &mut Vec<u8>) {
        if self.settle(kept, out).is_err() {
            return;
        }
        of_side!(&mut self.tls, tls => {
            let state = tls.process_tls_records(kept).state;
            if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
                put(out, RECORD_OVERHEAD_BYTES, |space| {
                    traffic.queue_close_notify(space).map_err(needed_to_encrypt)
                });
            }
        });
    }

    /// Gets out what stands between the session and what is to be encrypted.
    fn settle(&mut self, kept: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), rustls::Error> {
        let processed = self.process(kept, &mut |_| {}, out)?;
        kept.drain(..processed.n_used);
        Ok(())
    }

    /// The agreement of the two sides.
    #[must_use]
    pub fn agreed(&self) -> Agreed {
        let tls: &rustls::CommonState = of_side!(&self.tls, tls => tls);
        let suite = tls.negotiated_cipher_suite();
        let (key_exchange, cipher) = suite.map(|it| erlang_names(it.suite())).unwrap_or_default();
        let of_peer = tls.peer_certificates().and_then(|chain| chain.first());
        Agreed {
            version: match tls.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => "tlsv1.2".to_owned(),
                Some(_) | None => "tlsv1.3".to_owned(),
            },
            key_exchange,
            cipher,
            certificate: of_peer.and_then(|der| Certificate::parse(der)).map(Box::new),
        }
    }
}

/// Appends what `write` puts into a space of `n_bytes`, or of as many as it then says it needs.
fn put(
    out: &mut Vec<u8>,
    mut n_bytes: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> bool {
    let start = out.len();
    loop {
        out.resize(start + n_bytes, 0);
        match write(out.get_mut(start..).unwrap_or_default()) {
            Ok(n) => {
                out.truncate(start + n);
                return true;
            }
            Err(Some(n)) if n > n_bytes => n_bytes = n,
            Err(_) => {
                out.truncate(start);
                return false;
            }
        }
    }
}

fn needed_to_encode(error: EncodeError) -> Option<usize> {
    match error {
        EncodeError::InsufficientSize(error) => Some(error.required_size),
        EncodeError::AlreadyEncoded => None,
    }
}

fn needed_to_encrypt(error: EncryptError) -> Option<usize> {
    match error {
        EncryptError::InsufficientSize(error) => Some(error.required_size),
        EncryptError::EncryptExhausted => None,
    }
}
