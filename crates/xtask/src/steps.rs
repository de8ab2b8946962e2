//! The steps of `check` and `test`. Every step runs, also after a failure, and the last line sums up:
//! `N passed, N failed`, a step without tests of its own counting as one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context as _;

use crate::beside::Beside;
use crate::{clients, deny, dist, instructions, quotes, repository, tidy};

/// Lines of a failed step that are printed once more.
const LAST_LINES: usize = 12;

/// Format, lints, tidiness, dependencies. Whether all passed.
pub(crate) fn check() -> bool {
    let mut sum = Sum::default();
    sources(&mut sum);
    sum.close()
}

/// All of `check`, then links, tests and the interop suites. Whether all passed.
pub(crate) fn test() -> bool {
    let mut sum = Sum::default();
    let program = std::env::current_exe().unwrap_or_default();
    let binary = dist::is_for_this_machine().then(|| Beside::task(&program, "dist", &["--host"]));
    sources(&mut sum);
    sum.step("links", || run(links()));
    sum.step("build", || run(cargo(&["build", "--workspace", "--all-targets", "--locked"])));
    // Only now: some of it takes cargo's lock, for which the build of the tests would have to wait.
    let suites = Beside::preparing_suites();
    tests(&mut sum);
    let binary = published_binary(&mut sum, binary);
    sum.step("preparation", || suites?.finish());
    let counting = instructions_beside(&mut sum, &program);
    interop(&mut sum, &binary);
    if let Some(counting) = counting {
        sum.step("instructions", || counting?.finish());
    }
    sum.close()
}

/// The count of instructions, begun: what runs beside it does not change it. None where nothing can count.
fn instructions_beside(sum: &mut Sum, program: &Path) -> Option<anyhow::Result<Beside>> {
    match instructions::obstacle() {
        Some(obstacle) if !is_ci() => {
            sum.counts.left_out.push(format!("left out: {obstacle}"));
            None
        }
        Some(obstacle) => Some(Err(anyhow::anyhow!(obstacle))),
        None => Some(Beside::task(program, "instructions", &[])),
    }
}

/// Writes what pages show of other files.
pub(crate) fn pages() -> anyhow::Result<()> {
    quotes::copy()?;
    clients::write()
}

/// Waits for the binary that is published for this system, and tries its package and image; where none is
/// published, builds the one that cargo makes for people.
fn published_binary(sum: &mut Sum, built: Option<anyhow::Result<Beside>>) -> PathBuf {
    let Some(built) = built else {
        sum.step("build", || run(cargo(&["build", "--release", "--locked"])));
        return repository::target().join("release/leveret");
    };
    sum.step("dist", || built?.finish());
    sum.shown("packaging", Command::new(repository::root().join("packaging/test")));
    dist::host_binary()
}

/// Writes the generated files.
pub(crate) fn docs() -> anyhow::Result<()> {
    pages()?;
    let mut routes = cargo(&[
        "test",
        "--quiet",
        "--package",
        "leveret-http",
        "--package",
        "metrics",
        "up_to_date",
    ]);
    anyhow::ensure!(
        routes.env("LEVERET_WRITE_DOCS", "1").status()?.success(),
        "pages of routes and metrics"
    );
    write_help("--help-config=markdown", "docs/configuration.md")?;
    write_help("--help-config=sample", "docs/rabbitmq.conf.example")
}

fn write_help(option: &str, path: &str) -> anyhow::Result<()> {
    let mut leveret = cargo(&["run", "--quiet", "--package", "leveret", "--", "server", option]);
    let output = leveret.stderr(Stdio::inherit()).output().context("cannot run leveret")?;
    anyhow::ensure!(output.status.success(), "leveret server {option} failed");
    std::fs::write(repository::root().join(path), output.stdout)
        .with_context(|| format!("cannot write {path}"))
}

/// The steps that read the sources and build no program.
fn sources(sum: &mut Sum) {
    sum.step("format", || run(cargo(&["fmt", "--all", "--check"])));
    let lints = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    sum.step("lints", || run(cargo(&lints)));
    sum.step("tidiness", || tidy::all().map(|problems| print_problems(&problems)));
    sum.step("dependencies", || deny::problems().map(|problems| print_problems(&problems)));
}

fn tests(sum: &mut Sum) {
    let tests = ["test", "--workspace", "--locked", "--no-fail-fast"];
    sum.tests("tests", cargo(&tests), cargo_counts);
}

/// Every link in doc comments leads somewhere.
fn links() -> Command {
    let mut doc =
        cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"]);
    doc.env("RUSTDOCFLAGS", "-D rustdoc::broken_intra_doc_links");
    doc
}

fn interop(sum: &mut Sum, binary: &Path) {
    let root = repository::root();
    let mut suites = Command::new(root.join("interop/run"));
    suites.current_dir(&root).env("LEVERET_BIN", binary);
    if is_ci() {
        suites.env("INTEROP_STRICT", "1").env("INTEROP_JOBS", "2");
    }
    sum.tests("interop", suites, interop_counts);
}

/// Sums lines like `test result: ok. 32 passed; 0 failed; 0 ignored; ...`. An ignored test counts as
/// failed: it is either right or it goes.
fn cargo_counts(output: &[String]) -> Counts {
    let mut sum = Counts::default();
    for line in output {
        let Some((_, numbers)) =
            line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            continue;
        };
        sum.passed += number_before(numbers, " passed");
        sum.failed += number_before(numbers, " failed") + number_before(numbers, " ignored");
    }
    sum
}

/// Reads the last line like `12 passed, 0 failed, 1 skipped`: that of all suites together.
fn interop_counts(output: &[String]) -> Counts {
    let is_total = |line: &&String| line.contains(" passed, ") && line.contains(" failed");
    let total = output.iter().rev().find(is_total).map_or("", String::as_str);
    let left_out = output.iter().filter(|line| line.starts_with("left out")).cloned().collect();
    Counts {
        passed: number_before(total, " passed"),
        failed: number_before(total, " failed"),
        left_out,
    }
}

/// The number that stands right before `what`; 0 without one.
fn number_before(text: &str, what: &str) -> u64 {
    let before = text.split_once(what).map_or("", |(before, _)| before);
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Counts of tests by their end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    /// Lines that say what did not run.
    left_out: Vec<String>,
}

/// All steps so far.
#[derive(Default)]
struct Sum {
    counts: Counts,
    failed_steps: Vec<&'static str>,
}

impl Sum {
    /// A step that counts as one test.
    fn step(&mut self, name: &'static str, run: impl FnOnce() -> anyhow::Result<bool>) {
        let started = begin(name);
        let passed = run().unwrap_or_else(|error| {
            say(&format!("{error:#}"));
            false
        });
        self.counts.passed += u64::from(passed);
        self.counts.failed += u64::from(!passed);
        self.end(name, started, passed);
    }

    /// A step that counts as one test, and whose last lines are printed once more at the end if it fails.
    fn shown(&mut self, name: &'static str, command: Command) {
        let mut last = Vec::new();
        self.step(name, || {
            let (passed, lines) = run_and_read(command)?;
            if !passed {
                last = lines.into_iter().rev().take(LAST_LINES).collect();
            }
            Ok(passed)
        });
        self.counts.left_out.extend(last.into_iter().rev());
    }

    /// A step that says itself how many tests it has.
    fn tests(&mut self, name: &'static str, command: Command, counts: fn(&[String]) -> Counts) {
        let started = begin(name);
        let (success, lines) = run_and_read(command).unwrap_or_else(|error| {
            say(&format!("{error:#}"));
            (false, Vec::new())
        });
        let mut counts = counts(&lines);
        if !success && counts.failed == 0 {
            // It did not get as far as its tests.
            counts.failed = 1;
        }
        let passed = counts.failed == 0;
        self.counts.passed += counts.passed;
        self.counts.failed += counts.failed;
        self.counts.left_out.append(&mut counts.left_out);
        self.end(name, started, passed);
    }

    fn end(&mut self, name: &'static str, started: Instant, passed: bool) {
        let word = if passed { "passed" } else { "FAILED" };
        say(&format!("== {name} {word} in {} s", started.elapsed().as_secs()));
        if !passed {
            self.failed_steps.push(name);
        }
    }

    /// Prints the closing lines. Whether all passed.
    fn close(self) -> bool {
        let Counts { passed, failed, left_out } = self.counts;
        for line in left_out {
            say(&line);
        }
        if !self.failed_steps.is_empty() {
            say(&format!("failed: {}", self.failed_steps.join(", ")));
        }
        say(&format!("{passed} passed, {failed} failed"));
        failed == 0
    }
}

fn begin(name: &str) -> Instant {
    say(&format!("== {name}"));
    Instant::now()
}

/// Prints a problem a line. Whether there are none.
pub(crate) fn print_problems(problems: &[String]) -> bool {
    for problem in problems {
        say(problem);
    }
    problems.is_empty()
}

/// Prints a line. A closed standard output does not stop the checks.
pub(crate) fn say(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}

pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(repository::root()).args(args);
    cargo
}

/// Whether everything has to be there that checks need.
fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true")
}

pub(crate) fn installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn run(mut command: Command) -> anyhow::Result<bool> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    Ok(status.success())
}

/// Runs a command, showing what it prints as it comes. Whether it succeeded, and its lines.
fn run_and_read(mut command: Command) -> anyhow::Result<(bool, Vec<String>)> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    let stdout = child.stdout.take().context("no standard output")?;
    let mut lines = Vec::new();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        say(&line);
        lines.push(line);
    }
    Ok((child.wait()?.success(), lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn test_results_of_cargo_are_summed() {
        let output = lines(
            "running 3 tests\n\
             test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
             test result: FAILED. 40 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(cargo_counts(&output), Counts { passed: 43, failed: 3, left_out: Vec::new() });
    }

    #[test]
    fn the_last_total_of_the_suites_counts() {
        let left_out = "left out for a missing toolchain: java";
        let output = lines(&format!(
            "PASS pika a\n7 passed, 1 failed, 0 skipped\n== total\n{left_out}\n\
             19 passed, 1 failed, 0 skipped\n",
        ));
        let expected = Counts { passed: 19, failed: 1, left_out: vec![left_out.to_owned()] };
        assert_eq!(interop_counts(&output), expected);
        assert_eq!(interop_counts(&[]), Counts::default());
    }
}
