//! The scenarios by name, with the parameters their sources give.

mod bystander;
mod classic_queues;
mod confirm_on;
mod crowds;
mod features;
mod hot_path;
mod latency;
mod load_drain;
mod real_clients;
mod sharding;
mod stream_chunks;
mod streams;
mod sweeps;

use crate::plan::{Plan, Scale};
pub(crate) use confirm_on::{MODES, Mode};

/// The settings a scenario is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) scale: Scale,
    /// Seconds of a row, for scenarios whose time does not come from a source.
    pub(crate) seconds: Option<f64>,
}

/// A scenario to choose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) plan: fn(Settings) -> Plan,
}

const fn known(name: &'static str, plan: fn(Settings) -> Plan) -> Known {
    Known { name, plan }
}

/// All of them, in the order of `--list`.
pub(crate) const ALL: &[Known] = &[
    known("real-clients", real_clients::real_clients),
    known("latency", latency::latency),
    known("hot-path", hot_path::hot_path),
    known("limit", hot_path::limit),
    known("bystander", bystander::bystander),
    known("features", features::features),
    known("sizes", sweeps::sizes),
    known("producers-x-sizes", sweeps::producers_x_sizes),
    known("prefetch-x-consumers", sweeps::prefetch_x_consumers),
    known("fan-out-x-prefetch", sweeps::fan_out_x_prefetch),
    known("load-drain", load_drain::load_drain),
    known("classic-queues", classic_queues::classic_queues),
    known("confirm-on", confirm_on::confirm_on),
    known("sharding", sharding::sharding),
    known("stream-chunks", stream_chunks::stream_chunks),
    known("streams", streams::streams),
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
