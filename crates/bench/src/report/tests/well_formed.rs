//! A checker for pages: every element is closed where it was opened, identifiers are unique and
//! references lead somewhere.

/// Elements without content that HTML knows; within SVG every element may end in `/>`.
const VOID: [&str; 2] = ["meta", "input"];

/// The errors of a page; none if it is well-formed.
pub(crate) fn problems(html: &str) -> Vec<String> {
    let mut checker = Checker::default();
    let mut rest = html.strip_prefix("<!doctype html>").unwrap_or(html);
    while let Some((text, tag_on)) = rest.split_once('<') {
        checker.text(text);
        let Some((tag, after)) = tag_on.split_once('>') else {
            checker.problem(format!("unfinished tag: {tag_on}"));
            return checker.problems;
        };
        checker.tag(tag);
        rest = after;
        if matches!(tag, "style" | "script") {
            let end = rest.find(&format!("</{tag}>")).expect("the style and the script end");
            rest = &rest[end..];
        }
    }
    checker.text(rest);
    checker.finish()
}

#[derive(Default)]
struct Checker {
    open: Vec<String>,
    ids: Vec<String>,
    references: Vec<String>,
    problems: Vec<String>,
}

impl Checker {
    fn problem(&mut self, what: String) {
        self.problems.push(format!("{what} within {}", self.open.join(" > ")));
    }

    fn text(&mut self, text: &str) {
        for part in text.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;", "#39;", "#10;"];
            if !known.iter().any(|entity| part.starts_with(entity)) {
                self.problem(format!("bare ampersand before {part:?}"));
            }
        }
        if text.contains('>') {
            self.problem(format!("bare > in {text:?}"));
        }
    }

    fn tag(&mut self, tag: &str) {
        if let Some(name) = tag.strip_prefix('/') {
            if self.open.pop().as_deref() != Some(name) {
                self.problem(format!("</{name}> closes something else"));
            }
            return;
        }
        let (tag, is_void) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        self.attributes(attributes);
        match is_void {
            false if VOID.contains(&name) => self.problem(format!("<{name}> never has content")),
            false => self.open.push(name.to_owned()),
            true if VOID.contains(&name) || self.open.iter().any(|open| open == "svg") => {}
            true => self.problem(format!("<{name}/> is not closed in HTML")),
        }
    }

    fn attributes(&mut self, attributes: &str) {
        let mut names: Vec<&str> = Vec::new();
        let mut rest = attributes;
        while !rest.is_empty() {
            let Some((name, after)) = rest.split_once("=\"") else {
                return self.problem(format!("attribute without a value: {rest}"));
            };
            let Some((value, after)) = after.split_once('"') else {
                return self.problem(format!("attribute without an end: {rest}"));
            };
            let is_name = |at: char| at.is_ascii_alphanumeric() || at == '-';
            if !name.chars().all(is_name) || names.contains(&name) || name.starts_with("on") {
                self.problem(format!("attribute {name}"));
            }
            self.text(value);
            match name {
                "id" => self.ids.push(value.to_owned()),
                "for" => self.references.push(value.to_owned()),
                "href" => self.references.push(value.trim_start_matches('#').to_owned()),
                "src" | "srcset" | "action" => self.problem(format!("{name} loads {value}")),
                _ => {}
            }
            names.push(name);
            rest = after.trim_start();
        }
    }

    fn finish(mut self) -> Vec<String> {
        if !self.open.is_empty() {
            self.problem("end of the page".to_owned());
        }
        self.ids.sort();
        let twice = self.ids.windows(2).filter(|two| two[0] == two[1]);
        self.problems.extend(twice.map(|two| format!("id {} twice", two[0])));
        let lost = self.references.iter().filter(|id| self.ids.binary_search(id).is_err());
        self.problems.extend(lost.map(|id| format!("no element has the id {id}")));
        self.problems
    }
}

#[test]
fn the_checker_finds_what_it_looks_for() {
    for (html, problem) in [
        ("<p><b></p>", "</p> closes something else"),
        ("<p>a & b</p>", "bare ampersand"),
        ("<p>a > b</p>", "bare >"),
        ("<p>", "end of the page within p"),
        ("<p/>", "is not closed"),
        ("<meta>", "never has content"),
        ("<svg><rect x=1/></svg>", "attribute without a value"),
        ("<p onclick=\"x\"></p>", "attribute onclick"),
        ("<img src=\"x\"></img>", "src loads x"),
        ("<p id=\"a\"></p><p id=\"a\"></p>", "id a twice"),
        ("<a href=\"#b\"></a>", "no element has the id b"),
        ("<p", "unfinished tag"),
    ] {
        let found = problems(html);
        assert!(found.iter().any(|it| it.contains(problem)), "{html}: {found:?}");
    }
    assert_eq!(problems("<!doctype html>\n<p id=\"a\">&lt;<svg><g/></svg></p>"), [""; 0]);
}
