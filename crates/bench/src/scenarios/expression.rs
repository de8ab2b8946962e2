//! Numbers that depend on the scale: sums, products, variables and functions.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = one { ("*" | "/") one }
//! one     = number | name | name "(" sum { "," sum } ")"
//! ```

use anyhow::{Context as _, bail, ensure};

use super::template::Scope;

/// The value of an expression.
pub(super) fn number(text: &str, scope: &Scope) -> anyhow::Result<f64> {
    let mut left = Left { rest: text.trim(), scope };
    let value = left.sum().with_context(|| format!("in '{text}'"))?;
    ensure!(left.rest.is_empty(), "'{}' is not expected in '{text}'", left.rest);
    Ok(value)
}

/// The part that is not read yet.
struct Left<'a> {
    rest: &'a str,
    scope: &'a Scope,
}

impl Left<'_> {
    fn take(&mut self, sign: char) -> bool {
        let after = self.rest.strip_prefix(sign);
        self.rest = after.map_or(self.rest, str::trim_start);
        after.is_some()
    }

    fn sum(&mut self) -> anyhow::Result<f64> {
        let mut sum = self.product()?;
        loop {
            if self.take('+') {
                sum += self.product()?;
            } else if self.take('-') {
                sum -= self.product()?;
            } else {
                return Ok(sum);
            }
        }
    }

    fn product(&mut self) -> anyhow::Result<f64> {
        let mut product = self.one()?;
        loop {
            if self.take('*') {
                product *= self.one()?;
            } else if self.take('/') {
                product /= self.one()?;
            } else {
                return Ok(product);
            }
        }
    }

    fn one(&mut self) -> anyhow::Result<f64> {
        let is_end = |c: char| !c.is_alphanumeric() && !"_.".contains(c);
        let (word, rest) = self.rest.split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        if let Ok(number) = word.parse() {
            return Ok(number);
        }
        if !self.take('(') {
            return self.scope.variable(word);
        }
        let mut arguments = vec![self.sum()?];
        while self.take(',') {
            arguments.push(self.sum()?);
        }
        ensure!(self.take(')'), "')' is missing");
        self.function(word, &arguments)
    }

    fn function(&self, name: &str, arguments: &[f64]) -> anyhow::Result<f64> {
        let settings = self.scope.settings;
        Ok(match (name, arguments) {
            ("seconds", [seconds]) => settings.scale.seconds(*seconds),
            ("wait", [seconds]) => settings.scale.wait(*seconds),
            ("count", [n]) => settings.scale.count(*n),
            // What the command line says, or else the source's.
            ("time", [seconds, least]) => {
                settings.seconds.unwrap_or_else(|| settings.scale.seconds(*seconds).max(*least))
            }
            ("ceil", [value]) => value.ceil(),
            ("floor", [value]) => value.floor(),
            ("round", [value]) => value.round(),
            ("min", [one, other]) => one.min(*other),
            ("max", [one, other]) => one.max(*other),
            ("at_most", [value, limit, within, above]) => {
                if value <= limit {
                    *within
                } else {
                    *above
                }
            }
            _ => bail!("no function '{name}' of {} numbers", arguments.len()),
        })
    }
}
