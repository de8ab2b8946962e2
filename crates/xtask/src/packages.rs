//! The packages a build takes in, as cargo resolves them.
//!
//! `Cargo.lock` and `cargo metadata` also name packages that only a weak feature mentions
//! (`ring?/alloc`) and no build compiles. `cargo tree` resolves features as a build does: it says
//! which packages count, `cargo metadata` what is known of them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde::Deserialize;

use crate::repository::output;
use crate::steps::cargo;

/// The source of packages of crates.io, in cargo's words.
pub(crate) const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A package's metadata.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Package {
    /// The id by which the rest of cargo's answer names it.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression.
    pub(crate) license: Option<String>,
    /// The registry or repository; `None` for a crate of the workspace.
    pub(crate) source: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) repository: Option<String>,
    /// The dependencies its manifest asks for, whether or not they are built.
    pub(crate) dependencies: Vec<Wanted>,
}

impl Package {
    pub(crate) fn key(&self) -> Key {
        (self.name.clone(), self.version.clone())
    }

    /// Name and version, for people.
    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.name, self.version)
    }
}

/// A dependency as a manifest asks for it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    /// The versions asked for.
    pub(crate) req: String,
    /// Its directory, for crates of the workspace.
    pub(crate) path: Option<String>,
}

/// Name and version.
pub(crate) type Key = (String, String);

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

/// Everything the lock file names, and which of it uses which.
pub(crate) struct Known {
    packages: BTreeMap<Key, Package>,
    uses: BTreeMap<Key, Vec<Key>>,
}

impl Known {
    pub(crate) fn read() -> anyhow::Result<Self> {
        let text = output(&mut cargo(&["metadata", "--locked", "--format-version", "1"]))?;
        let Metadata { packages, resolve } = serde_json::from_str(&text)?;
        let keys: BTreeMap<_, _> =
            packages.iter().map(|package| (package.id.clone(), package.key())).collect();
        let key = |id: &String| keys.get(id).cloned();
        let uses = resolve.nodes.iter().filter_map(|node| {
            Some((key(&node.id)?, node.dependencies.iter().filter_map(key).collect()))
        });
        let uses = uses.collect();
        let packages = packages.into_iter().map(|package| (package.key(), package)).collect();
        Ok(Self { packages, uses })
    }

    /// The packages with these keys, by name.
    pub(crate) fn of(&self, keys: &BTreeSet<Key>) -> anyhow::Result<Vec<&Package>> {
        let known = |key| self.packages.get(key).with_context(|| format!("{key:?} is unknown"));
        keys.iter().map(known).collect()
    }

    /// The packages that a package uses directly.
    pub(crate) fn used_by(&self, key: &Key) -> &[Key] {
        self.uses.get(key).map_or(&[], Vec::as_slice)
    }
}

/// The packages that `cargo tree` with these arguments names.
pub(crate) fn built(args: &[&str]) -> anyhow::Result<BTreeSet<Key>> {
    let mut tree = cargo(&["tree", "--locked", "--prefix", "none", "--format", "{p}"]);
    let listed = output(tree.args(args))?;
    listed.lines().filter(|line| !line.is_empty()).map(read_line).collect()
}

/// Reads `name v1.2.3`, with what kind or place it is behind it.
fn read_line(line: &str) -> anyhow::Result<Key> {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default().to_owned();
    let version = words.next().and_then(|word| word.strip_prefix('v'));
    Ok((name, version.with_context(|| format!("cargo tree says {line:?}"))?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargo_tree_are_read() {
        let expected = ("a-b".to_owned(), "1.2.3-rc.1".to_owned());
        for line in ["a-b v1.2.3-rc.1", "a-b v1.2.3-rc.1 (proc-macro) (*)", "a-b v1.2.3-rc.1 (/x)"]
        {
            assert_eq!(read_line(line).unwrap(), expected);
        }
        assert!(read_line("a-b").is_err());
    }

    #[test]
    fn what_only_a_weak_feature_names_is_not_built() {
        let named = Known::read().unwrap();
        let is_ring = |(name, _): &Key| name == "ring";
        assert!(named.packages.keys().any(is_ring), "deny.toml's comment on ring can go");
        let built = built(&["--workspace", "--all-features", "--target", "all"]).unwrap();
        assert!(!built.iter().any(is_ring));
        assert!(built.iter().any(|(name, _)| name == "rustls-webpki"));
    }
}
