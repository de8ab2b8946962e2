//! The scenarios by name, with the parameters their sources give.

mod classic_queues;
mod confirm_on;
mod crowds;
mod features;
mod hot_path;
mod load_drain;
mod sweeps;

use crate::plan::{Plan, Scale};

/// What a scenario is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) scale: Scale,
    /// How long one fdatasync takes, microseconds.
    pub(crate) sync_us: Option<f64>,
}

/// A scenario to choose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) plan: fn(Settings) -> Plan,
    /// Whether it needs [`Settings::sync_us`].
    pub(crate) needs_sync: bool,
}

const fn known(name: &'static str, plan: fn(Settings) -> Plan) -> Known {
    Known { name, plan, needs_sync: false }
}

/// All of them, in the order of `--list`.
pub(crate) const ALL: &[Known] = &[
    Known { name: "hot-path", plan: hot_path::hot_path, needs_sync: true },
    Known { name: "limit", plan: hot_path::limit, needs_sync: true },
    known("features", features::features),
    known("sizes", sweeps::sizes),
    known("producers-x-sizes", sweeps::producers_x_sizes),
    known("prefetch-x-consumers", sweeps::prefetch_x_consumers),
    known("load-drain", load_drain::load_drain),
    known("classic-queues", classic_queues::classic_queues),
    known("confirm-on", confirm_on::confirm_on),
    known("many-queues", crowds::many_queues),
    known("many-connections", crowds::many_connections),
    known("churn", crowds::churn),
];

/// The scenario of that name.
pub(crate) fn by_name(name: &str) -> Option<&'static Known> {
    ALL.iter().find(|known| known.name == name)
}

#[cfg(test)]
mod tests;
