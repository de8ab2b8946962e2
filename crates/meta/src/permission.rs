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
        let known = [("username", user.as_str()), ("vhost", vhost.as_str())];
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

    pub(crate) fn allow(
        &self,
        permission: Permission,
        key: &[u8],
        variables: &[(&str, &str)],
    ) -> bool {
        match permission {
            Permission::Write => self.write.matches(key, variables),
            Permission::Read => self.read.matches(key, variables),
            // RabbitMQ stores no such expression; nobody asks.
            Permission::Configure => true,
        }
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
    fn new(text: &str, known: &[(&str, &str)]) -> Result<Self, MetaError> {
        let pattern = Pattern::for_permission(&expand(text, known))?;
        Ok(Self { text: text.into(), pattern })
    }

    /// Whether the key matches. Variables of a connection (`client_id`) are filled in here, at the cost of a
    /// compilation.
    fn matches(&self, key: &[u8], variables: &[(&str, &str)]) -> bool {
        match expand(self.pattern.as_str(), variables) {
            Cow::Borrowed(_) => self.pattern.matches(key),
            Cow::Owned(text) => {
                Pattern::for_permission(&text).is_ok_and(|pattern| pattern.matches(key))
            }
        }
    }
}

/// The text with `{name}` of each variable replaced by its value, quoted: in one pass, so that a value may be
/// called like a variable. Others that stand in brackets stay as they are.
fn expand<'t>(text: &'t str, variables: &[(&str, &str)]) -> Cow<'t, str> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once('{') {
        let value = variables.iter().find_map(|(name, value)| {
            Some((*value, inside.strip_prefix(name)?.strip_prefix('}')?))
        });
        out.push_str(before);
        match value {
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
        permissions.allow(Permission::Write, key.as_bytes(), &[("client_id", ".*")])
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
