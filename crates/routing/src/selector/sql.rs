//! Reads selectors and filters as people write them.
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

use super::field::{self, Field};
use super::json::{DEPTH_MAX, Paths, Step};
use super::negated_if;
use pattern::Limits;

use super::{Arithmetic, Comparison, Expression, Like, Literal, Parts, Pattern, Unusable};

/// The most regular expressions of a filter.
const PATTERNS_MAX: usize = 4;

/// A text that cannot be read on.
pub(super) struct Refused {
    /// The place, in bytes.
    pub(super) at: usize,
    pub(super) reason: String,
}

/// The reach of a filter: the parts of a message that it reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Extent {
    pub(super) reads_body: bool,
    pub(super) n_patterns: usize,
    pub(super) paths: Paths,
}

pub(super) fn selector(text: &str) -> Result<Expression, Refused> {
    Reader::new(text, None)?.whole()
}

pub(super) fn filter(text: &str) -> Result<(Expression, Extent), Refused> {
    let mut reader = Reader::new(text, Some(Extent::default()))?;
    let expression = reader.whole()?;
    Ok((expression, reader.filter.unwrap_or_default()))
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A keyword in capitals, or a name.
    Word(String),
    /// A name in double quotes.
    Header(String),
    Path(Vec<Step>),
    Symbol(&'static str),
    Integer(i64),
    Float(f64),
    Text(String),
}

const SYMBOLS: [&str; 13] = ["<>", "<=", ">=", "=", "<", ">", "+", "-", "*", "/", "(", ")", ","];

const KEYWORDS: [&str; 12] = [
    "AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE", "UNKNOWN",
];
/// A keyword of filters.
const MATCHES: &str = "MATCHES";
/// The starts of names that go on over a `-`, in filters.
const DASHED: [&str; 3] = ["x-", "header.", "properties.headers."];

/// A part of a text that is read, and the rest; or the rest where it cannot be read on, and why.
type Read<'t, T> = Result<(T, &'t str), (&'t str, String)>;

/// A token and its place.
struct Placed {
    token: Token,
    at: usize,
    end: usize,
}

fn tokens(text: &str, is_filter: bool) -> Result<Vec<Placed>, Refused> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let read = token(first, rest, is_filter);
        let (token, left) =
            read.map_err(|(at, reason)| Refused { at: text.len() - at.len(), reason })?;
        tokens.push(Placed { token, at: text.len() - rest.len(), end: text.len() - left.len() });
        rest = left.trim_start();
    }
    Ok(tokens)
}

fn token(first: char, rest: &str, is_filter: bool) -> Read<'_, Token> {
    let behind_dot = rest.chars().nth(1).is_some_and(|second| second.is_ascii_digit());
    if first == '\'' {
        quoted(rest, first).map(|(text, left)| (Token::Text(text), left))
    } else if first == '"' && is_filter {
        quoted(rest, first).map(|(text, left)| (Token::Header(text), left))
    } else if is_filter && (rest.starts_with("$.") || rest.starts_with("$[")) {
        path(rest)
    } else if first.is_ascii_digit() || (first == '.' && behind_dot) {
        number(rest)
    } else if first.is_alphabetic() || first == '_' || first == '$' {
        Ok(word(rest, is_filter))
    } else {
        let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
        let symbol = symbol.ok_or_else(|| (rest, format!("unexpected '{first}'")))?;
        Ok((Token::Symbol(symbol), rest.get(symbol.len()..).unwrap_or_default()))
    }
}

/// A quote inside is doubled.
fn quoted(text: &str, quote: char) -> Read<'_, String> {
    let mut out = String::new();
    let mut rest = text.get(1..).unwrap_or_default();
    loop {
        let Some((part, behind)) = rest.split_once(quote) else {
            return Err((text, "unterminated string".to_owned()));
        };
        out.push_str(part);
        let Some(more) = behind.strip_prefix(quote) else { return Ok((out, behind)) };
        out.push(quote);
        rest = more;
    }
}

fn number(text: &str) -> Read<'_, Token> {
    let mut end = 0;
    let mut before = ' ';
    for found in text.chars() {
        let signs_exponent = matches!(found, '+' | '-') && matches!(before, 'e' | 'E');
        if !(found.is_ascii_alphanumeric() || found == '.' || signs_exponent) {
            break;
        }
        end += found.len_utf8();
        before = found;
    }
    let (number, rest) = text.split_at(end);
    let bad = || (text, format!("invalid number '{number}'"));
    let lower = number.to_ascii_lowercase();
    let token = if let Some(hex) = lower.strip_prefix("0x") {
        Token::Integer(i64::from_str_radix(hex, 16).map_err(|_| bad())?)
    } else if lower.bytes().all(|byte| byte.is_ascii_digit()) {
        Token::Integer(lower.parse().map_err(|_| bad())?)
    } else {
        // Java marks types by a letter.
        let plain = lower.strip_suffix(['d', 'f', 'l']).unwrap_or(&lower);
        match plain.parse() {
            Ok(integer) if lower.ends_with('l') => Token::Integer(integer),
            Ok(_) | Err(_) => Token::Float(plain.parse().map_err(|_| bad())?),
        }
    };
    Ok((token, rest))
}

/// A path of JSON; a name in it is one of letters, digits and `_`, or stands in quotes and brackets.
fn path(text: &str) -> Read<'_, Token> {
    let mut steps = Vec::new();
    let mut rest = text.get(1..).unwrap_or_default();
    while rest.starts_with(['.', '[']) {
        if steps.len() == DEPTH_MAX {
            return Err((rest, format!("a path has at most {DEPTH_MAX} steps")));
        }
        let (step, left) = match rest.strip_prefix('.') {
            Some(name) => member(name)?,
            None => in_brackets(rest.get(1..).unwrap_or_default())?,
        };
        steps.push(step);
        rest = left;
    }
    Ok((Token::Path(steps), rest))
}

fn member(text: &str) -> Read<'_, Step> {
    let end = text.find(|it: char| !(it.is_alphanumeric() || it == '_')).unwrap_or(text.len());
    match text.split_at(end) {
        ("", rest) => Err((rest, "expected a member name".to_owned())),
        (name, rest) => Ok((Step::Member(name.to_owned()), rest)),
    }
}

fn in_brackets(text: &str) -> Read<'_, Step> {
    let (step, rest) = match text.chars().next() {
        Some(quote @ ('\'' | '"')) => {
            let (name, rest) = quoted(text, quote)?;
            (Step::Member(name), rest)
        }
        _ => {
            let end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
            let (digits, rest) = text.split_at(end);
            let expected = || (text, "expected a number or a quoted name".to_owned());
            (Step::Element(digits.parse().map_err(|_| expected())?), rest)
        }
    };
    match rest.strip_prefix(']') {
        Some(rest) => Ok((step, rest)),
        None => Err((rest, "expected ']'".to_owned())),
    }
}

fn word(text: &str, is_filter: bool) -> (Token, &str) {
    let has_dashes = is_filter && DASHED.iter().any(|start| text.starts_with(start));
    let is_part = |found: char| {
        found.is_alphanumeric() || matches!(found, '_' | '$' | '.') || (has_dashes && found == '-')
    };
    let end = text.find(|found| !is_part(found)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let upper = word.to_ascii_uppercase();
    let is_keyword = KEYWORDS.contains(&upper.as_str()) || (is_filter && upper == MATCHES);
    (Token::Word(if is_keyword { upper } else { word.to_owned() }), rest)
}

struct Reader<'t> {
    text: &'t str,
    tokens: Vec<Placed>,
    at: usize,
    parts: Parts,
    /// The reach of a filter, as far as it is read.
    filter: Option<Extent>,
    /// The time that is left for compiling regular expressions, in microseconds.
    patterns_us_left: u64,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, filter: Option<Extent>) -> Result<Self, Refused> {
        let tokens = tokens(text, filter.is_some())?;
        let patterns_us_left = Limits::FILTER.classes_us_max;
        Ok(Self { text, tokens, at: 0, parts: Parts::default(), filter, patterns_us_left })
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
        if self.word("IS") {
            let is_negated = self.word("NOT");
            let is_there = self.word("NULL");
            self.expect(is_there, "NULL")?;
            return Ok(negated_if(is_negated, Expression::IsNull(Box::new(left))));
        }
        let is_negated = self.word("NOT");
        let found = if self.word("BETWEEN") {
            let low = self.sum()?;
            let is_there = self.word("AND");
            self.expect(is_there, "AND")?;
            Expression::Between(Box::new([left, low, self.sum()?]))
        } else if self.word("IN") {
            Expression::In(Box::new(left), self.list()?)
        } else if self.word("LIKE") {
            Expression::Like(Box::new(left), Box::new(self.like()?))
        } else if self.filter.is_some() && self.word(MATCHES) {
            Expression::Matches(Box::new(left), Box::new(self.pattern()?))
        } else if is_negated {
            return Err(self.missing("BETWEEN, IN or LIKE"));
        } else {
            return Ok(left);
        };
        Ok(negated_if(is_negated, found))
    }

    fn list(&mut self) -> Result<Vec<Literal>, Refused> {
        let mut list = Vec::new();
        let is_there = self.symbol("(");
        self.expect(is_there, "'('")?;
        loop {
            list.push(self.literal()?);
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
        match escape.as_deref().map(str::as_bytes) {
            None => Ok(Like::new(pattern.as_bytes(), None)),
            Some(&[escape]) => Ok(Like::new(pattern.as_bytes(), Some(escape))),
            Some(_) => {
                self.at -= 1;
                Err(self.refused("ESCAPE takes one character".to_owned()))
            }
        }
    }

    fn pattern(&mut self) -> Result<Pattern, Refused> {
        let text = self.text()?;
        self.at -= 1;
        let n_patterns = self.filter.as_mut().map_or(0, |extent| {
            extent.n_patterns += 1;
            extent.n_patterns
        });
        if n_patterns > PATTERNS_MAX {
            let reason = format!("more than {PATTERNS_MAX} regular expressions");
            return Err(self.refused(reason));
        }
        let pattern = Pattern::new(&text, &mut self.patterns_us_left);
        let pattern = pattern.map_err(|reason| self.refused(reason))?;
        self.at += 1;
        Ok(pattern)
    }

    fn is_keyword(&self, word: &str) -> bool {
        KEYWORDS.contains(&word) || (self.filter.is_some() && word == MATCHES)
    }

    fn name(&mut self, name: &str) -> Result<Expression, Refused> {
        let Some(extent) = &mut self.filter else {
            return Ok(Expression::Header(name.as_bytes().into()));
        };
        extent.reads_body |= name == "body";
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
            } else {
                return Ok(left);
            };
            left = Expression::Calculate(arithmetic, Box::new([left, self.sign()?]));
        }
    }

    fn sign(&mut self) -> Result<Expression, Refused> {
        self.one_more_part()?;
        if self.symbol("+") {
            return self.sign();
        }
        if self.symbol("-") {
            return Ok(Expression::Negated(Box::new(self.sign()?)));
        }
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
        match self.peek().cloned() {
            Some(Token::Word(name)) if !self.is_keyword(&name) => {
                let named = self.name(&name)?;
                self.at += 1;
                Ok(named)
            }
            Some(Token::Path(steps)) => {
                self.at += 1;
                let extent = self.filter.get_or_insert_default();
                extent.reads_body = true;
                Ok(Expression::Field(Field::Path(extent.paths.add(steps))))
            }
            Some(Token::Header(name)) => {
                self.at += 1;
                Ok(Expression::Header(name.into_bytes().into()))
            }
            Some(Token::Word(_) | Token::Symbol(_)) | None => Err(self.missing("a value")),
            Some(Token::Integer(_) | Token::Float(_) | Token::Text(_)) => {
                self.literal().map(Expression::Literal)
            }
        }
    }
}
