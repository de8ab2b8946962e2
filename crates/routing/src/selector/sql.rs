//! Reads selectors as people write them.
//!
//! ```text
//! or        = and {"OR" and}
//! and       = not {"AND" not}
//! not       = "NOT" not | predicate
//! predicate = sum [compare sum | ["NOT"] "BETWEEN" sum "AND" sum | ["NOT"] "IN" "(" literals ")"
//!                 | ["NOT"] "LIKE" text ["ESCAPE" text] | "IS" ["NOT"] "NULL"]
//! sum       = product {("+" | "-") product}
//! product   = sign {("*" | "/") sign}
//! sign      = ("+" | "-") sign | literal | name | "(" or ")"
//! ```

use super::{Arithmetic, Comparison, Expression, Like, Literal, Parts, Unusable, negated_if};

pub(super) fn parse(text: &str) -> Result<Expression, Unusable> {
    let mut reader = Reader { tokens: tokens(text)?, at: 0, parts: Parts::default() };
    let expression = reader.or()?;
    match reader.peek() {
        None => Ok(expression),
        Some(token) => Err(Unusable(format!("{token:?} is not expected"))),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A keyword in capitals, or a name.
    Word(String),
    Symbol(&'static str),
    Integer(i64),
    Float(f64),
    Text(String),
}

const SYMBOLS: [&str; 13] = ["<>", "<=", ">=", "=", "<", ">", "+", "-", "*", "/", "(", ")", ","];

const KEYWORDS: [&str; 12] = [
    "AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE", "UNKNOWN",
];

fn tokens(text: &str) -> Result<Vec<Token>, Unusable> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let behind_dot = rest.chars().nth(1).is_some_and(|second| second.is_ascii_digit());
        let (token, left) = if first == '\'' {
            quoted(rest)?
        } else if first.is_ascii_digit() || (first == '.' && behind_dot) {
            number(rest)?
        } else if first.is_alphabetic() || first == '_' || first == '$' {
            word(rest)
        } else {
            let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
            let symbol = symbol.ok_or_else(|| Unusable(format!("'{first}' is not expected")))?;
            (Token::Symbol(symbol), rest.get(symbol.len()..).unwrap_or_default())
        };
        tokens.push(token);
        rest = left.trim_start();
    }
    Ok(tokens)
}

/// A quote inside is doubled.
fn quoted(text: &str) -> Result<(Token, &str), Unusable> {
    let mut out = String::new();
    let mut rest = text.get(1..).unwrap_or_default();
    loop {
        let Some((part, behind)) = rest.split_once('\'') else {
            return Err(Unusable("a text does not end".to_owned()));
        };
        out.push_str(part);
        let Some(more) = behind.strip_prefix('\'') else { return Ok((Token::Text(out), behind)) };
        out.push('\'');
        rest = more;
    }
}

fn number(text: &str) -> Result<(Token, &str), Unusable> {
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
    let bad = || Unusable(format!("'{number}' is no number"));
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

fn word(text: &str) -> (Token, &str) {
    let is_part =
        |found: char| found.is_alphanumeric() || found == '_' || found == '$' || found == '.';
    let end = text.find(|found| !is_part(found)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let upper = word.to_ascii_uppercase();
    let is_keyword = KEYWORDS.contains(&upper.as_str());
    (Token::Word(if is_keyword { upper } else { word.to_owned() }), rest)
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    parts: Parts,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn is_next(&self, token: &Token) -> bool {
        self.peek() == Some(token)
    }

    /// Takes a keyword if it is next.
    fn word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Word(found)) if found == word);
        self.at += usize::from(is_next);
        is_next
    }

    fn symbol(&mut self, symbol: &'static str) -> bool {
        let is_next = self.is_next(&Token::Symbol(symbol));
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, is_there: bool, what: &str) -> Result<(), Unusable> {
        if is_there { Ok(()) } else { Err(self.missing(what)) }
    }

    fn missing(&self, what: &str) -> Unusable {
        Unusable(match self.peek() {
            Some(token) => format!("{token:?} stands where {what} is expected"),
            None => format!("it ends where {what} is expected"),
        })
    }

    fn or(&mut self) -> Result<Expression, Unusable> {
        let mut left = self.and()?;
        while self.word("OR") {
            left = Expression::Or(Box::new([left, self.and()?]));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expression, Unusable> {
        let mut left = self.not()?;
        while self.word("AND") {
            left = Expression::And(Box::new([left, self.not()?]));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expression, Unusable> {
        self.parts.one_more()?;
        if self.word("NOT") {
            return Ok(Expression::Not(Box::new(self.not()?)));
        }
        self.predicate()
    }

    fn predicate(&mut self) -> Result<Expression, Unusable> {
        let left = self.sum()?;
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
        } else if is_negated {
            return Err(self.missing("BETWEEN, IN or LIKE"));
        } else {
            return Ok(left);
        };
        Ok(negated_if(is_negated, found))
    }

    fn list(&mut self) -> Result<Vec<Literal>, Unusable> {
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

    fn literal(&mut self) -> Result<Literal, Unusable> {
        let is_negative = self.symbol("-");
        let literal = match self.peek() {
            Some(Token::Text(text)) if !is_negative => Literal::Text(text.as_bytes().into()),
            Some(Token::Integer(n)) => Literal::Integer(if is_negative { -*n } else { *n }),
            Some(Token::Float(n)) => Literal::Float(if is_negative { -*n } else { *n }),
            _ => return Err(self.missing("a text or number")),
        };
        self.at += 1;
        Ok(literal)
    }

    fn text(&mut self) -> Result<String, Unusable> {
        let Some(Token::Text(text)) = self.peek().cloned() else {
            return Err(self.missing("a text"));
        };
        self.at += 1;
        Ok(text)
    }

    fn like(&mut self) -> Result<Like, Unusable> {
        let pattern = self.text()?;
        let escape = if self.word("ESCAPE") { Some(self.text()?) } else { None };
        match escape.as_deref().map(str::as_bytes) {
            None => Ok(Like::new(pattern.as_bytes(), None)),
            Some(&[escape]) => Ok(Like::new(pattern.as_bytes(), Some(escape))),
            Some(_) => Err(Unusable("ESCAPE takes one character".to_owned())),
        }
    }

    fn sum(&mut self) -> Result<Expression, Unusable> {
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

    fn product(&mut self) -> Result<Expression, Unusable> {
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

    fn sign(&mut self) -> Result<Expression, Unusable> {
        self.parts.one_more()?;
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
        if self.word("TRUE") {
            return Ok(Expression::Literal(Literal::Bool(true)));
        }
        if self.word("FALSE") {
            return Ok(Expression::Literal(Literal::Bool(false)));
        }
        match self.peek().cloned() {
            Some(Token::Word(name)) if !KEYWORDS.contains(&name.as_str()) => {
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
