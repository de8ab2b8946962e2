//! What targets and columns are called on the page, and which colour they have there.

use crate::result::{Column, Run, Target};

/// How many colours the page's style has; a further target starts again at the first.
const COLOURS: usize = 6;
/// Characters of a name that are shown.
const NAME_CHARS_MAX: usize = 32;

/// A column as the page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: String,
    /// The class of everything drawn for it: the same for the same broker everywhere.
    pub(crate) class: String,
    /// Not a broker: what the machine itself needs.
    pub(crate) is_floor: bool,
}

/// The names of a scenario's columns.
pub(crate) fn columns(run: &Run, columns: &[Column]) -> Vec<Name> {
    columns.iter().enumerate().map(|(at, it)| column(run, columns.get(..at), it)).collect()
}

fn column(run: &Run, before: Option<&[Column]>, column: &Column) -> Name {
    let at = run.targets.iter().position(|target| target.name == column.target);
    let base = at.and_then(|at| run.targets.get(at)).map(|it| target(run, it));
    let base = base.unwrap_or_else(|| column.target.clone());
    let text = match &column.variant {
        Some(variant) => format!("{base} {variant}"),
        None => base,
    };
    let n_before = before.unwrap_or(&[]).iter().filter(|it| it.target == column.target).count();
    let class = match at {
        Some(at) if !column.is_floor => format!("{} variant-{}", colour(at), n_before.min(2)),
        _ => "floor variant-0".to_owned(),
    };
    Name { text: shortened(&text), class, is_floor: column.is_floor }
}

/// A target's name on the page: that of its product, if no other target has the same.
pub(crate) fn target(run: &Run, target: &Target) -> String {
    let n_same = run.targets.iter().filter(|other| other.product == target.product).count();
    match n_same == 1 && !target.product.trim().is_empty() {
        true => shortened(&target.product),
        false => shortened(&target.name),
    }
}

/// The class of the target at this place.
pub(crate) fn colour(at: usize) -> String {
    format!("c{}", at % COLOURS)
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or("")),
        None => text.to_owned(),
    }
}
