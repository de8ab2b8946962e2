//! Instruction counts of the pieces in `crates/instructions` against the committed ones.
//!
//! ```text
//! baseline:  # comment
//!            rustc 1.95.0 (...)            the compiler it was made with
//!            codec/decode-publish-12 123.4 instructions per operation, sorted by name
//! ```
//! Another compiler makes other code, so that it is given more room.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context as _, ensure};

use crate::repository::output;
use crate::steps::say;
use crate::{dist, repository};

/// A count may rise by this many per cent before it counts as a loss.
const TOLERANCE_PERCENT: f64 = 3.0;
/// As much with another compiler than the baseline's.
const OTHER_COMPILER_PERCENT: f64 = 20.0;

/// The function whose instructions are counted.
const MEASURED: &str = "*instructions::measured*";

/// The C library chooses its copying by the processor; this choice every processor has.
const PLAIN_PROCESSOR: &str = "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX_Usable,-AVX2_Usable,-AVX512F,\
                               -AVX512VL,-AVX512F_Usable,-ERMS,-FSRM,-Prefer_ERMS,-Prefer_FSRM";

const HEADING: &str = "# Instructions per operation, counted by callgrind; written by \
                       `cargo xtask instructions --accept`.\n";

/// Instructions per operation by name, and the compiler that made the code.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counts {
    compiler: String,
    by_name: BTreeMap<String, f64>,
}

/// The baseline of this kind of processor.
fn path() -> String {
    format!("crates/instructions/baseline-{}.txt", std::env::consts::ARCH)
}

/// The reason why nothing can be counted here, if there is one.
pub(crate) fn obstacle() -> Option<String> {
    if !crate::steps::installed("valgrind") {
        Some("valgrind is not installed (instruction counts)".to_owned())
    } else if !repository::root().join(path()).exists() {
        Some(format!("no {} (instruction counts)", path()))
    } else {
        None
    }
}

/// Counts, and compares with the baseline. Whether nothing has risen beyond the tolerance.
pub(crate) fn check() -> anyhow::Result<bool> {
    let problems = against(&read(&repository::read(&path())?)?, &count()?);
    Ok(crate::steps::print_problems(&problems))
}

/// Counts, and makes the result the baseline.
pub(crate) fn accept() -> anyhow::Result<()> {
    let counts = count()?;
    let path = repository::root().join(path());
    std::fs::write(&path, show(&counts)).with_context(|| format!("cannot write {path:?}"))
}

fn count() -> anyhow::Result<Counts> {
    let built = dist::program("instructions")?;
    let listed = output(program(&built, &[]).arg("--list"))?;
    let mut pieces = Vec::new();
    for line in listed.lines() {
        let (name, n_operations) = line.split_once(' ').context("a bad list of pieces")?;
        pieces.push((name.to_owned(), n_operations.parse::<f64>()?));
    }
    let compiler = output(Command::new("rustc").arg("--version"))?.trim().to_owned();
    Ok(Counts { compiler, by_name: count_all(&built, pieces)? })
}

/// Counts the pieces, as many at a time as there are processors.
fn count_all(built: &Path, pieces: Vec<(String, f64)>) -> anyhow::Result<BTreeMap<String, f64>> {
    let left = Mutex::new(pieces);
    let next = || left.lock().ok()?.pop();
    let work = || {
        let mut counted = Vec::new();
        while let Some((name, n_operations)) = next() {
            counted.push((name.clone(), count_one(built, &name)? / n_operations));
        }
        Ok(counted)
    };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let counted: anyhow::Result<Vec<_>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, anyhow::Result<Vec<_>>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    Ok(counted?.into_iter().flatten().collect())
}

fn count_one(built: &Path, name: &str) -> anyhow::Result<f64> {
    let toggle = format!("--toggle-collect={MEASURED}");
    let valgrind =
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", toggle.as_str()];
    let mut command = program(built, &valgrind);
    let output = command.arg(name).output().context("cannot run valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} fails under valgrind:\n{said}");
    let collected = said.lines().find_map(|line| line.split_once("Collected :"));
    let count: f64 = collected.context("valgrind says no count")?.1.trim().parse()?;
    ensure!(count > 0.0, "{name}: {MEASURED} was not found");
    Ok(count)
}

/// The program, run by `by`, with an environment of its own.
fn program(built: &Path, by: &[&str]) -> Command {
    let mut words = by.iter().map(Into::into).chain([built.as_os_str().to_owned()]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).env_clear().env("GLIBC_TUNABLES", PLAIN_PROCESSOR);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

fn show(counts: &Counts) -> String {
    let mut text = format!("{HEADING}{}\n", counts.compiler);
    for (name, count) in &counts.by_name {
        text.push_str(&format!("{name} {count:.1}\n"));
    }
    text
}

fn read(baseline: &str) -> anyhow::Result<Counts> {
    let mut lines = baseline.lines().filter(|line| !line.starts_with('#'));
    let compiler = lines.next().context("the baseline names no compiler")?.to_owned();
    let mut by_name = BTreeMap::new();
    for line in lines {
        let (name, count) = line.split_once(' ').with_context(|| format!("bad line: {line}"))?;
        by_name.insert(name.to_owned(), count.parse()?);
    }
    Ok(Counts { compiler, by_name })
}

/// The counts that have risen too far, are new, or are gone. Prints those that have fallen.
fn against(baseline: &Counts, now: &Counts) -> Vec<String> {
    let mut problems = Vec::new();
    let tolerance_percent = if baseline.compiler == now.compiler {
        TOLERANCE_PERCENT
    } else {
        say(&format!("the baseline is of {}, this is {}", baseline.compiler, now.compiler));
        OTHER_COMPILER_PERCENT
    };
    for (name, count) in &now.by_name {
        let Some(before) = baseline.by_name.get(name) else {
            problems.push(format!("{name} is not in the baseline"));
            continue;
        };
        let percent = (count / before - 1.0) * 100.0;
        let line = format!("{name} takes {count:.1} instructions, {percent:+.1} % on {before:.1}");
        if percent > tolerance_percent {
            problems.push(line);
        } else if percent < -tolerance_percent {
            say(&format!("{line}: worth accepting"));
        }
    }
    let gone = baseline.by_name.keys().filter(|name| !now.by_name.contains_key(*name));
    problems.extend(gone.map(|name| format!("{name} is only in the baseline")));
    if !problems.is_empty() {
        problems.push("if it must be so: cargo xtask instructions --accept, and say why".into());
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(compiler: &str, by_name: &[(&str, f64)]) -> Counts {
        let by_name = by_name.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Counts { compiler: compiler.to_owned(), by_name }
    }

    #[test]
    fn a_baseline_reads_as_it_was_written() {
        let written = counts("rustc 1.95.0", &[("a/b", 12.5), ("a/c", 1000.0)]);
        assert_eq!(show(&written), format!("{HEADING}rustc 1.95.0\na/b 12.5\na/c 1000.0\n"));
        assert_eq!(read(&show(&written)).unwrap(), written);
        assert!(read("").is_err());
        assert!(read("rustc 1.95.0\na/b").is_err());
    }

    #[test]
    fn losses_are_told_and_gains_are_not() {
        let baseline = counts("rustc 1", &[("gain", 100.0), ("loss", 100.0), ("same", 100.0)]);
        let now = counts("rustc 1", &[("gain", 50.0), ("loss", 104.0), ("same", 102.0)]);
        let problems = against(&baseline, &now);
        assert_eq!(problems.len(), 2);
        assert_eq!(problems[0], "loss takes 104.0 instructions, +4.0 % on 100.0");
        let elsewhere = Counts { compiler: "rustc 2".to_owned(), ..now };
        assert_eq!(against(&baseline, &elsewhere), [""; 0]);
    }

    #[test]
    fn baseline_and_pieces_have_the_same_names() {
        let baseline = counts("rustc 1", &[("gone", 1.0), ("kept", 1.0)]);
        let now = counts("rustc 1", &[("kept", 1.0), ("new", 1.0)]);
        let problems = against(&baseline, &now);
        assert_eq!(problems[..2], ["new is not in the baseline", "gone is only in the baseline"]);
    }
}
