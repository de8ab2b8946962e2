//! Expressions that the linear engine does not know (look-around, references to groups, atomic groups,
//! possessive quantifiers, conditions): a program that tries one way after the other, by steps of which there
//! are so many.

use crate::cost;
use crate::linear::class_text;
use crate::syntax::{Assertion, Case, Lookaround, Node, ParsedPattern, Repetition};
use crate::{OutOfSteps, PatternError};
use regex_syntax::hir::{self, HirKind};
use std::collections::BTreeMap;

/// The largest program, in operations.
const OPERATIONS_MAX: usize = 2_000;
/// The steps of one match. It is a millisecond or two of work.
pub(crate) const STEPS_MAX: usize = 100_000;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Char(char, Case),
    Class(usize),
    Assert(Assertion),
    /// Goes on at the first place, and at the second if that comes to nothing.
    Split(usize, usize),
    Jump(usize),
    /// Makes what is between a slot and here the text of a group.
    Capture(usize, usize),
    /// Writes the position down.
    Save(usize),
    /// Jumps if the position is what was written down.
    JumpIfAt(usize, usize),
    BackReference(usize, Case),
    IsSet(usize, bool),
    /// Looks for what follows, as far as [`Operation::Match`]; it goes on at the place.
    Lookaround(Lookaround, usize),
    /// Matches what follows, as far as [`Operation::Match`], in the first way that there is.
    Atomic(usize),
    Match,
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Program {
    operations: Vec<Operation>,
    classes: Vec<Vec<(char, char)>>,
    n_slots: usize,
}

#[derive(Default)]
struct Compiler {
    program: Vec<Operation>,
    classes: BTreeMap<String, (usize, Vec<(char, char)>)>,
    n_slots: usize,
    cost_left_us: u64,
}

impl Program {
    /// Compiles a tree. Its classes take `cost_us_max` at most.
    pub(crate) fn new(parsed: &ParsedPattern, cost_us_max: u64) -> Result<Self, PatternError> {
        let n_slots = (parsed.n_groups + 1) * 2;
        let mut compiler = Compiler { n_slots, cost_left_us: cost_us_max, ..Compiler::default() };
        compiler.put(&parsed.node)?;
        compiler.push(Operation::Match)?;
        let Compiler { program: operations, classes, n_slots, .. } = compiler;
        let mut in_order: Vec<_> = classes.into_values().collect();
        in_order.sort_unstable_by_key(|(at, _)| *at);
        let classes = in_order.into_iter().map(|(_, ranges)| ranges).collect();
        Ok(Self { operations, classes, n_slots })
    }

    pub(crate) fn bytes(&self) -> usize {
        let ranges: usize = self.classes.iter().map(Vec::len).sum();
        self.operations.len() * size_of::<Operation>() + ranges * size_of::<(char, char)>()
    }

    /// Whether it is found anywhere in the input.
    pub(crate) fn find(&self, input: &[u8], steps_max: usize) -> Result<bool, OutOfSteps> {
        let (slots, stack) = (vec![None; self.n_slots], Vec::new());
        let mut machine = Machine { program: self, input, slots, stack, n_left: steps_max };
        for start in 0..=input.len() {
            if is_boundary(input, start) && machine.run(0, start, None)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Compiler {
    fn push(&mut self, operation: Operation) -> Result<usize, PatternError> {
        if self.program.len() == OPERATIONS_MAX {
            return Err(PatternError::TooLarge);
        }
        self.program.push(operation);
        Ok(self.program.len() - 1)
    }

    /// Replaces what was put at a place, when it is known where it leads.
    fn set(&mut self, at: usize, operation: Operation) {
        if let Some(found) = self.program.get_mut(at) {
            *found = operation;
        }
    }

    fn here(&self) -> usize {
        self.program.len()
    }

    fn put(&mut self, node: &Node) -> Result<(), PatternError> {
        match node {
            Node::Empty => {}
            Node::Char(char, case) => drop(self.push(Operation::Char(*char, *case))?),
            Node::Class(class) => {
                let (text, cost_us) = class_text(class);
                let class = self.class(text, cost_us)?;
                self.push(Operation::Class(class))?;
            }
            Node::Assert(assertion) => drop(self.push(Operation::Assert(*assertion))?),
            Node::Capture(group, inner) => {
                // Start and end are set together: a reference from within sees the last round.
                let start = self.slot();
                self.push(Operation::Save(start))?;
                self.put(inner)?;
                self.push(Operation::Capture(*group, start))?;
            }
            Node::Concat(all) => all.iter().try_for_each(|node| self.put(node))?,
            Node::Alternate(all) => self.alternate(all)?,
            Node::Repeat(inner, repetition) => self.repeat(inner, *repetition)?,
            Node::Lookaround(look, inner) => {
                let at = self.push(Operation::Match)?;
                self.put(inner)?;
                self.push(Operation::Match)?;
                self.set(at, Operation::Lookaround(*look, self.here()));
            }
            Node::Atomic(inner) => {
                let at = self.push(Operation::Match)?;
                self.put(inner)?;
                self.push(Operation::Match)?;
                self.set(at, Operation::Atomic(self.here()));
            }
            Node::BackReference(group, case) => {
                self.push(Operation::BackReference(*group, *case))?;
            }
            Node::IsSet(group, is_set) => drop(self.push(Operation::IsSet(*group, *is_set))?),
        }
        Ok(())
    }

    const fn slot(&mut self) -> usize {
        self.n_slots += 1;
        self.n_slots - 1
    }

    fn alternate(&mut self, all: &[Node]) -> Result<(), PatternError> {
        let mut ends = Vec::new();
        for (at, node) in all.iter().enumerate() {
            if at + 1 == all.len() {
                self.put(node)?;
                break;
            }
            let split = self.push(Operation::Match)?;
            self.put(node)?;
            ends.push(self.push(Operation::Match)?);
            self.set(split, Operation::Split(split + 1, self.here()));
        }
        for end in ends {
            self.set(end, Operation::Jump(self.here()));
        }
        Ok(())
    }

    fn repeat(&mut self, inner: &Node, repetition: Repetition) -> Result<(), PatternError> {
        let Repetition { min, max, is_lazy } = repetition;
        for _ in 0..min {
            let before = self.here();
            self.put(inner)?;
            if self.here() == before {
                return Ok(());
            }
        }
        let split = |there, behind| {
            if is_lazy { Operation::Split(behind, there) } else { Operation::Split(there, behind) }
        };
        if let Some(max) = max {
            let mut splits = Vec::new();
            for _ in min..max {
                splits.push(self.push(Operation::Match)?);
                self.put(inner)?;
            }
            for at in splits {
                self.set(at, split(at + 1, self.here()));
            }
            return Ok(());
        }
        let slot = self.slot();
        let at = self.push(Operation::Match)?;
        self.push(Operation::Save(slot))?;
        self.put(inner)?;
        let end = self.here() + 2;
        // A round that takes nothing is the last.
        self.push(Operation::JumpIfAt(slot, end))?;
        self.push(Operation::Jump(at))?;
        self.set(at, split(at + 1, end));
        Ok(())
    }

    /// The number of a class.
    fn class(&mut self, text: String, cost_us: u64) -> Result<usize, PatternError> {
        if let Some((at, _)) = self.classes.get(&text) {
            return Ok(*at);
        }
        let left = self.cost_left_us.checked_sub(cost_us + cost::CLASS_US);
        self.cost_left_us = left.ok_or(PatternError::TooDear)?;
        let hir = regex_syntax::Parser::new().parse(&text);
        let hir = hir.map_err(|error| PatternError::syntax(&error))?;
        let ranges: Vec<(char, char)> = match hir.kind() {
            HirKind::Class(hir::Class::Unicode(class)) => {
                class.ranges().iter().map(|range| (range.start(), range.end())).collect()
            }
            HirKind::Class(hir::Class::Bytes(class)) => {
                let of = |range: &hir::ClassBytesRange| (range.start().into(), range.end().into());
                class.ranges().iter().map(of).collect()
            }
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).unwrap_or_default();
                text.chars().map(|char| (char, char)).collect()
            }
            // A class of no character.
            HirKind::Empty
            | HirKind::Look(_)
            | HirKind::Repetition(_)
            | HirKind::Capture(_)
            | HirKind::Concat(_)
            | HirKind::Alternation(_) => Vec::new(),
        };
        let at = self.classes.len();
        self.classes.insert(text, (at, ranges));
        Ok(at)
    }
}

/// A thing to go back to when a way comes to nothing.
enum BacktrackPoint {
    Way(usize, usize),
    /// The value that a slot had.
    Slot(usize, Option<usize>),
}

/// A match under way.
struct Machine<'m> {
    program: &'m Program,
    input: &'m [u8],
    slots: Vec<Option<usize>>,
    stack: Vec<BacktrackPoint>,
    n_left: usize,
}

impl Machine<'_> {
    /// The place where a match that begins at `start` ends; it must be `end` if that is given.
    fn run(
        &mut self,
        pc: usize,
        start: usize,
        end: Option<usize>,
    ) -> Result<Option<usize>, OutOfSteps> {
        let base = self.stack.len();
        let mut way = Some((pc, start));
        while let Some((pc, at)) = way {
            self.n_left = self.n_left.checked_sub(1).ok_or(OutOfSteps)?;
            let Some(operation) = self.program.operations.get(pc).copied() else { break };
            if matches!(operation, Operation::Match) && end.is_none_or(|end| end == at) {
                // Ways that are left to try are forgotten; former values of slots are not.
                if self.stack.len() > base {
                    let kept = self.stack.split_off(base);
                    self.n_left = self.n_left.checked_sub(kept.len()).ok_or(OutOfSteps)?;
                    self.stack.extend(
                        kept.into_iter().filter(|it| matches!(it, BacktrackPoint::Slot(..))),
                    );
                }
                return Ok(Some(at));
            }
            way = self.step(operation, pc, at)?;
            if way.is_none() {
                way = self.back(base);
            }
        }
        Ok(None)
    }

    /// Goes back to the last way that was not tried.
    fn back(&mut self, base: usize) -> Option<(usize, usize)> {
        while self.stack.len() > base {
            match self.stack.pop()? {
                BacktrackPoint::Way(pc, at) => return Some((pc, at)),
                BacktrackPoint::Slot(slot, value) => {
                    if let Some(found) = self.slots.get_mut(slot) {
                        *found = value;
                    }
                }
            }
        }
        None
    }

    fn save(&mut self, slot: usize, at: Option<usize>) {
        if let Some(found) = self.slots.get_mut(slot) {
            self.stack.push(BacktrackPoint::Slot(slot, *found));
            *found = at;
        }
    }

    fn slot(&self, slot: usize) -> Option<usize> {
        self.slots.get(slot).copied().flatten()
    }

    fn step(
        &mut self,
        operation: Operation,
        pc: usize,
        at: usize,
    ) -> Result<Option<(usize, usize)>, OutOfSteps> {
        let goes_on = |holds: bool| holds.then_some((pc + 1, at));
        Ok(match operation {
            Operation::Char(wanted, case) => self
                .char_at(at)
                .and_then(|(char, len)| is_same(char, wanted, case).then_some((pc + 1, at + len))),
            Operation::Class(class) => self
                .char_at(at)
                .and_then(|(char, len)| self.is_in(char, class).then_some((pc + 1, at + len))),
            Operation::Assert(assertion) => goes_on(holds(assertion, self.input, at)),
            Operation::Split(first, second) => {
                self.stack.push(BacktrackPoint::Way(second, at));
                Some((first, at))
            }
            Operation::Jump(to) => Some((to, at)),
            Operation::Save(slot) => {
                self.save(slot, Some(at));
                goes_on(true)
            }
            Operation::Capture(group, start) => {
                let start = self.slot(start);
                self.save(group * 2, start);
                self.save(group * 2 + 1, Some(at));
                goes_on(true)
            }
            Operation::JumpIfAt(slot, to) => {
                if self.slot(slot) == Some(at) {
                    Some((to, at))
                } else {
                    goes_on(true)
                }
            }
            Operation::BackReference(group, case) => {
                self.repeats(group, case, at)?.map(|at| (pc + 1, at))
            }
            Operation::IsSet(group, is_set) => {
                goes_on(self.slot(group * 2 + 1).is_some() == is_set)
            }
            Operation::Lookaround(look, next) => {
                let base = self.stack.len();
                let is_found = self.looks(look.ahead, pc + 1, at)?;
                if look.negated {
                    while self.back(base).is_some() {}
                }
                (is_found != look.negated).then_some((next, at))
            }
            Operation::Atomic(next) => self.run(pc + 1, at, None)?.map(|at| (next, at)),
            Operation::Match => None,
        })
    }

    /// Whether a match begins, or ends, here.
    fn looks(&mut self, ahead: bool, pc: usize, at: usize) -> Result<bool, OutOfSteps> {
        if ahead {
            return Ok(self.run(pc, at, None)?.is_some());
        }
        for start in (0..=at).rev().filter(|start| is_boundary(self.input, *start)) {
            if self.run(pc, start, Some(at))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The place behind the text of a group, if that stands here again.
    fn repeats(
        &mut self,
        group: usize,
        case: Case,
        at: usize,
    ) -> Result<Option<usize>, OutOfSteps> {
        let range = self.slot(group * 2).zip(self.slot(group * 2 + 1));
        let Some(text) = range.and_then(|(from, to)| self.input.get(from..to)) else {
            return Ok(None);
        };
        self.n_left = self.n_left.checked_sub(text.len()).ok_or(OutOfSteps)?;
        let here = self.input.get(at..at + text.len());
        let is_there = here.is_some_and(|here| match case {
            Case::Heeded => here == text,
            Case::Ignored => here.eq_ignore_ascii_case(text),
        });
        Ok(is_there.then_some(at + text.len()))
    }

    fn char_at(&self, at: usize) -> Option<(char, usize)> {
        let first = *self.input.get(at)?;
        if first.is_ascii() {
            return Some((first.into(), 1));
        }
        let rest = self.input.get(at..self.input.len().min(at + 4))?;
        let char = rest.utf8_chunks().next().and_then(|it| it.valid().chars().next());
        // A byte of no character counts as one, as in PCRE without UTF: `.` goes on behind it.
        Some(char.map_or((char::REPLACEMENT_CHARACTER, 1), |char| (char, char.len_utf8())))
    }

    fn is_in(&self, char: char, class: usize) -> bool {
        let ranges = self.program.classes.get(class).map(Vec::as_slice).unwrap_or_default();
        let at = ranges.partition_point(|(_, high)| *high < char);
        ranges.get(at).is_some_and(|(low, _)| *low <= char)
    }
}

/// Whether a character begins, or the input ends, here.
fn is_boundary(input: &[u8], at: usize) -> bool {
    input.get(at).is_none_or(|byte| byte & 0xC0 != 0x80)
}

fn is_same(left: char, right: char, case: Case) -> bool {
    match case {
        Case::Heeded => left == right,
        Case::Ignored if left.is_ascii() => left.eq_ignore_ascii_case(&right),
        Case::Ignored => left == right || left.to_lowercase().eq(right.to_lowercase()),
    }
}

fn holds(assertion: Assertion, input: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| input.get(before).copied());
    let next = input.get(at).copied();
    let is_word =
        |byte: Option<u8>| byte.is_some_and(|it| it.is_ascii_alphanumeric() || it == b'_');
    let is_end = |byte: Option<u8>| byte.is_none_or(|it| it == b'\n');
    match assertion {
        Assertion::Start => before.is_none(),
        Assertion::End => next.is_none(),
        Assertion::LineStart => is_end(before),
        Assertion::LineEnd => is_end(next),
        Assertion::WordBoundary => is_word(before) != is_word(next),
        Assertion::NoWordBoundary => is_word(before) == is_word(next),
    }
}
