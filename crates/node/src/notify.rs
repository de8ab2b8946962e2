//! What systemd is told of a node (`Type=notify`): that it is ready, alive, about to stop. Lines in a datagram to
//! the socket that `NOTIFY_SOCKET` names, as sd_notify(3) describes them; without the variable nothing is done.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The way to the service manager.
#[derive(Debug)]
pub(crate) struct Notify(Option<(UnixDatagram, SocketAddr)>);

impl Notify {
    /// As the environment says. A socket that cannot be used counts as none: the node runs without.
    pub(crate) fn from_environment() -> Self {
        Self::to(std::env::var("NOTIFY_SOCKET").ok().as_deref())
    }

    fn to(name: Option<&str>) -> Self {
        let address = name.and_then(address);
        Self(address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address))))
    }

    /// Clients can connect.
    pub(crate) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}\n"));
    }

    /// The node does its work. To be told more often than the unit's `WatchdogSec`.
    pub(crate) fn alive(&self) {
        self.tell("WATCHDOG=1\n");
    }

    /// The node ends, and takes the time it needs for that.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=stopping\n");
    }

    fn tell(&self, lines: &str) {
        if let Some((socket, address)) = &self.0
            && let Err(error) = socket.send_to_addr(lines.as_bytes(), address)
        {
            tracing::debug!("the service manager cannot be told: {error}");
        }
    }
}

/// A path, or a name in the abstract namespace behind `@`.
fn address(name: &str) -> Option<SocketAddr> {
    match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name).ok(),
        None if name.starts_with('/') => SocketAddr::from_pathname(name).ok(),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_hears_each_step() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let notify = Notify::to(path.to_str());
        notify.ready("ready on port 1");
        notify.alive();
        notify.stopping();
        for expected in
            ["READY=1\nSTATUS=ready on port 1\n", "WATCHDOG=1\n", "STOPPING=1\nSTATUS=stopping\n"]
        {
            let mut received = [0; 100];
            let length = manager.recv(&mut received).unwrap();
            assert_eq!(String::from_utf8_lossy(&received[..length]), expected);
        }
    }

    #[test]
    fn without_a_manager_nothing_is_told() {
        let notify = Notify::to(None);
        assert!(notify.0.is_none());
        notify.ready("x");
        assert!(address("relative").is_none() && address("@abstract").is_some());
    }
}
