//! Links between pages: the file is there, and has the heading.

use std::path::Path;

use crate::repository::{files, read, root};

/// The links that lead nowhere.
pub(crate) fn problems() -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for page in files()?.into_iter().filter(|file| file.ends_with(".md")) {
        for link in targets(&read(&page)?) {
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let folder = Path::new(&page).parent().unwrap_or_else(|| Path::new(""));
            let to = if file.is_empty() { Path::new(&page).into() } else { folder.join(file) };
            let is_there = root().join(&to).exists();
            let has_heading = || {
                let text = std::fs::read_to_string(root().join(&to)).unwrap_or_default();
                anchors(&text).iter().any(|anchor| anchor == heading)
            };
            if !is_there || !(heading.is_empty() || has_heading()) {
                problems.push(format!("{page}: the link to {link} leads nowhere"));
            }
        }
    }
    Ok(problems)
}

/// The targets of a page's links, but for those to other sites. Code has none.
fn targets(page: &str) -> Vec<String> {
    let prose = without_blocks(page);
    let text: String = prose.split('`').step_by(2).collect();
    let links = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.trim()));
    links.filter(|link| !link.contains("://")).map(str::to_owned).collect()
}

/// The names that links give to the page's headings.
fn anchors(page: &str) -> Vec<String> {
    let headings = without_blocks(page);
    let headings = headings.lines().filter_map(|line| line.strip_prefix('#'));
    let name = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(name).collect()
}

/// A page without its blocks of code.
fn without_blocks(page: &str) -> String {
    let mut in_block = false;
    let lines = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_headings_are_found_outside_of_code() {
        let page =
            "# What `a.b` is, now\n[x](y.md#z) `[n](o)` [s](https://e/)\n```\n[a](b)\n# c\n```\n";
        assert_eq!(targets(page), ["y.md#z"]);
        assert_eq!(anchors(page), ["what-ab-is-now"]);
    }
}
