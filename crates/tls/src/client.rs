//! The node as a client of others' servers.

use crate::accept_any_cert::AcceptAnyCert;
use crate::context::{NO_SUITE, not_a_pair};
use crate::files;
use crate::options::{CrlCheck, Errors, Options, Verify};
use rustls::ClientConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use std::sync::Arc;

/// The settings of sessions with a server: with [`Verify::No`] anyone's certificate is accepted, else those
/// that an authority of `cacertfile` has issued, for the server's name.
///
/// # Errors
/// All errors in certificates, keys and settings.
pub fn client_config(options: &Options) -> Result<Arc<ClientConfig>, Errors> {
    let mut errors = Errors::default();
    if options.crls.0 != CrlCheck::No {
        let why = "a server's certificate is looked up in no list";
        errors.0.push(options.wrong("crl_check", why));
    }
    let suites = errors.note(options.chosen_ciphers());
    let versions = errors.note(options.chosen_versions());
    let roots = match &options.cacertfile {
        _ if options.verify == Verify::No => Ok(None),
        Some(path) => files::roots(options, path).map(|(roots, _)| Some(roots)),
        None => Err(options.wrong("cacertfile", "verify = verify_peer needs it")),
    };
    let roots = errors.note(roots);
    let identity = options.identity.as_ref().map(|(certfile, keyfile)| {
        let chain = errors.note(files::certificates(options, "certfile", certfile));
        let key = errors.note(files::key(options, "keyfile", keyfile));
        (chain.unwrap_or_default(), key, (certfile, keyfile))
    });
    let (Some(cipher_suites), Some(versions), Some(roots), true) =
        (suites, versions, roots, errors.0.is_empty())
    else {
        return Err(errors);
    };
    let provider = Arc::new(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() });
    let anyone = Arc::new(AcceptAnyCert::new(&provider));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|_| Errors(vec![options.wrong("versions", NO_SUITE)]))?;
    let builder = match roots {
        Some(roots) => builder.with_root_certificates(roots),
        None => builder.dangerous().with_custom_certificate_verifier(anyone),
    };
    let Some((chain, Some(key), (certfile, keyfile))) = identity else {
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let config = builder.with_client_auth_cert(chain, key);
    config
        .map(Arc::new)
        .map_err(|error| Errors(vec![not_a_pair(options, "", certfile, keyfile, &error)]))
}
