//! The options of TLS.

use super::fits;
use crate::config::option::{ConfigOption, options};
use tls::{CrlCheck, LoginFrom, SanKind, Verify};

const VERIFY: &[&str] = &["verify_none", "verify_peer"];
const VERSIONS: &[&str] = &["tlsv1.3", "tlsv1.2", "tlsv1.1", "tlsv1"];
const LOGIN_FROM: &[&str] = &["distinguished_name", "common_name", "subject_alternative_name"];

/// Every option of TLS that Leveret acts on.
pub(in crate::config) const OPTIONS: &[ConfigOption] = options! {
    "listeners.ssl" => Nothing(|d| d.tls.listeners.none = true), "`none` disables all TLS listeners.";
    "listeners.ssl.$name" => Address(|d, name, v| {
        d.tls.listeners.named.insert(name.to_owned(), v);
    }),
        "Address of an AMQP listener over TLS, usually `5671`, with `ssl_options`. None by default; the \
         node does not start if TLS is set up wrongly.";
    "stream.listeners.ssl" => Nothing(|d| d.tls.stream_listeners.none = true),
        "`none` disables all TLS listeners of the stream protocol.";
    "stream.listeners.ssl.$name" => Address(|d, name, v| {
        d.tls.stream_listeners.named.insert(name.to_owned(), v);
    }),
        "Address of a stream listener over TLS, usually `5551`, with `ssl_options`.";
    "stream.advertised_tls_host" => Text(|d, v| d.config.streams.advertised_tls.host = Some(v.to_owned())),
        "Host name advertised to clients over TLS; `stream.advertised_host` when unset.";
    "stream.advertised_tls_port" =>
        Integer(1..=65_535, "", |d, v| d.config.streams.advertised_tls.port = Some(fits(v))),
        "Port advertised to clients over TLS; the listener's when unset.";
    "ssl_handshake_timeout = 10000" =>
        Integer(1..=600_000, "milliseconds", |d, v| d.config.listeners.tls_handshake_timeout_ms = v),
        "Time limit for the TLS handshake, within `handshake_timeout`.";
    "ssl_options.certfile" => Text(|d, v| d.tls.keys.certfile = Some(v.into())),
        "Certificate of the node in PEM, followed by its intermediate certificates. All files of \
         `ssl_options` are reloaded when they change. `management.ssl` and `prometheus.ssl` accept the \
         same keys for their own listeners.";
    "ssl_options.keyfile" => Text(|d, v| d.tls.keys.keyfile = Some(v.into())),
        "Private key of the certificate in PEM, optionally encrypted (PKCS #8).";
    "ssl_options.password" => Text(|d, v| d.tls.keys.options.password = Some(v.to_owned())),
        "Password of an encrypted private key.";
    "ssl_options.sni.$name.certfile" =>
        NamedText(|d, name, v| d.tls.keys.by_name.entry(name.to_owned()).or_default().0 = v.into()),
        "Additional certificate, chosen by the host name a client asks for (SNI). Any number of names; \
         each needs a `keyfile` too. Leveret's own key.";
    "ssl_options.sni.$name.keyfile" =>
        NamedText(|d, name, v| d.tls.keys.by_name.entry(name.to_owned()).or_default().1 = v.into()),
        "Private key of the additional certificate; all encrypted keys share one password. Leveret's own \
         key.";
    "ssl_options.cacertfile" => Text(|d, v| d.tls.keys.options.cacertfile = Some(v.into())),
        "CA certificates trusted for client certificates, in PEM.";
    "ssl_options.verify = verify_none" => Word(VERIFY, |d, v| d.tls.keys.verifies = v == "verify_peer"),
        "`verify_peer` requests and verifies client certificates.";
    "ssl_options.fail_if_no_peer_cert = false" =>
        Flag(|d, v| d.tls.keys.options.verify = if v { Verify::Always } else { Verify::No }),
        "Reject clients without a certificate; needs `verify_peer`.";
    "ssl_options.depth = 10" => Integer(0..=100, "certificates", |d, v| d.tls.keys.options.depth = fits(v)),
        "Maximum number of intermediate certificates in a client's chain.";
    "ssl_options.versions.$version" => NamedWord(VERSIONS, |d, name, v| {
        d.tls.keys.versions.insert(name.to_owned(), v.to_owned());
    }),
        "TLS versions enabled; both when unset. Versions before TLS 1.2 are not supported and cause a \
         warning.";
    "ssl_options.ciphers.$cipher" => NamedText(|d, name, v| {
        d.tls.keys.ciphers.insert(name.to_owned(), v.to_owned());
    }),
        "Cipher suites enabled, in this order, by OpenSSL's names (`leveret ctl cipher_suites`); all when \
         unset. Unsupported ones cause a warning.";
    "ssl_options.honor_cipher_order = true" => Flag(|d, v| d.tls.keys.options.prefers_own_order = v),
        "Prefer the node's cipher suite order to the client's.";
    "ssl_options.reuse_sessions = true" => Flag(|d, v| d.tls.keys.options.resumes = v),
        "Permit session resumption. Sessions from before a certificate reload are not resumed.";
    "ssl_options.crl_check = false" => OneOf(CrlCheck, tls.keys.options.crls.0),
        "Check client certificates against revocation lists: their own only (`peer`), the whole chain \
         (`true`), or where lists exist (`best_effort`).";
    "ssl_options.crl_sources.$index" => Word(&["hash_dir"], |_, _| {}),
        "Kind of revocation list source. Lists are read from files, never fetched over HTTP.";
    "ssl_options.crl_sources.$index.path" => NamedText(|d, name, v| {
        d.tls.keys.crl_paths.insert(name.to_owned(), v.into());
    }),
        "Revocation list in PEM or DER, or a directory of lists.";
    "ssl_cert_login_from = distinguished_name" =>
        Word(LOGIN_FROM, |d, v| d.tls.login_from = match v {
            "common_name" => LoginFrom::CommonName,
            "subject_alternative_name" => LoginFrom::San(SanKind::Dns, 0),
            _ => LoginFrom::DistinguishedName,
        }),
        "Field of the client certificate used as user name, for the mechanism `EXTERNAL`.";
    "ssl_cert_login_san_type = dns" =>
        Word(&SanKind::NAMES, |d, v| d.tls.san.0 = SanKind::of_name(v).unwrap_or(SanKind::Dns)),
        "Type of alternative name used with `subject_alternative_name`.";
    "ssl_cert_login_san_index = 0" => Integer(0..=100, "names before it", |d, v| d.tls.san.1 = fits(v)),
        "Index of the alternative name; the first is 0.";
};
