//! TLS of listeners: certificates and keys from files, again when those change; the bytes of a session; the
//! reason why a handshake failed; the name in a client's certificate.
//! Knows files, and bytes in and out. Never sockets, protocols or users.
//! Start reading at [`Context`], then [`Session`].

mod certificate;
mod context;
mod failure;
mod files;
mod generate;
mod options;
mod session;
mod verifier;

pub use certificate::{Certificate, LoginFrom, SanKind};
pub use context::{Context, Loaded};
pub use failure::{Failure, Hello, Reason};
pub use generate::{Names, generate};
pub use options::{CrlCheck, Error, Options, VERSIONS, Verify, cipher_suites};
pub use session::{Agreed, Processed, Session};

#[cfg(test)]
mod tests;
