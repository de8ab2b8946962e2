//! Message selectors of JMS: conditions over headers in a subset of SQL (JMS 2.0, 3.8.1).
//!
//! `sql.rs` reads the text people write, `term.rs` the Erlang term RabbitMQ's JMS client makes of it;
//! both give the [`Expression`] that is evaluated here. Whatever is missing or does not fit is
//! unknown, and what is not certainly true is no match. Filters of operators ([`Filter`]) are the same
//! SQL with more words; those of AMQP 1.0 ([`SectionsFilter`]) another SQL, over sections of messages.

mod field;
mod filter;
mod json;
mod like;
mod link_filters;
mod pattern;
mod section_field;
mod section_tokens;
mod sections;
mod sql;
mod steps;
mod subject;
mod term;
mod tokens;

use crate::message::Message;
use field::Field;
pub use filter::{Candidate, Filter, FilterError};
use like::Like;
pub use link_filters::LinkFilters;
use pattern::Pattern;
pub use sections::SectionsFilter;
pub(crate) use steps::Steps;
use subject::Subject;

/// The longest selector, in bytes.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// The most parts a selector may have: it is read and evaluated by functions that call themselves.
const PARTS_MAX: usize = 512;

/// The error of a selector that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unusable(pub(crate) String);

/// A selector, ready to be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Selector(Expression);

impl Selector {
    /// Reads SQL.
    pub(crate) fn of_sql(text: &[u8]) -> Result<Self, Unusable> {
        let read = sql::selector(checked(text)?);
        read.map(Self).map_err(|refused| Unusable(refused.reason))
    }

    /// Reads an Erlang term.
    pub(crate) fn of_term(text: &[u8]) -> Result<Self, Unusable> {
        term::parse(checked(text)?).map(Self)
    }

    /// Whether it is true for a message; it is not where `steps` run out.
    pub(crate) fn matches(&self, message: &Message<'_>, steps: &mut Steps) -> bool {
        self.0.is_true(&Subject::of_routing(message), steps)
    }
}

fn checked(text: &[u8]) -> Result<&str, Unusable> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Unusable(format!("longer than {TEXT_BYTES_MAX} bytes")));
    }
    std::str::from_utf8(text).map_err(|_| Unusable("invalid UTF-8".to_owned()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    /// The remainder of integers, only in filters of AMQP 1.0.
    Remainder,
}

#[derive(Clone, Debug, PartialEq)]
enum Literal {
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(Box<[u8]>),
}

/// An expression, at most as deep as it has parts, see [`PARTS_MAX`].
#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Literal(Literal),
    Header(Box<[u8]>),
    /// A part of the message beside headers, only in filters.
    Field(Field),
    Not(Box<Self>),
    Negated(Box<Self>),
    And(Box<[Self; 2]>),
    Or(Box<[Self; 2]>),
    Compare(Comparison, Box<[Self; 2]>),
    Calculate(Arithmetic, Box<[Self; 2]>),
    IsNull(Box<Self>),
    /// The first lies between the others, or is one of them.
    Between(Box<[Self; 3]>),
    In(Box<Self>, Vec<Self>),
    Like(Box<Self>, Box<Like>),
    /// A match with a regular expression, only in filters.
    Matches(Box<Self>, Box<Pattern>),
}

/// The value of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Operand<'a> {
    Unknown,
    Bool(bool),
    /// A number of any of the integer types.
    Integer(i128),
    Float(f64),
    Text(&'a [u8]),
    Uuid([u8; 16]),
    /// A list, an object or the like: it is there, and that is all that can be said.
    Opaque,
}

impl Literal {
    fn operand(&self) -> Operand<'_> {
        match self {
            Self::Bool(value) => Operand::Bool(*value),
            Self::Integer(value) => Operand::Integer(*value),
            Self::Float(value) => Operand::Float(*value),
            Self::Text(value) => Operand::Text(value),
        }
    }
}

impl Expression {
    /// Whether it is true; it is not where `steps` run out.
    fn is_true(&self, subject: &Subject<'_>, steps: &mut Steps) -> bool {
        let is_true = self.value(subject, steps) == Operand::Bool(true);
        is_true && !steps.ran_out()
    }

    #[inline]
    fn value<'a>(&'a self, subject: &'a Subject<'_>, steps: &mut Steps) -> Operand<'a> {
        if steps.take(1).is_none() {
            return Operand::Unknown;
        }
        if let Self::Literal(literal) = self {
            return literal.operand();
        }
        self.compute(subject, steps)
    }

    fn compute<'a>(&'a self, subject: &'a Subject<'_>, steps: &mut Steps) -> Operand<'a> {
        match self {
            Self::Literal(literal) => literal.operand(),
            Self::Header(name) => subject.header(name, steps),
            Self::Field(field) => subject.field(field, steps),
            Self::Not(inner) => not(inner.value(subject, steps)),
            Self::Negated(inner) => {
                calculate(Arithmetic::Subtract, Operand::Integer(0), inner.value(subject, steps))
            }
            Self::And(both) => settled(both, subject, false, steps),
            Self::Or(both) => settled(both, subject, true, steps),
            Self::Compare(comparison, both) => {
                let [left, right] = &**both;
                let (left, right) = (left.value(subject, steps), right.value(subject, steps));
                compare(*comparison, left, right, steps)
            }
            Self::Calculate(arithmetic, both) => {
                let [left, right] = &**both;
                calculate(*arithmetic, left.value(subject, steps), right.value(subject, steps))
            }
            Self::IsNull(inner) => Operand::Bool(inner.value(subject, steps) == Operand::Unknown),
            Self::Between(three) => {
                let [value, low, high] = &**three;
                let value = value.value(subject, steps);
                let low = low.value(subject, steps);
                let high = high.value(subject, steps);
                let above = compare(Comparison::GreaterOrEqual, value, low, steps);
                and(above, compare(Comparison::LessOrEqual, value, high, steps))
            }
            Self::In(inner, list) => {
                let value = inner.value(subject, steps);
                if value == Operand::Unknown {
                    return value;
                }
                let mut is = |one: &'a Self| {
                    let one = one.value(subject, steps);
                    compare(Comparison::Equal, value, one, steps) == Operand::Bool(true)
                };
                Operand::Bool(list.iter().any(&mut is))
            }
            Self::Like(inner, like) => {
                inner.value(subject, steps).is_text_that(|text| like.matches(text, steps))
            }
            Self::Matches(inner, pattern) => {
                inner.value(subject, steps).is_text_that(|text| pattern.matches(text, steps))
            }
        }
    }
}

/// `and` for false, `or` for true: one operand of that value settles it.
fn settled<'a>(
    both: &'a [Expression; 2],
    subject: &'a Subject<'_>,
    by: bool,
    steps: &mut Steps,
) -> Operand<'a> {
    let [left, right] = both;
    let left = left.value(subject, steps);
    if left == Operand::Bool(by) {
        return left;
    }
    let right = right.value(subject, steps);
    if by { not(and(not(left), not(right))) } else { and(left, right) }
}

fn and<'a>(left: Operand<'_>, right: Operand<'_>) -> Operand<'a> {
    match (left, right) {
        (Operand::Bool(false), _) | (_, Operand::Bool(false)) => Operand::Bool(false),
        (Operand::Bool(true), Operand::Bool(true)) => Operand::Bool(true),
        _ => Operand::Unknown,
    }
}

const fn not<'a>(value: Operand<'_>) -> Operand<'a> {
    if let Operand::Bool(value) = value { Operand::Bool(!value) } else { Operand::Unknown }
}

/// COMPAT: values of different types are unequal; which of them is greater nobody can say.
fn compare<'a>(
    comparison: Comparison,
    left: Operand<'_>,
    right: Operand<'_>,
    steps: &mut Steps,
) -> Operand<'a> {
    if left == Operand::Unknown || right == Operand::Unknown {
        return Operand::Unknown;
    }
    let (left_bytes, right_bytes) = (left.as_bytes(), right.as_bytes());
    let both_bytes = left_bytes.zip(right_bytes);
    let compared_bytes = both_bytes.map_or(0, |(a, b)| a.len().min(b.len()));
    if steps.pass_over(compared_bytes).is_none() {
        return Operand::Unknown;
    }
    let is_of_order = !matches!(comparison, Comparison::Equal | Comparison::NotEqual);
    let order = match (left, right) {
        _ if both_bytes.is_some() => both_bytes.map(|(a, b)| a.cmp(b)),
        (Operand::Integer(a), Operand::Integer(b)) => Some(a.cmp(&b)),
        (Operand::Bool(a), Operand::Bool(b)) if !is_of_order => Some(a.cmp(&b)),
        (a, b) => a.as_float().zip(b.as_float()).and_then(|(a, b)| a.partial_cmp(&b)),
    };
    Operand::Bool(match comparison {
        Comparison::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
        Comparison::NotEqual => order.is_none_or(std::cmp::Ordering::is_ne),
        Comparison::Less => order.is_some_and(std::cmp::Ordering::is_lt),
        Comparison::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
        Comparison::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
        Comparison::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
    })
}

fn calculate<'a>(arithmetic: Arithmetic, left: Operand<'_>, right: Operand<'_>) -> Operand<'a> {
    let whole = match (arithmetic, left, right) {
        (Arithmetic::Add, Operand::Integer(a), Operand::Integer(b)) => a.checked_add(b),
        (Arithmetic::Subtract, Operand::Integer(a), Operand::Integer(b)) => a.checked_sub(b),
        (Arithmetic::Multiply, Operand::Integer(a), Operand::Integer(b)) => a.checked_mul(b),
        (Arithmetic::Remainder, Operand::Integer(a), Operand::Integer(b)) => a.checked_rem(b),
        _ => None,
    };
    if let Some(whole) = whole {
        return Operand::Integer(whole);
    }
    let Some((a, b)) = left.as_float().zip(right.as_float()) else { return Operand::Unknown };
    let result = match arithmetic {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        // COMPAT: also of integers.
        Arithmetic::Divide => a / b,
        Arithmetic::Remainder => return Operand::Unknown,
    };
    if result.is_finite() { Operand::Float(result) } else { Operand::Unknown }
}

impl Operand<'_> {
    #[expect(clippy::cast_precision_loss, reason = "as everybody compares integers with floats")]
    const fn as_float(self) -> Option<f64> {
        match self {
            Self::Integer(n) => Some(n as f64),
            Self::Float(n) => Some(n),
            Self::Unknown | Self::Bool(_) | Self::Text(_) | Self::Uuid(_) | Self::Opaque => None,
        }
    }

    const fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text),
            Self::Uuid(uuid) => Some(uuid),
            Self::Unknown | Self::Bool(_) | Self::Integer(_) | Self::Float(_) | Self::Opaque => {
                None
            }
        }
    }

    /// Whether it is a text for which that holds; unknown of anything else.
    fn is_text_that<'b>(self, holds: impl FnOnce(&[u8]) -> bool) -> Operand<'b> {
        if let Self::Text(text) = self { Operand::Bool(holds(text)) } else { Operand::Unknown }
    }
}

fn negated_if(is_negated: bool, expression: Expression) -> Expression {
    if is_negated { Expression::Not(Box::new(expression)) } else { expression }
}

/// Counts the parts of a selector while it is read.
#[derive(Debug, Default)]
struct Parts(usize);

impl Parts {
    fn one_more(&mut self) -> Result<(), Unusable> {
        self.0 += 1;
        if self.0 > PARTS_MAX {
            return Err(Unusable(format!("more than {PARTS_MAX} parts")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
