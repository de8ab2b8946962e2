//! The dependencies between crates, held against `layers.txt`.

use std::str::SplitWhitespace;

use crate::repository::{self, Crate};

/// A line for each crate: `crate: what it may use directly`.
const LAYERS: &str = include_str!("../layers.txt");

/// Packages that bring sockets, files or threads.
const IO_PACKAGES: &[&str] = &["tokio", "socket2", "rustix", "axum"];

/// Crates that may use those, and read clocks.
pub(crate) const IO_CRATES: &[&str] = &[
    "segments", "log", "tls", "auth", "net", "mgmt", "http", "node", "ctl", "client", "perf",
    "bench", "testing", "sim",
];

/// Wake tasks, and so may use tokio; open nothing themselves.
const WAKES_TASKS: &[&str] = &["admission", "confirm", "remote", "queues", "control", "broker"];

/// The dependencies between crates that the table does not allow.
pub(crate) fn problems() -> anyhow::Result<Vec<String>> {
    let crates = repository::crates()?;
    let has_crate = |layer: &str| crates.iter().any(|it| it.name == layer);
    let empty = layers().filter(|(layer, _)| !has_crate(layer));
    let empty = empty.map(|(layer, _)| format!("the layer `{layer}` has no crate"));
    Ok(empty.chain(against_the_table(&crates)).collect())
}

fn against_the_table(crates: &[Crate]) -> Vec<String> {
    let mut problems = Vec::new();
    for Crate { name, uses, packages } in crates {
        if direct(name).is_none() {
            problems.push(format!("crates/{name} has no layer: add it to crates/xtask/layers.txt"));
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

/// Crates, and what they may use directly.
fn layers() -> impl Iterator<Item = (&'static str, SplitWhitespace<'static>)> {
    let lines = LAYERS.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(':')).map(|(of, uses)| (of, uses.split_whitespace()))
}

fn direct(name: &str) -> Option<SplitWhitespace<'static>> {
    layers().find(|(layer, _)| *layer == name).map(|(_, uses)| uses)
}

fn may_use(user: &str, used: &str) -> bool {
    direct(user).into_iter().flatten().any(|next| next == used || may_use(next, used))
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
        for (at, (layer, uses)) in layers().enumerate() {
            for used in uses {
                let above = layers().position(|(name, _)| name == used).unwrap();
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
