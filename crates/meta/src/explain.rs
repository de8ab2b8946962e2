//! Reasons: where a queue's settings come from, why a policy counts or does not, what a policy would change.
//! Reads definitions, changes nothing, and decides nothing that [`QueueSettings`](crate::QueueSettings) does
//! not decide the same.

use std::cmp::Reverse;
use std::sync::Arc;

use routing::Name;
use serde_json::{Map, Value as Json};

use crate::definitions::table_to_json;
use crate::policies::Policies;
use crate::policy::{Policy, PolicyScope, Target};
use crate::queue::QueueDef;
use crate::setting::policy::suit;
use crate::setting::{Given, Precedence, SETTINGS, Setting};
use crate::state::State;
use crate::users::Users;
use crate::{Permission, Resource, ResourceKind, TopicUse};

stdx::named! {
    /// The place of a policy towards one queue or exchange.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Standing {
        /// The policy is in force: its settings count.
        InForce = "in force",
        /// The policy matches, but one of a higher priority, or of the same and an earlier name, counts.
        Outranked = "outranked by another matching policy",
        /// The policy's pattern does not match the name.
        OtherNames = "the pattern does not match the name",
        /// The policy is for other kinds of object.
        OtherKinds = "applies to other object types",
        /// The policy has a setting that the queue's type does not know.
        UnknownSetting = "has a setting that this queue type does not support",
    }
}

stdx::named! {
    /// The source of a setting.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Origin {
        /// An argument of the declaration.
        Argument = "argument",
        /// A policy of users.
        Policy = "policy",
        /// A policy of operators.
        OperatorPolicy = "operator policy",
    }
}

/// A setting of a queue that something was given for.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingSource {
    /// The name of the argument, without its `x-`, or the key of policies.
    pub name: &'static str,
    /// The value that counts.
    pub value: Json,
    /// The source of that value.
    pub origin: Origin,
    /// The values of an argument, a policy and an operator policy, as far as they are given.
    pub given: [Option<Json>; 3],
}

/// The change of an object's settings by a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyEffect {
    /// Whether the object is a queue; else it is an exchange.
    pub is_queue: bool,
    /// Its name.
    pub name: Name,
    /// The settings of policies in force before the change.
    pub before: Map<String, Json>,
    /// The settings of policies in force after the change.
    pub after: Map<String, Json>,
}

/// All policies, with their standing towards a queue: the one in force first.
#[must_use]
pub fn policy_standings<'p>(
    policies: &'p Policies,
    scope: PolicyScope,
    queue: &QueueDef,
) -> Vec<(&'p Arc<Policy>, Standing)> {
    let target = Target::Queue(queue.kind);
    let all = policies.iter(scope);
    let mut all: Vec<_> = all.map(|it| (it, it.standing(target, &queue.name))).collect();
    // Equals stay in the order of their names.
    all.sort_by_key(|(policy, standing)| {
        (*standing != Standing::InForce, Reverse(policy.spec.priority))
    });
    let matching = all.iter_mut().filter(|(_, standing)| *standing == Standing::InForce);
    matching.skip(1).for_each(|(_, standing)| *standing = Standing::Outranked);
    all
}

/// The settings that arguments or policies give a queue, and which of them counts.
#[must_use]
pub fn setting_sources(policies: &Policies, queue: &QueueDef) -> Vec<SettingSource> {
    let of = |scope| policies.of_queue(scope, queue).map(|policy| &policy.settings);
    let by_scope = [of(PolicyScope::User), of(PolicyScope::Operator)];
    let (policy, arguments) = (policies.settings_of_queue(queue), table_to_json(&queue.arguments));
    let queues = queue.kind.capabilities();
    let given = Given { queues, arguments: &queue.arguments, policy: &policy };
    let known = SETTINGS.iter().filter(|setting| setting.is_known_to(queues));
    known.filter_map(|setting| source(&given, setting, &arguments, by_scope)).collect()
}

impl Policy {
    /// The policy's standing if no other policy existed.
    fn standing(&self, target: Target, name: &str) -> Standing {
        match target {
            _ if self.applies(target, name) => Standing::InForce,
            _ if !self.covers(target) => Standing::OtherKinds,
            Target::Queue(kind) if !suit(kind.capabilities(), &self.settings) => {
                Standing::UnknownSetting
            }
            Target::Queue(_) | Target::Exchange => Standing::OtherNames,
        }
    }
}

/// The source of one setting; none if nothing is given.
fn source(
    given: &Given<'_>,
    setting: &Setting,
    arguments: &Json,
    by_scope: [Option<&Map<String, Json>>; 2],
) -> Option<SettingSource> {
    let (argument, key) = (setting.argument_name(), setting.policy_key());
    let name = key.or_else(|| argument?.strip_prefix("x-"))?;
    let argument = argument.and_then(|argument| arguments.get(argument));
    let policy = key.and_then(|key| given.policy.get(key));
    let [user, operator] = by_scope.map(|settings| settings?.get(key?));
    let fitting = argument.filter(|argument| setting.is_like(argument));
    let is_argument = fitting.is_some_and(|argument| {
        policy.is_none_or(|policy| goes_before(given.precedence(setting), argument, policy))
    });
    let (value, origin) = match (fitting, policy) {
        (Some(argument), _) if is_argument => (argument, Origin::Argument),
        (_, Some(policy)) if user == Some(policy) => (policy, Origin::Policy),
        (_, Some(policy)) => (policy, Origin::OperatorPolicy),
        (_, None) => return None,
    };
    let given = [argument, user, operator].map(Option::<&Json>::cloned);
    Some(SettingSource { name, value: value.clone(), origin, given })
}

fn goes_before(precedence: Precedence, argument: &Json, policy: &Json) -> bool {
    // A negative number is no limit.
    let number = |value: &Json| value.as_u64().unwrap_or(u64::MAX);
    match precedence {
        Precedence::Argument => true,
        Precedence::Policy => false,
        Precedence::Smaller => number(argument) <= number(policy),
    }
}

/// The objects of a virtual host whose settings are others `then`, queues first.
#[must_use]
pub fn policy_effects(now: &State, then: &State, vhost: &str) -> Vec<PolicyEffect> {
    let (Some(now), Some(then)) = (now.vhost(vhost), then.vhost(vhost)) else {
        return Vec::new();
    };
    let both = [&now.policies, &then.policies];
    let effect = |is_queue, name: &Name, [before, after]: [Map<String, Json>; 2]| {
        (before != after).then(|| PolicyEffect { is_queue, name: name.clone(), before, after })
    };
    let queues = now.queues().filter(|queue| !queue.is_internal()).filter_map(|queue| {
        effect(true, &queue.name, both.map(|policies| policies.settings_of_queue(queue)))
    });
    let exchanges = now.exchanges().filter_map(|exchange| {
        let name = &exchange.name;
        effect(false, name, both.map(|policies| policies.settings_of_exchange(name)))
    });
    queues.chain(exchanges).collect()
}

/// Why a user may do something to an exchange or a queue, or may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessReason {
    /// The user does not exist.
    NoUser,
    /// The user has no permissions in the virtual host.
    NoPermissions,
    /// The pattern of the operation matches the name, or does not.
    Pattern {
        /// The expression, as set.
        pattern: String,
        /// Whether the pattern matches the name.
        matches: bool,
    },
    /// The name may be used, and the pattern of topic permissions does not match the routing key.
    TopicRefused {
        /// The expression, as set.
        pattern: String,
    },
}

impl AccessReason {
    /// Whether the user may.
    pub const fn is_allowed(&self) -> bool {
        matches!(self, Self::Pattern { matches: true, .. })
    }
}

impl Users {
    /// Why a user may do this to an exchange or a queue or may not; of a topic exchange with this key.
    #[must_use]
    pub fn access_reason(
        &self,
        user: &str,
        permission: Permission,
        resource: &Resource,
        key: Option<&[u8]>,
    ) -> AccessReason {
        let Some(found) = self.get(user) else { return AccessReason::NoUser };
        let Some(permissions) = found.permissions_in(&resource.vhost) else {
            return AccessReason::NoPermissions;
        };
        let matches = self.check_access(user, permission, resource).is_ok();
        let at_exchange = |_: &&[u8]| matches && resource.kind == ResourceKind::Exchange;
        if let Some(key) = key.filter(at_exchange)
            && let Some(topics) = found.topic_permissions_at(&resource.vhost, &resource.name)
            && !self.may_topic(user, resource, TopicUse::of(permission, key))
        {
            let is_write = permission == Permission::Write;
            let pattern = if is_write { topics.write() } else { topics.read() };
            return AccessReason::TopicRefused { pattern: pattern.to_owned() };
        }
        let pattern = permissions.pattern(permission).as_str().to_owned();
        AccessReason::Pattern { pattern, matches }
    }
}
