//! How much clients may use at a time: limits of the node, of virtual hosts and of users. The texts are
//! RabbitMQ's.

use crate::broker::Broker;
use crate::connections::Identity;
use control::View;
use meta::limit_reached;
use session::{Error, ErrorKind};

fn limit_is_reached(text: String) -> Error {
    Error::new(ErrorKind::LimitReached, text)
}

/// Whether the user may open a connection to the virtual host.
pub(crate) fn check_connection(
    broker: &Broker,
    view: &View,
    identity: &Identity,
) -> Result<(), Error> {
    let Identity { vhost, user, .. } = identity;
    let Some(known) = view.meta.vhost(vhost) else {
        return Err(Error::new(ErrorKind::VhostNotFound, format!("vhost {vhost} not found")));
    };
    let count = |which: &dyn Fn(&Identity) -> bool| {
        broker.connections.list().iter().filter(|one| which(&one.identity)).count()
    };
    let of_vhost = || count(&|one| one.vhost == *vhost);
    if let Some(limit) = limit_reached(known.limits.max_connections, of_vhost) {
        return Err(limit_is_reached(format!(
            "access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached"
        )));
    }
    let limit = view.meta.user(user).and_then(|user| user.limits.max_connections);
    if let Some(limit) = limit_reached(limit, || count(&|one| one.user == *user)) {
        return Err(limit_is_reached(format!(
            "connection refused for user '{user}': user connection limit ({limit}) is reached"
        )));
    }
    check_entry(view, user, vhost)
}

/// The refusal of a client that is to be the only one of its container.
pub(super) fn container_is_taken() -> Error {
    let text = "another connection has the container id";
    Error::new(ErrorKind::ResourceLocked, text)
}

/// Whether the virtual host is open to the user.
pub(crate) fn check_entry(view: &View, user: &str, vhost: &str) -> Result<(), Error> {
    if view.meta.users().may_enter(user, vhost) {
        return Ok(());
    }
    let text = format!("access to vhost '{vhost}' refused for user '{user}'");
    Err(Error::new(ErrorKind::VhostRefused, text))
}

/// Whether the user may open one more channel.
pub(crate) fn check_channel(broker: &Broker, view: &View, user: &str) -> Result<(), Error> {
    let count = |which: &dyn Fn(&Identity) -> bool| {
        let list = broker.connections.list();
        let concerned = list.iter().filter(|one| which(&one.identity));
        concerned.map(|one| one.n_channels()).sum::<usize>()
    };
    let limit = view.meta.user(user).and_then(|user| user.limits.max_channels);
    if let Some(limit) = limit_reached(limit, || count(&|one| one.user == user)) {
        return Err(limit_is_reached(format!(
            "number of channels opened for user '{user}' has reached the maximum allowed user limit of {limit}"
        )));
    }
    let limits = broker.limits();
    if let Some(limit) = limit_reached(limits.channels, || count(&|_| true)) {
        let node = &limits.node;
        return Err(limit_is_reached(format!(
            "number of channels opened on node '{node}' has reached the maximum allowed limit of {limit}"
        )));
    }
    Ok(())
}

/// Whether a channel may have one more consumer than `n_consumers`.
pub(crate) fn check_consumers(broker: &Broker, n_consumers: usize) -> Result<(), Error> {
    match limit_reached(broker.limits().consumers_per_channel, || n_consumers) {
        Some(limit) => {
            Err(limit_is_reached(format!("reached maximum ({limit}) of consumers per channel")))
        }
        None => Ok(()),
    }
}
