//! The repository: its root, its files, its crates.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

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

/// The part of cargo's answer that is looked at.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    /// The folder of a crate of the workspace.
    path: Option<PathBuf>,
}

/// The crates of the workspace as cargo sees them.
pub(crate) fn crates() -> anyhow::Result<Vec<Crate>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--format-version", "1", "--no-deps"]);
    let Metadata { packages } = serde_json::from_str(&output(&mut cargo)?)?;
    packages.into_iter().map(Crate::of).collect()
}

impl Crate {
    fn of(package: Package) -> anyhow::Result<Self> {
        let name = package.manifest_path.parent().and_then(folder_name);
        let name = name.context("a package without a manifest path")?;
        let (mut uses, mut packages) = (Vec::new(), Vec::new());
        for dependency in package.dependencies {
            match dependency.path {
                _ if dependency.kind.as_deref() == Some("dev") => {}
                Some(path) => uses.extend(folder_name(&path)),
                None => packages.push(dependency.name),
            }
        }
        Ok(Self { name, uses, packages })
    }
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
