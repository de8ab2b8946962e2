//! Crates say whether their docs have programs: `rustdoc` takes seconds to find that there are none, for each
//! crate, and one that were written in a crate that says no would never run.

use crate::repository::read;

/// The line by which a crate says that its docs have no programs.
const NONE: &str = "doctest = false";
/// First words of a fence behind which rustdoc expects a program.
const PROGRAMS: &[&str] = &["", "rust", "no_run", "should_panic", "compile_fail"];

/// Crates whose manifest says something else than their docs.
pub(crate) fn problems(files: &[String]) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for library in files.iter().filter(|file| file.ends_with("/src/lib.rs")) {
        let Some(folder) = library.strip_suffix("src/lib.rs") else { continue };
        let manifest = format!("{folder}Cargo.toml");
        let says_none = read(&manifest)?.lines().any(|line| line == NONE);
        let sources = files.iter().filter(|file| file.starts_with(folder) && file.ends_with(".rs"));
        let mut with_programs = Vec::new();
        for source in sources {
            if has_program(&read(source)?) {
                with_programs.push(source.as_str());
            }
        }
        match (says_none, with_programs.first()) {
            (true, Some(source)) => {
                problems.push(format!(
                    "{source}: its program in a comment never runs: {manifest} says `{NONE}`"
                ));
            }
            (false, None) => problems
                .push(format!("{manifest}: `{NONE}` under [lib]: its docs have no programs")),
            _ => {}
        }
    }
    Ok(problems)
}

/// Whether doc comments of a source have a block that rustdoc compiles.
fn has_program(source: &str) -> bool {
    let mut is_in_block = false;
    for line in source.lines().map(str::trim_start) {
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(info) = text.and_then(|text| text.trim_start().strip_prefix("```")) else {
            continue;
        };
        let first = info.split([',', ' ']).next().unwrap_or_default();
        if !is_in_block && PROGRAMS.contains(&first) {
            return true;
        }
        is_in_block = !is_in_block;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::has_program;

    #[test]
    fn programs_are_told_from_drawings() {
        assert!(has_program("    /// Adds.\n    /// ```\n    /// add(1);\n    /// ```\n"));
        assert!(has_program("//! ```no_run,edition2024\n"));
        assert!(!has_program("//! ```text\n//! a -> b\n//! ```\n//! More.\n//! ```text\n"));
        assert!(!has_program("let fence = \"```\";"));
    }
}
