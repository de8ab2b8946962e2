//! `leveret doctor`: what keeps a node from running well with these arguments on this machine, and
//! the command that mends it. Starts nothing and leaves nothing behind; a node may run meanwhile.
//! `machine` looks at the system, `place` at the data directory and its disk.

mod machine;
mod place;

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use crate::cli::ServerArgs;
use crate::config::{self, Checked};

/// A check and its verdict.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    verdict: Verdict,
    what: String,
    /// A command, or what to do by hand.
    mend: String,
}

stdx::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Verdict {
        Good = "ok     ",
        /// A node runs, but not as well as it could.
        Warning = "warning",
        /// A node does not start, or must not be relied on.
        Problem = "PROBLEM",
    }
}

impl Finding {
    fn good(what: impl Into<String>) -> Self {
        Self { verdict: Verdict::Good, what: what.into(), mend: String::new() }
    }

    fn warning(what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning, what: what.into(), mend: mend.into() }
    }

    fn problem(what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { verdict: Verdict::Problem, what: what.into(), mend: mend.into() }
    }
}

/// Prints what it finds. Fails if there is a problem; warnings alone do not count.
pub(crate) fn run(args: &ServerArgs) -> ExitCode {
    let findings = look(args);
    let has_problem = findings.iter().any(|finding| finding.verdict == Verdict::Problem);
    let written = std::io::stdout().write_all(report(&findings).as_bytes());
    if has_problem || written.is_err() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn look(args: &ServerArgs) -> Vec<Finding> {
    let checked = config::check(args.sources());
    let is_running = UnixStream::connect(args.data_dir.join(api::SOCKET_FILE)).is_ok();
    let mut findings = configuration(&checked);
    findings.push(machine::descriptors());
    findings.extend(machine::memory(&checked.config));
    findings.extend(machine::clock(&args.data_dir));
    findings.extend(machine::ports(&checked.config, is_running));
    findings.extend(place::directory(&args.data_dir, is_running));
    findings.extend(place::disk(&args.data_dir, &checked.config));
    findings
}

fn configuration(checked: &Checked) -> Vec<Finding> {
    let edit = "edit the configuration, then run leveret server --check-config";
    let errors = checked.errors.iter();
    let mut findings: Vec<Finding> =
        errors.map(|error| Finding::problem(crate::error_line(error), edit)).collect();
    if findings.is_empty() {
        findings.push(Finding::good("configuration: valid"));
    }
    let warnings = checked.warnings.iter();
    findings.extend(warnings.map(|warning| Finding::warning(warning.to_string(), edit)));
    findings
}

/// A line each, with what mends it below, and a last line that sums up.
fn report(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { verdict, what, mend } in findings {
        let word = verdict.as_str();
        text.push_str(&format!("{word}  {what}\n"));
        if !mend.is_empty() {
            text.push_str(&format!("         -> {mend}\n"));
        }
    }
    let count = |wanted| findings.iter().filter(|finding| finding.verdict == wanted).count();
    let (problems, warnings) = (count(Verdict::Problem), count(Verdict::Warning));
    text.push_str(&format!("problems: {problems}, warnings: {warnings}\n"));
    text
}

/// The path itself, or what there is of it.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|path| path.is_dir()).unwrap_or_else(|| Path::new("."))
}

/// Bytes as people read them.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let unit = (0_u32..3).find(|unit| bytes >> (10 * (unit + 1)) < 10).unwrap_or(3);
    format!("{} {}", bytes >> (10 * unit), UNITS.get(unit as usize).unwrap_or(&"B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_a_line_for_each_and_sums_up() {
        let findings = [
            Finding::good("a"),
            Finding::warning("b", "do this"),
            Finding::problem("c", "do that"),
        ];
        let expected = "ok       a\nwarning  b\n         -> do this\nPROBLEM  c\n         \
                        -> do that\nproblems: 1, warnings: 1\n";
        assert_eq!(report(&findings), expected);
    }

    #[test]
    fn bytes_are_short() {
        assert_eq!(bytes(10_239), "10239 B");
        assert_eq!(bytes(10_240), "10 KiB");
        assert_eq!(bytes(50 << 30), "50 GiB");
        assert_eq!(bytes(50 << 40), "51200 GiB");
    }
}
