//! Expressions for the linear engine (`regex-automata`): trees written in its syntax, without flags and
//! groups that count, and its own syntax as it comes.

use crate::PatternError;
use crate::cost;
use crate::syntax::{Assertion, Case, Class, Item, Node, Repetition, between, put_char};
use regex_automata::meta::{self, Regex};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax;
use std::fmt::Write as _;

/// The memory that speeds one expression up, for each thread that uses it at a time.
const CACHE_BYTES_MAX: usize = 256 * 1024;
/// The least bytes of a program that a character takes.
const CHAR_BYTES_MIN: usize = 24;
/// The least bytes of a program that a class takes.
const CLASS_BYTES_MIN: usize = 32;
/// The least bytes of a program that a class of characters beyond ASCII takes, such as a negated one.
const WIDE_BYTES_MIN: usize = 160;
/// Levels of brackets in what is written here: each group of an expression takes some.
const NESTING_MAX: u32 = 500;

/// Compiles a text in the engine's syntax.
pub(crate) fn compile(text: &str, program_bytes_max: usize) -> Result<Regex, PatternError> {
    let config = meta::Config::new()
        // Of each of two programs: the one that reads backwards is the larger.
        .nfa_size_limit(Some(program_bytes_max.saturating_mul(2)))
        .which_captures(WhichCaptures::None)
        .hybrid_cache_capacity(CACHE_BYTES_MAX)
        .onepass(false)
        .utf8_empty(false);
    let syntax = syntax::Config::new().utf8(false).nest_limit(NESTING_MAX);
    let built = meta::Builder::new().configure(config).syntax(syntax).build(text);
    built.map_err(|error| match error.syntax_error() {
        Some(error) => PatternError::syntax(error),
        None if error.size_limit().is_some() => PatternError::TooLarge,
        None => PatternError::syntax(&error),
    })
}

/// A tree, written.
#[derive(Default)]
pub(crate) struct WrittenTree {
    pub(crate) text: String,
    /// The time that the text's classes take to be compiled.
    pub(crate) cost_us: u64,
    /// The least bytes of the text's program.
    pub(crate) program_bytes_min: usize,
}

impl WrittenTree {
    /// Writes a tree; none if it has what the engine does not know.
    pub(crate) fn of(node: &Node) -> Option<Self> {
        let mut written = Self::default();
        written.put(node).then_some(written)
    }

    fn put(&mut self, node: &Node) -> bool {
        match node {
            Node::Empty => {}
            Node::Char(char, case) => self.put_char(*char, *case),
            Node::Class(class) => {
                let (text, cost_us) = class_text(class);
                self.text.push_str(&text);
                self.cost_us += cost_us;
                let is_wide = class.negated || text.contains(['^', 'P']);
                let bytes = if is_wide { WIDE_BYTES_MIN } else { CLASS_BYTES_MIN };
                self.program_bytes_min = self.program_bytes_min.saturating_add(bytes);
            }
            Node::Assert(assertion) => self.text.push_str(match assertion {
                Assertion::Start => "\\A",
                Assertion::End => "\\z",
                Assertion::LineStart => "(?m:^)",
                Assertion::LineEnd => "(?m:$)",
                Assertion::WordBoundary => "(?-u:\\b)",
                Assertion::NoWordBoundary => "(?-u:\\B)",
            }),
            Node::Capture(_, inner) => return self.put_group(inner),
            Node::Concat(all) => return all.iter().all(|node| self.put(node)),
            Node::Alternate(all) => {
                self.text.push_str("(?:");
                for (at, node) in all.iter().enumerate() {
                    if at > 0 {
                        self.text.push('|');
                    }
                    if !self.put(node) {
                        return false;
                    }
                }
                self.text.push(')');
            }
            Node::Repeat(inner, Repetition { min, max, .. }) => {
                let before = self.program_bytes_min;
                if !self.put_group(inner) {
                    return false;
                }
                let n_copies = max.unwrap_or(*min).max(1) as usize;
                let copied = (self.program_bytes_min - before).saturating_mul(n_copies);
                self.program_bytes_min = before.saturating_add(copied);
                let max = max.map(|max| max.to_string()).unwrap_or_default();
                // Writing to a text does not fail.
                return write!(self.text, "{{{min},{max}}}").is_ok();
            }
            Node::Lookaround(..) | Node::Atomic(_) | Node::BackReference(..) | Node::IsSet(..) => {
                return false;
            }
        }
        true
    }

    fn put_group(&mut self, inner: &Node) -> bool {
        if matches!(inner, Node::Char(..) | Node::Class(_)) {
            return self.put(inner);
        }
        self.text.push_str("(?:");
        let is_put = self.put(inner);
        self.text.push(')');
        is_put
    }

    fn put_char(&mut self, char: char, case: Case) {
        self.program_bytes_min = self.program_bytes_min.saturating_add(CHAR_BYTES_MIN);
        if case == Case::Ignored && char.is_alphabetic() {
            if char.is_ascii() {
                let (lower, upper) = (char.to_ascii_lowercase(), char.to_ascii_uppercase());
                self.text.extend(['[', lower, upper, ']']);
            } else {
                self.text.extend(["(?i:", char.encode_utf8(&mut [0; 4]), ")"]);
            }
        } else {
            put_char(&mut self.text, char);
        }
    }
}

/// A class in the engine's syntax, and the time that it takes. To fold the case of a property of Unicode
/// takes long, and changes nothing in PCRE: ASCII's is folded here, that of other characters by the engine.
pub(crate) fn class_text(class: &Class) -> (String, u64) {
    let Class { negated, items, case } = class;
    let is_property = |item: &Item| matches!(item, Item::Named(name) if name.contains("\\p") || name.contains("\\P"));
    let has_names = items.iter().any(|item| matches!(item, Item::Named(_)));
    let mut cost_us =
        items.iter().filter(|item| is_property(item)).count() as u64 * cost::PROPERTY_US;
    if *case == Case::Heeded {
        return (between(items, *negated), cost_us);
    }
    let (mut folded, mut n_wide) = (items.clone(), 0);
    for item in items {
        let Item::Range(low, high) = *item else { continue };
        for (first, last, distance) in [('a', 'z', -32), ('A', 'Z', 32)] {
            let (from, to) = (low.max(first), high.min(last));
            let other = |char: char| char::from_u32(u32::from(char).wrapping_add_signed(distance));
            if from <= to
                && let (Some(from), Some(to)) = (other(from), other(to))
            {
                folded.push(Item::Range(from, to));
            }
        }
        n_wide += u64::from(u32::from(high).saturating_sub(u32::from(low).max(127)));
    }
    if n_wide == 0 || has_names {
        return (between(&folded, *negated), cost_us);
    }
    cost_us += n_wide / cost::FOLDED_PER_US;
    (format!("(?i:{})", between(items, *negated)), cost_us)
}
