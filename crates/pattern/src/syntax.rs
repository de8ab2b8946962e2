//! Perl's syntax, as PCRE documents it, read into a tree that has no flags any more.
//!
//! COMPAT: as PCRE without its option UCP, `\w`, `\d`, `\s`, `\b` and POSIX classes are those of ASCII.
//! Refused: recursion and subroutines, `(?|`, verbs such as `(*SKIP)`, `\X` and `\C`.

use std::collections::BTreeMap;

/// The deepest groups in each other: they are read and compiled by functions that call themselves.
const NESTING_MAX: usize = 100;
/// Most quantifiers of one atom.
const QUANTIFIERS_MAX: usize = 2;
/// PCRE's largest number of a repetition.
const REPEAT_MAX: u32 = 65_535;

/// The refusal of an expression, in one line.
pub(crate) type Refused = String;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Empty,
    Char(char, Case),
    Class(Class),
    Assert(Assertion),
    Capture(usize, Box<Self>),
    Concat(Vec<Self>),
    Alternate(Vec<Self>),
    Repeat(Box<Self>, Repetition),
    Look(Look, Box<Self>),
    Atomic(Box<Self>),
    /// The text of the group.
    BackReference(usize, Case),
    /// Whether a group has taken part, or has not.
    IsSet(usize, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    Heeded,
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assertion {
    Start,
    End,
    LineStart,
    LineEnd,
    WordBoundary,
    NoWordBoundary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) ahead: bool,
    pub(crate) negated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repetition {
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
    pub(crate) is_lazy: bool,
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
    /// What stands for it between brackets in the syntax of the linear engine. Case does not matter to it.
    Named(String),
}

/// An expression that was read.
pub(crate) struct Parsed {
    pub(crate) node: Node,
    pub(crate) n_groups: usize,
}

#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a letter of its own")]
struct Flags {
    ignores_case: bool,
    is_multiline: bool,
    dot_takes_all: bool,
    is_extended: bool,
    is_swapped: bool,
}

struct Reader<'t> {
    rest: &'t str,
    flags: Flags,
    depth: usize,
    n_groups: usize,
    names: BTreeMap<&'t str, usize>,
    /// Names and numbers of groups that are referred to, which must be there at the end.
    pending: Vec<(usize, Option<&'t str>)>,
    /// Whether `\Q` is open.
    is_quoted: bool,
    /// Whether a condition that looks around is read, which is compiled twice.
    is_condition: bool,
}

/// Numbers from here on stand for names whose groups come later.
const LATER: usize = usize::MAX / 2;

pub(crate) fn parse(text: &str, ignores_case: bool) -> Result<Parsed, Refused> {
    let mut reader = Reader {
        rest: text,
        flags: Flags { ignores_case, ..Flags::default() },
        depth: 0,
        n_groups: 0,
        names: BTreeMap::new(),
        pending: Vec::new(),
        is_quoted: false,
        is_condition: false,
    };
    let mut node = reader.alternatives()?;
    if !reader.rest.is_empty() {
        return Err("unopened group".to_owned());
    }
    let mut resolved = BTreeMap::new();
    for (at, name) in std::mem::take(&mut reader.pending) {
        let group = match name {
            Some(name) => reader.names.get(name).copied(),
            None => Some(at).filter(|at| *at <= reader.n_groups),
        };
        let group = group.ok_or("reference to a group that does not exist")?;
        resolved.insert(at, group);
    }
    resolve(&mut node, &resolved);
    Ok(Parsed { node, n_groups: reader.n_groups })
}

/// Writes the numbers of groups into what refers to them.
fn resolve(node: &mut Node, groups: &BTreeMap<usize, usize>) {
    match node {
        Node::BackReference(group, _) | Node::IsSet(group, _) => {
            *group = groups.get(group).copied().unwrap_or(*group);
        }
        Node::Capture(_, inner)
        | Node::Repeat(inner, _)
        | Node::Look(_, inner)
        | Node::Atomic(inner) => resolve(inner, groups),
        Node::Concat(nodes) | Node::Alternate(nodes) => {
            nodes.iter_mut().for_each(|node| resolve(node, groups));
        }
        Node::Empty | Node::Char(..) | Node::Class(_) | Node::Assert(_) => {}
    }
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }

    fn eats(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// The text before `end`, which is taken too.
    fn until(&mut self, end: &str) -> Option<&'t str> {
        let (before, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(before)
    }

    const fn case(&self) -> Case {
        if self.flags.ignores_case { Case::Ignored } else { Case::Heeded }
    }

    fn alternatives(&mut self) -> Result<Node, Refused> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(format!("groups are more than {NESTING_MAX} deep"));
        }
        let mut all = vec![self.sequence()?];
        while !self.is_quoted && self.eats("|") {
            all.push(self.sequence()?);
        }
        self.depth -= 1;
        Ok(if all.len() == 1 { all.swap_remove(0) } else { Node::Alternate(all) })
    }

    fn sequence(&mut self) -> Result<Node, Refused> {
        let mut all = Vec::new();
        while let Some(next) = self.peek() {
            if self.is_quoted {
                if self.eats("\\E") {
                    self.is_quoted = false;
                } else {
                    self.next();
                    let literal = Node::Char(next, self.case());
                    // A repetition may come behind the end of the quotation.
                    self.is_quoted = !self.eats("\\E");
                    all.push(if self.is_quoted { literal } else { self.repeated(literal)? });
                }
                continue;
            }
            if matches!(next, '|' | ')') {
                break;
            }
            if self.skips_blank(next) || self.eats("\\E") {
                continue;
            }
            if self.eats("\\Q") {
                self.is_quoted = true;
                continue;
            }
            if let Some(atom) = self.atom()? {
                all.push(self.repeated(atom)?);
            }
        }
        Ok(match all.len() {
            0 => Node::Empty,
            1 => all.swap_remove(0),
            _ => Node::Concat(all),
        })
    }

    /// What says nothing: comments, and blanks where the flag `x` is on.
    fn skips_blank(&mut self, next: char) -> bool {
        if self.rest.starts_with("(?#") {
            self.rest = self.rest.split_once(')').map_or("", |(_, rest)| rest);
            return true;
        }
        if !self.flags.is_extended {
            return false;
        }
        if next == '#' {
            self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
            return true;
        }
        let is_blank = next.is_ascii_whitespace() || next == '\u{b}';
        if is_blank {
            self.next();
        }
        is_blank
    }

    /// The atom, repeated as what follows says.
    fn repeated(&mut self, mut atom: Node) -> Result<Node, Refused> {
        let mut n_quantifiers = 0;
        while let Some(next) = self.peek() {
            if self.skips_blank(next) {
                continue;
            }
            let (min, max) = match next {
                '*' => (0, None),
                '+' => (1, None),
                '?' => (0, Some(1)),
                '{' => match bounds(self.rest)? {
                    Some((min, max, len)) => {
                        self.rest = self.rest.get(len - 1..).unwrap_or_default();
                        (min, max)
                    }
                    None => break,
                },
                _ => break,
            };
            self.next();
            n_quantifiers += 1;
            if n_quantifiers > QUANTIFIERS_MAX {
                return Err("quantifier does not follow a repeatable item".to_owned());
            }
            let is_lazy = self.eats("?") != self.flags.is_swapped;
            let is_possessive = !is_lazy && self.eats("+");
            atom = Node::Repeat(Box::new(atom), Repetition { min, max, is_lazy });
            if is_possessive {
                atom = Node::Atomic(Box::new(atom));
            }
        }
        Ok(atom)
    }

    /// The next atom; none where it only sets flags.
    fn atom(&mut self) -> Result<Option<Node>, Refused> {
        let flags = self.flags;
        let Some(next) = self.next() else { return Ok(None) };
        Ok(Some(match next {
            '(' => return self.group(),
            '[' => Node::Class(self.class()?),
            '.' if flags.dot_takes_all => any(),
            '.' => not(vec![one('\n')]),
            '^' if flags.is_multiline => Node::Assert(Assertion::LineStart),
            '^' => Node::Assert(Assertion::Start),
            '$' if flags.is_multiline => Node::Assert(Assertion::LineEnd),
            '$' => Node::Assert(Assertion::End),
            '*' | '+' | '?' => {
                return Err("quantifier does not follow a repeatable item".to_owned());
            }
            '\\' => self.escape()?,
            literal => Node::Char(literal, self.case()),
        }))
    }

    /// A group, behind its bracket.
    fn group(&mut self) -> Result<Option<Node>, Refused> {
        if self.rest.starts_with('*') {
            return Err("verbs such as (*SKIP) are not supported".to_owned());
        }
        if !self.eats("?") {
            return self.capture(None).map(Some);
        }
        const LOOKS: [(&str, Look); 4] = [
            ("<=", Look { ahead: false, negated: false }),
            ("<!", Look { ahead: false, negated: true }),
            ("=", Look { ahead: true, negated: false }),
            ("!", Look { ahead: true, negated: true }),
        ];
        for (mark, look) in LOOKS {
            if self.eats(mark) {
                return Ok(Some(Node::Look(look, Box::new(self.inner()?))));
            }
        }
        if self.eats(">") {
            return Ok(Some(Node::Atomic(Box::new(self.inner()?))));
        }
        if self.eats("P=") {
            let name = self.until(")").ok_or("unclosed group")?;
            return Ok(Some(self.reference(name)));
        }
        if self.eats("P<") || self.eats("<") {
            return self.named(">").map(Some);
        }
        if self.eats("'") {
            return self.named("'").map(Some);
        }
        if self.eats("(") {
            return self.conditional().map(Some);
        }
        self.with_flags()
    }

    fn named(&mut self, end: &str) -> Result<Node, Refused> {
        let name = self.until(end).ok_or("unclosed group name")?;
        let mut chars = name.chars();
        let is_name = chars.next().is_some_and(|it| it.is_alphabetic() || it == '_')
            && chars.all(|it| it.is_alphanumeric() || it == '_');
        if !is_name || self.names.contains_key(name) {
            return Err(format!("'{name}' cannot be a group's name, or is one twice"));
        }
        self.capture(Some(name))
    }

    fn capture(&mut self, name: Option<&'t str>) -> Result<Node, Refused> {
        self.n_groups += 1;
        let group = self.n_groups;
        self.names.extend(name.map(|name| (name, group)));
        Ok(Node::Capture(group, Box::new(self.inner()?)))
    }

    /// What stands in a group, to its end. Flags that are set in there end with it.
    fn inner(&mut self) -> Result<Node, Refused> {
        let flags = self.flags;
        let node = self.alternatives()?;
        self.flags = flags;
        if self.eats(")") { Ok(node) } else { Err("unclosed group".to_owned()) }
    }

    /// `(?i)`, `(?i-s:...)` and `(?:...)`, behind the question mark.
    fn with_flags(&mut self) -> Result<Option<Node>, Refused> {
        let before = self.flags;
        if self.eats("^") {
            self.flags = Flags { is_swapped: before.is_swapped, ..Flags::default() };
        }
        let mut is_on = true;
        loop {
            match self.next() {
                Some('i') => self.flags.ignores_case = is_on,
                Some('m') => self.flags.is_multiline = is_on,
                Some('s') => self.flags.dot_takes_all = is_on,
                Some('x') => self.flags.is_extended = is_on,
                Some('U') => self.flags.is_swapped = is_on,
                Some('-') if is_on => is_on = false,
                Some(')') => return Ok(None),
                Some(':') => {
                    let node = self.inner()?;
                    self.flags = before;
                    return Ok(Some(node));
                }
                None => return Err("unclosed group".to_owned()),
                Some('R' | '0'..='9' | '&' | '+' | 'P') => {
                    return Err("recursion is not supported".to_owned());
                }
                Some(other) => return Err(format!("unrecognised flag '{other}'")),
            }
        }
    }

    /// `(?(condition)yes|no)`, behind its second bracket: `condition yes`, or `no` without the condition.
    fn conditional(&mut self) -> Result<Node, Refused> {
        let no_condition = "a condition is a group, or looks ahead or behind";
        if self.is_condition {
            return Err("a condition stands within a condition".to_owned());
        }
        let condition = if let Some(rest) = self.rest.strip_prefix('?') {
            let is_look = ["=", "!", "<=", "<!"].iter().any(|mark| rest.starts_with(mark));
            self.is_condition = true;
            let look = if is_look { self.group()? } else { None };
            self.is_condition = false;
            look.ok_or(no_condition)?
        } else {
            let name = self.until(")").ok_or("unclosed group")?;
            let name = name.trim_matches(['<', '>', '\'']);
            Node::IsSet(self.group_of(name), true)
        };
        let otherwise = match &condition {
            Node::Look(look, inner) => {
                Node::Look(Look { negated: !look.negated, ..*look }, inner.clone())
            }
            Node::IsSet(group, _) => Node::IsSet(*group, false),
            Node::Empty
            | Node::Char(..)
            | Node::Class(_)
            | Node::Assert(_)
            | Node::Capture(..)
            | Node::Concat(_)
            | Node::Alternate(_)
            | Node::Repeat(..)
            | Node::Atomic(_)
            | Node::BackReference(..) => return Err(no_condition.to_owned()),
        };
        let inner = self.inner()?;
        let mut branches =
            if let Node::Alternate(branches) = inner { branches } else { vec![inner] };
        if branches.len() > 2 {
            return Err("a condition has more than two branches".to_owned());
        }
        let no = if branches.len() == 2 { branches.pop() } else { None };
        let (yes, no) = (branches.pop().unwrap_or(Node::Empty), no.unwrap_or(Node::Empty));
        let branches = [(condition, yes), (otherwise, no)];
        Ok(Node::Alternate(branches.map(|(a, b)| Node::Concat(vec![a, b])).into()))
    }

    /// The text of a group.
    fn reference(&mut self, name: &'t str) -> Node {
        Node::BackReference(self.group_of(name), self.case())
    }

    /// What stands for a group until all are known, by its number, its number from here, or its name.
    fn group_of(&mut self, name: &'t str) -> usize {
        let number = name.parse::<usize>().ok().filter(|it| (1..LATER).contains(it));
        let back = name.strip_prefix('-').and_then(|it| it.parse::<usize>().ok());
        let back = back.map(|back| (self.n_groups + 1).checked_sub(back).unwrap_or(LATER - 1));
        let at = number.or(back).unwrap_or(LATER + self.pending.len());
        self.pending.push((at, (at >= LATER).then_some(name)));
        at
    }

    /// What stands behind a backslash, outside of brackets.
    fn escape(&mut self) -> Result<Node, Refused> {
        let Some(next) = self.peek() else { return Err("\\ at the end".to_owned()) };
        if let Some(items) = self.class_escape()? {
            return Ok(Node::Class(Class { negated: false, items, case: Case::Heeded }));
        }
        let asserted = |reader: &mut Self, assertion| {
            reader.next();
            Ok(Node::Assert(assertion))
        };
        match next {
            'A' | 'G' => asserted(self, Assertion::Start),
            'z' => asserted(self, Assertion::End),
            'Z' => {
                self.next();
                let repetition = Repetition { min: 0, max: Some(1), is_lazy: false };
                let newline = Node::Repeat(Box::new(Node::Char('\n', Case::Heeded)), repetition);
                let end = Node::Concat(vec![newline, Node::Assert(Assertion::End)]);
                Ok(Node::Look(Look { ahead: true, negated: false }, Box::new(end)))
            }
            'b' => asserted(self, Assertion::WordBoundary),
            'B' => asserted(self, Assertion::NoWordBoundary),
            'K' => {
                self.next();
                Ok(Node::Empty)
            }
            'R' => {
                self.next();
                let both = ['\r', '\n'].map(|it| Node::Char(it, Case::Heeded));
                let class = Class { negated: false, items: vertical(), case: Case::Heeded };
                let all = vec![Node::Concat(both.into()), Node::Class(class)];
                Ok(Node::Atomic(Box::new(Node::Alternate(all))))
            }
            'k' | 'g' => {
                self.next();
                self.group_escape(next)
            }
            '1'..='9' => Ok(self.numbered()),
            _ => Ok(Node::Char(self.char_escape()?, self.case())),
        }
    }

    /// `\k<name>`, `\g{-1}` and the like.
    fn group_escape(&mut self, letter: char) -> Result<Node, Refused> {
        let ends: &[(&str, &str)] =
            if letter == 'k' { &[("<", ">"), ("'", "'"), ("{", "}")] } else { &[("{", "}")] };
        for (start, end) in ends {
            if self.eats(start) {
                let name = self.until(end).ok_or("unclosed group name")?;
                return Ok(self.reference(name.trim()));
            }
        }
        let digits = self.digits(10, 4);
        if letter == 'k' || digits.is_empty() {
            return Err("recursion is not supported".to_owned());
        }
        Ok(self.reference(digits))
    }

    /// `\1`: a group, or where there are not so many, a character in octal.
    fn numbered(&mut self) -> Node {
        let before = self.rest;
        let digits = self.digits(10, 4);
        let number = digits.parse().unwrap_or(usize::MAX);
        if number < 10 || number <= self.n_groups {
            return self.reference(digits);
        }
        self.rest = before;
        let octal = self.digits(8, 3);
        let code = u32::from_str_radix(octal, 8).ok().and_then(char::from_u32);
        match code {
            Some(code) => Node::Char(code, self.case()),
            None => self.reference(digits),
        }
    }

    fn digits(&mut self, radix: u32, max: usize) -> &'t str {
        let is_past = |(at, it): &(usize, char)| *at == max || !it.is_digit(radix);
        let end = self.rest.char_indices().find(is_past).map_or(self.rest.len(), |(at, _)| at);
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits
    }

    /// The character that an escape stands for, in brackets as outside.
    fn char_escape(&mut self) -> Result<char, Refused> {
        let next = self.next().ok_or("\\ at the end")?;
        let of_code = |digits: &str, radix| {
            let code =
                if digits.is_empty() { Some(0) } else { u32::from_str_radix(digits, radix).ok() };
            code.and_then(char::from_u32).ok_or_else(|| "no such character".to_owned())
        };
        Ok(match next {
            'a' => '\u{7}',
            'e' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => return of_code(self.digits(8, 2), 8),
            'o' if self.eats("{") => return of_code(self.until("}").ok_or("unclosed \\o{")?, 8),
            'x' if self.eats("{") => return of_code(self.until("}").ok_or("unclosed \\x{")?, 16),
            'x' => return of_code(self.digits(16, 2), 16),
            'c' => {
                let letter = self.next().filter(char::is_ascii).ok_or("\\c without a letter")?;
                char::from(letter.to_ascii_uppercase() as u8 ^ 64)
            }
            // PCRE without UTF knows no others, and keeps letters for what may come.
            other if other.is_ascii_alphanumeric() => {
                return Err(format!("unrecognised escape \\{other}"));
            }
            other => other,
        })
    }

    /// The characters that an escape stands for, if it stands for several.
    fn class_escape(&mut self) -> Result<Option<Vec<Item>>, Refused> {
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
    fn class(&mut self) -> Result<Class, Refused> {
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
                return Ok(Class { negated, items, case: self.case() });
            }
            if self.eats("\\Q") {
                self.is_quoted = true;
            } else if self.eats("\\E") {
            } else if let Some(posix) = self.posix()? {
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
    fn posix(&mut self) -> Result<Option<Item>, Refused> {
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
        let is_cased = self.flags.ignores_case && matches!(name, "upper" | "lower");
        Ok(Some(Item::Named(format!("[:{caret}{}:]", if is_cased { "alpha" } else { name }))))
    }
}

/// The letters behind a backslash that stand for several characters.
const CLASS_ESCAPES: [char; 13] = ['d', 'D', 'w', 'W', 's', 'S', 'h', 'H', 'v', 'V', 'p', 'P', 'N'];

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

const fn one(char: char) -> Item {
    Item::Range(char, char)
}

fn words() -> Vec<Item> {
    vec![Item::Range('0', '9'), Item::Range('A', 'Z'), one('_'), Item::Range('a', 'z')]
}

fn vertical() -> Vec<Item> {
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

fn any() -> Node {
    let items = vec![Item::Range('\0', char::MAX)];
    Node::Class(Class { negated: false, items, case: Case::Heeded })
}

fn not(items: Vec<Item>) -> Node {
    Node::Class(Class { negated: true, items, case: Case::Heeded })
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

/// `{n}`, `{n,}` or `{n,m}`: its bounds and length; none for a bracket that stands for itself.
fn bounds(rest: &str) -> Result<Option<(u32, Option<u32>, usize)>, Refused> {
    let Some((inside, _)) = rest.get(1..).and_then(|rest| rest.split_once('}')) else {
        return Ok(None);
    };
    let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if least.is_empty() || !is_number(least) || !is_number(most) {
        return Ok(None);
    }
    let number = |text: &str| text.parse().ok().filter(|n| *n <= REPEAT_MAX);
    let too_big = "number too big in {} quantifier";
    let min = number(least).ok_or(too_big)?;
    let max = if most.is_empty() { None } else { Some(number(most).ok_or(too_big)?) };
    if max.is_some_and(|max| max < min) {
        return Err("numbers out of order in {} quantifier".to_owned());
    }
    Ok(Some((min, max, inside.len() + 2)))
}
