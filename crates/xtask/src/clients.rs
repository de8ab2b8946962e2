//! The table of clients and systems that are tried: the suites of `interop/` with the versions that are
//! pinned there. `cargo xtask pages` writes it into its page.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;

use crate::repository::{files, read, root};

const PAGE: &str = "docs/clients.md";
/// The lines around the table.
const MARKS: (&str, &str) = ("<!-- suites: begin -->\n", "<!-- suites: end -->\n");
/// The page that says what each suite runs.
const SUITES: &str = "interop/README.md";

/// The pins of the suites, by their names.
const PINS: &str = "interop/pins.toml";

/// The packages of a suite that are clients or systems, and the file that pins their versions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pinned {
    file: String,
    names: Vec<String>,
}

/// The page if its table is out of date.
pub(crate) fn problems() -> anyhow::Result<Vec<String>> {
    let text = read(PAGE)?;
    let is_old = with_table(&text, &table()?)? != text;
    Ok(is_old
        .then(|| format!("{PAGE}: out of date; run `cargo xtask pages`"))
        .into_iter()
        .collect())
}

/// Writes the table.
pub(crate) fn write() -> anyhow::Result<()> {
    Ok(std::fs::write(root().join(PAGE), with_table(&read(PAGE)?, &table()?)?)?)
}

fn with_table(page: &str, table: &str) -> anyhow::Result<String> {
    let (before, rest) = page.split_once(MARKS.0).context("no place for the table of suites")?;
    let (_, after) = rest.split_once(MARKS.1).context("no end of the table of suites")?;
    Ok([before, MARKS.0, table, MARKS.1, after].concat())
}

fn table() -> anyhow::Result<String> {
    let listed = read(SUITES)?;
    let pins: BTreeMap<String, Pinned> = toml::from_str(&read(PINS)?)?;
    let mut table = String::from("| suite | versions | what runs |\n|---|---|---|\n");
    let mut files = files()?;
    files.sort();
    for file in &files {
        let Some(suite) = file.strip_prefix("interop/").and_then(|it| it.strip_suffix("/run"))
        else {
            continue;
        };
        let runs = said_of(suite, &listed)
            .with_context(|| format!("{SUITES} does not say what '{suite}' runs"))?;
        let mut versions = Vec::new();
        if let Some(Pinned { file, names }) = pins.get(suite) {
            let text = read(&format!("interop/{suite}/{file}"))?;
            for name in names {
                let version = version_of(name, &text)
                    .with_context(|| format!("{suite}: no version of {name}"))?;
                let name = name.rsplit('/').next().unwrap_or(name);
                versions.push(format!("{name} {version}"));
            }
        }
        table.push_str(&format!("| `{suite}` | {} | {runs} |\n", versions.join(", ")));
    }
    Ok(table)
}

/// The description of a suite, which may share its row with another, without links.
fn said_of(suite: &str, listed: &str) -> Option<String> {
    let row = listed.lines().find_map(|line| {
        let (names, text) = line.strip_prefix("| ")?.split_once(" | ")?;
        let is_it = names.split(", ").any(|name| name == format!("`{suite}`"));
        is_it.then(|| text.trim_end_matches(" |"))
    })?;
    let mut text = String::new();
    let mut rest = row;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((name, (_, after))) =
            link.split_once("](").and_then(|(name, to)| Some((name, to.split_once(')')?)))
        else {
            break;
        };
        text.extend([before, name]);
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

/// The version that stands behind a name, in the form of any of the files: `a==1`, `"a": "1"`, `x/a v1`,
/// `name = "a"` with `version = "1"` in the next line, `<artifactId>a</artifactId>` with `<version>1`, or
/// `<a.version>1`.
fn version_of(name: &str, text: &str) -> Option<String> {
    let forms = [
        (format!("\n{name}=="), ""),
        (format!("\"{name}\": \""), ""),
        (format!("/{name} v"), ""),
        (format!("name = \"{name}\"\n"), "version = \""),
        (format!("<artifactId>{name}</artifactId>"), "<version>"),
        (format!("<{name}.version>"), ""),
    ];
    let text = format!("\n{text}");
    forms.iter().find_map(|(name, before)| {
        let (_, behind) = text.split_once(name.as_str())?;
        let (_, version) = behind.split_once(before)?;
        let end = version.find(|c: char| c.is_whitespace() || "\"<".contains(c));
        version.get(..end.unwrap_or(version.len())).map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_files_of_all_kinds() {
        for text in [
            "b==2\na==1.2\n",
            r#"{"dependencies": {"a": "1.2"}}"#,
            "require (\n\tgithub.com/x/a v1.2\n)",
            "[[package]]\nname = \"a\"\nversion = \"1.2\"\n",
            "<artifactId>a</artifactId>\n  <version>1.2</version>",
            "<a.version>1.2</a.version>",
        ] {
            assert_eq!(version_of("a", text).as_deref(), Some("1.2"), "{text}");
        }
        assert_eq!(version_of("c", "a==1"), None);
    }

    #[test]
    fn descriptions_lose_their_links() {
        let listed = "| `a`, `b` | the list of [X.md](X.md), `x[0]` |\n";
        assert_eq!(said_of("b", listed).unwrap(), "the list of X.md, `x[0]`");
        assert_eq!(said_of("c", listed), None);
    }
}
