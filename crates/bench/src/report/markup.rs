//! Writes elements, so that no caller can leave one open or put text in unescaped. Knows nothing of
//! what the page shows.

use std::fmt::{self, Display, Write};

/// A page or a part of one, as it grows. All text and attribute values are escaped on their way in.
#[derive(Debug, Default)]
pub(crate) struct Markup(String);

/// An element whose start tag is being written; it ends with `with`, `text` or `void`.
#[must_use = "the start tag is still open"]
pub(crate) struct Element<'a> {
    markup: &'a mut Markup,
    name: &'static str,
}

impl Markup {
    /// Starts an element.
    pub(crate) fn element(&mut self, name: &'static str) -> Element<'_> {
        self.0.push('<');
        self.0.push_str(name);
        Element { markup: self, name }
    }

    /// Text between elements.
    pub(crate) fn text(&mut self, text: impl Display) {
        escape(&mut self.0, text);
    }

    /// Text that is this crate's own and must stay as it is: the style and the script.
    pub(crate) fn verbatim(&mut self, text: &'static str) {
        self.0.push_str(text);
    }

    /// The finished text.
    pub(crate) fn finish(self) -> String {
        self.0
    }
}

impl<'a> Element<'a> {
    /// Adds an attribute. Without a value in HTML's sense: give its own name as `value`.
    pub(crate) fn attr(self, name: &'static str, value: impl Display) -> Self {
        let out = &mut self.markup.0;
        out.push(' ');
        out.push_str(name);
        out.push_str("=\"");
        escape(out, value);
        out.push('"');
        self
    }

    /// Shorthand for the attribute `class`.
    pub(crate) fn class(self, value: impl Display) -> Self {
        self.attr("class", value)
    }

    /// The element with what `inside` writes into it.
    pub(crate) fn with(self, inside: impl FnOnce(&mut Markup)) {
        self.markup.0.push('>');
        inside(self.markup);
        self.markup.0.push_str("</");
        self.markup.0.push_str(self.name);
        self.markup.0.push('>');
    }

    /// The element with nothing but text in it.
    pub(crate) fn text(self, text: impl Display) {
        self.with(|markup| markup.text(text));
    }

    /// The element without content and end tag, as SVG's shapes and HTML's void elements have it.
    pub(crate) fn void(self) {
        self.markup.0.push_str("/>");
    }
}

fn escape(out: &mut String, text: impl Display) {
    let written = write!(Escaped(out), "{text}");
    debug_assert!(written.is_ok(), "neither `Escaped` nor what is shown here fails");
}

struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' => self.0.push_str("&#10;"),
                // Not allowed in HTML, not even escaped.
                '\0'..='\x08' | '\x0b'..='\x1f' | '\x7f'..='\u{9f}' => self.0.push('\u{fffd}'),
                // Turns the reading direction of what follows: a name could pass for another one.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => self.0.push('\u{fffd}'),
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_nest_and_end() {
        let mut markup = Markup::default();
        markup.element("g").class("a").attr("x", 1.5).with(|markup| {
            markup.element("rect").attr("y", 2).void();
            markup.element("text").text("t");
        });
        assert_eq!(markup.finish(), r#"<g class="a" x="1.5"><rect y="2"/><text>t</text></g>"#);
    }

    #[test]
    fn nothing_from_outside_can_end_an_attribute_or_start_an_element() {
        let mut markup = Markup::default();
        markup.element("td").attr("title", r#"" onload="x()"#).text("</td><script>'&\0\u{202e}");
        assert_eq!(
            markup.finish(),
            "<td title=\"&quot; onload=&quot;x()\">\
             &lt;/td&gt;&lt;script&gt;&#39;&amp;\u{fffd}\u{fffd}</td>"
        );
    }
}
