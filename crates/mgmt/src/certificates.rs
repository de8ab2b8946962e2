//! The certificates of TLS listeners: listed, and read again.

use crate::api_error::{ApiError, Kind};
use crate::{Management, Request, Told};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The certificates in use.
pub fn list(management: &Management, _: &Request) -> Told {
    Ok(in_use(management))
}

fn in_use(management: &Management) -> Value {
    let of = |tls: &Arc<tls::Context>| {
        let row = |(file, of): &(std::path::PathBuf, tls::Certificate)| {
            json!({
                "options": tls.key(), "file": file.display().to_string(), "subject": of.subject,
                "issuer": of.issuer, "serial_number": of.serial, "validity": of.validity,
                "not_after": of.not_after_s,
            })
        };
        tls.current().certificates.iter().map(row).collect::<Vec<_>>()
    };
    management.tls.iter().flat_map(of).collect()
}

/// Handshakes that failed, by reason.
pub fn list_failures(management: &Management, _: &Request) -> Told {
    let of = |tls: &Arc<tls::Context>| {
        let key = tls.key().to_owned();
        let row = move |(reason, n): (tls::Reason, u64)| json!({"options": key, "reason": reason.as_str(), "count": n});
        tls.failures().map(row).collect::<Vec<_>>()
    };
    Ok(management.tls.iter().flat_map(of).collect())
}

/// The names of cipher suites.
pub fn cipher_suites(_: &Management, _: &Request) -> Told {
    Ok(json!(tls::cipher_suites()))
}

/// The names of versions.
pub fn versions(_: &Management, _: &Request) -> Told {
    Ok(json!(tls::VERSIONS.map(|(name, _)| name)))
}

impl Management {
    /// The files of the certificates in use, and the end of each, seconds since 1970.
    #[must_use]
    pub fn certificate_ends(&self) -> Vec<(String, i64)> {
        let current = self.tls.iter().map(|tls| tls.current());
        let certificates = current.flat_map(|it| it.certificates.clone());
        let ends = certificates.map(|(file, it)| (file.display().to_string(), it.not_after_s));
        // Listeners may have the same file.
        ends.collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    /// The certificates in use that are no good any more in so long.
    #[must_use]
    pub fn certificates_expiring_within(&self, span: Duration) -> Vec<Value> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let until_s = i64::try_from((now + span).as_secs()).unwrap_or(i64::MAX);
        let certificates = in_use(self);
        let rows = certificates.as_array().into_iter().flatten();
        rows.filter(|row| row["not_after"].as_i64() < Some(until_s)).cloned().collect()
    }
}

/// Reads certificates again because an operator wants it.
pub fn reload(management: &Management, _: &Request) -> Told {
    if management.tls.is_empty() {
        return Err(ApiError::new(Kind::NotFound, "no TLS listener".to_owned()));
    }
    // Every certificate is tried, also after one that fails.
    let tried = management.tls.iter().filter_map(|tls| reload_certificates(tls).err());
    let failed: Vec<String> = tried.map(|error| error.to_string()).collect();
    if failed.is_empty() {
        return Ok(Value::Null);
    }
    Err(ApiError::invalid(failed.join("; ")))
}

/// Reads certificates again, and says in the log what came of it.
///
/// # Errors
/// What is wrong with them: those in use stay.
pub fn reload_certificates(tls: &tls::Context) -> Result<(), tls::Errors> {
    let reloaded = tls.reload();
    match &reloaded {
        Ok(()) => {
            tracing::info!("TLS: reloaded certificates, for new connections");
            tls.current().warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        }
        Err(error) => {
            tracing::warn!("TLS: cannot reload certificates, the current ones stay in use: {error}")
        }
    }
    reloaded
}
