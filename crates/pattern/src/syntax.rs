//! Perl's syntax, as PCRE documents it, read into a tree that has no flags any more.
//!
//! COMPAT: as PCRE without its option UCP, `\w`, `\d`, `\s`, `\b` and POSIX classes are those of ASCII.
//! Refused: recursion and subroutines, `(?|`, verbs such as `(*SKIP)`, `\X` and `\C`.

mod class;
mod scanner;

pub(crate) use class::{Case, Class, Item, between, put_char};
use class::{one, vertical};
use scanner::Scanner;
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
    Lookaround(Lookaround, Box<Self>),
    Atomic(Box<Self>),
    /// The text of the group.
    BackReference(usize, Case),
    /// Whether a group has taken part, or has not.
    IsSet(usize, bool),
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
pub(crate) struct Lookaround {
    pub(crate) ahead: bool,
    pub(crate) negated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repetition {
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
    pub(crate) is_lazy: bool,
}

/// An expression that was read.
pub(crate) struct ParsedPattern {
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

struct SyntaxCursor<'t> {
    text: Scanner<'t>,
    flags: Flags,
    depth: usize,
    n_groups: usize,
    names: BTreeMap<&'t str, usize>,
    /// Names and numbers of groups that are referred to, which must be there at the end.
    pending: Vec<(usize, Option<&'t str>)>,
    /// Whether a condition that looks around is read, which is compiled twice.
    is_condition: bool,
}

/// Numbers from here on stand for names whose groups come later.
const LATER: usize = usize::MAX / 2;

pub(crate) fn parse(text: &str, ignores_case: bool) -> Result<ParsedPattern, Refused> {
    let mut reader = SyntaxCursor {
        text: Scanner::new(text),
        flags: Flags { ignores_case, ..Flags::default() },
        depth: 0,
        n_groups: 0,
        names: BTreeMap::new(),
        pending: Vec::new(),
        is_condition: false,
    };
    let mut node = reader.alternatives()?;
    if !reader.text.rest.is_empty() {
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
    Ok(ParsedPattern { node, n_groups: reader.n_groups })
}

/// Writes the numbers of groups into what refers to them.
fn resolve(node: &mut Node, groups: &BTreeMap<usize, usize>) {
    match node {
        Node::BackReference(group, _) | Node::IsSet(group, _) => {
            *group = groups.get(group).copied().unwrap_or(*group);
        }
        Node::Capture(_, inner)
        | Node::Repeat(inner, _)
        | Node::Lookaround(_, inner)
        | Node::Atomic(inner) => resolve(inner, groups),
        Node::Concat(nodes) | Node::Alternate(nodes) => {
            nodes.iter_mut().for_each(|node| resolve(node, groups));
        }
        Node::Empty | Node::Char(..) | Node::Class(_) | Node::Assert(_) => {}
    }
}

impl<'t> SyntaxCursor<'t> {
    const fn case(&self) -> Case {
        if self.flags.ignores_case { Case::Ignored } else { Case::Heeded }
    }

    fn alternatives(&mut self) -> Result<Node, Refused> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(format!("groups are more than {NESTING_MAX} deep"));
        }
        let mut all = vec![self.sequence()?];
        while !self.text.is_quoted && self.text.eats("|") {
            all.push(self.sequence()?);
        }
        self.depth -= 1;
        Ok(if all.len() == 1 { all.swap_remove(0) } else { Node::Alternate(all) })
    }

    fn sequence(&mut self) -> Result<Node, Refused> {
        let mut all = Vec::new();
        while let Some(next) = self.text.peek() {
            if self.text.is_quoted {
                if self.text.eats("\\E") {
                    self.text.is_quoted = false;
                } else {
                    self.text.next();
                    let literal = Node::Char(next, self.case());
                    // A repetition may come behind the end of the quotation.
                    self.text.is_quoted = !self.text.eats("\\E");
                    all.push(if self.text.is_quoted { literal } else { self.repeated(literal)? });
                }
                continue;
            }
            if matches!(next, '|' | ')') {
                break;
            }
            if self.skips_blank(next) || self.text.eats("\\E") {
                continue;
            }
            if self.text.eats("\\Q") {
                self.text.is_quoted = true;
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

    /// Skips what says nothing: comments, and blanks where the flag `x` is on.
    fn skips_blank(&mut self, next: char) -> bool {
        if self.text.rest.starts_with("(?#") {
            self.text.rest = self.text.rest.split_once(')').map_or("", |(_, rest)| rest);
            return true;
        }
        if !self.flags.is_extended {
            return false;
        }
        if next == '#' {
            self.text.rest = self.text.rest.split_once('\n').map_or("", |(_, rest)| rest);
            return true;
        }
        let is_blank = next.is_ascii_whitespace() || next == '\u{b}';
        if is_blank {
            self.text.next();
        }
        is_blank
    }

    /// The atom, repeated as what follows says.
    fn repeated(&mut self, mut atom: Node) -> Result<Node, Refused> {
        let mut n_quantifiers = 0;
        while let Some(next) = self.text.peek() {
            if self.skips_blank(next) {
                continue;
            }
            let (min, max) = match next {
                '*' => (0, None),
                '+' => (1, None),
                '?' => (0, Some(1)),
                '{' => match bounds(self.text.rest)? {
                    Some(Bounds { min, max, len }) => {
                        self.text.rest = self.text.rest.get(len - 1..).unwrap_or_default();
                        (min, max)
                    }
                    None => break,
                },
                _ => break,
            };
            self.text.next();
            n_quantifiers += 1;
            if n_quantifiers > QUANTIFIERS_MAX {
                return Err("quantifier does not follow a repeatable item".to_owned());
            }
            let is_lazy = self.text.eats("?") != self.flags.is_swapped;
            let is_possessive = !is_lazy && self.text.eats("+");
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
        let Some(next) = self.text.next() else { return Ok(None) };
        Ok(Some(match next {
            '(' => return self.group(),
            '[' => Node::Class(self.text.class(self.case())?),
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
        if self.text.rest.starts_with('*') {
            return Err("verbs such as (*SKIP) are not supported".to_owned());
        }
        if !self.text.eats("?") {
            return self.capture(None).map(Some);
        }
        const LOOKS: [(&str, Lookaround); 4] = [
            ("<=", Lookaround { ahead: false, negated: false }),
            ("<!", Lookaround { ahead: false, negated: true }),
            ("=", Lookaround { ahead: true, negated: false }),
            ("!", Lookaround { ahead: true, negated: true }),
        ];
        for (mark, look) in LOOKS {
            if self.text.eats(mark) {
                return Ok(Some(Node::Lookaround(look, Box::new(self.inner()?))));
            }
        }
        if self.text.eats(">") {
            return Ok(Some(Node::Atomic(Box::new(self.inner()?))));
        }
        if self.text.eats("P=") {
            let name = self.text.until(")").ok_or("unclosed group")?;
            return Ok(Some(self.reference(name)));
        }
        if self.text.eats("P<") || self.text.eats("<") {
            return self.named(">").map(Some);
        }
        if self.text.eats("'") {
            return self.named("'").map(Some);
        }
        if self.text.eats("(") {
            return self.conditional().map(Some);
        }
        self.with_flags()
    }

    fn named(&mut self, end: &str) -> Result<Node, Refused> {
        let name = self.text.until(end).ok_or("unclosed group name")?;
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

    /// The inside of a group, to its end. Flags that are set in there end with it.
    fn inner(&mut self) -> Result<Node, Refused> {
        let flags = self.flags;
        let node = self.alternatives()?;
        self.flags = flags;
        if self.text.eats(")") { Ok(node) } else { Err("unclosed group".to_owned()) }
    }

    /// `(?i)`, `(?i-s:...)` and `(?:...)`, behind the question mark.
    fn with_flags(&mut self) -> Result<Option<Node>, Refused> {
        let before = self.flags;
        if self.text.eats("^") {
            self.flags = Flags { is_swapped: before.is_swapped, ..Flags::default() };
        }
        let mut is_on = true;
        loop {
            match self.text.next() {
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
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are no conditions")]
    fn conditional(&mut self) -> Result<Node, Refused> {
        let no_condition = "a condition is a group, or looks ahead or behind";
        if self.is_condition {
            return Err("a condition stands within a condition".to_owned());
        }
        let condition = if let Some(rest) = self.text.rest.strip_prefix('?') {
            let is_look = ["=", "!", "<=", "<!"].iter().any(|mark| rest.starts_with(mark));
            self.is_condition = true;
            let look = if is_look { self.group()? } else { None };
            self.is_condition = false;
            look.ok_or(no_condition)?
        } else {
            let name = self.text.until(")").ok_or("unclosed group")?;
            let name = name.trim_matches(['<', '>', '\'']);
            Node::IsSet(self.group_of(name), true)
        };
        let otherwise = match &condition {
            Node::Lookaround(look, inner) => {
                Node::Lookaround(Lookaround { negated: !look.negated, ..*look }, inner.clone())
            }
            Node::IsSet(group, _) => Node::IsSet(*group, false),
            _ => return Err(no_condition.to_owned()),
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

    /// A number for a group until all are known, by its own, the one counted from here, or its name.
    fn group_of(&mut self, name: &'t str) -> usize {
        let number = name.parse::<usize>().ok().filter(|it| (1..LATER).contains(it));
        let back = name.strip_prefix('-').and_then(|it| it.parse::<usize>().ok());
        let back = back.map(|back| (self.n_groups + 1).checked_sub(back).unwrap_or(LATER - 1));
        let at = number.or(back).unwrap_or(LATER + self.pending.len());
        self.pending.push((at, (at >= LATER).then_some(name)));
        at
    }

    /// The node of what stands behind a backslash, outside of brackets.
    fn escape(&mut self) -> Result<Node, Refused> {
        let Some(next) = self.text.peek() else { return Err("\\ at the end".to_owned()) };
        if let Some(items) = self.text.class_escape()? {
            return Ok(Node::Class(Class { negated: false, items, case: Case::Heeded }));
        }
        let asserted = |reader: &mut Self, assertion| {
            reader.text.next();
            Ok(Node::Assert(assertion))
        };
        match next {
            'A' | 'G' => asserted(self, Assertion::Start),
            'z' => asserted(self, Assertion::End),
            'Z' => {
                self.text.next();
                let repetition = Repetition { min: 0, max: Some(1), is_lazy: false };
                let newline = Node::Repeat(Box::new(Node::Char('\n', Case::Heeded)), repetition);
                let end = Node::Concat(vec![newline, Node::Assert(Assertion::End)]);
                Ok(Node::Lookaround(Lookaround { ahead: true, negated: false }, Box::new(end)))
            }
            'b' => asserted(self, Assertion::WordBoundary),
            'B' => asserted(self, Assertion::NoWordBoundary),
            'K' => {
                self.text.next();
                Ok(Node::Empty)
            }
            'R' => {
                self.text.next();
                let both = ['\r', '\n'].map(|it| Node::Char(it, Case::Heeded));
                let class = Class { negated: false, items: vertical(), case: Case::Heeded };
                let all = vec![Node::Concat(both.into()), Node::Class(class)];
                Ok(Node::Atomic(Box::new(Node::Alternate(all))))
            }
            'k' | 'g' => {
                self.text.next();
                self.group_escape(next)
            }
            '1'..='9' => Ok(self.numbered()),
            _ => Ok(Node::Char(self.text.char_escape()?, self.case())),
        }
    }

    /// `\k<name>`, `\g{-1}` and the like.
    fn group_escape(&mut self, letter: char) -> Result<Node, Refused> {
        let ends: &[(&str, &str)] =
            if letter == 'k' { &[("<", ">"), ("'", "'"), ("{", "}")] } else { &[("{", "}")] };
        for (start, end) in ends {
            if self.text.eats(start) {
                let name = self.text.until(end).ok_or("unclosed group name")?;
                return Ok(self.reference(name.trim()));
            }
        }
        let digits = self.text.digits(10, 4);
        if letter == 'k' || digits.is_empty() {
            return Err("recursion is not supported".to_owned());
        }
        Ok(self.reference(digits))
    }

    /// `\1`: a group, or where there are not so many, a character in octal.
    fn numbered(&mut self) -> Node {
        let before = self.text.rest;
        let digits = self.text.digits(10, 4);
        let number = digits.parse().unwrap_or(usize::MAX);
        if number < 10 || number <= self.n_groups {
            return self.reference(digits);
        }
        self.text.rest = before;
        let octal = self.text.digits(8, 3);
        let code = u32::from_str_radix(octal, 8).ok().and_then(char::from_u32);
        match code {
            Some(code) => Node::Char(code, self.case()),
            None => self.reference(digits),
        }
    }
}

fn any() -> Node {
    let items = vec![Item::Range('\0', char::MAX)];
    Node::Class(Class { negated: false, items, case: Case::Heeded })
}

fn not(items: Vec<Item>) -> Node {
    Node::Class(Class { negated: true, items, case: Case::Heeded })
}

/// The bounds of a repetition, `{n}`, `{n,}` or `{n,m}`, and the bytes they are written in.
struct Bounds {
    min: u32,
    max: Option<u32>,
    len: usize,
}

/// Reads the bounds of a repetition; none for a bracket that stands for itself.
fn bounds(rest: &str) -> Result<Option<Bounds>, Refused> {
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
    Ok(Some(Bounds { min, max, len: inside.len() + 2 }))
}
