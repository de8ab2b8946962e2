//! The binary's bill of materials, a CycloneDX 1.5 document: the packages that are linked into the
//! binary, and, with the scope `excluded`, those that only take part in building it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::packages::{self, Key, Known, Package};
use crate::repository;

const BINARY: &str = "leveret";

/// The document for the binary on `target`; `timestamp` is in RFC 3339.
pub(crate) fn document(target: &str, timestamp: &str) -> anyhow::Result<Value> {
    let tree =
        |edges| packages::built(&["--package", BINARY, "--target", target, "--edges", edges]);
    let (built, linked) = (tree("normal,build")?, tree("normal,no-proc-macro")?);
    let (known, checksums) = (Known::read()?, checksums()?);
    let is_binary = |package: &&&Package| package.name == BINARY;
    let packages = known.of(&built)?;
    let binary = packages.iter().find(is_binary).context("the binary has no package")?;
    let others = packages.iter().filter(|package| !is_binary(package));
    let components = others.map(|package| {
        let key = package.key();
        component(package, linked.contains(&key), checksums.get(&key))
    });
    let components: Vec<Value> = components.chain(toolchain(target)?).collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": timestamp,
            "component": application(binary),
            "properties": [{ "name": "target", "value": target }],
        },
        "components": components,
        "dependencies": dependencies(&known, &built),
    }))
}

fn application(package: &Package) -> Value {
    json!({
        "type": "application",
        "bom-ref": reference(&package.key()),
        "name": package.name,
        "version": package.version,
        "description": package.description,
        "licenses": licences(package),
    })
}

fn component(package: &Package, is_linked: bool, checksum: Option<&String>) -> Value {
    let key = package.key();
    // A crate of the workspace cannot be fetched from anywhere by its name.
    let purl = package.source.as_ref().map(|_| reference(&key));
    let hashes = checksum.map(|sum| json!([{ "alg": "SHA-256", "content": sum }]));
    let vcs = package.repository.as_ref().map(|url| json!([{ "type": "vcs", "url": url }]));
    let optional =
        [("purl", purl.into()), ("hashes", hashes.into()), ("externalReferences", vcs.into())];
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(&key),
        "name": package.name,
        "version": package.version,
        "scope": if is_linked { "required" } else { "excluded" },
        "licenses": licences(package),
    });
    if let Value::Object(fields) = &mut component {
        let given = optional.into_iter().filter(|(_, value): &(_, Value)| !value.is_null());
        fields.extend(given.map(|(name, value)| (name.to_owned(), value)));
    }
    component
}

fn licences(package: &Package) -> Value {
    let expression = package.license.as_deref().unwrap_or_default().replace(" / ", " OR ");
    json!([{ "expression": expression.replace('/', " OR ") }])
}

fn reference((name, version): &Key) -> String {
    format!("pkg:cargo/{name}@{version}")
}

/// The libraries of the compiler and the system that are linked in.
fn toolchain(target: &str) -> anyhow::Result<Vec<Value>> {
    let library = |name: &str, version: &str, licence: &str| {
        json!({
            "type": "library",
            "bom-ref": format!("{name}@{version}"),
            "name": name,
            "version": version,
            "scope": "required",
            "licenses": [{ "expression": licence }],
        })
    };
    let rustc = repository::output(Command::new("rustc").arg("--version"))?;
    let version = rustc.split(' ').nth(1).context("rustc says no version")?;
    let mut libraries = vec![library("rust-std", version, "MIT OR Apache-2.0")];
    if target.contains("-gnu") {
        let glibc = repository::output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
        let version = glibc.trim().strip_prefix("glibc ").context("no version of glibc")?;
        libraries.push(library("glibc", version, "LGPL-2.1-or-later"));
    }
    Ok(libraries)
}

fn dependencies(known: &Known, built: &BTreeSet<Key>) -> Vec<Value> {
    let entry = |key| {
        let used = known.used_by(key).iter().filter(|used| built.contains(*used));
        json!({ "ref": reference(key), "dependsOn": used.map(reference).collect::<Vec<_>>() })
    };
    built.iter().map(entry).collect()
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// SHA-256 of each package's archive, as the lock file pins it.
fn checksums() -> anyhow::Result<BTreeMap<Key, String>> {
    let lock: Lock = toml::from_str(&repository::read("Cargo.lock")?).context("Cargo.lock")?;
    let pinned = |locked: Locked| Some(((locked.name, locked.version), locked.checksum?));
    Ok(lock.package.into_iter().filter_map(pinned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_lists_what_is_linked_and_what_only_builds() {
        let document = document("x86_64-unknown-linux-gnu", "2026-01-01T00:00:00Z").unwrap();
        let components = document["components"].as_array().unwrap();
        let find = |name: &str| components.iter().find(|component| component["name"] == name);
        let tokio = find("tokio").unwrap();
        assert_eq!(tokio["scope"], "required");
        assert_eq!(tokio["licenses"][0]["expression"], "MIT");
        assert_eq!(tokio["hashes"][0]["content"].as_str().unwrap().len(), 64);
        assert!(tokio["purl"].as_str().unwrap().starts_with("pkg:cargo/tokio@"));
        assert_eq!(find("serde_derive").unwrap()["scope"], "excluded");
        assert_eq!(find("broker").unwrap().get("purl"), None);
        assert!(find("rust-std").is_some() && find("glibc").is_some());
        assert!(find("ring").is_none() && find("proptest").is_none() && find("sim").is_none());
        let mut references: Vec<&Value> = components.iter().map(|it| &it["bom-ref"]).collect();
        references.push(&document["metadata"]["component"]["bom-ref"]);
        for dependency in document["dependencies"].as_array().unwrap() {
            for used in dependency["dependsOn"].as_array().unwrap() {
                assert!(references.contains(&used), "{used} is used and not listed");
            }
        }
    }
}
