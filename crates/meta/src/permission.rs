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
    /// As set.
    text: Box<str>,
    /// With the variables known from the start filled in.
    pattern: Pattern,
}

impl TopicPattern {
    fn new(text: &str, known: &[(&str, &str)]) -> Result<Self, MetaError> {
        let pattern = Pattern::for_permission(&expand(text, known))?;
        Ok(Self { text: text.into(), pattern })
    }

    /// Variables of a connection (`client_id`) are filled in here; that takes a compilation.
    fn matches(&self, key: &[u8], variables: &[(&str, &str)]) -> bool {
        match expand(self.pattern.as_str(), variables) {
            Cow::Borrowed(_) => self.pattern.matches(key),
            Cow::Owned(text) => {
                Pattern::for_permission(&text).is_ok_and(|pattern| pattern.matches(key))
            }
        }
    }
}

/// COMPAT: values are put into the expression as they are, not quoted.
fn expand<'t>(text: &'t str, variables: &[(&str, &str)]) -> Cow<'t, str> {
    let mut text = Cow::Borrowed(text);
    for (name, value) in variables {
        let placeholder = format!("{{{name}}}");
        if text.contains(&placeholder) {
            text = Cow::Owned(text.replace(&placeholder, value));
        }
    }
    text
}
