//! Reads selectors and filters as people write them: three grammars that differ in words and little else.
//!
//! ```text
//! or        = and {"OR" and}
//! and       = not {"AND" not}
//! not       = "NOT" not | predicate
//! predicate = sum [compare sum | ["NOT"] "BETWEEN" sum "AND" sum | ["NOT"] "IN" "(" literals ")"
//!                 | ["NOT"] "LIKE" text ["ESCAPE" text] | "IS" ["NOT"] "NULL" | ["NOT"] "MATCHES" text]
//! sum       = product {("+" | "-") product}
//! product   = sign {("*" | "/") sign}
//! sign      = ("+" | "-") sign | literal | name | "(" or ")"
//! ```
//!
//! Only filters have `MATCHES`, names in double quotes, names with a `-`, and paths:
//!
//! ```text
//! path      = "$" step {step}
//! step      = "." letters_and_digits | "[" (digits | text | text in double quotes) "]"
//! ```
//!
//! Filters over sections have other words (`section_tokens.rs`), `"%"` among products, sums in the list of
//! `IN`, at most one sign, `"UTC" "(" ")"`, `IS NULL` of names alone, and no `BETWEEN`.

use super::field::{self, Field};
use super::json::Paths;
use super::negated_if;
use pattern::Limits;

use super::section_field::SectionField;
use super::section_tokens;
use super::tokens::{KEYWORDS, MATCHES, Placed, Refused, Token, tokens};
use super::{Arithmetic, Comparison, Expression, Like, Literal, Parts, Pattern, Unusable};

/// The most regular expressions of a filter.
const PATTERNS_MAX: usize = 4;

/// The reach of a filter: the parts of a message that it reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Extent {
    pub(super) reads_body: bool,
    pub(super) n_patterns: usize,
    pub(super) paths: Paths,
}

/// The language that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grammar {
    /// Selectors of JMS.
    Selector,
    /// Filters of operators.
    Filter,
    /// Filters of AMQP 1.0.
    Sections,
}

impl Grammar {
    fn is_keyword(self, word: &str) -> bool {
        match self {
            Self::Selector => KEYWORDS.contains(&word),
            Self::Filter => KEYWORDS.contains(&word) || word == MATCHES,
            // Names are no words.
            Self::Sections => true,
        }
    }
}

pub(super) fn selector(text: &str) -> Result<Expression, Refused> {
    Parser::new(text, Grammar::Selector)?.whole()
}

pub(super) fn filter(text: &str) -> Result<(Expression, Extent), Refused> {
    let mut parser = Parser::new(text, Grammar::Filter)?;
    let expression = parser.whole()?;
    Ok((expression, parser.extent))
}

pub(super) fn sections(text: &str) -> Result<Expression, Refused> {
    Parser::new(text, Grammar::Sections)?.whole()
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Placed>,
    at: usize,
    parts: Parts,
    grammar: Grammar,
    /// The reach of a filter, as far as it is read.
    extent: Extent,
    /// The time that is left for compiling regular expressions, in microseconds.
    patterns_us_left: u64,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, grammar: Grammar) -> Result<Self, Refused> {
        let tokens = match grammar {
            Grammar::Selector | Grammar::Filter => tokens(text, grammar == Grammar::Filter)?,
            Grammar::Sections => section_tokens::tokens(text)?,
        };
        let (parts, extent) = (Parts::default(), Extent::default());
        let patterns_us_left = Limits::FILTER.classes_us_max;
        Ok(Self { text, tokens, at: 0, parts, grammar, extent, patterns_us_left })
    }

    fn whole(&mut self) -> Result<Expression, Refused> {
        let expression = self.or()?;
        match self.tokens.get(self.at) {
            None => Ok(expression),
            Some(_) => Err(self.missing("AND, OR or the end")),
        }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|placed| &placed.token)
    }

    /// Takes a keyword if it is next.
    fn word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Word(found)) if found == word);
        self.at += usize::from(is_next);
        is_next
    }

    fn symbol(&mut self, symbol: &'static str) -> bool {
        let is_next = self.peek() == Some(&Token::Symbol(symbol));
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, is_there: bool, what: &str) -> Result<(), Refused> {
        if is_there { Ok(()) } else { Err(self.missing(what)) }
    }

    fn missing(&self, what: &str) -> Refused {
        self.refused(match self.tokens.get(self.at) {
            Some(Placed { at, end, .. }) => {
                let found = self.text.get(*at..*end).unwrap_or_default();
                format!("expected {what}, found {found}")
            }
            None => format!("expected {what}, found the end"),
        })
    }

    /// The refusal of the next token.
    fn refused(&self, reason: String) -> Refused {
        let at = self.tokens.get(self.at).map_or(self.text.len(), |placed| placed.at);
        Refused { at, reason }
    }

    fn one_more_part(&mut self) -> Result<(), Refused> {
        self.parts.one_more().map_err(|Unusable(reason)| self.refused(reason))
    }

    fn or(&mut self) -> Result<Expression, Refused> {
        let mut left = self.and()?;
        while self.word("OR") {
            left = Expression::Or(Box::new([left, self.and()?]));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expression, Refused> {
        let mut left = self.not()?;
        while self.word("AND") {
            left = Expression::And(Box::new([left, self.not()?]));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expression, Refused> {
        self.one_more_part()?;
        if self.word("NOT") {
            return Ok(Expression::Not(Box::new(self.not()?)));
        }
        self.predicate()
    }

    fn predicate(&mut self) -> Result<Expression, Refused> {
        let left = self.sum()?;
        self.condition(left)
    }

    fn condition(&mut self, left: Expression) -> Result<Expression, Refused> {
        for (symbol, comparison) in [
            ("=", Comparison::Equal),
            ("<>", Comparison::NotEqual),
            ("<", Comparison::Less),
            ("<=", Comparison::LessOrEqual),
            (">", Comparison::Greater),
            (">=", Comparison::GreaterOrEqual),
        ] {
            if self.symbol(symbol) {
                return Ok(Expression::Compare(comparison, Box::new([left, self.sum()?])));
            }
        }
        let is_named = matches!(left, Expression::Header(_) | Expression::Field(_));
        if (is_named || self.grammar != Grammar::Sections) && self.word("IS") {
            let is_negated = self.word("NOT");
            let is_there = self.word("NULL");
            self.expect(is_there, "NULL")?;
            return Ok(negated_if(is_negated, Expression::IsNull(Box::new(left))));
        }
        let is_negated = self.word("NOT");
        let found = if self.grammar != Grammar::Sections && self.word("BETWEEN") {
            let low = self.sum()?;
            let is_there = self.word("AND");
            self.expect(is_there, "AND")?;
            Expression::Between(Box::new([left, low, self.sum()?]))
        } else if self.word("IN") {
            Expression::In(Box::new(left), self.list()?)
        } else if self.word("LIKE") {
            Expression::Like(Box::new(left), Box::new(self.like()?))
        } else if (self.grammar == Grammar::Filter) && self.word(MATCHES) {
            Expression::Matches(Box::new(left), Box::new(self.pattern()?))
        } else if is_negated {
            return Err(self.missing("BETWEEN, IN or LIKE"));
        } else {
            return Ok(left);
        };
        Ok(negated_if(is_negated, found))
    }

    fn list(&mut self) -> Result<Vec<Expression>, Refused> {
        let mut list = Vec::new();
        let is_there = self.symbol("(");
        self.expect(is_there, "'('")?;
        loop {
            list.push(match self.grammar {
                Grammar::Selector | Grammar::Filter => Expression::Literal(self.literal()?),
                Grammar::Sections => self.sum()?,
            });
            if !self.symbol(",") {
                break;
            }
        }
        let is_there = self.symbol(")");
        self.expect(is_there, "')'")?;
        Ok(list)
    }

    fn literal(&mut self) -> Result<Literal, Refused> {
        let is_negative = self.symbol("-");
        let literal = match self.peek() {
            Some(Token::Text(text)) if !is_negative => Literal::Text(text.as_bytes().into()),
            Some(Token::Bytes(bytes)) if !is_negative => Literal::Text(bytes.as_slice().into()),
            Some(Token::Integer(n)) => Literal::Integer(if is_negative { -*n } else { *n }),
            Some(Token::Float(n)) => Literal::Float(if is_negative { -*n } else { *n }),
            _ => return Err(self.missing("a string or number")),
        };
        self.at += 1;
        Ok(literal)
    }

    fn text(&mut self) -> Result<String, Refused> {
        let Some(Token::Text(text)) = self.peek().cloned() else {
            return Err(self.missing("a string"));
        };
        self.at += 1;
        Ok(text)
    }

    fn like(&mut self) -> Result<Like, Refused> {
        let pattern = self.text()?;
        let escape = if self.word("ESCAPE") { Some(self.text()?) } else { None };
        if escape.as_ref().is_some_and(|escape| escape.chars().count() != 1) {
            self.at -= 1;
            return Err(self.refused("ESCAPE takes one character".to_owned()));
        }
        let escape = escape.unwrap_or_default();
        if (self.grammar == Grammar::Sections) && !is_strict(&pattern, &escape) {
            let reason = "a pattern has no control characters, and no ESCAPE at its end";
            return Err(self.refused(reason.to_owned()));
        }
        Ok(Like::new(pattern.as_bytes(), escape.as_bytes()))
    }

    fn pattern(&mut self) -> Result<Pattern, Refused> {
        let text = self.text()?;
        self.at -= 1;
        self.extent.n_patterns += 1;
        if self.extent.n_patterns > PATTERNS_MAX {
            let reason = format!("more than {PATTERNS_MAX} regular expressions");
            return Err(self.refused(reason));
        }
        let pattern = Pattern::new(&text, &mut self.patterns_us_left);
        let pattern = pattern.map_err(|reason| self.refused(reason))?;
        self.at += 1;
        Ok(pattern)
    }

    fn name(&mut self, name: &str) -> Result<Expression, Refused> {
        if self.grammar != Grammar::Filter {
            return Ok(Expression::Header(name.as_bytes().into()));
        }
        self.extent.reads_body |= name == "body";
        field::named(name).map_err(|reason| self.refused(reason))
    }

    fn sum(&mut self) -> Result<Expression, Refused> {
        let mut left = self.product()?;
        loop {
            let arithmetic = if self.symbol("+") {
                Arithmetic::Add
            } else if self.symbol("-") {
                Arithmetic::Subtract
            } else {
                return Ok(left);
            };
            left = Expression::Calculate(arithmetic, Box::new([left, self.product()?]));
        }
    }

    fn product(&mut self) -> Result<Expression, Refused> {
        let mut left = self.sign()?;
        loop {
            let arithmetic = if self.symbol("*") {
                Arithmetic::Multiply
            } else if self.symbol("/") {
                Arithmetic::Divide
            } else if self.symbol("%") {
                Arithmetic::Remainder
            } else {
                return Ok(left);
            };
            left = Expression::Calculate(arithmetic, Box::new([left, self.sign()?]));
        }
    }

    fn sign(&mut self) -> Result<Expression, Refused> {
        self.one_more_part()?;
        let is_of_sections = self.grammar == Grammar::Sections;
        if self.symbol("+") {
            let signed = if is_of_sections { self.primary()? } else { return self.sign() };
            // Of anything but a number it is unknown.
            let zero = Expression::Literal(Literal::Integer(0));
            return Ok(Expression::Calculate(Arithmetic::Add, Box::new([zero, signed])));
        }
        if self.symbol("-") {
            let signed = if is_of_sections { self.primary()? } else { self.sign()? };
            return Ok(Expression::Negated(Box::new(signed)));
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Expression, Refused> {
        if self.symbol("(") {
            let inner = self.or()?;
            let is_there = self.symbol(")");
            self.expect(is_there, "')'")?;
            return Ok(inner);
        }
        self.value()
    }

    /// A function of its own: what calls itself is to take little of the stack.
    fn value(&mut self) -> Result<Expression, Refused> {
        if self.word("TRUE") {
            return Ok(Expression::Literal(Literal::Bool(true)));
        }
        if self.word("FALSE") {
            return Ok(Expression::Literal(Literal::Bool(false)));
        }
        if (self.grammar == Grammar::Sections) && self.word("UTC") {
            let is_there = self.symbol("(") && self.symbol(")");
            self.expect(is_there, "'()'")?;
            return Ok(Expression::Field(Field::Section(SectionField::Utc)));
        }
        match self.peek().cloned() {
            Some(Token::Word(name)) if !self.grammar.is_keyword(&name) => {
                let named = self.name(&name)?;
                self.at += 1;
                Ok(named)
            }
            Some(Token::Path(steps)) => {
                self.at += 1;
                self.extent.reads_body = true;
                Ok(Expression::Field(Field::Path(self.extent.paths.add(steps))))
            }
            Some(Token::Header(name)) => {
                self.at += 1;
                Ok(Expression::Header(name.into_bytes().into()))
            }
            Some(Token::Field(field)) => {
                self.at += 1;
                Ok(Expression::Field(Field::Section(field)))
            }
            Some(Token::Word(_) | Token::Symbol(_)) | None => Err(self.missing("a value")),
            Some(Token::Integer(_) | Token::Float(_) | Token::Text(_) | Token::Bytes(_)) => {
                self.literal().map(Expression::Literal)
            }
        }
    }
}

/// Whether a pattern has only what filters of AMQP 1.0 may have.
fn is_strict(pattern: &str, escape: &str) -> bool {
    let mut characters = pattern.chars();
    let ends_in_escape = loop {
        match characters.next() {
            Some(found) if escape.starts_with(found) && characters.next().is_none() => break true,
            Some(_) => {}
            None => break false,
        }
    };
    !ends_in_escape && !pattern.contains(|found: char| found.is_ascii_control())
}
