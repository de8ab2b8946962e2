//! The open connections of each container of AMQP 1.0, counted: a client that is to be its container's only
//! connection is not compared with all others.

use super::Identity;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Mutex;

/// A virtual host and a container id.
type Key = (Box<str>, Box<str>);

/// Numbers of open connections.
#[derive(Debug, Default)]
pub(super) struct Containers(Mutex<BTreeMap<Key, usize>>);

impl Containers {
    /// Counts a connection; false if it is to be the only one of its container and another one is there.
    pub(super) fn try_join(&self, identity: &Identity) -> bool {
        let Some(container) = &identity.login.container else { return true };
        let mut counts = stdx::lock(&self.0);
        let n = counts.entry(key(identity, &container.id)).or_default();
        let may_join = !container.is_sole || *n == 0;
        *n += usize::from(may_join);
        may_join
    }

    /// Counts a connection no longer.
    pub(super) fn leave(&self, identity: &Identity) {
        let Some(id) = identity.login.container_id() else { return };
        let mut counts = stdx::lock(&self.0);
        if let Entry::Occupied(mut n) = counts.entry(key(identity, id)) {
            *n.get_mut() -= 1;
            if *n.get() == 0 {
                n.remove();
            }
        }
    }
}

fn key(identity: &Identity, container_id: &str) -> Key {
    (identity.vhost.as_str().into(), container_id.into())
}

#[cfg(test)]
mod tests {
    use super::super::{Connections, Container, Login};
    use super::*;

    #[test]
    fn a_sole_connection_is_refused_while_its_container_has_another_one() {
        let connections = Connections::default();
        let open = |vhost: &str, id: &str, is_sole| {
            let container = Some(Box::new(Container { id: id.into(), is_sole }));
            let login = Login { container, ..Login::default() };
            connections.open(Identity { vhost: vhost.to_owned(), login, ..Identity::default() })
        };
        let first = open("/", "a", true).unwrap();
        assert!(open("/", "a", true).is_none());
        let (other_host, other_id) = (open("v", "a", true).unwrap(), open("/", "b", true).unwrap());
        let second = open("/", "a", false).unwrap();
        connections.close(first.id);
        assert!(open("/", "a", true).is_none(), "the second one is there");
        for id in [second.id, other_host.id, other_id.id] {
            connections.close(id);
        }
        assert!(stdx::lock(&connections.containers.0).is_empty(), "nothing is left behind");
        assert!(open("/", "a", true).is_some());
    }
}
