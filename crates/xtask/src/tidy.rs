//! The checks that neither rustfmt nor clippy has.

use crate::repository::{files, read};
use crate::{clients, doc_tests, glossary, layers, links, quotes, sizes, subjects, wording};

/// Crates besides those of `layers::IO_CRATES` that may read files and clocks: this one.
const TOOLS: &[&str] = &["xtask"];

/// The pages that say where things are.
const MAPS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/storage.md"];

/// Everything that is not as it should be, a line each.
pub(crate) fn all() -> anyhow::Result<Vec<String>> {
    let mut problems = layers::problems()?;
    problems.extend(sizes::problems()?);
    problems.extend(wording::missing_tests()?);
    problems.extend(quotes::problems()?);
    problems.extend(glossary::problems()?);
    problems.extend(subjects::problems());
    problems.extend(clients::problems()?);
    problems.extend(links::problems()?);
    let files = files()?;
    problems.extend(names(&files));
    problems.extend(clippy_copies(&files)?);
    problems.extend(lib_headers(&files)?);
    for map in MAPS {
        problems.extend(misplaced(map, &read(map)?, &files));
    }
    problems.extend(doc_tests::problems(&files)?);
    Ok(problems)
}

fn names(files: &[String]) -> Vec<String> {
    let wrong = |file: &&String| file.ends_with("/mod.rs") && !file.starts_with("interop/");
    files.iter().filter(wrong).map(|file| format!("{file}: name it after its folder")).collect()
}

/// The endings of files that maps name.
const SOURCES: [&str; 7] = ["rs", "md", "js", "py", "java", "txt", "toml"];

/// The files and folders that the map names and that are not there: `queue.rs`, `classic/src/`. Capitals in a
/// path stand for a name.
fn misplaced(map: &str, text: &str, files: &[String]) -> Vec<String> {
    let is_source = |path: &str| {
        path.rsplit_once('.')
            .is_some_and(|(name, ending)| !name.is_empty() && SOURCES.contains(&ending))
    };
    let is_folder =
        |path: &str| path.ends_with('/') && path != "/" && !path.contains(char::is_uppercase);
    let is_path = |path: &&str| !path.contains([' ', '*']) && (is_source(path) || is_folder(path));
    let named = text.split('`').skip(1).step_by(2).filter(is_path);
    let is_there = |named: &str| {
        let inside = format!("/{named}");
        let ends = |file: &String| file == named || file.ends_with(&inside);
        let holds = |file: &String| file.starts_with(named) || file.contains(&inside);
        files.iter().any(|file| if is_folder(named) { holds(file) } else { ends(file) })
    };
    let missing = named.filter(|named| !is_there(named));
    missing.map(|named| format!("{map} names {named}, which is not there")).collect()
}

/// A crate with its own clippy.toml does not read the root's: the copies must not drift.
fn clippy_copies(files: &[String]) -> anyhow::Result<Vec<String>> {
    let root = read("clippy.toml")?;
    let mut problems = Vec::new();
    for file in files {
        let Some(folder) =
            file.strip_prefix("crates/").and_then(|file| file.strip_suffix("/clippy.toml"))
        else {
            continue;
        };
        if !layers::IO_CRATES.contains(&folder) && !TOOLS.contains(&folder) {
            problems.push(format!("{file}: only crates that do IO go without the clock ban"));
        }
        if thresholds(&read(file)?) != thresholds(&root) {
            problems.push(format!("{file}: not in step with the root's clippy.toml"));
        }
    }
    Ok(problems)
}

/// The lines that are neither comment nor part of the list of banned functions.
fn thresholds(text: &str) -> Vec<&str> {
    text.lines()
        .take_while(|line| !line.starts_with("disallowed-methods"))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// A crate's first three lines: its purpose, what it must never know, where to start reading.
fn lib_headers(files: &[String]) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.starts_with("crates/")) {
        if file.ends_with("/src/lib.rs")
            && read(file)?.lines().take(3).filter(|line| line.starts_with("//! ")).count() < 3
        {
            problems.push(format!(
                "{file}: open with what it does, what it must never know, where to start reading"
            ));
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        assert_eq!(all().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn mod_files_are_found() {
        let files = ["crates/a/src/mod.rs", "crates/a/src/model.rs"].map(str::to_owned);
        assert_eq!(names(&files), ["crates/a/src/mod.rs: name it after its folder"]);
    }

    #[test]
    fn the_map_names_sources_that_are_there() {
        let files = ["crates/a/src/model.rs", "README.md"].map(str::to_owned);
        let text =
            "`model.rs`, `src/model.rs`, `a.rs`, `Model`, `README.md`, `crates/NAME/`, `a/src/`";
        assert_eq!(misplaced("MAP.md", text, &files), ["MAP.md names a.rs, which is not there"]);
        assert_eq!(misplaced("MAP.md", "`b/`", &files), ["MAP.md names b/, which is not there"]);
    }

    #[test]
    fn thresholds_leave_out_comments_and_bans() {
        let text = "# x\na = 1\n\nb = 2\ndisallowed-methods = [\n  {},\n]\n";
        assert_eq!(thresholds(text), ["a = 1", "b = 2"]);
    }
}
