//! The node as a client of others' servers.

use crate::accept_any_cert::AcceptAnyCert;
use crate::files;
use crate::options::{CrlCheck, Error, Options, Verify};
use rustls::ClientConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use std::sync::Arc;

/// The settings of sessions with a server: with [`Verify::No`] anyone's certificate is accepted, else those
/// that an authority of `cacertfile` has issued, for the server's name.
///
/// # Errors
/// What is wrong with certificates, keys or settings.
pub fn client_config(options: &Options) -> Result<Arc<ClientConfig>, Error> {
    if options.crls.0 != CrlCheck::No {
        return Err(options.wrong("crl_check", "a server's certificate is looked up in no list"));
    }
    let provider = Arc::new(CryptoProvider {
        cipher_suites: options.chosen_ciphers()?,
        ..aws_lc_rs::default_provider()
    });
    let anyone = Arc::new(AcceptAnyCert::new(&provider));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&options.chosen_versions()?)
        .map_err(|error| options.wrong("versions", error))?;
    let builder = match &options.cacertfile {
        _ if options.verify == Verify::No => {
            builder.dangerous().with_custom_certificate_verifier(anyone)
        }
        Some(path) => builder.with_root_certificates(files::roots(options, path)?),
        None => return Err(options.wrong("cacertfile", "verify = verify_peer needs it")),
    };
    let Some((certfile, keyfile)) = &options.identity else {
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let chain = files::certificates(options, "certfile", certfile)?;
    let config = builder.with_client_auth_cert(chain, files::key(options, keyfile)?);
    config.map(Arc::new).map_err(|error| options.wrong_file("keyfile", keyfile, error))
}
