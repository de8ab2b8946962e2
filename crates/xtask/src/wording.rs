//! Lines that readers stumble over, counted per crate or markdown file and held against the list of
//! `sizes.rs`: long lines of comments and markdown, doc comments that begin with "What", references to a
//! catalogue of behaviours that is not in the repository. Every test that `docs/semantics.md` names has to
//! exist.

use std::collections::BTreeSet;

use crate::repository::{files, read};
use crate::sizes::Measures;

/// Columns of a line of comment or markdown.
const COLUMNS_MAX: usize = 110;

const SEMANTICS: &str = "docs/semantics.md";

/// Adds the counts of all crates and markdown files.
pub(crate) fn measure(found: &mut Measures) -> anyhow::Result<()> {
    for file in files()? {
        if let Some(name) = crate_of(&file) {
            count_comments(found, name, &read(&file)?);
        } else if is_written_here(&file) {
            let n = read(&file)?.lines().filter(|line| is_long_text(line)).count();
            add(found, "long-lines", &file, n);
        }
    }
    Ok(())
}

fn crate_of(file: &str) -> Option<&str> {
    let (name, _) = file.strip_prefix("crates/")?.split_once('/')?;
    file.ends_with(".rs").then_some(name)
}

/// Markdown that people write: the reference of options and queue settings is generated.
fn is_written_here(file: &str) -> bool {
    const GENERATED: [&str; 4] =
        ["docs/configuration.md", "docs/http-api.md", "docs/metrics.md", "docs/queue-settings.md"];
    file.ends_with(".md") && !GENERATED.contains(&file)
}

fn count_comments(found: &mut Measures, name: &str, text: &str) {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let comments = || lines.iter().filter(|line| line.starts_with("//"));
    let long = text.lines().filter(|line| line.trim_start().starts_with("//") && is_long(line));
    add(found, "long-comments", name, long.count());
    let is_doc = |line: &str| line.starts_with("/// ") || line.starts_with("//! ");
    let before = std::iter::once("").chain(lines.iter().copied());
    let begins_with_what = |(before, line): &(&str, &str)| {
        let doc = line.get(4..).unwrap_or_default();
        is_doc(line) && !is_doc(before) && doc.split([' ', ',']).next() == Some("What")
    };
    let what = before.zip(lines.iter().copied()).filter(begins_with_what).count();
    add(found, "what-comments", name, what);
    let references = comments().filter(|line| refers_elsewhere(line)).count();
    let names = lines.iter().filter(|line| line.starts_with(concat!("fn ", "semantics_")));
    add(found, "catalogue-references", name, references + names.count());
}

fn add(found: &mut Measures, what: &'static str, place: &str, n: usize) {
    if n > 0 {
        *found.entry((what, place.to_owned())).or_default() += n;
    }
}

fn is_long(line: &str) -> bool {
    line.chars().count() > COLUMNS_MAX
}

/// Tables and links cannot be broken.
fn is_long_text(line: &str) -> bool {
    is_long(line) && !line.starts_with('|') && line.trim().contains(' ')
}

/// `semantics 12`, `features C4`.
fn refers_elsewhere(comment: &str) -> bool {
    let words: Vec<String> = comment.split_whitespace().map(str::to_lowercase).collect();
    words.windows(2).any(|pair| {
        let [catalogue, number] = pair else { return false };
        let number = number.trim_start_matches(|c: char| c.is_ascii_lowercase());
        let is_catalogue = matches!(catalogue.trim_start_matches('('), "semantics" | "features");
        is_catalogue && number.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Tests that [`SEMANTICS`] names and that are not there.
pub(crate) fn missing_tests() -> anyhow::Result<Vec<String>> {
    let mut functions = BTreeSet::new();
    for file in files()?.iter().filter(|file| file.ends_with(".rs")) {
        let text = read(file)?;
        let names = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
        functions.extend(names.filter_map(|line| line.split('(').next()).map(str::to_owned));
    }
    let text = read(SEMANTICS)?;
    let missing = named_tests(&text).filter(|name| !functions.contains(*name));
    Ok(missing.map(|name| format!("{SEMANTICS}: there is no test `{name}`")).collect())
}

/// The names in backticks behind each `Test:` or `Tests:`, up to the end of the paragraph.
fn named_tests(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n")
        .filter_map(|text| text.split_once("Test:").or_else(|| text.split_once("Tests:")))
        .flat_map(|(_, list)| list.split('`').skip(1).step_by(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_counted() {
        let long = "x".repeat(COLUMNS_MAX);
        let catalogue = concat!("semantics", " 12");
        let text = format!(
            "/// What it is,\n/// What next.\nfn a() {{}}\n// {long}\n/// Whatever ({catalogue}).\n"
        );
        let mut found = Measures::new();
        count_comments(&mut found, "a", &text);
        let counts: Vec<String> =
            found.iter().map(|((what, place), n)| format!("{what} {place} {n}")).collect();
        assert_eq!(counts, ["catalogue-references a 1", "long-comments a 1", "what-comments a 1"]);
    }

    #[test]
    fn catalogues_are_numbered() {
        assert!(refers_elsewhere(concat!("// Features", " C11 and C14.")));
        assert!(!refers_elsewhere(
            "// Semantics of the queue's features are in docs/semantics.md."
        ));
    }

    #[test]
    fn tests_are_named_behind_their_word() {
        let text = "`no` it does. Tests:\n`one`, meta `two`.\n\n### Next\n\nIt is. Test: `three`.";
        assert_eq!(named_tests(text).collect::<Vec<_>>(), ["one", "two", "three"]);
    }
}
