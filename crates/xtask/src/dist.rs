//! The files of a release: for each target one static binary, its symbols and its bill of materials;
//! for this machine's kind a Debian package and a container image besides.
//!
//! ```text
//! target/published/TARGET/leveret           static, stripped
//!                         leveret.debug     its symbols, found by debuggers that look beside it
//!                         leveret.cdx.json  what it is built from, CycloneDX
//! target/published/leveret_VERSION_amd64.deb
//!                  leveret-image.tar        an OCI image archive
//!                  SHA256SUMS
//! ```
//! So that builds can be compared byte by byte, paths are mapped to fixed ones, and times are the commit's
//! (or `SOURCE_DATE_EPOCH`).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::repository::{output, root, target};
use crate::sbom;
use crate::steps::{cargo, installed, say};

/// The system most machines have.
pub(crate) const GNU: &str = "x86_64-unknown-linux-gnu";

/// The parts a target needs besides Rust's standard library.
struct Tools {
    target: &'static str,
    compiler: &'static str,
    /// For musl that of the ordinary system: Rust brings the start files and the library, and musl's own
    /// wrapper would link a program that asks for a dynamic loader.
    linker: &'static str,
}

const fn tools(target: &'static str, compiler: &'static str, linker: &'static str) -> Tools {
    Tools { target, compiler, linker }
}

const TARGETS: &[Tools] = &[
    tools(GNU, "cc", "cc"),
    tools("x86_64-unknown-linux-musl", "musl-gcc", "cc"),
    tools("aarch64-unknown-linux-gnu", "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-gcc"),
    tools("aarch64-unknown-linux-musl", "aarch64-linux-musl-gcc", "aarch64-linux-gnu-gcc"),
];

/// The binary needs no library.
const STATIC: &str = "-Ctarget-feature=+crt-static";
/// Functions of the same instructions become one, and addresses that are adjusted at the start take a bit
/// each. The linker that Rust brings for [`GNU`] can do both.
const SMALL: [&str; 2] = ["-Clink-arg=-Wl,--icf=all", "-Clink-arg=-Wl,-z,pack-relative-relocs"];

/// Size limit of a binary. docs/performance.md says what it holds.
const BINARY_BYTES_MAX: u64 = 31_500_000;

/// The targets that are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Targets {
    /// All that can be built here.
    All,
    /// This system's.
    Host,
}

/// Where the files of a version come.
fn published() -> PathBuf {
    target().join("published")
}

/// The binary that is published for this system.
pub(crate) fn host_binary() -> PathBuf {
    published().join(GNU).join("leveret")
}

/// Whether a binary is published for machines of this kind.
pub(crate) const fn is_for_this_machine() -> bool {
    cfg!(all(target_os = "linux", target_arch = "x86_64"))
}

/// Builds for these targets. Whether a binary for this machine is among it.
pub(crate) fn dist(targets: Targets) -> anyhow::Result<bool> {
    let date = source_date()?;
    let dir = published();
    if dir.exists() {
        std::fs::remove_dir_all(&dir).context("cannot empty target/published")?;
    }
    for tools in TARGETS.iter().filter(|it| targets == Targets::All || it.target == GNU) {
        match obstacle(tools)? {
            Some(obstacle) => say(&format!("left out: {}: {obstacle}", tools.target)),
            None => binary(tools, &dir.join(tools.target), date)?,
        }
    }
    let built = host_binary();
    if built.exists() {
        let version = env!("CARGO_PKG_VERSION");
        packaged("deb", &built, &dir.join(format!("leveret_{version}_amd64.deb")), date)?;
        packaged("image", &built, &dir.join("leveret-image.tar"), date)?;
    }
    checksums(&dir)?;
    Ok(built.exists())
}

/// Has the script of this kind of archive write it, and prints what it says.
fn packaged(kind: &str, binary: &Path, archive: &Path, date: u64) -> anyhow::Result<()> {
    let mut build = Command::new(root().join("packaging").join(kind).join("build"));
    build.arg(binary).arg(env!("CARGO_PKG_VERSION")).arg(archive);
    say(output(build.env("SOURCE_DATE_EPOCH", date.to_string()))?.trim_end());
    Ok(())
}

/// Prints what the binary for `target` is built from.
pub(crate) fn print_sbom(target: &str) -> anyhow::Result<bool> {
    let document = sbom::document(target, &rfc_3339(source_date()?)?)?;
    say(&serde_json::to_string_pretty(&document)?);
    Ok(true)
}

/// The reason why there can be no binary for the target here, if there is one.
fn obstacle(tools: &Tools) -> anyhow::Result<Option<String>> {
    let target = tools.target;
    let missing = [tools.compiler, tools.linker].into_iter().find(|program| !installed(program));
    let libraries =
        output(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
    Ok(if !Path::new(libraries.trim()).exists() {
        Some(format!("rustup target add {target}"))
    } else {
        missing.map(|program| format!("{program} is not installed"))
    })
}

fn binary(tools: &Tools, dir: &Path, date: u64) -> anyhow::Result<()> {
    let target = tools.target;
    build(tools, date, "leveret")?;
    std::fs::create_dir_all(dir)?;
    let built = crate::repository::target().join(target).join("dist/leveret");
    let (binary, symbols) = (dir.join("leveret"), dir.join("leveret.debug"));
    let objcopy = || Command::new(objcopy(target));
    output(objcopy().arg("--only-keep-debug").arg(&built).arg(&symbols))?;
    // Only the name is noted: debuggers look beside the binary.
    let link = format!("--add-gnu-debuglink={}", symbols.display());
    output(objcopy().args(["--strip-all", &link]).arg(&built).arg(&binary))?;
    check(&binary)?;
    let document = sbom::document(target, &rfc_3339(date)?)?;
    let text = serde_json::to_string_pretty(&document)? + "\n";
    std::fs::write(dir.join("leveret.cdx.json"), text)?;
    Ok(())
}

/// Builds a package's program for this machine as published ones are built, and says where it is.
pub(crate) fn program(package: &str) -> anyhow::Result<PathBuf> {
    match TARGETS.iter().find(|it| is_for_this_machine() && it.target == GNU) {
        Some(tools) => {
            build(tools, source_date()?, package)?;
            Ok(target().join(GNU).join("dist").join(package))
        }
        None => {
            ensure!(cargo_of(package).status()?.success(), "no {package}");
            Ok(target().join("dist").join(package))
        }
    }
}

fn build(tools: &Tools, date: u64, package: &str) -> anyhow::Result<()> {
    let Tools { target, compiler, linker } = *tools;
    let maps = path_maps()?;
    let rust_maps = maps.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}"));
    let link = std::iter::once(STATIC).chain(SMALL.into_iter().filter(|_| target == GNU));
    let flags: Vec<String> = link.map(str::to_owned).chain(rust_maps).collect();
    let c_maps = maps.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}"));
    let c_flags: Vec<String> = c_maps.collect();
    let variable = target.replace('-', "_");
    let linker_variable = format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase());
    let mut cargo = cargo_of(package);
    cargo.args(["--target", target]);
    cargo.env("SOURCE_DATE_EPOCH", date.to_string());
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")).env(linker_variable, linker);
    cargo
        .env(format!("CFLAGS_{variable}"), c_flags.join(" "))
        .env(format!("CC_{variable}"), compiler);
    ensure!(cargo.status()?.success(), "no {package} for {target}");
    Ok(())
}

/// Cargo, asked for one program of the profile. Both packages are named each time, since cargo compiles a
/// dependency again for packages that want other features of it; the second adds none to the first's.
fn cargo_of(program: &str) -> Command {
    let options = ["build", "--profile", "dist", "--locked", "--bin", program];
    let mut cargo = cargo(&options);
    cargo.args(["--package", "leveret", "--package", "instructions"]);
    cargo
}

/// The program that takes symbols apart: this machine's for its own kind, Debian's name for another.
fn objcopy(target: &str) -> String {
    match target.split('-').next() {
        Some(arch) if arch != std::env::consts::ARCH => format!("{arch}-linux-gnu-objcopy"),
        _ => "objcopy".to_owned(),
    }
}

/// Folders of this machine, and what stands for them in what is built. Of several the last counts.
fn path_maps() -> anyhow::Result<[(String, &'static str); 3]> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo_home =
        std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let full = |path: PathBuf| path.canonicalize().unwrap_or(path);
    let text = |path: PathBuf| full(path).into_os_string().into_string();
    let text = |path| text(path).map_err(|path| anyhow::anyhow!("{path:?} is not UTF-8"));
    Ok([
        (text(cargo_home)?, "/cargo"),
        (text(root())?, "/leveret"),
        (text(target())?, "/leveret/target"),
    ])
}

/// A static binary needs no library and no loader.
fn check(binary: &Path) -> anyhow::Result<()> {
    let headers = output(
        Command::new("readelf").args(["--wide", "--program-headers", "--dynamic"]).arg(binary),
    )?;
    ensure!(
        !headers.contains("INTERP") && !headers.contains("(NEEDED)"),
        "{binary:?} is not static"
    );
    let bytes = std::fs::metadata(binary)?.len();
    ensure!(bytes < BINARY_BYTES_MAX, "{binary:?} has {bytes} bytes: more than {BINARY_BYTES_MAX}");
    say(&format!("{}: {bytes} bytes", binary.display()));
    Ok(())
}

fn checksums(dir: &Path) -> anyhow::Result<()> {
    let list = "find . -type f ! -name SHA256SUMS -printf '%P\\0' | LC_ALL=C sort --zero-terminated | xargs -0 sha256sum";
    let sums = output(
        Command::new("sh").arg("-c").arg(format!("cd \"$1\" && {list}")).arg("sh").arg(dir),
    )?;
    std::fs::write(dir.join("SHA256SUMS"), sums).context("cannot write SHA256SUMS")
}

/// The time that what is made carries, in Unix seconds: `SOURCE_DATE_EPOCH`, or the commit's.
fn source_date() -> anyhow::Result<u64> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(given.parse()?);
    }
    Ok(output(Command::new("git").args(["log", "-1", "--format=%ct"]))?.trim().parse()?)
}

fn rfc_3339(unix_s: u64) -> anyhow::Result<String> {
    let mut date = Command::new("date");
    date.args(["--utc", "--date", &format!("@{unix_s}"), "+%Y-%m-%dT%H:%M:%SZ"]);
    Ok(output(&mut date)?.trim().to_owned())
}
