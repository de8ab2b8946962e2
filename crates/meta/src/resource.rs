//! Resources as error texts name them, and the sorts of access to them.

use std::fmt;

use routing::Name;

stdx::named! {
    /// The sort of a named thing inside a virtual host.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ResourceKind {
        /// An exchange.
        Exchange = "exchange",
        /// A queue.
        Queue = "queue",
    }
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

stdx::named! {
    /// A sort of access.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Permission {
        /// Declaring and deleting.
        Configure = "configure",
        /// Publishing to an exchange, binding a queue.
        Write = "write",
        /// Consuming from a queue, binding to an exchange.
        Read = "read",
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}' in vhost '{}'", self.kind, self.name, self.vhost)
    }
}
