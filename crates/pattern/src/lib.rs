//! Regular expressions: the one place that compiles them, within budgets of size and time, and matches them.
//! Knows texts, programs and budgets. Never who asks, clocks, or what a name is.
//! Start reading at [`Pattern`].
//!
//! Two syntaxes come in. [`Pattern::perl`] reads Perl's (PCRE's), as permissions, policies and lists have it:
//! what the linear engine knows goes there, and look-around, references to groups, atomic groups, possessive
//! quantifiers and conditions go to a machine that tries one way after the other, in so many steps.
//! [`Pattern::linear`] takes the linear engine's own, for long texts.

mod backtrack;
mod cache;
mod cost;
mod linear;
mod syntax;

use backtrack::Program;
use cache::Cache;
use linear::WrittenTree;
use regex_automata::meta::Regex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Steps that a byte of text takes for each KiB of a program, at worst.
const STEPS_PER_KIB: usize = 32;

/// The budget of one expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest text, in bytes.
    pub text_bytes_max: usize,
    /// The largest program, in bytes: `a{1000}{1000}` is short.
    pub program_bytes_max: usize,
    /// The time that its classes of characters may take to be compiled, in microseconds.
    pub classes_us_max: u64,
}

impl Limits {
    /// The budget of an expression over names that is set, or asked with, now: a millisecond or so.
    pub const NAMES: Self =
        Self { text_bytes_max: 4 * 1024, program_bytes_max: 64 * 1024, classes_us_max: 400 };
    /// The budget of an expression that is stored: what was taken once is taken for ever.
    pub const STORED: Self =
        Self { text_bytes_max: 64 * 1024, program_bytes_max: 1024 * 1024, classes_us_max: 200_000 };
    /// The budget of all expressions of a filter of messages together, each with such a program.
    pub const FILTER: Self =
        Self { text_bytes_max: 16 * 1024, program_bytes_max: 256 * 1024, classes_us_max: 16_000 };
}

/// The refusal of an expression, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The text is too long.
    #[error("longer than {0} bytes")]
    TooLong(usize),
    /// The program would be too large.
    #[error("too large when compiled")]
    TooLarge,
    /// The expression takes too long to compile.
    #[error("its character classes take too long to compile")]
    TooDear,
    /// The text is no expression, or has what is not supported.
    #[error("{0}")]
    Syntax(String),
}

impl PatternError {
    /// An error that is drawn: its last line says what is wrong, those before show where.
    fn syntax(error: &dyn fmt::Display) -> Self {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        Self::Syntax(last.trim_start_matches("error: ").to_owned())
    }
}

/// A match took more steps than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfSteps;

/// A compiled expression.
#[derive(Clone)]
pub struct Pattern(Arc<Compiled>);

struct Compiled {
    text: Box<str>,
    engine: Engine,
    program_bytes: usize,
    classes_us: u64,
    steps_ran_out: AtomicBool,
    is_told: AtomicBool,
}

enum Engine {
    Everything,
    Linear(Regex),
    Backtracking(Program),
}

impl Pattern {
    /// Compiles an expression in Perl's syntax, or takes it from those that were compiled lately.
    ///
    /// # Errors
    /// The fault in it, or the limit that it is beyond.
    pub fn perl(text: &str, limits: &Limits) -> Result<Self, PatternError> {
        Self::cached(text, false, limits)
    }

    /// Compiles an expression in Perl's syntax that ignores case, or takes it from those compiled lately.
    ///
    /// # Errors
    /// As [`Pattern::perl`].
    pub fn perl_ignoring_case(text: &str, limits: &Limits) -> Result<Self, PatternError> {
        Self::cached(text, true, limits)
    }

    fn cached(text: &str, ignores_case: bool, limits: &Limits) -> Result<Self, PatternError> {
        if text.len() > limits.text_bytes_max {
            return Err(PatternError::TooLong(limits.text_bytes_max));
        }
        if let Some(pattern) = Cache::get(text, ignores_case) {
            return pattern.checked(limits);
        }
        let pattern = Self::of_perl(text, ignores_case, limits)?;
        Cache::put(ignores_case, &pattern);
        Ok(pattern)
    }

    /// Compiles an expression that is stored: also one that is none in Perl's syntax, but was taken as one of
    /// the linear engine when that was the only one.
    ///
    /// # Errors
    /// As [`Pattern::perl`].
    pub fn stored(text: &str) -> Result<Self, PatternError> {
        Self::perl(text, &Limits::STORED).or_else(|refused| {
            let is_syntax = matches!(refused, PatternError::Syntax(_));
            let linear = Self::linear(text, &Limits::STORED).ok().filter(|_| is_syntax);
            linear.map(|(pattern, _)| pattern).ok_or(refused)
        })
    }

    fn of_perl(text: &str, ignores_case: bool, limits: &Limits) -> Result<Self, PatternError> {
        if matches!(text, "" | ".*" | "^.*" | "^.*$") {
            return Ok(Self::new(text, Engine::Everything, 0));
        }
        let parsed = syntax::parse(text, ignores_case).map_err(PatternError::Syntax)?;
        let Some(written) = WrittenTree::of(&parsed.node) else {
            let program = Program::new(&parsed, limits.classes_us_max)?;
            return Self::new(text, Engine::Backtracking(program), 0).checked(limits);
        };
        if written.cost_us > limits.classes_us_max {
            return Err(PatternError::TooDear);
        }
        if written.program_bytes_min > limits.program_bytes_max {
            return Err(PatternError::TooLarge);
        }
        let regex = linear::compile(&written.text, limits.program_bytes_max)?;
        Self::new(text, Engine::Linear(regex), written.cost_us).checked(limits)
    }

    /// Compiles an expression in the syntax of the linear engine. Returns the time that its classes take, in
    /// microseconds.
    ///
    /// # Errors
    /// As [`Pattern::perl`].
    pub fn linear(text: &str, limits: &Limits) -> Result<(Self, u64), PatternError> {
        if text.len() > limits.text_bytes_max {
            return Err(PatternError::TooLong(limits.text_bytes_max));
        }
        let cost_us = cost::of_text(text)?;
        if cost_us > limits.classes_us_max {
            return Err(PatternError::TooDear);
        }
        let regex = linear::compile(text, limits.program_bytes_max)?;
        Ok((Self::new(text, Engine::Linear(regex), cost_us).checked(limits)?, cost_us))
    }

    fn new(text: &str, engine: Engine, classes_us: u64) -> Self {
        let program_bytes = match &engine {
            Engine::Everything => 0,
            // The memory is that of two programs: one reads forwards, one backwards.
            Engine::Linear(regex) => regex.memory_usage() / 2,
            Engine::Backtracking(program) => program.bytes(),
        };
        let (steps_ran_out, is_told) = (AtomicBool::new(false), AtomicBool::new(false));
        let text = text.into();
        Self(Arc::new(Compiled { text, engine, program_bytes, classes_us, steps_ran_out, is_told }))
    }

    /// Returns the pattern, if it is within these limits.
    fn checked(self, limits: &Limits) -> Result<Self, PatternError> {
        if self.0.program_bytes > limits.program_bytes_max {
            return Err(PatternError::TooLarge);
        }
        if self.0.classes_us > limits.classes_us_max {
            return Err(PatternError::TooDear);
        }
        Ok(self)
    }

    /// The expression.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Whether it is found anywhere in the input.
    ///
    /// # Errors
    /// It took too many steps to find out.
    pub fn find(&self, input: &[u8]) -> Result<bool, OutOfSteps> {
        self.find_within(input, backtrack::STEPS_MAX)
    }

    fn find_within(&self, input: &[u8], steps_max: usize) -> Result<bool, OutOfSteps> {
        match &self.0.engine {
            Engine::Everything => Ok(true),
            Engine::Linear(regex) => Ok(regex.is_match(input)),
            Engine::Backtracking(program) => program.find(input, steps_max),
        }
    }

    /// Whether the pattern is found anywhere in the input. A match that takes too many steps is none.
    #[must_use]
    pub fn matches(&self, input: &[u8]) -> bool {
        self.matches_within(input, backtrack::STEPS_MAX)
    }

    /// Matches as [`Self::matches`] does; a pattern that is not regular takes at most `steps_max` steps.
    #[must_use]
    pub fn matches_within(&self, input: &[u8], steps_max: usize) -> bool {
        self.find_within(input, steps_max).unwrap_or_else(|OutOfSteps| {
            self.0.steps_ran_out.store(true, Ordering::Relaxed);
            false
        })
    }

    /// Whether a match took too many steps, and nobody has asked so since: told once.
    #[must_use]
    pub fn tells_now(&self) -> bool {
        let has_news = self.0.steps_ran_out.load(Ordering::Relaxed);
        has_news && !self.0.is_told.swap(true, Ordering::Relaxed)
    }

    /// The steps that a text of this length takes at most.
    #[must_use]
    pub fn steps(&self, text_bytes: usize) -> usize {
        self.steps_within(text_bytes, backtrack::STEPS_MAX)
    }

    /// The steps that [`Pattern::matches_within`] takes at most for a text of this length.
    #[must_use]
    pub fn steps_within(&self, text_bytes: usize, steps_max: usize) -> usize {
        match &self.0.engine {
            Engine::Everything => 1,
            Engine::Linear(_) => {
                let program_kib = self.0.program_bytes.div_ceil(1024).max(1);
                text_bytes.saturating_mul(program_kib * STEPS_PER_KIB)
            }
            Engine::Backtracking(_) => steps_max.saturating_mul(STEPS_PER_KIB),
        }
    }
}

/// A text so written that it means itself in an expression, in brackets and outside.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_ascii() && !char.is_ascii_alphanumeric() {
            syntax::put_char(&mut out, char);
        } else {
            out.push(char);
        }
    }
    out
}

/// Equal if the texts are.
impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.text, f)
    }
}

#[cfg(test)]
mod tests;
