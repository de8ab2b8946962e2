//! Files over 800 lines, functions over 70, types with too many fields, methods or namesakes, files and
//! modules in circles, and the lines that `wording.rs` counts. Those there are stand in `sizes.txt` with
//! their number; a number may only fall, and a line goes when its reason has gone.

use std::collections::BTreeMap;

use crate::{repository, structure, wording};

/// Lines of a file from which it needs a line in the list.
const FILE_LINES_MAX: usize = 800;

const LIST: &str = "crates/xtask/sizes.txt";

/// The mark of a function over 70 lines: clippy finds those that do not have it.
const LONG_FUNCTION: &str = concat!("clippy::", "too_many_lines");

/// A kind of measure and the file, type or crate it is taken of.
type Measure = (&'static str, String);

/// The measures above their limits.
pub(crate) type Measures = BTreeMap<Measure, usize>;

/// The measures that are larger than the list allows, and the entries of the list without a reason.
pub(crate) fn problems() -> anyhow::Result<Vec<String>> {
    Ok(against_the_list(&found()?, &repository::read(LIST)?))
}

fn found() -> anyhow::Result<Measures> {
    let mut found = Measures::new();
    structure::measure(&mut found)?;
    wording::measure(&mut found)?;
    for file in repository::files()?.into_iter().filter(|file| file.ends_with(".rs")) {
        measure(&mut found, &repository::read(&file)?, file);
    }
    Ok(found)
}

/// Writes the list again with the numbers that have fallen. Those that have risen stay, and are problems.
pub(crate) fn lower() -> anyhow::Result<()> {
    let text = lowered(&found()?, &repository::read(LIST)?);
    Ok(std::fs::write(repository::root().join(LIST), text)?)
}

fn lowered(found: &Measures, list: &str) -> String {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let (Some(what), Some(place)) = (words.next(), words.next()) else {
            return format!("{line}\n");
        };
        let Some(number) = words.next().and_then(|number| number.parse::<usize>().ok()) else {
            return format!("{line}\n");
        };
        let is = found.iter().find(|((kind, file), _)| *kind == what && file == place);
        is.map_or_else(String::new, |(_, is)| format!("{what} {place} {}\n", number.min(*is)))
    };
    list.lines().map(line).collect()
}

fn measure(found: &mut Measures, text: &str, file: String) {
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        found.insert(("lines", file.clone()), lines);
    }
    let long = text.matches(LONG_FUNCTION).count();
    if long > 0 {
        found.insert(("long-functions", file), long);
    }
}

fn against_the_list(found: &Measures, list: &str) -> Vec<String> {
    let entry = |((what, file), number): (&Measure, &usize)| format!("{what} {file} {number}");
    let is: Vec<String> = found.iter().map(entry).collect();
    let kept = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let listed: Vec<String> = list.lines().filter(kept).map(str::to_owned).collect();
    let too_large = is
        .iter()
        .filter(|line| !listed.contains(line))
        .map(|line| format!("{line}: more than allowed, or than {LIST} says"));
    let for_nothing = listed.iter().filter(|line| !is.contains(line)).map(|line| {
        format!("{LIST} allows `{line}`, which is not so any more: `cargo xtask tidy --lower`")
    });
    too_large.chain(for_nothing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_grows() {
        assert_eq!(problems().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn growth_and_slack_are_found() {
        let mut found = BTreeMap::new();
        measure(&mut found, &"\n".repeat(800), "a.rs".to_owned());
        assert_eq!(against_the_list(&found, "# nothing\n"), [""; 0]);
        measure(&mut found, &"\n".repeat(801), "b.rs".to_owned());
        measure(&mut found, &format!("#[expect({LONG_FUNCTION})]"), "c.rs".to_owned());
        assert_eq!(against_the_list(&found, "lines b.rs 801\nlong-functions c.rs 1\n"), [""; 0]);
        assert_eq!(against_the_list(&found, "lines b.rs 800\n").len(), 3);
        let list = "# Files over 800\nlines a.rs 900\nlines b.rs 900\nlong-functions c.rs 1\n";
        assert_eq!(
            lowered(&found, list),
            "# Files over 800\nlines b.rs 801\nlong-functions c.rs 1\n"
        );
        assert_eq!(lowered(&found, "lines b.rs 800\n"), "lines b.rs 800\n");
    }
}
