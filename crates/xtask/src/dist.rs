//! What is published of a version.

use std::process::Command;

use crate::repository::output;
use crate::sbom;
use crate::steps::say;

/// The system most machines have.
pub(crate) const GNU: &str = "x86_64-unknown-linux-gnu";

/// Prints what the binary for `target` is built from.
pub(crate) fn print_sbom(target: &str) -> anyhow::Result<bool> {
    let document = sbom::document(target, &rfc_3339(source_date()?)?)?;
    say(&serde_json::to_string_pretty(&document)?);
    Ok(true)
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
