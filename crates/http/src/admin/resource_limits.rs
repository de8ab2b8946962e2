//! The limits of memory and disk beyond which publishers are blocked, until the node restarts.

use super::Reply;
use crate::request::Request;
use mgmt::{ApiError, Management, ResourceLimits, Threshold};
use serde_json::Value;

/// Sets the used memory above which publishers are blocked.
pub(crate) fn set_memory_high(management: &Management, request: &Request) -> Reply {
    set(management, request, ResourceLimits::set_memory_high)
}

/// Sets the free disk space below which publishers are blocked.
pub(crate) fn set_disk_free(management: &Management, request: &Request) -> Reply {
    set(management, request, ResourceLimits::set_disk_free)
}

/// Sets a limit, and checks memory and disk now, so that the limit takes effect at once.
fn set(management: &Management, request: &Request, set: fn(&ResourceLimits, Threshold)) -> Reply {
    set(management.resources.limits(), threshold(request)?);
    management.resources.look(&management.broker);
    Ok(Value::Null)
}

/// The limit in a request: `bytes`, or `of_memory`.
fn threshold(request: &Request) -> Result<Threshold, ApiError> {
    let bytes = request.number("bytes").and_then(|bytes| u64::try_from(bytes).ok());
    let share = request.fraction("of_memory").filter(|share| *share >= 0.0);
    bytes
        .map(Threshold::Bytes)
        .or_else(|| share.map(Threshold::OfMemory))
        .ok_or_else(|| ApiError::invalid("a limit must be a number, 0 or more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_bytes_or_shares_of_memory() {
        let of = |text: &str| threshold(&Request::of(serde_json::from_str(text).unwrap()));
        assert_eq!(of(r#"{"bytes": 3}"#), Ok(Threshold::Bytes(3)));
        assert_eq!(of(r#"{"of_memory": 1.5}"#), Ok(Threshold::OfMemory(1.5)));
        for wrong in [r#"{"bytes": -1}"#, r#"{"of_memory": -0.1}"#, r#"{"bytes": "x"}"#, "{}"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
