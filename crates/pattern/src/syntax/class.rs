//! Classes of characters: in brackets, by escapes, by properties.

use super::Refused;
use super::scanner::Scanner;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    Heeded,
    Ignored,
}

/// Characters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Class {
    pub(crate) negated: bool,
    pub(crate) items: Vec<Item>,
    pub(crate) case: Case,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Range(char, char),
    /// The text for it between brackets, in the syntax of the linear engine. Case does not matter to it.
    Named(String),
}

impl Scanner<'_> {
    /// The characters that an escape stands for, if it stands for several.
    pub(super) fn class_escape(&mut self) -> Result<Option<Vec<Item>>, Refused> {
        let Some(next) = self.peek() else { return Ok(None) };
        let items = match next.to_ascii_lowercase() {
            'd' => vec![Item::Range('0', '9')],
            'w' => words(),
            's' => vec![Item::Range('\t', '\r'), one(' ')],
            'h' => horizontal(),
            'v' => vertical(),
            'n' if next == 'N' => vec![one('\n')],
            'p' => {
                self.next();
                return self.property(next == 'P').map(Some);
            }
            _ => return Ok(None),
        };
        self.next();
        let is_negated = next.is_ascii_uppercase();
        Ok(Some(if is_negated { vec![Item::Named(between(&items, true))] } else { items }))
    }

    /// A Unicode property, behind its `\p`.
    fn property(&mut self, is_negated: bool) -> Result<Vec<Item>, Refused> {
        let name = if self.eats("{") {
            self.until("}").ok_or("unclosed \\p{")?
        } else {
            let len = self.peek().map_or(0, char::len_utf8);
            let (name, rest) = self.rest.split_at(len);
            self.rest = rest;
            name
        };
        let bare = name.strip_prefix('^');
        let is_negated = is_negated != bare.is_some();
        let bare = bare.unwrap_or(name).trim();
        let is_name =
            |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | ' ' | ':' | '=' | '-');
        let of = |text: &str| if is_negated { format!("[^{text}]") } else { text.to_owned() };
        let named = match bare {
            "L&" => of("\\p{Lu}\\p{Ll}\\p{Lt}"),
            "Xan" => of("\\p{L}\\p{N}"),
            "Xwd" => of("\\p{L}\\p{N}_"),
            "Xsp" | "Xps" => of("\\t-\\r \\x{85}\\x{2028}\\x{2029}\\p{Z}"),
            _ if !bare.is_empty() && bare.chars().all(is_name) => {
                format!("\\{}{{{bare}}}", if is_negated { 'P' } else { 'p' })
            }
            _ => return Err("unknown property after \\P or \\p".to_owned()),
        };
        Ok(vec![Item::Named(named)])
    }

    /// A class, behind its bracket.
    pub(super) fn class(&mut self, case: Case) -> Result<Class, Refused> {
        let negated = self.eats("^");
        let mut items = Vec::new();
        let mut is_first = true;
        loop {
            if std::mem::take(&mut is_first) && self.eats("]") {
                items.push(self.range(']')?);
                continue;
            }
            if self.is_quoted {
                match self.next() {
                    _ if self.rest.is_empty() => break,
                    Some('\\') if self.eats("E") => self.is_quoted = false,
                    Some(literal) => items.push(one(literal)),
                    None => break,
                }
                continue;
            }
            if self.eats("]") {
                return Ok(Class { negated, items, case });
            }
            if self.eats("\\Q") {
                self.is_quoted = true;
            } else if self.eats("\\E") {
            } else if let Some(posix) = self.posix(case)? {
                items.push(posix);
                self.literal_dash(&mut items);
            } else {
                match self.next() {
                    None => break,
                    Some('\\') => match self.class_escape()? {
                        Some(several) => {
                            items.extend(several);
                            self.literal_dash(&mut items);
                        }
                        None => {
                            let low = self.class_char()?;
                            items.push(self.range(low)?);
                        }
                    },
                    Some(low) => items.push(self.range(low)?),
                }
            }
        }
        Err("unclosed character class".to_owned())
    }

    /// A dash behind what is no single character is one.
    fn literal_dash(&mut self, items: &mut Vec<Item>) {
        if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
            self.next();
            items.push(one('-'));
        }
    }

    /// A character in brackets, behind its backslash.
    fn class_char(&mut self) -> Result<char, Refused> {
        if self.eats("b") {
            return Ok('\u{8}');
        }
        if self.peek().is_some_and(|it| it.is_digit(8)) {
            let code = u32::from_str_radix(self.digits(8, 3), 8).ok().and_then(char::from_u32);
            return code.ok_or_else(|| "no such character".to_owned());
        }
        self.char_escape()
    }

    /// The range that begins with this character, or this character alone.
    fn range(&mut self, low: char) -> Result<Item, Refused> {
        let before = self.rest;
        if !self.eats("-") || self.rest.starts_with(']') {
            self.rest = before;
            return Ok(one(low));
        }
        let is_several = |rest: &str| {
            rest.strip_prefix('\\').is_some_and(|rest| rest.starts_with(CLASS_ESCAPES))
                || rest.starts_with("[:")
        };
        if is_several(self.rest) {
            self.rest = before;
            return Ok(one(low));
        }
        let high = match self.next() {
            Some('\\') => self.class_char()?,
            Some(high) => high,
            None => return Err("unclosed character class".to_owned()),
        };
        if low > high {
            return Err("range out of order in character class".to_owned());
        }
        Ok(Item::Range(low, high))
    }

    /// A POSIX class, `[:alpha:]` or `[:^alpha:]`.
    fn posix(&mut self, case: Case) -> Result<Option<Item>, Refused> {
        let Some((inside, rest)) =
            self.rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]"))
        else {
            return Ok(None);
        };
        let (caret, name) = inside.strip_prefix('^').map_or(("", inside), |name| ("^", name));
        if !name.chars().all(|it| it.is_ascii_lowercase()) {
            return Ok(None);
        }
        if !POSIX.contains(&name) {
            return Err(format!("unknown POSIX class name '{name}'"));
        }
        self.rest = rest;
        let is_cased = case == Case::Ignored && matches!(name, "upper" | "lower");
        Ok(Some(Item::Named(format!("[:{caret}{}:]", if is_cased { "alpha" } else { name }))))
    }
}

/// The letters behind a backslash that stand for several characters.
const CLASS_ESCAPES: [char; 13] = ['d', 'D', 'w', 'W', 's', 'S', 'h', 'H', 'v', 'V', 'p', 'P', 'N'];

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

pub(super) const fn one(char: char) -> Item {
    Item::Range(char, char)
}

fn words() -> Vec<Item> {
    vec![Item::Range('0', '9'), Item::Range('A', 'Z'), one('_'), Item::Range('a', 'z')]
}

pub(super) fn vertical() -> Vec<Item> {
    vec![Item::Range('\n', '\r'), one('\u{85}'), Item::Range('\u{2028}', '\u{2029}')]
}

fn horizontal() -> Vec<Item> {
    let mut items: Vec<Item> =
        ['\t', ' ', '\u{a0}', '\u{1680}', '\u{180e}', '\u{202f}', '\u{205f}', '\u{3000}']
            .map(one)
            .into();
    items.push(Item::Range('\u{2000}', '\u{200a}'));
    items
}

/// A class in the syntax of the linear engine.
pub(crate) fn between(items: &[Item], negated: bool) -> String {
    let mut out = String::from(if negated { "[^" } else { "[" });
    for item in items {
        match item {
            Item::Range(low, high) => {
                put_char(&mut out, *low);
                if low != high {
                    out.push('-');
                    put_char(&mut out, *high);
                }
            }
            Item::Named(name) => out.push_str(name),
        }
    }
    out.push(']');
    out
}

/// A character that stands for itself, in brackets and outside, also where blanks say nothing.
pub(crate) fn put_char(out: &mut String, char: char) {
    if char.is_alphanumeric() || char == '_' {
        out.push(char);
    } else {
        out.push_str(&format!("\\x{{{:x}}}", u32::from(char)));
    }
}
