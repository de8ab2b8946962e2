//! Policies: settings that apply to exchanges and queues by name.

use routing::Name;
use serde_json::{Map, Value};

use crate::error::MetaError;
use crate::parameter::Json;
use crate::pattern::Pattern;
pub use crate::queue_type::ApplyTo;
use crate::queue_type::QueueKind;
use crate::setting::policy;
pub use crate::setting::policy::PolicyScope;

/// The longest name of a queue or exchange, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// The most steps of an irregular expression for a name: declaring a queue waits for all policies.
const STEPS_MAX: usize = 4_000;
/// The cost of one policy's expression for the longest name, in [`pattern::Pattern::steps`]: some 0.2 ms.
pub(crate) const POLICY_STEPS_MAX: usize = 256 * 1024;
/// The cost of all expressions of a virtual host's policies, in the same steps: some 40 ms at worst.
pub(crate) const ALL_POLICIES_STEPS_MAX: usize = 64 * 1024 * 1024;

/// A policy as it is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySpec {
    /// Its name.
    pub name: Name,
    /// Regular expression over the names it applies to.
    pub pattern: String,
    /// The kinds of object it applies to.
    pub apply_to: ApplyTo,
    /// A JSON object of settings.
    pub definition: Json,
    /// The priority: of several policies that match, the one with the highest applies.
    pub priority: i64,
}

/// A policy that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The policy as it was set.
    pub spec: PolicySpec,
    pattern: Pattern,
    /// The policy's settings, by key.
    pub settings: Map<String, Value>,
}

/// The kind of object that a policy is looked up for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Exchange,
    Queue(QueueKind),
}

impl PolicySpec {
    /// Refuses settings that are unknown or cannot be.
    pub(crate) fn check(&self, scope: PolicyScope) -> Result<(), MetaError> {
        policy::check(&self.settings()?, scope)
    }

    /// Whether there is a setting of that name.
    pub(crate) fn is_known_setting(key: &str, scope: PolicyScope) -> bool {
        policy::is_known(key, scope)
    }

    fn settings(&self) -> Result<Map<String, Value>, MetaError> {
        let Value::Object(settings) = self.definition.value() else {
            let text = format!("definition must be a dictionary: {}", self.definition);
            return Err(MetaError::Invalid(text));
        };
        if settings.is_empty() {
            return Err(MetaError::Invalid("no policy provided".to_owned()));
        }
        Ok(settings)
    }
}

impl Policy {
    /// Reads a policy and compiles its pattern.
    pub(crate) fn new(spec: &PolicySpec) -> Result<Self, MetaError> {
        let settings = spec.settings()?;
        Ok(Self { pattern: Pattern::new(&spec.pattern)?, settings, spec: spec.clone() })
    }

    pub(crate) fn applies(&self, target: Target, name: &str) -> bool {
        let suits = match target {
            Target::Exchange => true,
            Target::Queue(kind) => policy::suit(kind.capabilities(), &self.settings),
        };
        let matches = || self.pattern.matches_within(name.as_bytes(), STEPS_MAX);
        self.covers(target) && suits && matches()
    }

    /// The steps that the longest name takes at most.
    pub(crate) fn steps(&self) -> usize {
        self.pattern.compiled().steps_within(NAME_BYTES_MAX, STEPS_MAX)
    }

    /// Whether the policy is for objects of this kind.
    pub(crate) fn covers(&self, target: Target) -> bool {
        match target {
            Target::Exchange => self.spec.apply_to.covers_exchanges(),
            Target::Queue(kind) => self.spec.apply_to.covers(kind),
        }
    }
}

/// The settings of the policies in force, a user's and an operator's as one.
pub(crate) fn in_force(
    by_user: Option<&Policy>,
    by_operator: Option<&Policy>,
) -> Map<String, Value> {
    match (by_user, by_operator) {
        (None, None) => Map::new(),
        (Some(only), None) | (None, Some(only)) => only.settings.clone(),
        (Some(user), Some(operator)) => policy::merged(&user.settings, &operator.settings),
    }
}
