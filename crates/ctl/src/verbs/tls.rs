//! Certificates and what TLS may use.

use super::list;
use crate::failure::{Failure, Invalid};
use crate::options::{flag, number, text};
use crate::output::Answer;
use crate::render;
use crate::verb::Banner::Lines;
use crate::verb::{Action, Invocation, Section, VERB, Verb, verbs};
use api::PeriodUnit;
use std::fs::{File, create_dir_all};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

const TLS: Verb = Verb { section: Section::Monitoring, ..VERB };

pub(super) const VERBS: &[Verb] = verbs! {
    TLS "certificates", "Lists the certificates of all TLS listeners":
        banner: Lines("Certificates of node {node} ..."),
        action: list(
            "GET /leveret/tls/certificates",
            "options, file, subject, issuer, serial_number, validity",
        );
    TLS "check_certificate_expiration [--within <period>] [--unit <unit>]",
        "Checks the expiration date on the certificates for every listener configured to use TLS":
        switches: &[number("within", None), text("unit", None)],
        check: Some(|invocation| unit(invocation).map(drop)),
        banner: Lines("Checking certificate expiration on node {node} ..."),
        action: Action::Ask("GET /leveret/tls/certificates", |invocation, certificates| {
            let within = invocation.number("within").unwrap_or(4);
            let unit = unit(invocation).unwrap_or(PeriodUnit::Weeks);
            render::check_certificate_expiration(invocation, &certificates, within, unit)
        });
    TLS "reload_certificates",
        "Reloads certificates, keys and revocation lists; on an error, the current ones stay in use":
        banner: Lines("Reloading the certificates of node {node} ..."),
        action: Action::Do("POST /leveret/tls/certificates");
    TLS "cipher_suites [--format <openssl>] [--all]",
        "Lists cipher suites supported (but not necessarily allowed) on the target node":
        switches: &[text("format", None), flag("all", None)],
        check: Some(|invocation| match invocation.text("format") {
            None | Some("openssl") => Ok(()),
            Some(_) => Err(Invalid::Other("Format must be openssl".to_owned())),
        }),
        banner: Lines("Listing available cipher suites in OpenSSL format"),
        action: Action::Ask("GET /leveret/tls/cipher-suites", |invocation, names| {
            render::lines(invocation, "cipher_suites", &names)
        });
    TLS "tls_versions",
        "Lists TLS versions supported (but not necessarily allowed) on the target node":
        banner: Lines("Listing all TLS versions supported by the runtime..."),
        action: Action::Ask("GET /leveret/tls/versions", |invocation, names| {
            render::lines(invocation, "versions", &names)
        });
    TLS "list_tls_failures", "Lists the number of failed TLS handshakes by reason":
        banner: Lines("Listing failed TLS handshakes on node {node} ..."),
        action: list("GET /leveret/tls/failures", "options, reason, count");
    VERB "generate_certificates [--host <host>] [--user <user>] <directory>",
        "Creates a test CA with a server and a client certificate":
        section: Section::Access, switches: &[text("host", None), text("user", None)],
        params: &["directory"], action: Action::Offline(generate);
};

fn unit(invocation: &Invocation) -> Result<PeriodUnit, Invalid> {
    let Some(unit) = invocation.text("unit") else { return Ok(PeriodUnit::Weeks) };
    let units = PeriodUnit::NAMES.join(", ");
    let text = || format!("unit '{unit}' is not supported. Please use one of: {units}");
    PeriodUnit::of_name(unit).ok_or_else(|| Invalid::Other(text()))
}

fn generate(invocation: &Invocation) -> Result<Answer, Failure> {
    let directory = Path::new(invocation.param("directory"));
    let mut hosts: Vec<String> = invocation.text("host").map(str::to_owned).into_iter().collect();
    hosts.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    let names = ::tls::Names { hosts, user: invocation.text("user").unwrap_or("guest").to_owned() };
    let files = ::tls::generate(&names).map_err(|error| Failure::check(error.to_string()))?;
    let written = create_dir_all(directory).and_then(|()| {
        files.iter().try_for_each(|(name, text)| {
            // Existing files are never overwritten: they may be in use.
            let mut options = File::options();
            options.write(true).create_new(true);
            if name.ends_with("_key.pem") {
                options.mode(0o600);
            }
            options.open(directory.join(name))?.write_all(text.as_bytes())
        })
    });
    written.map_err(|error| {
        Failure::check(format!("cannot write to {}: {error}", directory.display()))
    })?;
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let directory = directory.display();
    Ok(Answer::Text(format!(
        "listeners.ssl.default = 5671\n\
         ssl_options.certfile = {directory}/server_certificate.pem\n\
         ssl_options.keyfile = {directory}/server_key.pem\n\
         ssl_options.cacertfile = {directory}/ca_certificate.pem"
    )))
}
