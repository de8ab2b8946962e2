//! The repository: its root, its files, its crates.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// The folder with the workspace manifest.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of what is built.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}

/// A file's text; `path` is relative to the root.
pub(crate) fn read(path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))
}

/// The files git knows, or would add, and that are there; relative to the root.
pub(crate) fn files() -> anyhow::Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let listed = output(&mut git)?;
    let there = |file: &&str| root().join(file).is_file();
    Ok(listed.lines().filter(there).map(str::to_owned).collect())
}

/// A crate of the workspace and what it is built from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Crate {
    /// The name of its folder under `crates/`.
    pub(crate) name: String,
    /// Folders of the workspace's crates it uses, tests aside.
    pub(crate) uses: Vec<String>,
    /// Names of the packages from elsewhere it uses, tests aside.
    pub(crate) packages: Vec<String>,
}

/// The crates of the workspace as cargo sees them.
pub(crate) fn crates() -> anyhow::Result<Vec<Crate>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--format-version", "1", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&output(&mut cargo)?)?;
    let packages = array(&metadata, "packages")?;
    packages.iter().map(read_crate).collect()
}

fn read_crate(package: &Value) -> anyhow::Result<Crate> {
    let manifest = package.get("manifest_path").and_then(Value::as_str);
    let folder = manifest.map(Path::new).and_then(Path::parent).and_then(folder_name);
    let name = folder.context("a package without a manifest path")?;
    let (mut uses, mut packages) = (Vec::new(), Vec::new());
    for dependency in array(package, "dependencies")? {
        if dependency.get("kind").and_then(Value::as_str) == Some("dev") {
            continue;
        }
        match dependency.get("path").and_then(Value::as_str) {
            Some(path) => uses.extend(folder_name(Path::new(path))),
            None => {
                packages.extend(dependency.get("name").and_then(Value::as_str).map(str::to_owned))
            }
        }
    }
    Ok(Crate { name, uses, packages })
}

fn array<'a>(value: &'a Value, key: &str) -> anyhow::Result<&'a Vec<Value>> {
    value.get(key).and_then(Value::as_array).with_context(|| format!("no {key} in cargo metadata"))
}

fn folder_name(path: &Path) -> Option<String> {
    path.file_name()?.to_str().map(str::to_owned)
}

/// The output of a program, run at the root. The program has to succeed.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .current_dir(root())
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed");
    String::from_utf8(output.stdout).context("output that is not UTF-8")
}
