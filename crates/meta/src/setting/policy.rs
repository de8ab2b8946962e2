//! The values a policy may set, RabbitMQ's texts for others, and how an operator's policy meets a user's.

use serde_json::{Map, Value};

use super::argument::age_ms;
use super::{
    RETRY_MAX_KEY, RETRY_MIN_KEY, RETRY_TYPE_KEY, SETTINGS, SHARDS_KEY, SHARDS_PER_NODE_MAX,
    SHARDS_ROUTING_KEY, Setting,
};
use crate::error::MetaError;
use crate::queue_type::QueueType;

/// The longest routing key, in bytes: the length of a short string of AMQP 0-9-1.
const ROUTING_KEY_BYTES_MAX: usize = 255;

/// The settings of a policy, by key.
pub(crate) type Settings = Map<String, Value>;

/// The scope of a policy: a user's or an operator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyScope {
    /// Users with the tag `policymaker`.
    User,
    /// Operators; merged over what users set.
    Operator,
}

/// A key that policies may set.
#[derive(Debug)]
pub(crate) struct PolicyRule {
    pub(super) values: PolicyValues,
    /// RabbitMQ's words in `... is not a valid ...`.
    meaning: &'static str,
    for_operators: bool,
    with_operators: Stricter,
    /// COMPAT: a policy that sets this applies to queues that do not know it too.
    suits_all_types: bool,
}

/// The values a key may have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PolicyValues {
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

/// The number that counts of a user's and an operator's; of anything else the operator's does.
#[derive(Clone, Copy, Debug)]
enum Stricter {
    Smaller,
    Larger,
    /// The smaller one, where a negative one is no limit.
    SmallerLimit,
    /// The operator's.
    Operators,
}

impl PolicyRule {
    pub(super) const fn new(values: PolicyValues, meaning: &'static str) -> Self {
        Self {
            values,
            meaning,
            for_operators: false,
            with_operators: Stricter::Smaller,
            suits_all_types: false,
        }
    }

    /// Lets operators set the key too; of two numbers the smaller counts.
    pub(super) const fn for_operators(self) -> Self {
        Self { for_operators: true, ..self }
    }

    /// Has the larger of two numbers count.
    pub(super) const fn larger_counts(self) -> Self {
        Self { with_operators: Stricter::Larger, ..self }
    }

    pub(super) const fn smaller_limit_counts(self) -> Self {
        Self { with_operators: Stricter::SmallerLimit, ..self }
    }

    pub(super) const fn operators_count(self) -> Self {
        Self { with_operators: Stricter::Operators, ..self }
    }

    pub(super) const fn suits_all_types(self) -> Self {
        Self { suits_all_types: true, ..self }
    }

    /// Operators' part in the key, in the words of the documentation.
    #[cfg(test)]
    pub(super) const fn for_documentation(&self) -> &'static str {
        match self.with_operators {
            _ if !self.for_operators => "no",
            _ if matches!(self.values, PolicyValues::Words(_)) => "the operator's",
            Stricter::Smaller => "the smaller number",
            Stricter::Larger => "the larger number",
            Stricter::SmallerLimit => "the smaller limit",
            Stricter::Operators => "the operator's",
        }
    }

    /// Whether a value is of the kind that the key has.
    pub(super) fn is_like(&self, value: &Value) -> bool {
        match self.values {
            PolicyValues::Flag => value.is_boolean(),
            PolicyValues::Text | PolicyValues::Words(_) | PolicyValues::Age => value.is_string(),
            PolicyValues::Integer
            | PolicyValues::AtLeast(_)
            | PolicyValues::Between(..)
            | PolicyValues::Numbers(_) => value.is_i64(),
        }
    }

    const fn is_for(&self, scope: PolicyScope) -> bool {
        match scope {
            PolicyScope::User => true,
            PolicyScope::Operator => self.for_operators,
        }
    }

    fn allows(&self, value: &Value) -> bool {
        let (number, text) = (value.as_i64(), value.as_str());
        match self.values {
            PolicyValues::Flag => value.is_boolean(),
            PolicyValues::Text => text.is_some(),
            PolicyValues::Integer => number.is_some(),
            PolicyValues::AtLeast(least) => number.is_some_and(|number| number >= least),
            PolicyValues::Between(least, most) => {
                number.is_some_and(|number| (least..=most).contains(&number))
            }
            PolicyValues::Numbers(numbers) => number.is_some_and(|n| numbers.contains(&n)),
            PolicyValues::Words(words) => text.is_some_and(|text| words.contains(&text)),
            PolicyValues::Age => text.is_some_and(|text| age_ms(text).is_some()),
        }
    }

    fn stricter<'v>(&self, of_user: &'v Value, of_operator: &'v Value) -> &'v Value {
        let (Some(user), Some(operator)) = (of_user.as_i64(), of_operator.as_i64()) else {
            return of_operator;
        };
        let users_counts = match self.with_operators {
            Stricter::Operators => false,
            Stricter::Larger => user > operator,
            Stricter::SmallerLimit if user < 0 || operator < 0 => user > operator,
            Stricter::Smaller | Stricter::SmallerLimit => user < operator,
        };
        if users_counts { of_user } else { of_operator }
    }
}

/// Whether policies of this scope may set the key.
pub(crate) fn is_known(key: &str, scope: PolicyScope) -> bool {
    find(key).is_some_and(|rule| rule.is_for(scope))
}

/// Refuses a definition with an unknown key, or a value its key cannot have.
pub(crate) fn check(settings: &Settings, scope: PolicyScope) -> Result<(), MetaError> {
    // COMPAT: the Erlang terms.
    let unknown: Vec<String> = settings
        .iter()
        .filter(|(key, _)| !is_known(key, scope))
        .map(|(key, value)| format!("{{<<\"{key}\">>,{}}}", term(value)))
        .collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        return Err(MetaError::Invalid(format!("[{unknown}] are not recognised policy settings")));
    }
    check_sharding(settings)?;
    for (key, value) in settings {
        if let Some(rule) = find(key).filter(|rule| !rule.allows(value)) {
            let reason = format!("{} is not a valid {}", term(value), rule.meaning);
            return Err(MetaError::Invalid(reason));
        }
    }
    check_delayed_retry(settings)
}

/// Refuses what is no sharding. COMPAT: the texts of RabbitMQ's plugin, which knows no upper limits.
fn check_sharding(settings: &Settings) -> Result<(), MetaError> {
    let (shards, most) = (SHARDS_KEY, SHARDS_PER_NODE_MAX);
    let (given, key) = (settings.get(SHARDS_KEY), settings.get(SHARDS_ROUTING_KEY));
    let key_bytes = key.and_then(Value::as_str).map(str::len);
    let reason = match (given, given.and_then(Value::as_i64), key) {
        (None, _, None) => return Ok(()),
        (None, _, Some(_)) => format!("{shards} must be specified"),
        (Some(given), None, _) => {
            format!("{shards} should be a number, actually was {}", term(given))
        }
        (_, Some(n), _) if n < 0 => {
            format!("{shards} should be greater than 0, actually was {n}")
        }
        (_, Some(n), _) if n > most => {
            format!("{shards} should be at most {most}, actually was {n}")
        }
        (.., Some(key)) if !key.is_string() => {
            format!("{SHARDS_ROUTING_KEY} should be binary, actually was {}", term(key))
        }
        _ if key_bytes.is_some_and(|n| n > ROUTING_KEY_BYTES_MAX) => {
            format!("{SHARDS_ROUTING_KEY} should have at most {ROUTING_KEY_BYTES_MAX} bytes")
        }
        _ => return Ok(()),
    };
    Err(MetaError::Invalid(reason))
}

/// Refuses a delayed retry without its shortest delay, or with a longest one that is shorter.
fn check_delayed_retry(settings: &Settings) -> Result<(), MetaError> {
    let (on, min, max) = (RETRY_TYPE_KEY, RETRY_MIN_KEY, RETRY_MAX_KEY);
    let number = |key| settings.get(key).and_then(Value::as_i64);
    let kind = settings.get(on).and_then(Value::as_str).filter(|kind| *kind != "disabled");
    let reason = match (kind, number(min), number(max)) {
        (Some(kind), None, _) => format!("{min} is required when {on} is {kind}"),
        (_, Some(least), Some(most)) if most < least => {
            format!("{max} ({most}) must not be smaller than {min} ({least})")
        }
        _ => return Ok(()),
    };
    Err(MetaError::Invalid(reason))
}

/// Whether a policy with these settings applies to queues of this type. COMPAT: one with a setting that the
/// type does not know applies to none of its queues.
pub(crate) fn suit(queues: &QueueType, settings: &Settings) -> bool {
    let keeps_away = |(setting, rule): (&Setting, &PolicyRule)| {
        !setting.is_known_to(queues) && !rule.suits_all_types
    };
    !settings.keys().any(|key| find_setting(key).is_some_and(keeps_away))
}

/// The settings of a user's and an operator's policy, as one.
pub(crate) fn merged(by_user: &Settings, by_operator: &Settings) -> Settings {
    let mut merged = by_user.clone();
    for (key, of_operator) in by_operator {
        let value = match (by_user.get(key), find(key)) {
            (Some(of_user), Some(rule)) => rule.stricter(of_user, of_operator).clone(),
            _ => of_operator.clone(),
        };
        merged.insert(key.clone(), value);
    }
    merged
}

fn find(key: &str) -> Option<&'static PolicyRule> {
    find_setting(key).map(|(_, rule)| rule)
}

fn find_setting(key: &str) -> Option<(&'static Setting, &'static PolicyRule)> {
    SETTINGS.iter().find_map(|setting| {
        let (name, rule) = setting.policy.as_ref()?;
        (*name == key).then_some((*setting, rule))
    })
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
            r#"{"max-age":"0D"}"#,
            r#"{"max-age":"1Y2M"}"#,
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
        for of_plugins in ["federation-upstream-set", "ha-mode"] {
            let told = told(&format!(r#"{{"{of_plugins}":"all"}}"#));
            assert!(told.contains("are not recognised policy settings"), "{told}");
        }
        assert_eq!(told(r#"{"shards-per-node":0,"routing-key":""}"#), "fine");
        assert_eq!(told(r#"{"shards-per-node":1000}"#), "fine");
        assert_eq!(told(r#"{"routing-key":"k"}"#), "shards-per-node must be specified");
        for (shards, text) in [
            ("-1", "greater than 0, actually was -1"),
            ("1001", "at most 1000, actually was 1001"),
            ("\"x\"", "a number, actually was <<\"x\">>"),
            ("1.5", "a number, actually was 1.5"),
        ] {
            let told = told(&format!(r#"{{"shards-per-node":{shards},"routing-key":5}}"#));
            assert_eq!(told, format!("shards-per-node should be {text}"));
        }
        assert_eq!(
            told(r#"{"shards-per-node":1,"routing-key":5}"#),
            "routing-key should be binary, actually was 5"
        );
        let long = format!(r#"{{"shards-per-node":1,"routing-key":"{}"}}"#, "k".repeat(256));
        assert_eq!(told(&long), "routing-key should have at most 255 bytes");
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
