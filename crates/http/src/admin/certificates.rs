//! The certificates of TLS listeners: listed, and read again.

use super::Reply;
use crate::request::Request;
use api::ErrorCode;
use mgmt::{ApiError, CertificateInUse, Management, reload_certificates};
use serde_json::{Value, json};
use std::sync::Arc;

/// The certificates in use.
pub(crate) fn list(management: &Management, _: &Request) -> Reply {
    Ok(management.certificates().iter().map(row).collect())
}

/// A certificate as an object.
pub(crate) fn row(in_use: &CertificateInUse) -> Value {
    let CertificateInUse { options, file, certificate: of } = in_use;
    json!({
        "options": options, "file": file.display().to_string(), "subject": of.subject,
        "issuer": of.issuer, "serial_number": of.serial, "validity": of.validity,
        "not_after": of.not_after_s,
    })
}

/// Handshakes that failed, by reason.
pub(crate) fn list_failures(management: &Management, _: &Request) -> Reply {
    let of = |tls: &Arc<tls::Context>| {
        let key = tls.key().to_owned();
        let row = move |(reason, n): (tls::Reason, u64)| json!({"options": key, "reason": reason.as_str(), "count": n});
        tls.failures().map(row).collect::<Vec<_>>()
    };
    Ok(management.tls.iter().flat_map(of).collect())
}

/// The names of cipher suites.
pub(crate) fn cipher_suites(_: &Management, _: &Request) -> Reply {
    Ok(json!(tls::cipher_suites()))
}

/// The names of versions.
pub(crate) fn versions(_: &Management, _: &Request) -> Reply {
    Ok(json!(tls::VERSIONS.map(|(name, _)| name)))
}

/// Reads certificates again because an operator wants it.
pub(crate) fn reload(management: &Management, _: &Request) -> Reply {
    if management.tls.is_empty() {
        return Err(ApiError::new(ErrorCode::NotFound, "no TLS listener"));
    }
    // Every certificate is tried, also after one that fails.
    let tried = management.tls.iter().filter_map(|tls| reload_certificates(tls).err());
    let failed: Vec<String> = tried.map(|error| error.to_string()).collect();
    if failed.is_empty() {
        return Ok(Value::Null);
    }
    Err(ApiError::invalid(failed.join("; ")))
}
