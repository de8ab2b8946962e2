//! Notifications of systemd (`Type=notify`): ready, alive, reloading, about to stop. They are lines in
//! a datagram to the socket that `NOTIFY_SOCKET` names, as sd_notify(3) describes them; without the
//! variable nothing is sent.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::time::{ClockId, clock_gettime};

/// The way to the service manager.
#[derive(Debug)]
pub(crate) struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// Whether the node is between `ready` and `stopping`. Other reloads are not told: their end says
    /// `READY=1`.
    is_ready: AtomicBool,
}

impl Notify {
    /// Makes the way to the socket of the environment. One that cannot be used counts as none.
    pub(crate) fn from_environment() -> Self {
        Self::to(std::env::var("NOTIFY_SOCKET").ok().as_deref())
    }

    fn to(name: Option<&str>) -> Self {
        let socket = name.and_then(address).zip(UnixDatagram::unbound().ok());
        let socket = socket.map(|(address, socket)| (socket, address));
        Self { socket, is_ready: AtomicBool::new(false) }
    }

    /// Tells that clients can connect.
    pub(crate) fn ready(&self, status: &str) {
        self.is_ready.store(true, Ordering::Relaxed);
        self.tell(&format!("READY=1\nSTATUS={status}\n"));
    }

    /// Tells that the node works, more often than the unit's `WatchdogSec`.
    pub(crate) fn alive(&self) {
        self.tell("WATCHDOG=1\n");
    }

    /// Reloads, and tells the beginning and the end of it. The time of the beginning is what
    /// `Type=notify-reload` asks for.
    pub(crate) fn reload(&self, reload: impl FnOnce()) {
        let is_told = self.is_ready.load(Ordering::Relaxed);
        if is_told {
            self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={}\n", monotonic_us()));
        }
        reload();
        if is_told {
            self.tell("READY=1\n");
        }
    }

    /// Tells that the node stops, for as long as that takes.
    pub(crate) fn stopping(&self) {
        self.is_ready.store(false, Ordering::Relaxed);
        self.tell("STOPPING=1\nSTATUS=stopping\n");
    }

    fn tell(&self, lines: &str) {
        if let Some((socket, address)) = &self.socket
            && let Err(error) = socket.send_to_addr(lines.as_bytes(), address)
        {
            tracing::debug!("cannot notify the service manager: {error}");
        }
    }
}

/// The time of the clock that the service manager compares with.
fn monotonic_us() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// The socket of a path, or of a name in the abstract namespace behind `@`.
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
        let heard = || {
            let mut received = [0; 100];
            let length = manager.recv(&mut received).unwrap();
            String::from_utf8_lossy(&received[..length]).into_owned()
        };
        let mut reloads = 0;
        notify.reload(|| reloads += 1);
        notify.ready("ready on port 1");
        assert_eq!(heard(), "READY=1\nSTATUS=ready on port 1\n", "a reload before is not told");
        notify.alive();
        assert_eq!(heard(), "WATCHDOG=1\n");
        let before_us = monotonic_us();
        notify.reload(|| reloads += 1);
        let reloading = heard();
        let began_us = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!((before_us..=monotonic_us()).contains(&began_us.trim_end().parse().unwrap()));
        assert_eq!(heard(), "READY=1\n");
        notify.stopping();
        notify.reload(|| reloads += 1);
        assert_eq!(heard(), "STOPPING=1\nSTATUS=stopping\n");
        manager.set_nonblocking(true).unwrap();
        assert!(manager.recv(&mut [0]).is_err(), "a reload behind it is not told");
        assert_eq!(reloads, 3);
    }

    #[test]
    fn without_a_manager_nothing_is_told() {
        let notify = Notify::to(None);
        assert!(notify.socket.is_none());
        notify.ready("x");
        assert!(address("relative").is_none() && address("@abstract").is_some());
    }
}
