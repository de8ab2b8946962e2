//! What must hold for any bytes of a client between its socket and rustls. Shared by the fuzz target and by
//! an ordinary test of the crate, which needs no fuzzer.

use std::sync::{Arc, LazyLock};
use tls::{Certificate, Context, Failure, Hello, Names, Options, Session, Verify, generate};

/// More than the longest record: what is kept of the client's bytes is bounded by whoever reads the socket.
const KEPT_BYTES_MAX: usize = 64 * 1024;

static CONTEXT: LazyLock<Context> = LazyLock::new(|| {
    let dir = std::env::temp_dir().join(format!("leveret-fuzz-tls-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let names = Names { hosts: vec!["localhost".to_owned()], user: "app".to_owned() };
    for (name, text) in generate(&names).expect("certificates") {
        std::fs::write(dir.join(name), text).expect("a file");
    }
    let options = Options {
        identity: Some((dir.join("server_certificate.pem"), dir.join("server_key.pem"))),
        cacertfile: Some(dir.join("ca_certificate.pem")),
        verify: Verify::IfShown,
        ..Options::new("ssl_options")
    };
    let context = Context::new(options).expect("a context");
    std::fs::remove_dir_all(&dir).expect("it is there");
    context
});

/// The first byte cuts the others into pieces. A session takes no more than it is shown, gives nothing to the
/// protocol before it is open, fails once and for all, and its failure has a text.
pub(crate) fn session(input: &[u8]) {
    let Some((size, bytes)) = input.split_first() else { return };
    let mut session = Session::new(Arc::clone(&CONTEXT.current().config)).expect("random numbers");
    let (mut kept, mut out, mut n_plain) = (Vec::new(), Vec::new(), 0);
    for piece in bytes.chunks(usize::from(*size) + 1) {
        kept.extend_from_slice(piece);
        if kept.len() > KEPT_BYTES_MAX {
            return;
        }
        match session.process(&mut kept, &mut |plain| n_plain += plain.len(), &mut out) {
            Ok(processed) => {
                assert!(processed.n_used <= kept.len());
                assert!(processed.is_open || n_plain == 0);
                kept.drain(..processed.n_used);
            }
            Err(error) => {
                session.farewell(&mut kept, &mut out);
                assert!(!Failure::explain(&error, Hello::new(bytes)).text.is_empty());
                assert!(session.process(&mut kept, &mut |_| {}, &mut out).is_err());
                assert!(session.encrypt(&mut kept, b"x", &mut out).is_err());
                return;
            }
        }
    }
    session.close(&mut kept, &mut out);
}

/// A certificate is taken apart or not; its names are what they are.
pub(crate) fn certificate(input: &[u8]) {
    if let Some(certificate) = Certificate::parse(input) {
        assert_eq!(Certificate::parse(input), Some(certificate));
    }
}
