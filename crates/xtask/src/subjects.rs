//! Subjects of commits: `area: what`, in at most 72 columns. Only commits that git knows are checked, so a
//! shallow clone and a directory without history pass.

use std::process::Command;

use crate::repository::root;

const COLUMNS_MAX: usize = 72;

/// Commits before this one day were written under an older rule.
const SINCE: &str = "--since=2026-11-29T00:00:00Z";

/// Commits whose subjects are wrong.
pub(crate) fn problems() -> Vec<String> {
    let mut git = Command::new("git");
    git.args(["log", "--no-merges", SINCE, "--format=%h %s"]).current_dir(root());
    let Ok(output) = git.output() else { return Vec::new() };
    let log = String::from_utf8_lossy(&output.stdout);
    let wrong = log.lines().filter(|line| line.split_once(' ').is_some_and(|(_, it)| !is_good(it)));
    wrong
        .map(|line| format!("commit {line}: a subject is `area: what`, at most 72 columns"))
        .collect()
}

fn is_good(subject: &str) -> bool {
    let Some((area, what)) = subject.split_once(": ") else { return false };
    let is_area = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/, ".contains(c);
    !area.is_empty()
        && area.chars().all(is_area)
        && !what.trim().is_empty()
        && !what.ends_with('.')
        && subject.chars().count() <= COLUMNS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_have_an_area_and_72_columns() {
        assert!(is_good("http: refuse bodies without a length"));
        assert!(is_good("docs, ctl: use the field's words"));
        assert!(!is_good("Refuse bodies without a length"));
        assert!(!is_good("http: refuse bodies without a length."));
        assert!(!is_good(&format!("http: {}", "x".repeat(COLUMNS_MAX))));
    }
}
