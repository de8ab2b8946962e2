//! The options of TLS.

use super::fits;
use crate::config::kind::Kind;
use crate::config::option::{ConfigOption, row};
use tls::{CrlCheck, LoginFrom, SanKind, Verify};

const VERIFY: &[&str] = &["verify_none", "verify_peer"];
const VERSIONS: &[&str] = &["tlsv1.3", "tlsv1.2", "tlsv1.1", "tlsv1"];
const LOGIN_FROM: &[&str] = &["distinguished_name", "common_name", "subject_alternative_name"];

/// Every option of TLS that Leveret acts on.
pub(in crate::config) const OPTIONS: &[ConfigOption] = &[
    row(
        "listeners.ssl",
        Kind::Nothing(|d| d.tls.listeners.none = true),
        "`none` disables all TLS listeners.",
    ),
    row(
        "listeners.ssl.$name",
        Kind::Address(|d, name, v| {
            d.tls.listeners.named.insert(name.to_owned(), v);
        }),
        "Where AMQP clients connect over TLS, usually `5671`, with `ssl_options`. There is none by default; one \
         that cannot work keeps the node from starting.",
    ),
    row(
        "stream.listeners.ssl",
        Kind::Nothing(|d| d.tls.stream_listeners.none = true),
        "`none` disables all TLS listeners of the stream protocol.",
    ),
    row(
        "stream.listeners.ssl.$name",
        Kind::Address(|d, name, v| {
            d.tls.stream_listeners.named.insert(name.to_owned(), v);
        }),
        "Where clients of the stream protocol connect over TLS, usually `5551`, with `ssl_options`.",
    ),
    row(
        "stream.advertised_tls_host",
        Kind::Text(|d, v| d.config.streams.advertised_tls.0 = Some(v.to_owned())),
        "The host that clients over TLS are told to connect to; `stream.advertised_host` when not set.",
    ),
    row(
        "stream.advertised_tls_port",
        Kind::Integer(1..=65_535, "port", |d, v| d.config.streams.advertised_tls.1 = Some(fits(v))),
        "The port that clients over TLS are told to connect to; that of the listener when not set.",
    ),
    row(
        "ssl_handshake_timeout = 10000",
        Kind::Integer(1..=600_000, "milliseconds", |d, v| {
            d.config.listeners.tls_handshake_timeout_ms = v
        }),
        "Time a client has to agree on keys; it is part of `handshake_timeout`.",
    ),
    row(
        "ssl_options.certfile",
        Kind::Text(|d, v| d.tls.keys.certfile = Some(v.into())),
        "The node's certificate in PEM, with the certificates between it and its authority behind it. This file \
         and the others are read again when they have changed. `management.ssl` and `prometheus.ssl` may have \
         all of these keys for their own listeners.",
    ),
    row(
        "ssl_options.keyfile",
        Kind::Text(|d, v| d.tls.keys.keyfile = Some(v.into())),
        "Its private key in PEM, which may be encrypted (PKCS #8).",
    ),
    row(
        "ssl_options.password",
        Kind::Text(|d, v| d.tls.keys.options.password = Some(v.to_owned())),
        "The password of an encrypted key.",
    ),
    row(
        "ssl_options.sni.$name.certfile",
        Kind::NamedText(|d, name, v| {
            d.tls.keys.by_name.entry(name.to_owned()).or_default().0 = v.into()
        }),
        "A further certificate, for clients that ask for one of the hosts it is for. Any number of names; each \
         needs a `keyfile` too. Leveret's own key.",
    ),
    row(
        "ssl_options.sni.$name.keyfile",
        Kind::NamedText(|d, name, v| {
            d.tls.keys.by_name.entry(name.to_owned()).or_default().1 = v.into()
        }),
        "Its private key; all encrypted keys have one password. Leveret's own key.",
    ),
    row(
        "ssl_options.cacertfile",
        Kind::Text(|d, v| d.tls.keys.options.cacertfile = Some(v.into())),
        "The authorities whose clients are trusted, in PEM.",
    ),
    row(
        "ssl_options.verify = verify_none",
        Kind::Word(VERIFY, |d, v| d.tls.keys.verifies = v == "verify_peer"),
        "With `verify_peer` clients are asked for a certificate, which is verified.",
    ),
    row(
        "ssl_options.fail_if_no_peer_cert = false",
        Kind::Flag(|d, v| d.tls.keys.options.verify = if v { Verify::Always } else { Verify::No }),
        "Whether clients that show no certificate are turned away; needs `verify_peer`.",
    ),
    row(
        "ssl_options.depth = 10",
        Kind::Integer(0..=100, "certificates", |d, v| d.tls.keys.options.depth = fits(v)),
        "The certificates that a client may show between its own and its authority's.",
    ),
    row(
        "ssl_options.versions.$version",
        Kind::NamedWord(VERSIONS, |d, name, v| {
            d.tls.keys.versions.insert(name.to_owned(), v.to_owned());
        }),
        "The versions that clients may use; both when not set. There is nothing older than TLS 1.2: what is named \
         of that is told at the start.",
    ),
    row(
        "ssl_options.ciphers.$cipher",
        Kind::NamedText(|d, name, v| {
            d.tls.keys.ciphers.insert(name.to_owned(), v.to_owned());
        }),
        "The cipher suites that clients may use, in this order, by OpenSSL's names (`leveret ctl cipher_suites`); \
         all there are when not set. What there is not is told at the start.",
    ),
    row(
        "ssl_options.honor_cipher_order = true",
        Kind::Flag(|d, v| d.tls.keys.options.prefers_own_order = v),
        "Whether the node's order of cipher suites counts, rather than the client's.",
    ),
    row(
        "ssl_options.reuse_sessions = true",
        Kind::Flag(|d, v| d.tls.keys.options.resumes = v),
        "Whether clients may resume sessions, which is cheaper. Sessions from before certificates were replaced \
         are not resumed.",
    ),
    row(
        "ssl_options.crl_check = false",
        Kind::Word(&CrlCheck::NAMES, |d, v| {
            d.tls.keys.options.crls.0 = CrlCheck::of_name(v).unwrap_or_default()
        }),
        "Whether clients' certificates are looked up in lists of revoked ones: their own (`peer`), all of their \
         chains (`true`), or as far as there are lists (`best_effort`).",
    ),
    row(
        "ssl_options.crl_sources.$index",
        Kind::Word(&["hash_dir"], |_, _| {}),
        "The kind of a source of such lists. They are read from files; none is fetched over HTTP.",
    ),
    row(
        "ssl_options.crl_sources.$index.path",
        Kind::NamedText(|d, name, v| {
            d.tls.keys.crl_paths.insert(name.to_owned(), v.into());
        }),
        "A list of revoked certificates in PEM or DER, or a directory of such files.",
    ),
    row(
        "ssl_cert_login_from = distinguished_name",
        Kind::Word(LOGIN_FROM, |d, v| {
            d.tls.login_from = match v {
                "common_name" => LoginFrom::CommonName,
                "subject_alternative_name" => LoginFrom::San(SanKind::Dns, 0),
                _ => LoginFrom::DistinguishedName,
            }
        }),
        "The part of a client's certificate that is its user's name, for the mechanism `EXTERNAL`.",
    ),
    row(
        "ssl_cert_login_san_type = dns",
        Kind::Word(&SanKind::NAMES, |d, v| {
            d.tls.san.0 = SanKind::of_name(v).unwrap_or(SanKind::Dns)
        }),
        "The kind of alternative name that counts with `subject_alternative_name`.",
    ),
    row(
        "ssl_cert_login_san_index = 0",
        Kind::Integer(0..=100, "names before it", |d, v| d.tls.san.1 = fits(v)),
        "Which of them counts: the first is 0.",
    ),
];
