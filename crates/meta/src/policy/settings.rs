//! Which settings a policy may have, with which values, and how an operator's meet a user's.

use serde_json::{Map, Value};

use super::PolicyScope;
use crate::confirm_on;
use crate::error::MetaError;
use crate::queue_type::QueueKind;

/// The settings of a policy, by key.
pub(super) type Settings = Map<String, Value>;

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
    Flag,
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

const RETRY_TYPE: &str = "delayed-retry-type";
const RETRY_MIN: &str = "delayed-retry-min";
const RETRY_MAX: &str = "delayed-retry-max";

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
    operator(
        RETRY_TYPE,
        Domain::Words(&["all", "failed", "returned", "disabled"]),
        "delayed retry type. Must be one of: all, failed, returned, disabled",
    ),
    operator(
        RETRY_MIN,
        Domain::AtLeast(1),
        "delayed retry minimum delay. Must be a positive integer",
    ),
    operator(
        RETRY_MAX,
        Domain::AtLeast(1),
        "delayed retry maximum delay. Must be a positive integer",
    ),
    operator("confirm-on-max-pending", Domain::AtLeast(1), "maximum of pending confirms"),
    operator(
        "confirm-on-max-pending-bytes",
        Domain::AtLeast(1),
        "maximum of pending confirms in bytes",
    ),
    user("confirm-on", Domain::Words(&confirm_on::MODES), "confirm-on value"),
    user(
        "confirm-on-no-consumer",
        Domain::Words(&confirm_on::WITHOUT_CONSUMER),
        "confirm-on-no-consumer value",
    ),
    user("alternate-exchange", Domain::Text, "alternate exchange name"),
    user("x-delayed-exchange", Domain::Flag, "delayed exchange"),
    user("x-message-deduplication", Domain::Flag, "message deduplication"),
    user("x-cache-size", Domain::AtLeast(1), "deduplication cache size"),
    user("x-cache-ttl", Domain::AtLeast(1), "deduplication cache time to live"),
    user("x-deduplication-header", Domain::Text, "deduplication header name"),
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
];

/// Refuses a definition that sets something unknown, or to something that cannot be.
pub(super) fn check(settings: &Settings, scope: PolicyScope) -> Result<(), MetaError> {
    // COMPAT: the Erlang terms.
    let unknown: Vec<String> = settings
        .iter()
        .filter(|(name, _)| find(name, scope).is_none())
        .map(|(name, value)| format!("{{<<\"{name}\">>,{}}}", term(value)))
        .collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        return Err(MetaError::Invalid(format!("[{unknown}] are not recognised policy settings")));
    }
    for (name, value) in settings {
        if let Some(setting) = find(name, scope)
            && !allows(setting.domain, value)
        {
            let reason = format!("{} is not a valid {}", term(value), setting.meaning);
            return Err(MetaError::Invalid(reason));
        }
    }
    check_delayed_retry(settings)
}

/// Refuses a delayed retry without its shortest delay, or with a longest one that is shorter.
fn check_delayed_retry(settings: &Settings) -> Result<(), MetaError> {
    let number = |key| settings.get(key).and_then(Value::as_i64);
    let on = settings.get(RETRY_TYPE).and_then(Value::as_str).filter(|on| *on != "disabled");
    let reason = match (on, number(RETRY_MIN), number(RETRY_MAX)) {
        (Some(on), None, _) => format!("{RETRY_MIN} is required when {RETRY_TYPE} is {on}"),
        (_, Some(min), Some(max)) if max < min => {
            format!("{RETRY_MAX} ({max}) must not be smaller than {RETRY_MIN} ({min})")
        }
        _ => return Ok(()),
    };
    Err(MetaError::Invalid(reason))
}

/// What a classic queue has no use for. COMPAT: a policy with one of these does not apply to it at all.
/// The delivery limit is not among them, since classic queues have it here.
const NOT_FOR_CLASSIC: [&str; 7] = [
    "max-age",
    "stream-max-segment-size-bytes",
    "initial-cluster-size",
    "dead-letter-strategy",
    "max-in-memory-length",
    "max-in-memory-bytes",
    "target-group-size",
];

/// Whether a policy with these settings applies to queues of this kind.
pub(super) fn suit(kind: QueueKind, settings: &Settings) -> bool {
    let foreign = match kind {
        QueueKind::Classic => NOT_FOR_CLASSIC,
    };
    !foreign.iter().any(|key| settings.contains_key(*key))
}

/// What a user's policy says and what an operator's says, as one: of lengths and times the smaller
/// counts, of the rest the operator's.
pub(super) fn merged(by_user: &Settings, by_operator: &Settings) -> Settings {
    let mut merged = by_user.clone();
    for (key, of_operator) in by_operator {
        let value = match by_user.get(key) {
            Some(of_user) => stricter(key, of_user, of_operator).clone(),
            None => of_operator.clone(),
        };
        merged.insert(key.clone(), value);
    }
    merged
}

fn stricter<'v>(key: &str, of_user: &'v Value, of_operator: &'v Value) -> &'v Value {
    let (Some(user), Some(operator)) = (of_user.as_i64(), of_operator.as_i64()) else {
        return of_operator;
    };
    let users_counts = match key {
        "queue-version" => false,
        "target-group-size" | RETRY_MIN => user > operator,
        // A negative one is no limit: the other counts then.
        "delivery-limit" if user < 0 || operator < 0 => user > operator,
        _ => user < operator,
    };
    if users_counts { of_user } else { of_operator }
}

pub(super) fn is_known(name: &str, scope: PolicyScope) -> bool {
    find(name, scope).is_some()
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
        Domain::Flag => value.is_boolean(),
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

    fn settings(text: &str) -> Settings {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn values_are_checked() {
        let told = |text: &str| match check(&settings(text), PolicyScope::User) {
            Ok(()) => "fine".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(told(r#"{"max-length":"x"}"#), "<<\"x\">> is not a valid maximum length");
        assert_eq!(
            told(r#"{"bogus":1,"expires":2}"#),
            "[{<<\"bogus\">>,1}] are not recognised policy settings"
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
            r#"{"delayed-retry-type":"never"}"#,
            r#"{"delayed-retry-min":0}"#,
        ] {
            assert!(told(wrong).contains(" is not a valid "), "{wrong}");
        }
        assert_eq!(told(r#"{"overflow":"drop-head","max-age":"7D","expires":1}"#), "fine");
        assert_eq!(told(r#"{"delayed-retry-type":"all","delayed-retry-min":5}"#), "fine");
        assert_eq!(told(r#"{"delayed-retry-type":"disabled"}"#), "fine");
        assert_eq!(
            told(r#"{"delayed-retry-type":"all","delayed-retry-max":5}"#),
            "delayed-retry-min is required when delayed-retry-type is all"
        );
        assert_eq!(
            told(r#"{"delayed-retry-min":6,"delayed-retry-max":5}"#),
            "delayed-retry-max (5) must not be smaller than delayed-retry-min (6)"
        );
        for of_plugins in ["federation-upstream-set", "shards-per-node"] {
            let told = told(&format!(r#"{{"{of_plugins}":"all"}}"#));
            assert!(told.contains("are not recognised policy settings"), "{told}");
        }
        let of_users = settings(r#"{"dead-letter-exchange":"x"}"#);
        assert!(check(&of_users, PolicyScope::Operator).is_err());
    }

    #[test]
    fn the_stricter_of_two_numbers_counts() {
        let of = |user: &str, operator: &str| {
            Value::Object(merged(&settings(user), &settings(operator))).to_string()
        };
        assert_eq!(
            of(r#"{"max-length":5,"overflow":"drop-head"}"#, "{}"),
            r#"{"max-length":5,"overflow":"drop-head"}"#
        );
        assert_eq!(
            of(r#"{"max-length":5}"#, r#"{"max-length":7,"expires":1}"#),
            r#"{"expires":1,"max-length":5}"#
        );
        assert_eq!(of(r#"{"max-length":9}"#, r#"{"max-length":7}"#), r#"{"max-length":7}"#);
        assert_eq!(
            of(r#"{"overflow":"drop-head"}"#, r#"{"overflow":"reject-publish"}"#),
            r#"{"overflow":"reject-publish"}"#
        );
        assert_eq!(
            of(r#"{"queue-version":1}"#, r#"{"queue-version":2}"#),
            r#"{"queue-version":2}"#
        );
        assert_eq!(
            of(r#"{"delivery-limit":-1}"#, r#"{"delivery-limit":5}"#),
            r#"{"delivery-limit":5}"#
        );
        assert_eq!(
            of(r#"{"delivery-limit":3}"#, r#"{"delivery-limit":5}"#),
            r#"{"delivery-limit":3}"#
        );
        assert_eq!(
            of(r#"{"target-group-size":3}"#, r#"{"target-group-size":5}"#),
            r#"{"target-group-size":5}"#
        );
        assert_eq!(
            of(
                r#"{"delayed-retry-type":"all","delayed-retry-min":3,"delayed-retry-max":9}"#,
                r#"{"delayed-retry-type":"failed","delayed-retry-min":2,"delayed-retry-max":7}"#
            ),
            r#"{"delayed-retry-max":7,"delayed-retry-min":3,"delayed-retry-type":"failed"}"#
        );
    }
}
