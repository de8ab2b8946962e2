//! The allowed dependencies between crates. One that is not allowed here is a design change: discuss
//! it, then change this table and ARCHITECTURE.md together.

use crate::repository::{self, Crate};

/// Crate, and what it may use directly; what those may use is allowed too.
const LAYERS: &[(&str, &[&str])] = &[
    ("stdx", &[]),
    ("api", &["stdx"]),
    ("tls", &["stdx"]),
    ("admission", &["stdx"]),
    ("command-help", &[]),
    ("counting", &[]),
    ("amqp091", &["stdx"]),
    ("amqp10", &["stdx"]),
    ("streamproto", &[]),
    ("sub-batch", &["streamproto"]),
    ("message", &["amqp091"]),
    ("conversion", &["amqp10", "message"]),
    ("pattern", &["stdx"]),
    ("routing", &["amqp10", "message", "pattern", "stdx"]),
    ("queue", &["message"]),
    ("meta", &["routing", "message"]),
    ("segments", &["stdx"]),
    ("log", &["segments"]),
    ("store", &["log", "message"]),
    ("queue-index", &["store"]),
    ("chunk-log", &["segments", "streamproto"]),
    ("session", &["message"]),
    ("background", &["segments"]),
    ("confirm", &["log", "session"]),
    ("message-store", &["store", "routing"]),
    ("queue-type", &["queue", "meta", "message-store", "confirm"]),
    ("content", &["queue-type", "background", "queue-index"]),
    ("delivery", &["content"]),
    ("classic", &["delivery", "conversion"]),
    ("stream", &["queue-type", "background", "chunk-log", "conversion", "sub-batch"]),
    ("quorum", &["delivery", "conversion"]),
    ("queues", &["classic", "quorum", "stream"]),
    ("exchanges", &["classic"]),
    ("control", &["queues", "exchanges"]),
    ("inspect", &["queues"]),
    ("undo", &["inspect"]),
    ("recovery", &["control"]),
    ("trace", &["queue-type", "conversion"]),
    ("broker", &["queues", "exchanges", "control", "inspect", "undo", "recovery", "trace"]),
    ("auth", &["meta"]),
    ("edge", &["session", "stdx"]),
    ("front-amqp091", &["conversion", "edge"]),
    ("front-stream", &["streamproto", "edge"]),
    ("front-amqp10", &["conversion", "edge"]),
    (
        "net",
        &["front-amqp091", "front-amqp10", "front-stream", "broker", "auth", "tls", "admission"],
    ),
    ("mgmt", &["api", "broker", "auth", "tls"]),
    ("metrics", &["mgmt"]),
    ("ui", &[]),
    ("client", &["amqp091", "streamproto", "tls"]),
    ("http", &["client", "metrics", "tls", "ui", "admission"]),
    ("ctl", &["api", "tls", "command-help"]),
    ("perf", &["client", "amqp10", "sub-batch", "command-help"]),
    ("bench", &["perf", "ui"]),
    ("node", &["net", "http", "ctl", "bench"]),
    ("testing", &["log", "meta", "session", "amqp10"]),
    ("sim", &["front-amqp091", "front-amqp10", "mgmt", "testing"]),
    ("instructions", &["front-amqp091", "queue", "routing", "conversion", "chunk-log", "testing"]),
    ("xtask", &[]),
];

/// Packages that bring sockets, files or threads.
const IO_PACKAGES: &[&str] = &["tokio", "socket2", "rustix", "axum"];

/// Crates that may use those, and read clocks.
pub(crate) const IO_CRATES: &[&str] = &[
    "segments", "log", "tls", "auth", "net", "mgmt", "http", "node", "ctl", "client", "perf",
    "bench", "testing", "sim",
];

/// Wake tasks, and so may use tokio; open nothing themselves.
const WAKES_TASKS: &[&str] = &["admission", "confirm", "queues", "control", "broker"];

/// The dependencies between crates that the table does not allow.
pub(crate) fn problems() -> anyhow::Result<Vec<String>> {
    let crates = repository::crates()?;
    let has_crate = |layer: &str| crates.iter().any(|it| it.name == layer);
    let empty = LAYERS.iter().filter(|(layer, _)| !has_crate(layer));
    let empty = empty.map(|(layer, _)| format!("the layer `{layer}` has no crate"));
    Ok(empty.chain(against_the_table(&crates)).collect())
}

fn against_the_table(crates: &[Crate]) -> Vec<String> {
    let mut problems = Vec::new();
    for Crate { name, uses, packages } in crates {
        if direct(name).is_none() {
            problems
                .push(format!("crates/{name} has no layer: add it to crates/xtask/src/layers.rs"));
        }
        for used in uses.iter().filter(|used| !may_use(name, used)) {
            problems.push(format!("`{name}` must not use `{used}`"));
        }
        let io = |package: &&String| IO_PACKAGES.contains(&package.as_str());
        for package in packages.iter().filter(io) {
            let wakes = WAKES_TASKS.contains(&name.as_str()) && package == "tokio";
            if !wakes && !IO_CRATES.contains(&name.as_str()) {
                problems.push(format!("`{name}` does no IO: it must not use `{package}`"));
            }
        }
    }
    problems
}

fn direct(name: &str) -> Option<&'static [&'static str]> {
    LAYERS.iter().find(|(layer, _)| *layer == name).map(|(_, uses)| *uses)
}

fn may_use(user: &str, used: &str) -> bool {
    direct(user).unwrap_or_default().iter().any(|next| *next == used || may_use(next, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_keeps_its_layers() {
        assert_eq!(problems().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_layer_uses_only_what_stands_above_it() {
        for (at, (layer, uses)) in LAYERS.iter().enumerate() {
            for used in *uses {
                let above = LAYERS.iter().position(|(name, _)| name == used).unwrap();
                assert!(above < at, "{layer} uses {used}, which stands below it");
            }
        }
    }

    #[test]
    fn forbidden_edges_are_found() {
        let one = |name: &str, uses: &[&str], packages: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            against_the_table(&[Crate {
                name: name.to_owned(),
                uses: owned(uses),
                packages: owned(packages),
            }])
        };
        assert_eq!(one("front-amqp091", &["session", "message", "stdx"], &["bytes"]), [""; 0]);
        assert_eq!(
            one("front-amqp091", &["broker"], &[]),
            ["`front-amqp091` must not use `broker`"]
        );
        assert_eq!(one("log", &["message"], &["rustix"]), ["`log` must not use `message`"]);
        assert_eq!(one("queue", &[], &["tokio"]), ["`queue` does no IO: it must not use `tokio`"]);
        assert_eq!(one("broker", &["log"], &["tokio"]), [""; 0]);
        assert_eq!(one("broker", &[], &["rustix"]).len(), 1);
        assert_eq!(one("helpers", &[], &[]).len(), 1);
    }
}
