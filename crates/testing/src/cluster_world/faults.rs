//! The faults of a world.

use super::hosts::Hosts;
use crate::memory_disk::Fault as DiskFault;
use crate::net::{Death, Role, Speed};

/// Disk operations within which a planned loss of power comes.
const POWER_LOSS_WITHIN: usize = 40;
/// The speed of slow connections.
const SLOW_BYTES_PER_S: u64 = 2000;

/// A fault that happens to a random node, pair of nodes or connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process dies.
    Kill,
    /// A machine loses power.
    PowerLoss,
    /// A machine loses power in the middle of one of its next disk operations.
    PowerLossLater,
    /// Several machines lose power at once.
    PowerLossOfSome,
    /// A process stands still for a while.
    Freeze,
    /// A time of day jumps.
    Jump,
    /// Two nodes are cut off from each other.
    Cut,
    /// Nothing goes from one node to another, but in the other direction.
    OneWayCut,
    /// A node is cut off from all others.
    Isolate,
    /// All cuts and delays end.
    Heal,
    /// A connection is lost, and one end perhaps learns of it late.
    Loss,
    /// A connection takes bytes and delivers none.
    Stick,
    /// A connection is slow.
    Slow,
}

impl Fault {
    /// All faults; cuts heal more often than they happen.
    pub const ALL: [Self; 15] = [
        Self::Kill,
        Self::PowerLoss,
        Self::PowerLossLater,
        Self::PowerLossOfSome,
        Self::Freeze,
        Self::Jump,
        Self::Cut,
        Self::OneWayCut,
        Self::Isolate,
        Self::Heal,
        Self::Heal,
        Self::Heal,
        Self::Loss,
        Self::Stick,
        Self::Slow,
    ];
}

/// Has a random one of the world's faults happen.
pub(super) fn strike<N>(hosts: &mut Hosts<N>) {
    let options = hosts.options();
    let Some(fault) = hosts.random.choose(&options.faults) else { return };
    let at = hosts.any_address();
    match fault {
        Fault::Kill => hosts.crash(at, Death::Process),
        Fault::PowerLoss => hosts.crash(at, Death::Machine),
        Fault::PowerLossLater => {
            let after = hosts.random.below(POWER_LOSS_WITHIN) as u64;
            let disk = &hosts.host_mut(at).disk;
            let operation = disk.operations() + after;
            disk.inject(operation, DiskFault::PowerLoss);
            hosts.note(format!("planned: {at} loses power at disk operation {operation}"));
        }
        Fault::PowerLossOfSome => {
            for at in hosts.addresses() {
                if hosts.random.percent(70) {
                    hosts.crash(at, Death::Machine);
                }
            }
        }
        Fault::Freeze => hosts.freeze(at),
        Fault::Jump => {
            let by_ms = hosts.some_skew_ms();
            hosts.host_mut(at).clock.jump(by_ms);
            hosts.note(format!("the clock of {at} jumps by {by_ms} ms"));
        }
        Fault::Cut | Fault::OneWayCut | Fault::Isolate => cut(hosts, fault),
        Fault::Heal => {
            hosts.note("the network heals");
            hosts.net.heal(hosts.now_ms());
        }
        Fault::Loss | Fault::Stick | Fault::Slow => harm_connection(hosts, fault),
    }
}

fn cut<N>(hosts: &mut Hosts<N>, fault: Fault) {
    let (at, other) = (hosts.any_address(), hosts.any_address());
    hosts.note(format!("{fault:?}: {at}, {other}"));
    let others = hosts.addresses().filter(|peer| *peer == other || fault == Fault::Isolate);
    for peer in others.filter(|peer| *peer != at) {
        hosts.net.cut(at, peer);
        if fault != Fault::OneWayCut {
            hosts.net.cut(peer, at);
        }
    }
}

fn harm_connection<N>(hosts: &mut Hosts<N>, fault: Fault) {
    let Some(connection) = hosts.random.choose(&hosts.net.connections()) else { return };
    hosts.note(format!("{fault:?}: {connection:?}"));
    if fault == Fault::Loss {
        let late = hosts.random.choose(&[None, Some(Role::Dialler), Some(Role::Acceptor)]);
        hosts.net.lose(hosts.now_ms(), connection, late.flatten());
    } else {
        let slow = Speed::Slow { bytes_per_s: SLOW_BYTES_PER_S };
        let speed = if fault == Fault::Slow { slow } else { Speed::Stuck };
        hosts.net.set_speed(connection, speed);
    }
}
