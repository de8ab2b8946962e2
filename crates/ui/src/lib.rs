//! The files of the web UI, as a browser is given them.
//! Never a request, never an answer of the API: those are between the browser and `http`.
//! Start reading at `web/main.js`.

use rust_embed::Embed;
use std::borrow::Cow;
use std::sync::LazyLock;

/// The files, in a release build in the binary; in others read anew each time, while their version is that
/// of the first request.
#[derive(Embed)]
#[folder = "web"]
struct Files;

/// The mark in the index for the address of the other files.
const BASE: &str = "@BASE@";
/// The marks in the index for the label, and for its color.
const LABEL: &str = "@LABEL@";
const COLOR: &str = "@COLOR@";
/// The number of digits of a version.
const VERSION_DIGITS: usize = 16;

/// The look of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The beginning of all addresses: empty, or a slash and more.
    pub prefix: String,
    /// The environment that the node is part of, on every page.
    pub label: String,
    /// The color of the label; one that the style sheet knows.
    pub color: String,
}

impl Default for Look {
    fn default() -> Self {
        Self { prefix: String::new(), label: String::new(), color: "gray".to_owned() }
    }
}

/// A file.
#[derive(Debug)]
pub struct File {
    /// The content of the file.
    pub bytes: Cow<'static, [u8]>,
    /// The content type, as browsers want it told.
    pub content_type: &'static str,
}

/// A file by its path.
#[must_use]
pub fn file(path: &str) -> Option<File> {
    let content_type = match path.rsplit_once('.')?.1 {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    };
    Some(File { bytes: Files::get(path)?.data, content_type })
}

/// The page, which finds all other files below `{prefix}/ui/{version}/`.
#[must_use]
pub fn index(look: &Look) -> String {
    let index = Files::get("index.html").map(|file| file.data).unwrap_or_default();
    let base = format!("{}/ui/{}", look.prefix, version());
    let index = String::from_utf8_lossy(&index).replace(BASE, &base).replace(COLOR, &look.color);
    index.replace(LABEL, &escaped(&look.label))
}

/// A text as the value of an attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;")
}

/// A hash of all files: another one after any change.
#[must_use]
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let mut all = [0; 32];
        for file in Files::iter().filter_map(|path| Files::get(&path)) {
            let hash = file.metadata.sha256_hash();
            for (all, byte) in all.iter_mut().zip(hash) {
                *all = u8::wrapping_mul(*all, 31) ^ byte;
            }
        }
        all.iter().take(VERSION_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
    });
    &VERSION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_files_that_are_there() {
        let base = format!("/broker/ui/{}/", version());
        let label = "\"><script>@BASE@".to_owned();
        let index = index(&Look { prefix: "/broker".to_owned(), label, color: "red".to_owned() });
        assert!(
            index.contains("content=\"&quot;>&lt;script>@BASE@\" data-color=\"red\""),
            "{index}"
        );
        let named: Vec<&str> =
            index.split(&base).skip(1).filter_map(|it| it.split('"').next()).collect();
        assert!(named.len() > 2 && named.iter().all(|path| file(path).is_some()), "{named:?}");
    }

    #[test]
    fn what_is_no_part_of_it_is_not_there() {
        for path in ["", "index.html", "nothing.js", "../src/lib.rs", "../web/main.js/.."] {
            assert!(file(path).is_none(), "{path}");
        }
    }
}
