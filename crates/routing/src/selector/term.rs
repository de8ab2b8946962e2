//! Reads selectors as RabbitMQ's JMS client sends them: Erlang terms such as
//! `{'=',{'ident',<<"colour">>},<<"blue">>}.`

use super::{Arithmetic, Comparison, Expression, Like, Literal, Parts, Unusable, negated_if};

pub(super) fn parse(text: &str) -> Result<Expression, Unusable> {
    let mut reader = Reader { rest: text, parts: Parts::default() };
    let term = reader.term()?;
    reader.take(".");
    if !reader.rest.trim_start().is_empty() {
        return Err(Unusable("unexpected text after the term".to_owned()));
    }
    term.expression()
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    Atom(String),
    Literal(Literal),
    Tuple(Vec<Self>),
    List(Vec<Self>),
}

struct Reader<'t> {
    rest: &'t str,
    parts: Parts,
}

impl Reader<'_> {
    fn take(&mut self, symbol: &str) -> bool {
        self.rest = self.rest.trim_start();
        let Some(rest) = self.rest.strip_prefix(symbol) else { return false };
        self.rest = rest;
        true
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Unusable> {
        if self.take(symbol) { Ok(()) } else { Err(Unusable(format!("expected '{symbol}'"))) }
    }

    fn term(&mut self) -> Result<Term, Unusable> {
        self.parts.one_more()?;
        if self.take("{") {
            return self.terms("}").map(Term::Tuple);
        }
        if self.take("[") {
            return self.terms("]").map(Term::List);
        }
        if self.take("<<") {
            return self.binary().map(|bytes| Term::Literal(Literal::Text(bytes.into())));
        }
        if self.take("'") {
            return Ok(Term::Atom(String::from_utf8_lossy(&self.quoted('\'')?).into_owned()));
        }
        let end = self.rest.find(|c: char| !is_plain(c)).unwrap_or(self.rest.len());
        let (mut word, mut rest) = self.rest.split_at(end);
        if let Some(whole) = word.strip_suffix('.') {
            (word, rest) = (whole, self.rest.get(end - 1..).unwrap_or_default());
        }
        self.rest = rest;
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+') {
            return number(word).map(Term::Literal);
        }
        if word.is_empty() {
            return Err(Unusable("expected a term".to_owned()));
        }
        Ok(Term::Atom(word.to_owned()))
    }

    fn terms(&mut self, end: &str) -> Result<Vec<Term>, Unusable> {
        let mut terms = Vec::new();
        if self.take(end) {
            return Ok(terms);
        }
        loop {
            terms.push(self.term()?);
            if !self.take(",") {
                break;
            }
        }
        self.expect(end)?;
        Ok(terms)
    }

    /// A text, or numbers of bytes.
    fn binary(&mut self) -> Result<Vec<u8>, Unusable> {
        let mut bytes = Vec::new();
        if self.take("\"") {
            bytes = self.quoted('"')?;
            self.take("/utf8");
        } else {
            for term in self.terms(">>")? {
                let byte = match &term {
                    Term::Literal(Literal::Integer(n)) => u8::try_from(*n).ok(),
                    Term::Literal(_) | Term::Atom(_) | Term::Tuple(_) | Term::List(_) => None,
                };
                bytes.push(
                    byte.ok_or_else(|| Unusable(format!("expected a byte, found {term:?}")))?,
                );
            }
            return Ok(bytes);
        }
        self.expect(">>")?;
        Ok(bytes)
    }

    fn quoted(&mut self, quote: char) -> Result<Vec<u8>, Unusable> {
        let mut out = String::new();
        let mut chars = self.rest.chars();
        while let Some(found) = chars.next() {
            match found {
                _ if found == quote => {
                    self.rest = chars.as_str();
                    return Ok(out.into_bytes());
                }
                '\\' => match chars.next() {
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some('r') => out.push('\r'),
                    Some(other) => out.push(other),
                    None => break,
                },
                other => out.push(other),
            }
        }
        Err(Unusable("unterminated string".to_owned()))
    }
}

const fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '@' | '.' | '-' | '+')
}

fn number(word: &str) -> Result<Literal, Unusable> {
    let bad = |_| Unusable(format!("invalid number '{word}'"));
    if word.contains(['.', 'e', 'E']) {
        return word.parse().map(Literal::Float).map_err(|_| bad(()));
    }
    word.parse().map(|n: i64| Literal::Integer(n.into())).map_err(|_| bad(()))
}

impl Term {
    fn expression(self) -> Result<Expression, Unusable> {
        match self {
            Self::Literal(literal) => Ok(Expression::Literal(literal)),
            Self::Atom(atom) => match atom.as_str() {
                "true" => Ok(Expression::Literal(Literal::Bool(true))),
                "false" => Ok(Expression::Literal(Literal::Bool(false))),
                _ => Err(Unusable(format!("expected a condition, found '{atom}'"))),
            },
            Self::Tuple(parts) => {
                let mut parts = parts.into_iter();
                let Some(Self::Atom(operator)) = parts.next() else {
                    return Err(Unusable("expected an operator".to_owned()));
                };
                operation(&operator, parts.collect())
            }
            Self::List(_) => Err(Unusable("expected a condition, found a list".to_owned())),
        }
    }

    fn literals(self) -> Result<Vec<Expression>, Unusable> {
        let Self::List(terms) = self else {
            return Err(Unusable(format!("expected a list, found {self:?}")));
        };
        terms.into_iter().map(|term| term.literal().map(Expression::Literal)).collect()
    }

    fn literal(self) -> Result<Literal, Unusable> {
        let Self::Literal(literal) = self else {
            return Err(Unusable(format!("expected a value, found {self:?}")));
        };
        Ok(literal)
    }

    fn text(self) -> Result<Box<[u8]>, Unusable> {
        let Self::Literal(Literal::Text(text)) = self else {
            return Err(Unusable(format!("expected a string, found {self:?}")));
        };
        Ok(text)
    }
}

fn operation(operator: &str, operands: Vec<Term>) -> Result<Expression, Unusable> {
    let unknown = || Unusable(format!("unknown operator '{operator}'"));
    let boxed = |term: Term| term.expression().map(Box::new);
    let n_operands = operands.len();
    if let Ok([only]) = <[Term; 1]>::try_from(operands.clone()) {
        return match operator {
            "ident" => only.text().map(Expression::Header),
            "not" => boxed(only).map(Expression::Not),
            "-" => boxed(only).map(Expression::Negated),
            "+" => only.expression(),
            "is_null" => boxed(only).map(Expression::IsNull),
            "not_null" => {
                boxed(only).map(|inner| Expression::Not(Box::new(Expression::IsNull(inner))))
            }
            _ => Err(unknown()),
        };
    }
    if let Ok([left, right]) = <[Term; 2]>::try_from(operands.clone()) {
        return binary_operation(operator, left, right);
    }
    let Ok([value, first, second]) = <[Term; 3]>::try_from(operands) else {
        return Err(Unusable(format!("operator '{operator}' with {n_operands} operands")));
    };
    match operator {
        "between" | "not_between" => between(operator, value, first, second),
        "like" | "not_like" => {
            let is_plain = second == Term::Atom("no_escape".to_owned());
            let escape = if is_plain { Box::default() } else { second.text()? };
            let escape = escape.get(..1).unwrap_or_default();
            let like = Expression::Like(boxed(value)?, Box::new(Like::new(&first.text()?, escape)));
            Ok(negated_if(operator == "not_like", like))
        }
        _ => Err(unknown()),
    }
}

fn binary_operation(operator: &str, left: Term, right: Term) -> Result<Expression, Unusable> {
    match (operator, right) {
        ("between" | "not_between", Term::Tuple(range)) => {
            let Ok([Term::Atom(_), low, high]) = <[Term; 3]>::try_from(range) else {
                return Err(Unusable("expected a range".to_owned()));
            };
            between(operator, left, low, high)
        }
        ("in" | "not_in", list) => {
            let found = Expression::In(Box::new(left.expression()?), list.literals()?);
            Ok(negated_if(operator == "not_in", found))
        }
        (_, right) => {
            let both = Box::new([left.expression()?, right.expression()?]);
            Ok(match operator {
                "and" => Expression::And(both),
                "or" => Expression::Or(both),
                "=" => Expression::Compare(Comparison::Equal, both),
                "<>" => Expression::Compare(Comparison::NotEqual, both),
                "<" => Expression::Compare(Comparison::Less, both),
                "<=" => Expression::Compare(Comparison::LessOrEqual, both),
                ">" => Expression::Compare(Comparison::Greater, both),
                ">=" => Expression::Compare(Comparison::GreaterOrEqual, both),
                "+" => Expression::Calculate(Arithmetic::Add, both),
                "-" => Expression::Calculate(Arithmetic::Subtract, both),
                "*" => Expression::Calculate(Arithmetic::Multiply, both),
                "/" => Expression::Calculate(Arithmetic::Divide, both),
                _ => return Err(Unusable(format!("unknown operator '{operator}'"))),
            })
        }
    }
}

fn between(operator: &str, value: Term, low: Term, high: Term) -> Result<Expression, Unusable> {
    let three = [value.expression()?, low.expression()?, high.expression()?];
    Ok(negated_if(operator == "not_between", Expression::Between(Box::new(three))))
}
