//! TLS of listeners, and of the servers that the log goes to: certificates and keys from files, again when
//! those change; the bytes of a session; the reason why a handshake failed; the name in a client's
//! certificate.
//! Knows files, and bytes in and out. Never sockets, protocols or users.
//! Start reading at [`Context`], then [`Session`].

mod accept_any_cert;
mod certificate;
mod client;
mod context;
mod failure;
mod files;
mod generate;
mod options;
mod session;
mod verifier;

pub use accept_any_cert::AcceptAnyCert;
pub use certificate::{Certificate, LoginFrom, SanKind};
pub use client::client_config;
pub use context::{Context, Loaded};
pub use failure::{Failure, Hello, Reason};
pub use generate::{Names, generate};
pub use options::{CrlCheck, Error, Errors, Options, VERSIONS, Verify, cipher_suites};
pub use session::{Agreed, Processed, Session};

#[cfg(test)]
mod tests;
