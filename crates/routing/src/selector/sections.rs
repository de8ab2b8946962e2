//! Filters over the sections of a message of AMQP 1.0: SQL, and conditions on single properties.

use super::filter::FilterError;
use super::section_field::{MessageSections, SectionField, operand};
use super::sql;
use super::subject::Subject;
use super::{Comparison, Expression, Field, Like, Literal, Operand, Steps};
use amqp10::{MapRef, MessageHead, ValueRef};
use stdx::UnixMs;

/// The steps of one message: a millisecond at most.
const STEPS_MAX: usize = 200_000;
/// The most fields of a filter of properties. COMPAT: as with RabbitMQ.
const FIELDS_MAX: usize = 16;

/// A condition over a message's sections, in AMQP 1.0's SQL or by single properties.
///
/// `header.priority`, `properties.NAME`, `application_properties.NAME` are fields, in short `h.`, `p.`, `a.`;
/// any other name is an application property. A part that is missing is unknown, and what is not certainly
/// true is no match. Neither is what takes too many steps.
#[derive(Clone, Debug, PartialEq)]
pub struct SectionsFilter(Expression);

impl SectionsFilter {
    /// Reads SQL.
    ///
    /// # Errors
    /// The text that stands at a place, and what is expected there; a text that is too long.
    pub fn of_sql(text: &str) -> Result<Self, FilterError> {
        sql::sections(text).map(Self).map_err(|refused| FilterError::at(text, refused))
    }

    /// The condition that fields of the properties section are as the filter has them.
    pub(super) fn of_properties(filter: MapRef<'_>) -> Option<Self> {
        Self::all(filter, |key, wanted| {
            let ValueRef::Symbol(key) = key else { return None };
            let field = SectionField::of_properties(&key.replace('-', "_"))?;
            // COMPAT: RabbitMQ knows the names with dashes alone, and refuses values of other types.
            let is_of_type = !key.contains('_') && field.is_of_type(wanted);
            condition(Expression::Field(Field::Section(field)), wanted).filter(|_| is_of_type)
        })
    }

    /// The condition that application properties are as the filter has them.
    pub(super) fn of_application_properties(filter: MapRef<'_>) -> Option<Self> {
        Self::all(filter, |key, wanted| {
            let ValueRef::Str(key) = key else { return None };
            condition(Expression::Header(key.as_bytes().into()), wanted)
        })
    }

    fn all(
        filter: MapRef<'_>,
        condition: impl Fn(ValueRef<'_>, ValueRef<'_>) -> Option<Expression>,
    ) -> Option<Self> {
        if filter.len() > FIELDS_MAX {
            return None;
        }
        let conditions: Option<Vec<_>> =
            filter.iter().map(|(key, it)| condition(key, it)).collect();
        conditions?.into_iter().reduce(|all, it| Expression::And(Box::new([all, it]))).map(Self)
    }

    /// Both conditions at once.
    pub(super) fn and(self, other: Self) -> Self {
        Self(Expression::And(Box::new([self.0, other.0])))
    }

    /// Whether the filter is true for a message, of which `sections` are those from its header or its
    /// annotations on, or the bare message alone.
    #[must_use]
    pub fn matches(&self, sections: &[u8], now: UnixMs) -> bool {
        self.check(sections, now, &mut 0)
    }

    /// As [`SectionsFilter::matches`]; the steps that this took are added to `n_steps`.
    #[must_use]
    pub fn check(&self, sections: &[u8], now: UnixMs, n_steps: &mut usize) -> bool {
        let head = &MessageHead::read(sections);
        let subject = Subject::of_sections(MessageSections { head, now });
        let mut steps = Steps::new(STEPS_MAX);
        let is_match = self.0.is_true(&subject, &mut steps);
        *n_steps += STEPS_MAX - steps.n_left();
        is_match
    }
}

/// The condition that a field is as a filter of properties has it (Filter Expressions 1.0, 4.1.1).
fn condition(field: Expression, wanted: ValueRef<'_>) -> Option<Expression> {
    let like = |before: &str, text: &str, behind: &str| {
        let text = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        Like::new(format!("{before}{text}{behind}").as_bytes(), b"\\")
    };
    if wanted == ValueRef::Null {
        return Some(Expression::Not(Box::new(Expression::IsNull(Box::new(field)))));
    }
    let literal = if let ValueRef::Str(text) = wanted
        && let Some(modified) = text.strip_prefix('&')
    {
        let like = if let Some(start) = modified.strip_prefix("p:") {
            like("", start, "%")
        } else if let Some(end) = modified.strip_prefix("s:") {
            like("%", end, "")
        } else if modified.starts_with('&') {
            like("", modified, "")
        } else {
            return None;
        };
        return Some(Expression::Like(Box::new(field), Box::new(like)));
    } else {
        match operand(wanted) {
            Operand::Bool(value) => Literal::Bool(value),
            Operand::Integer(value) => Literal::Integer(value),
            Operand::Float(value) => Literal::Float(value),
            Operand::Text(value) => Literal::Text(value.into()),
            Operand::Uuid(value) => Literal::Text(value.into()),
            Operand::Unknown | Operand::Opaque => return None,
        }
    };
    Some(Expression::Compare(Comparison::Equal, Box::new([field, Expression::Literal(literal)])))
}

#[cfg(test)]
mod tests;
