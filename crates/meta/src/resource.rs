//! Resources as error texts name them, and the sorts of access to them.

use std::fmt;

use routing::Name;

/// The sort of a named thing inside a virtual host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    /// An exchange.
    Exchange,
    /// A queue.
    Queue,
}

/// A named thing inside a virtual host; prints as RabbitMQ does: `queue 'q' in vhost '/'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its sort.
    pub kind: ResourceKind,
    /// Its name.
    pub name: Name,
    /// Its virtual host.
    pub vhost: Name,
}

impl Resource {
    /// An exchange.
    #[must_use]
    pub fn exchange(vhost: &Name, name: &Name) -> Self {
        Self { kind: ResourceKind::Exchange, name: name.clone(), vhost: vhost.clone() }
    }

    /// A queue.
    #[must_use]
    pub fn queue(vhost: &Name, name: &Name) -> Self {
        Self { kind: ResourceKind::Queue, name: name.clone(), vhost: vhost.clone() }
    }
}

/// A sort of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Declaring and deleting.
    Configure,
    /// Publishing to an exchange, binding a queue.
    Write,
    /// Consuming from a queue, binding to an exchange.
    Read,
}

impl Permission {
    /// The word used in error texts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Configure => "configure",
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exchange => "exchange",
            Self::Queue => "queue",
        })
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}' in vhost '{}'", self.kind, self.name, self.vhost)
    }
}
