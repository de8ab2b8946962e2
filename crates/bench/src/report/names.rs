//! Names and colours of targets and columns on the page.

use crate::result::{Column, Run, Target, WrittenBy};

/// The number of colours in the page's style; a further target starts again at the first.
const COLOURS: usize = 6;
/// The number of variants of a target that the style tells apart; further ones look like the last.
const VARIANTS: usize = 4;
/// Brokers whose names are written in their own way.
const SPELLINGS: [&str; 3] = ["Leveret", "RabbitMQ", "LavinMQ"];
/// Characters of a name that are shown.
const NAME_CHARS_MAX: usize = 32;

/// A column as the page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: String,
    /// The class of everything drawn for it: the same for the same broker everywhere.
    pub(crate) class: String,
    /// Not a broker: what the machine itself needs.
    pub(crate) is_baseline: bool,
    /// The target's name.
    pub(crate) target: String,
    /// The variant, if it is one.
    pub(crate) variant: Option<String>,
    /// Who counts the bytes it writes.
    pub(crate) written_by: Option<WrittenBy>,
}

/// The names of a scenario's columns.
pub(crate) fn columns(run: &Run, columns: &[Column]) -> Vec<Name> {
    columns.iter().enumerate().map(|(at, it)| column(run, columns.get(..at), it)).collect()
}

fn column(run: &Run, before: Option<&[Column]>, column: &Column) -> Name {
    let at = run.targets.iter().position(|target| target.name == column.target);
    let of_column = at.and_then(|at| run.targets.get(at));
    let base = of_column.map(target);
    let base = base.unwrap_or_else(|| column.target.clone());
    let text = match &column.variant {
        Some(variant) => format!("{base} {variant}"),
        None => base.clone(),
    };
    let n_before = before.unwrap_or(&[]).iter().filter(|it| it.target == column.target).count();
    let class = match at {
        Some(at) if !column.is_baseline => {
            format!("{} variant-{}", colour(at), n_before.min(VARIANTS - 1))
        }
        _ => "floor variant-0".to_owned(),
    };
    let written_by = of_column.and_then(|target| target.written_by);
    Name {
        text: shortened(&text),
        class,
        is_baseline: column.is_baseline,
        target: base,
        variant: column.variant.clone(),
        written_by,
    }
}

/// A target's name on the page: the one it was given. Brokers that are compatible with another one
/// may tell the other's name as their own.
pub(crate) fn target(target: &Target) -> String {
    let known = SPELLINGS.into_iter().find(|known| known.eq_ignore_ascii_case(&target.name));
    shortened(known.unwrap_or(&target.name))
}

/// A target's own name and version: `4.3.6 (Erlang/OTP 27)`, or `calls itself RabbitMQ 4.3.6
/// (Leveret)`.
pub(crate) fn told(target: &Target) -> String {
    let Target { name, product, version, platform, .. } = target;
    let platform = if platform.is_empty() { String::new() } else { format!(" ({platform})") };
    match product.eq_ignore_ascii_case(name) || product.is_empty() {
        true => format!("{version}{platform}"),
        false => format!("calls itself {product} {version}{platform}"),
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
