//! Which settings a policy may have, and with which values.

use super::{json_text, not_valid};
use crate::refusal::Refusal;
use meta::{Json, PolicyScope};
use serde_json::Value;

/// One setting.
struct Setting {
    key: &'static str,
    /// Whether operators may override it.
    for_operators: bool,
    domain: Domain,
    /// RabbitMQ's words in `... is not a valid ...`.
    meaning: &'static str,
}

/// The values a setting may have.
#[derive(Clone, Copy)]
enum Domain {
    Any,
    Text,
    Integer,
    AtLeast(i64),
    Between(i64, i64),
    Numbers(&'static [i64]),
    Words(&'static [&'static str]),
    /// A number and one of `Y M D h m s`.
    Age,
}

const fn user(key: &'static str, domain: Domain, meaning: &'static str) -> Setting {
    Setting { key, for_operators: false, domain, meaning }
}

const fn operator(key: &'static str, domain: Domain, meaning: &'static str) -> Setting {
    Setting { key, for_operators: true, domain, meaning }
}

/// The largest segment of a stream, bytes.
const STREAM_SEGMENT_BYTES_MAX: i64 = 3_000_000_000;

const SETTINGS: &[Setting] = &[
    operator("expires", Domain::AtLeast(1), "queue expiry"),
    operator("message-ttl", Domain::AtLeast(0), "message TTL"),
    operator("max-length", Domain::AtLeast(0), "maximum length"),
    operator("max-length-bytes", Domain::AtLeast(0), "maximum length in bytes"),
    operator("max-in-memory-length", Domain::AtLeast(0), "maximum memory in bytes"),
    operator("max-in-memory-bytes", Domain::AtLeast(0), "maximum memory in bytes"),
    operator("delivery-limit", Domain::Integer, "delivery limit"),
    operator("queue-version", Domain::Numbers(&[1, 2]), "queue-version value"),
    operator(
        "overflow",
        Domain::Words(&["drop-head", "reject-publish", "reject-publish-dlx"]),
        "overflow value",
    ),
    operator("target-group-size", Domain::AtLeast(1), "target group size"),
    operator("delayed-retry-type", Domain::Text, "delayed retry type"),
    operator("delayed-retry-min", Domain::AtLeast(0), "delayed retry minimum"),
    operator("delayed-retry-max", Domain::AtLeast(0), "delayed retry maximum"),
    user("alternate-exchange", Domain::Text, "alternate exchange name"),
    user("consumer-disconnected-timeout", Domain::AtLeast(0), "consumer disconnected timeout"),
    user("consumer-timeout", Domain::AtLeast(0), "consumer timeout"),
    user("dead-letter-exchange", Domain::Text, "dead letter exchange name"),
    user("dead-letter-routing-key", Domain::Text, "dead letter routing key"),
    user(
        "dead-letter-strategy",
        Domain::Words(&["at-most-once", "at-least-once"]),
        "dead letter strategy",
    ),
    user("queue-mode", Domain::Words(&["default", "lazy"]), "queue-mode value"),
    user("max-age", Domain::Age, "max age"),
    user(
        "stream-max-segment-size-bytes",
        Domain::Between(0, STREAM_SEGMENT_BYTES_MAX),
        "segment size",
    ),
    user(
        "stream-filter-size-bytes",
        Domain::Between(16, 255),
        "filter size. Valid range is 16-255",
    ),
    user(
        "queue-leader-locator",
        Domain::Words(&["client-local", "balanced", "random", "least-leaders"]),
        "queue leader locator value",
    ),
    user("queue-master-locator", Domain::Text, "queue-master-locator value"),
    user("initial-cluster-size", Domain::AtLeast(0), "cluster size"),
    user("federation-upstream", Domain::Text, "federation upstream name"),
    user("federation-upstream-set", Domain::Text, "federation upstream set name"),
    user("federation-upstream-pattern", Domain::Text, "federation upstream pattern"),
    user("shards-per-node", Domain::AtLeast(0), "number of shards per node"),
    user("routing-key", Domain::Any, "routing key"),
];

/// The definition as JSON, unless it sets something unknown, or to something that cannot be.
pub(super) fn checked(text: &str, scope: PolicyScope) -> Result<Json, Refusal> {
    let json = json_text(text)?;
    let Value::Object(settings) = json.value() else { return Ok(json) };
    // COMPAT: the Erlang terms.
    let unknown: Vec<String> = settings
        .iter()
        .filter(|(name, _)| find(name, scope).is_none())
        .map(|(name, value)| format!("{{<<\"{name}\">>,{}}}", term(value)))
        .collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        return Err(not_valid(&format!("[{unknown}] are not recognised policy settings")));
    }
    for (name, value) in &settings {
        if let Some(setting) = find(name, scope)
            && !allows(setting.domain, value)
        {
            let reason = format!("{} is not a valid {}", term(value), setting.meaning);
            return Err(not_valid(&reason));
        }
    }
    Ok(json)
}

fn find(name: &str, scope: PolicyScope) -> Option<&'static Setting> {
    let is_allowed = |setting: &&Setting| match scope {
        PolicyScope::User => true,
        PolicyScope::Operator => setting.for_operators,
    };
    SETTINGS.iter().filter(is_allowed).find(|setting| setting.key == name)
}

fn allows(domain: Domain, value: &Value) -> bool {
    let (number, text) = (value.as_i64(), value.as_str());
    match domain {
        Domain::Any => true,
        Domain::Text => text.is_some(),
        Domain::Integer => number.is_some(),
        Domain::AtLeast(least) => number.is_some_and(|number| number >= least),
        Domain::Between(least, most) => {
            number.is_some_and(|number| (least..=most).contains(&number))
        }
        Domain::Numbers(numbers) => number.is_some_and(|number| numbers.contains(&number)),
        Domain::Words(words) => text.is_some_and(|text| words.contains(&text)),
        Domain::Age => text.is_some_and(is_age),
    }
}

fn is_age(text: &str) -> bool {
    text.strip_suffix(['Y', 'M', 'D', 'h', 'm', 's'])
        .is_some_and(|digits| digits.parse::<u64>().is_ok())
}

fn term(value: &Value) -> String {
    match value {
        Value::String(text) => format!("<<\"{text}\">>"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked() {
        let told = |text: &str| match checked(text, PolicyScope::User) {
            Ok(json) => json.to_string(),
            Err(refusal) => refusal.text,
        };
        assert_eq!(
            told(r#"{"max-length":"x"}"#),
            "Validation failed\n\n<<\"x\">> is not a valid maximum length\n"
        );
        for wrong in [
            r#"{"expires":0}"#,
            r#"{"overflow":"spill"}"#,
            r#"{"queue-version":3}"#,
            r#"{"max-age":"7x"}"#,
            r#"{"max-age":"D"}"#,
            r#"{"stream-filter-size-bytes":15}"#,
            r#"{"dead-letter-exchange":1}"#,
            r#"{"delivery-limit":1.5}"#,
        ] {
            assert!(told(wrong).contains(" is not a valid "), "{wrong}");
        }
        // COMPAT: the settings come out sorted.
        let right = r#"{"overflow":"drop-head","max-age":"7D","expires":1}"#;
        assert_eq!(told(right), r#"{"expires":1,"max-age":"7D","overflow":"drop-head"}"#);
    }
}
