//! The glossary held against what people read: labels of the web UI, help texts of `leveret ctl`, pages
//! (also those generated from the help of configuration keys), and the product's log lines and errors. The
//! glossary's last column lists words that have a better one in the first.

use crate::repository::{files, read};

const GLOSSARY: &str = "docs/glossary.md";

/// The web UI's sources.
const UI: &str = "crates/ui/web/";

/// The help texts of `leveret ctl`.
const HELP: &str = "crates/ctl/src/verbs/";

/// The words of the glossary's last column.
#[derive(Debug, Default)]
struct Banned {
    /// Single words, which are wrong as a whole label or heading.
    labels: Vec<String>,
    /// Several words, which are wrong anywhere.
    phrases: Vec<String>,
}

/// Lines with banned words.
pub(crate) fn problems() -> anyhow::Result<Vec<String>> {
    let banned = Banned::read(&read(GLOSSARY)?);
    let mut problems = Vec::new();
    for file in files()?.iter().filter(|file| *file != GLOSSARY) {
        let Some(is_shown) = shown_lines(file) else { continue };
        let mut is_program = false;
        let text = read(file)?;
        let lines = text.lines().take_while(|line| *line != "mod tests {");
        for (at, line) in lines.enumerate() {
            is_program ^= line.trim_start().starts_with("```");
            if is_program || !is_shown(line) {
                continue;
            }
            let found = banned.in_line(line).into_iter();
            let found = found.filter(|word| word.contains(' ') || !is_code(file));
            problems.extend(found.map(|word| format!("{file}:{}: '{word}' ({GLOSSARY})", at + 1)));
        }
    }
    Ok(problems)
}

/// The lines of a file that people read; none if nobody does.
fn shown_lines(file: &str) -> Option<fn(&str) -> bool> {
    let is_page = file.starts_with("docs/") && file.ends_with(".md");
    if is_page {
        return Some(|_| true);
    }
    let is_ui = file.starts_with(UI) && file.ends_with(".js");
    let is_help = file.starts_with(HELP) && file.ends_with(".rs");
    (is_ui || is_help || is_code(file)).then_some(|line| {
        let is_comment = line.trim_start().starts_with(['/', '*']);
        !is_comment && line.contains(['"', '\'', '`'])
    })
}

/// Whether a file has the product's log lines and errors. Single words of it are no labels.
fn is_code(file: &str) -> bool {
    let is_source = file.starts_with("crates/") && file.contains("/src/") && file.ends_with(".rs");
    let is_other = file.starts_with("crates/xtask/") || file.starts_with(HELP);
    is_source && !is_other && !file.contains("tests")
}

impl Banned {
    fn read(glossary: &str) -> Self {
        let mut banned = Self::default();
        let rows = glossary.lines().filter(|line| line.starts_with("| ")).skip(1);
        for row in rows {
            let last = row.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default();
            let has_last = row.matches('|').count() == 4 && !row.ends_with("| |");
            for words in last.split(',').map(str::trim).filter(|_| has_last) {
                let list =
                    if words.contains(' ') { &mut banned.phrases } else { &mut banned.labels };
                list.push(words.to_lowercase());
            }
        }
        banned
    }

    fn in_line(&self, line: &str) -> Vec<&str> {
        let line = line.to_lowercase();
        let phrases = self.phrases.iter().filter(|phrase| has_words(&line, phrase));
        let labels = self.labels.iter().filter(|label| {
            let is_heading = line.starts_with('#') && line.trim_matches(['#', ' ']) == **label;
            is_heading || ['\'', '"', '`'].iter().any(|q| line.contains(&format!("{q}{label}{q}")))
        });
        phrases.chain(labels).map(String::as_str).collect()
    }
}

/// Whether the words stand in the line as whole ones.
fn has_words(line: &str, words: &str) -> bool {
    line.match_indices(words).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + words.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| term | meaning | not |\n|---|---|---|\n| create | Adds. | make it, make |\n\
                         | channel | A session. | |\n| scope | What it is for. | of |\n";

    #[test]
    fn the_last_column_is_read() {
        let banned = Banned::read(TABLE);
        assert_eq!(banned.labels, ["make", "of"]);
        assert_eq!(banned.phrases, ["make it"]);
    }

    #[test]
    fn product_code_is_read_and_its_tests_are_not() {
        assert!(is_code("crates/http/src/list.rs") && is_code("crates/node/src/main.rs"));
        for file in ["crates/http/src/list/tests.rs", "crates/http/tests/it/main.rs", "docs/a.md"] {
            assert!(!is_code(file), "{file}");
        }
        let is_shown = shown_lines("crates/http/src/list.rs").unwrap();
        assert!(is_shown("tracing::warn!(\"make it\");") && !is_shown("// make it \"so\""));
    }

    #[test]
    fn phrases_are_found_anywhere_and_words_as_labels() {
        let banned = Banned::read(TABLE);
        assert_eq!(banned.in_line("act: 'Make it', wide"), ["make it"]);
        assert_eq!(banned.in_line("h('span', null, 'Of')"), ["of"]);
        assert_eq!(banned.in_line("## Make"), ["make"]);
        assert_eq!(banned.in_line("remake items of a list"), [""; 0]);
    }
}
