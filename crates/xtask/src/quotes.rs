//! Programs that a page shows in full: the code block behind a line that names the file, which a test runs.
//! `cargo xtask docs` copies the files into their pages.

use crate::repository::{files, read, root};

/// The line before a code block: `<!-- file: interop/python/examples/resend.py -->`.
const MARK: (&str, &str) = ("<!-- file: ", " -->");
const FENCE: &str = "```";

/// The pages that show a file as it is not.
pub(crate) fn problems() -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for page in pages()? {
        let text = read(&page)?;
        if with_files(&text, read)? != text {
            problems.push(format!("{page}: shows a file as it is not; run `cargo xtask docs`"));
        }
    }
    Ok(problems)
}

/// Copies the files into the pages that show them.
pub(crate) fn copy() -> anyhow::Result<()> {
    for page in pages()? {
        std::fs::write(root().join(&page), with_files(&read(&page)?, read)?)?;
    }
    Ok(())
}

fn pages() -> anyhow::Result<Vec<String>> {
    let is_page = |file: &String| file.starts_with("docs/") && file.ends_with(".md");
    Ok(files()?.into_iter().filter(is_page).collect())
}

/// The page with what `content` says is in the files.
fn with_files(
    page: &str,
    content: impl Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut lines = page.split_inclusive('\n');
    while let Some(line) = lines.next() {
        text.push_str(line);
        let Some(file) = line.trim_end().strip_prefix(MARK.0) else { continue };
        let fence = lines.next().filter(|line| line.starts_with(FENCE));
        let (Some(file), Some(fence)) = (file.strip_suffix(MARK.1), fence) else {
            anyhow::bail!("no code block behind: {line}");
        };
        let end = lines.find(|line| line.trim_end() == FENCE);
        let content = content(file)?;
        text.extend([fence, content.trim_end(), "\n", end.unwrap_or("```\n")]);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "a\n<!-- file: x.py -->\n```python\nold\n```\nb\n```\nc\n```\n";

    #[test]
    fn blocks_behind_a_mark_are_files() {
        let read = |file: &str| Ok(format!("new {file}\n\n"));
        let page = with_files(PAGE, read).unwrap();
        assert_eq!(page, PAGE.replace("old", "new x.py"));
        assert_eq!(with_files(&page, read).unwrap(), page);
        assert!(with_files("<!-- file: x.py -->\ntext\n", read).is_err());
        assert!(with_files(PAGE, |_| anyhow::bail!("not there")).is_err());
    }
}
