//! Message selectors of JMS: conditions over headers in a subset of SQL (JMS 2.0, 3.8.1).
//!
//! `sql.rs` reads the text people write, `term.rs` the Erlang term RabbitMQ's JMS client makes of it;
//! both give the [`Expression`] that is evaluated here. Whatever is missing or does not fit is
//! unknown, and what is not certainly true is no match.

mod like;
mod sql;
mod steps;
mod term;

use amqp091::ValueRef;

use crate::message::Message;
use like::Like;
pub(crate) use steps::Steps;

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
        sql::parse(checked(text)?).map(Self)
    }

    /// Reads an Erlang term.
    pub(crate) fn of_term(text: &[u8]) -> Result<Self, Unusable> {
        term::parse(checked(text)?).map(Self)
    }

    /// Whether it is true for a message; it is not where `steps` run out.
    pub(crate) fn matches(&self, message: &Message<'_>, steps: &mut Steps) -> bool {
        let is_true = self.0.value(message, steps) == Operand::Bool(true);
        is_true && !steps.ran_out()
    }
}

fn checked(text: &[u8]) -> Result<&str, Unusable> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Unusable(format!("it is longer than {TEXT_BYTES_MAX} bytes")));
    }
    std::str::from_utf8(text).map_err(|_| Unusable("it is not valid UTF-8".to_owned()))
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
}

#[derive(Clone, Debug, PartialEq)]
enum Literal {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(Box<[u8]>),
}

/// At most as deep as it has parts, see [`PARTS_MAX`].
#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Literal(Literal),
    Header(Box<[u8]>),
    Not(Box<Self>),
    Negated(Box<Self>),
    And(Box<[Self; 2]>),
    Or(Box<[Self; 2]>),
    Compare(Comparison, Box<[Self; 2]>),
    Calculate(Arithmetic, Box<[Self; 2]>),
    IsNull(Box<Self>),
    /// The first lies between the others, or is one of them.
    Between(Box<[Self; 3]>),
    In(Box<Self>, Vec<Literal>),
    Like(Box<Self>, Box<Like>),
}

/// The value of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Operand<'a> {
    Unknown,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(&'a [u8]),
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
    fn value<'a>(&'a self, message: &Message<'a>, steps: &mut Steps) -> Operand<'a> {
        if steps.take(1).is_none() {
            return Operand::Unknown;
        }
        match self {
            Self::Literal(literal) => literal.operand(),
            Self::Header(name) => header(message, name, steps),
            Self::Not(inner) => not(inner.value(message, steps)),
            Self::Negated(inner) => match inner.value(message, steps) {
                Operand::Integer(n) => n.checked_neg().map_or(Operand::Unknown, Operand::Integer),
                Operand::Float(n) => Operand::Float(-n),
                Operand::Unknown | Operand::Bool(_) | Operand::Text(_) => Operand::Unknown,
            },
            Self::And(both) => settled(both, message, false, steps),
            Self::Or(both) => settled(both, message, true, steps),
            Self::Compare(comparison, both) => {
                let [left, right] = &**both;
                let (left, right) = (left.value(message, steps), right.value(message, steps));
                compare(*comparison, left, right, steps)
            }
            Self::Calculate(arithmetic, both) => {
                let [left, right] = &**both;
                calculate(*arithmetic, left.value(message, steps), right.value(message, steps))
            }
            Self::IsNull(inner) => Operand::Bool(inner.value(message, steps) == Operand::Unknown),
            Self::Between(three) => {
                let [value, low, high] = &**three;
                let value = value.value(message, steps);
                let low = low.value(message, steps);
                let high = high.value(message, steps);
                let above = compare(Comparison::GreaterOrEqual, value, low, steps);
                and(above, compare(Comparison::LessOrEqual, value, high, steps))
            }
            Self::In(inner, list) => {
                let value = inner.value(message, steps);
                let mut is =
                    |one: &Literal| compare(Comparison::Equal, value, one.operand(), steps);
                if value == Operand::Unknown {
                    return value;
                }
                Operand::Bool(list.iter().any(|one| is(one) == Operand::Bool(true)))
            }
            Self::Like(inner, like) => match inner.value(message, steps) {
                Operand::Text(text) => Operand::Bool(like.matches(text, steps)),
                Operand::Unknown => Operand::Unknown,
                Operand::Bool(_) | Operand::Integer(_) | Operand::Float(_) => Operand::Bool(false),
            },
        }
    }
}

/// `and` for false, `or` for true: one operand of that value settles it.
fn settled<'a>(
    both: &'a [Expression; 2],
    message: &Message<'a>,
    by: bool,
    steps: &mut Steps,
) -> Operand<'a> {
    let [left, right] = both;
    let left = left.value(message, steps);
    if left == Operand::Bool(by) {
        return left;
    }
    let right = right.value(message, steps);
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
    match value {
        Operand::Bool(value) => Operand::Bool(!value),
        Operand::Unknown | Operand::Integer(_) | Operand::Float(_) | Operand::Text(_) => {
            Operand::Unknown
        }
    }
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
    let compared_bytes = match (left, right) {
        (Operand::Text(a), Operand::Text(b)) => a.len().min(b.len()),
        _ => 0,
    };
    if steps.pass_over(compared_bytes).is_none() {
        return Operand::Unknown;
    }
    let order = match (left, right) {
        (Operand::Integer(a), Operand::Integer(b)) => Some(a.cmp(&b)),
        (Operand::Bool(a), Operand::Bool(b)) => Some(a.cmp(&b)),
        (Operand::Text(a), Operand::Text(b)) => Some(a.cmp(b)),
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
        _ => None,
    };
    if let Some(whole) = whole {
        return Operand::Integer(whole);
    }
    let Some((a, b)) = left.as_float().zip(right.as_float()) else { return Operand::Unknown };
    Operand::Float(match arithmetic {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        // COMPAT: also of integers.
        Arithmetic::Divide => a / b,
    })
}

impl Operand<'_> {
    #[expect(clippy::cast_precision_loss, reason = "as everybody compares integers with floats")]
    const fn as_float(self) -> Option<f64> {
        match self {
            Self::Integer(n) => Some(n as f64),
            Self::Float(n) => Some(n),
            Self::Unknown | Self::Bool(_) | Self::Text(_) => None,
        }
    }
}

/// A header or, if there is none of that name, the property JMS calls so.
fn header<'a>(message: &Message<'a>, name: &[u8], steps: &mut Steps) -> Operand<'a> {
    let headers_bytes = message.headers.map_or(0, |headers| headers.as_bytes().len());
    if steps.pass_over(headers_bytes).is_none() {
        return Operand::Unknown;
    }
    let Some(value) = message.headers.and_then(|headers| headers.get(name)) else {
        return message.properties.map_or(Operand::Unknown, |found| property(found, name));
    };
    if let ValueRef::Bool(value) = value {
        return Operand::Bool(value);
    }
    if let ValueRef::LongString(text) | ValueRef::Bytes(text) = value {
        return Operand::Text(text);
    }
    let float = || value.as_f64().map_or(Operand::Unknown, Operand::Float);
    value.as_i64().map_or_else(float, Operand::Integer)
}

fn property<'a>(properties: message::View<'a>, name: &[u8]) -> Operand<'a> {
    let text = |value: Option<&'a [u8]>| value.map_or(Operand::Unknown, Operand::Text);
    match name {
        b"JMSMessageID" => text(properties.message_id()),
        b"JMSCorrelationID" => text(properties.correlation_id()),
        b"JMSType" => text(properties.kind()),
        b"JMSPriority" => {
            properties.priority().map_or(Operand::Unknown, |n| Operand::Integer(n.into()))
        }
        b"JMSTimestamp" => {
            // JMS counts milliseconds.
            let ms = properties.timestamp().and_then(|seconds| seconds.checked_mul(1_000));
            ms.and_then(|ms| i64::try_from(ms).ok()).map_or(Operand::Unknown, Operand::Integer)
        }
        b"JMSDeliveryMode" if properties.is_persistent() => Operand::Text(b"PERSISTENT"),
        b"JMSDeliveryMode" => Operand::Text(b"NON_PERSISTENT"),
        _ => Operand::Unknown,
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
            return Err(Unusable(format!("it has more than {PARTS_MAX} parts")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
