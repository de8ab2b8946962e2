//! Permissions of users in virtual hosts.

use std::borrow::Cow;

use routing::Name;

use crate::error::MetaError;
use crate::pattern::Pattern;
use crate::resource::Permission;

/// A user's permissions in one virtual host, by the names of exchanges and queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Names the user may declare and delete.
    pub configure: Pattern,
    /// Names the user may write to.
    pub write: Pattern,
    /// Names the user may read from.
    pub read: Pattern,
}

impl Permissions {
    pub(crate) fn allow(&self, permission: Permission, name: &str) -> bool {
        self.pattern(permission).matches(name.as_bytes())
    }

    pub(crate) const fn pattern(&self, permission: Permission) -> &Pattern {
        match permission {
            Permission::Configure => &self.configure,
            Permission::Write => &self.write,
            Permission::Read => &self.read,
        }
    }
}

/// A user's permissions at one exchange, by routing keys.
#[derive(Clone, Copy, Debug)]
pub struct TopicGrant<'s> {
    /// The user.
    pub user: &'s Name,
    /// The virtual host of the exchange.
    pub vhost: &'s Name,
    /// The exchange.
    pub exchange: &'s Name,
    /// The permissions.
    pub permissions: &'s TopicPermissions,
}

/// The use of a routing key, which topic permissions allow or refuse.
#[derive(Clone, Copy, Debug)]
pub struct TopicUse<'a> {
    /// The permission that it takes.
    pub permission: Permission,
    /// The routing key.
    pub key: &'a [u8],
    /// The client's name for itself, which `{client_id}` stands for, if its protocol has one.
    pub client_id: Option<&'a str>,
}

impl<'a> TopicUse<'a> {
    /// The use of a routing key over a protocol whose clients have no names.
    pub const fn of(permission: Permission, key: &'a [u8]) -> Self {
        Self { permission, key, client_id: None }
    }
}

/// The routing keys that a user may use at one exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPermissions {
    write: TopicPattern,
    read: TopicPattern,
}

impl TopicPermissions {
    /// Compiles the expressions; `{username}` and `{vhost}` in them stand for these.
    pub(crate) fn new(
        user: &Name,
        vhost: &Name,
        write: &str,
        read: &str,
    ) -> Result<Self, MetaError> {
        let known = [Variable::new("username", user), Variable::new("vhost", vhost)];
        let write = TopicPattern::new(write, &known)?;
        let read = TopicPattern::new(read, &known)?;
        Ok(Self { write, read })
    }

    /// The expression for publishing, as set.
    pub fn write(&self) -> &str {
        &self.write.text
    }

    /// The expression for binding, as set.
    pub fn read(&self) -> &str {
        &self.read.text
    }

    pub(crate) fn allow(&self, it: TopicUse<'_>) -> bool {
        match it.permission {
            Permission::Write => self.write.matches(it),
            Permission::Read => self.read.matches(it),
            // RabbitMQ stores no such expression; nobody asks.
            Permission::Configure => true,
        }
    }
}

/// A variable of expressions, and its value.
struct Variable<'a> {
    name: &'static str,
    value: &'a str,
}

impl<'a> Variable<'a> {
    const fn new(name: &'static str, value: &'a str) -> Self {
        Self { name, value }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TopicPattern {
    /// The expression, as set.
    text: Box<str>,
    /// The compiled expression, with the variables known from the start filled in.
    pattern: Pattern,
}

impl TopicPattern {
    fn new(text: &str, known: &[Variable<'_>]) -> Result<Self, MetaError> {
        let pattern = Pattern::for_permission(&expand(text, known))?;
        Ok(Self { text: text.into(), pattern })
    }

    /// Whether the key matches. The client's name is filled in here, at the cost of a compilation.
    fn matches(&self, it: TopicUse<'_>) -> bool {
        let client_id = it.client_id.map(|value| Variable::new("client_id", value));
        match expand(self.pattern.as_str(), client_id.as_slice()) {
            Cow::Borrowed(_) => self.pattern.matches(it.key),
            Cow::Owned(text) => {
                Pattern::for_permission(&text).is_ok_and(|pattern| pattern.matches(it.key))
            }
        }
    }
}

/// The text with `{name}` of each variable replaced by its value, quoted: in one pass, so that a value may be
/// called like a variable. Others that stand in brackets stay as they are.
fn expand<'t>(text: &'t str, variables: &[Variable<'_>]) -> Cow<'t, str> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once('{') {
        let known = variables.iter().find_map(|Variable { name, value }| {
            Some((value, inside.strip_prefix(name)?.strip_prefix('}')?))
        });
        out.push_str(before);
        match known {
            Some((value, behind)) => {
                out.push_str(&pattern::quote(value));
                rest = behind;
            }
            None => {
                out.push('{');
                rest = inside;
            }
        }
    }
    if out.len() + rest.len() == text.len() && text.starts_with(&out) {
        return Cow::Borrowed(text);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_write(user: &str, vhost: &str, pattern: &str, key: &str) -> bool {
        let permissions = TopicPermissions::new(&user.into(), &vhost.into(), pattern, "").unwrap();
        assert_eq!(permissions.write(), pattern);
        let (permission, key) = (Permission::Write, key.as_bytes());
        permissions.allow(TopicUse { permission, key, client_id: Some(".*") })
    }

    #[test]
    fn what_variables_stand_for_is_no_expression() {
        for name in [
            ".*",
            "a|b",
            "tom.y",
            "x(",
            "a+b",
            "[",
            "\\Q",
            "{vhost}",
            "{client_id}",
            "{username}",
            "é #",
        ] {
            let of = |pattern: &str, key: &str| may_write(name, "v", pattern, key);
            assert!(of("^{username}\\.", &format!("{name}.x")), "{name}");
            assert!(of("^({username}|{vhost})$", "v") && of("^[{username}]+$", name), "{name}");
            for key in ["victim.x", "a.x", "tomzy.x", "v.x", ".x"] {
                assert!(!of("^{username}\\.", key), "{name}: {key}");
            }
            assert!(of("^{client_id}$", ".*") && !of("^{client_id}$", "x"));
        }
        assert!(may_write("u", "v", "^{nobody}a{2}$", "{nobody}aa"));
        assert!(may_write("{2}", "v", "^a{username}$", "a{2}"));
    }
}
