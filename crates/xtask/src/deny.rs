//! The rules of `deny.toml`, held against the packages that are built: bans, licences and sources, as
//! `cargo deny check bans licenses sources` does. Advisories need a database from elsewhere, and are
//! left to that tool. A key this check does not know is an error: nothing is left out in silence.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::licences::is_met;
use crate::packages::{self, CRATES_IO, Known, Package};
use crate::repository;

/// The keys that are not looked at, with the only values that this check knows. Left to `cargo deny` are
/// advisories, the licences of the workspace's crates, and the confidence in licences guessed from files:
/// each package must give an expression.
const REST: &str = "
graph.all-features = true
bans = { multiple-versions = 'warn', wildcards = 'deny', allow-wildcard-paths = true }
sources = { unknown-registry = 'deny', unknown-git = 'deny' }
licenses = {}
";

struct Deny {
    targets: Vec<String>,
    /// Licences.
    allow: Vec<String>,
    exceptions: Vec<Exception>,
    bans: Vec<Ban>,
}

/// Licences allowed for one package.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    allow: Vec<String>,
    #[serde(rename = "crate")]
    package: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ban {
    #[serde(rename = "crate")]
    package: String,
    reason: String,
}

/// Takes a value out of one of the tables.
fn take<T: DeserializeOwned>(from: &mut toml::Table, table: &str, key: &str) -> anyhow::Result<T> {
    let table = from.get_mut(table).and_then(toml::Value::as_table_mut);
    let value = table.and_then(|table| table.remove(key)).with_context(|| format!("no {key}"))?;
    Ok(value.try_into()?)
}

impl Deny {
    fn read(text: &str) -> anyhow::Result<Self> {
        let mut table: toml::Table = text.parse()?;
        let deny = Self {
            targets: take(&mut table, "graph", "targets")?,
            allow: take(&mut table, "licenses", "allow")?,
            exceptions: take(&mut table, "licenses", "exceptions")?,
            bans: take(&mut table, "bans", "deny")?,
        };
        take::<f64>(&mut table, "licenses", "confidence-threshold")?;
        take::<toml::Table>(&mut table, "licenses", "private")?;
        table.remove("advisories");
        ensure!(table == REST.parse()?, "the rest is not as this check knows it:{REST}");
        Ok(deny)
    }
}

/// The violations of `deny.toml` among the packages that are built.
pub(crate) fn problems() -> anyhow::Result<Vec<String>> {
    let deny = Deny::read(&repository::read("deny.toml")?).context("deny.toml")?;
    let mut args = vec!["--workspace", "--all-features", "--edges", "normal,build,dev"];
    args.extend(deny.targets.iter().flat_map(|target| ["--target", target]));
    let (known, built) = (Known::read()?, packages::built(&args)?);
    let packages = known.of(&built)?;
    for line in repeated(&packages) {
        crate::steps::say(&line);
    }
    Ok(deny.against(&packages))
}

/// Packages that are built in several versions.
fn repeated(packages: &[&Package]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    let several = versions.iter().filter(|(_, versions)| versions.len() > 1);
    several
        .map(|(name, versions)| format!("in several versions: {name} {}", versions.join(", ")))
        .collect()
}

impl Deny {
    fn against(&self, packages: &[&Package]) -> Vec<String> {
        let mut problems = Vec::new();
        for package in packages {
            problems.extend(self.ban(package));
            problems.extend(wildcards(package));
            // A crate of the workspace has the repository's own licence and source.
            if let Some(source) = &package.source {
                problems.extend(foreign(package, source));
                problems.extend(self.licence(package));
            }
        }
        problems
    }

    fn ban(&self, package: &Package) -> Option<String> {
        let ban = self.bans.iter().find(|ban| ban.package == package.name)?;
        Some(format!(
            "{} is banned ({}): cargo tree --workspace --invert {}",
            package.label(),
            ban.reason,
            package.name
        ))
    }

    fn licence(&self, package: &Package) -> Option<String> {
        let label = package.label();
        let Some(expression) = &package.license else {
            return Some(format!("{label} gives no licence expression"));
        };
        let exceptions = self.exceptions.iter();
        let more = exceptions.filter(|exception| exception.package == package.name);
        let allowed = self.allow.iter().chain(more.flat_map(|exception| &exception.allow));
        match is_met(expression, &allowed.map(String::as_str).collect::<Vec<_>>()) {
            Ok(true) => None,
            Ok(false) => Some(format!("{label} has the licence {expression}: not allowed")),
            Err(error) => Some(format!("{label} has the licence {expression:?}: {error}")),
        }
    }
}

fn wildcards(package: &Package) -> Vec<String> {
    let any = package.dependencies.iter().filter(|it| it.req == "*" && it.path.is_none());
    let ours = any.filter(|_| package.source.is_none());
    ours.map(|it| format!("{} takes any version of {}", package.label(), it.name)).collect()
}

fn foreign(package: &Package, source: &str) -> Option<String> {
    (source != CRATES_IO).then(|| format!("{} comes from {source}, not crates.io", package.label()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::Wanted;

    const DENY: &str = r#"
        [graph]
        targets = []
        all-features = true
        [advisories]
        [licenses]
        allow = ["MIT"]
        confidence-threshold = 0.9
        exceptions = [{ allow = ["MPL-2.0"], crate = "shared" }]
        [licenses.private]
        [bans]
        multiple-versions = "warn"
        wildcards = "deny"
        allow-wildcard-paths = true
        deny = [{ crate = "banned", reason = "because" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
    "#;

    fn package(name: &str, license: &str, source: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: Some(license.to_owned()).filter(|license| !license.is_empty()),
            source: source.map(str::to_owned),
            ..Package::default()
        }
    }

    fn against(package: &Package) -> Vec<String> {
        Deny::read(DENY).unwrap().against(&[package])
    }

    #[test]
    fn the_dependencies_are_as_deny_toml_says() {
        assert_eq!(problems().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn each_kind_of_problem_is_found() {
        let from_crates_io = |name, license| against(&package(name, license, Some(CRATES_IO)));
        assert_eq!(from_crates_io("good", "MIT OR GPL-3.0"), [""; 0]);
        assert_eq!(from_crates_io("shared", "MPL-2.0"), [""; 0]);
        assert_eq!(
            from_crates_io("other", "MPL-2.0"),
            ["other 1.0.0 has the licence MPL-2.0: not allowed"]
        );
        assert_eq!(from_crates_io("silent", ""), ["silent 1.0.0 gives no licence expression"]);
        assert_eq!(
            from_crates_io("banned", "MIT"),
            ["banned 1.0.0 is banned (because): cargo tree --workspace --invert banned"]
        );
        let git = "git+https://example.com/a?rev=1#1";
        assert_eq!(
            against(&package("a", "MIT", Some(git))),
            [format!("a 1.0.0 comes from {git}, not crates.io")]
        );
        let mut ours = package("ours", "", None);
        let wanted = |path: Option<&str>| Wanted {
            name: "it".to_owned(),
            req: "*".to_owned(),
            path: path.map(str::to_owned),
        };
        ours.dependencies = vec![wanted(Some("/crates/it"))];
        assert_eq!(against(&ours), [""; 0]);
        ours.dependencies = vec![wanted(None)];
        assert_eq!(against(&ours), ["ours 1.0.0 takes any version of it"]);
    }

    #[test]
    fn what_the_check_does_not_know_is_an_error() {
        for (from, to) in [
            ("all-features = true", "all-features = false"),
            ("wildcards = \"deny\"", "wildcards = \"allow\""),
            ("[sources]", "[sources]\nallow-git = []"),
            ("reason = \"because\"", "reason = \"because\", wrappers = []"),
        ] {
            let text = DENY.replace(from, to);
            assert!(Deny::read(&text).is_err(), "{to}");
        }
    }
}
