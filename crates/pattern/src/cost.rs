//! The time that expressions take to be compiled, told from their syntax: to find out by compiling takes too
//! long.
//! Measured with a release build; what is not here is bounded by the size of the program.

use crate::PatternError;
use regex_syntax::ast::{self, Ast, ClassSetItem, Flag, FlagsItemKind};

/// The cost of looking up a property of Unicode, in microseconds.
pub(crate) const PROPERTY_US: u64 = 40;
/// The cost of reading a class by itself, in microseconds.
pub(crate) const CLASS_US: u64 = 4;
/// The number of characters of a range whose case is folded in a microsecond.
pub(crate) const FOLDED_PER_US: u64 = 80;
/// The cost of folding the case of a property, in microseconds.
const FOLDED_PROPERTY_US: u64 = 450;
/// The cost of folding the case of all characters, which a negated class may have, in microseconds.
const FOLDED_ALL_US: u64 = 14_000;
/// The number of characters from which on a range is counted as most there are.
const WIDE_MIN: u32 = 4_096;
/// Most levels of brackets.
const NESTING_MAX: u32 = 50;

/// The time for an expression in the syntax of the linear engine.
pub(crate) fn of_text(text: &str) -> Result<u64, PatternError> {
    let parsed = ast::parse::ParserBuilder::new().nest_limit(NESTING_MAX).build().parse(text);
    let ast = parsed.map_err(|error| PatternError::syntax(&error))?;
    let Ok(traits) = ast::visit(&ast, Traits::default());
    let Ok(cost_us) = ast::visit(&ast, Sum { cost_us: 0, traits });
    Ok(cost_us)
}

/// Whether case is ignored anywhere, and whether brackets may have most characters there are.
#[derive(Clone, Copy, Default)]
struct Traits {
    folds: bool,
    is_wide: bool,
}

impl ast::Visitor for Traits {
    type Output = Self;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<Self, Self::Err> {
        Ok(self)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others set no flags")]
        let flags = match ast {
            Ast::Flags(set) => Some(&set.flags),
            Ast::Group(group) => group.flags(),
            _ => None,
        };
        let items = flags.map(|flags| flags.items.as_slice()).unwrap_or_default();
        let is_set = FlagsItemKind::Flag(Flag::CaseInsensitive);
        self.folds |= items.iter().any(|item| item.kind == is_set);
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        self.is_wide |= match item {
            ClassSetItem::Unicode(class) => class.is_negated() || is_any(class),
            ClassSetItem::Perl(class) => class.negated,
            ClassSetItem::Ascii(class) => class.negated,
            ClassSetItem::Bracketed(class) => class.negated,
            ClassSetItem::Range(range) => {
                u32::from(range.end.c).saturating_sub(range.start.c.into()) > WIDE_MIN
            }
            ClassSetItem::Empty(_) | ClassSetItem::Literal(_) | ClassSetItem::Union(_) => false,
        };
        Ok(())
    }
}

/// Whether it may be all characters.
fn is_any(class: &ast::ClassUnicode) -> bool {
    let name = match &class.kind {
        ast::ClassUnicodeKind::OneLetter(_) => return false,
        ast::ClassUnicodeKind::Named(name) | ast::ClassUnicodeKind::NamedValue { name, .. } => name,
    };
    name.chars().filter(char::is_ascii_alphabetic).count() == 3
}

struct Sum {
    cost_us: u64,
    traits: Traits,
}

impl Sum {
    /// The cost of folding the case of a class in brackets.
    const fn folded(&self) -> u64 {
        match (self.traits.folds, self.traits.is_wide) {
            (false, _) => 0,
            (true, false) => FOLDED_PROPERTY_US,
            (true, true) => FOLDED_ALL_US,
        }
    }

    fn property(&self, class: &ast::ClassUnicode) -> u64 {
        let folded = if is_any(class) { FOLDED_ALL_US } else { FOLDED_PROPERTY_US };
        PROPERTY_US + if self.traits.folds { folded } else { 0 }
    }
}

impl ast::Visitor for Sum {
    type Output = u64;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<u64, Self::Err> {
        Ok(self.cost_us)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the others cost nothing that the size of the program does not bound"
        )]
        let cost_us = match ast {
            Ast::ClassUnicode(class) => self.property(class),
            Ast::ClassPerl(_) => PROPERTY_US,
            _ => 0,
        };
        self.cost_us += cost_us;
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        self.cost_us += match item {
            ClassSetItem::Unicode(class) => self.property(class).max(self.folded()),
            ClassSetItem::Perl(_) => PROPERTY_US + self.folded(),
            ClassSetItem::Range(range) if self.traits.folds => {
                let (low, high) = (u32::from(range.start.c), u32::from(range.end.c));
                u64::from(high.saturating_sub(low)) / FOLDED_PER_US
            }
            // The case of what is in it is folded with it, and once more with what it is in.
            ClassSetItem::Bracketed(_) => 2 * self.folded(),
            ClassSetItem::Ascii(_)
            | ClassSetItem::Range(_)
            | ClassSetItem::Empty(_)
            | ClassSetItem::Literal(_)
            | ClassSetItem::Union(_) => 0,
        };
        Ok(())
    }

    fn visit_class_set_binary_op_pre(
        &mut self,
        _: &ast::ClassSetBinaryOp,
    ) -> Result<(), Self::Err> {
        // The case of both sides is folded.
        self.cost_us += PROPERTY_US + 2 * self.folded();
        Ok(())
    }
}
