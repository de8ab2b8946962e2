//! Rows of the table of options.

use super::kind::Kind;

/// Row of the table of options.
pub(super) struct ConfigOption {
    /// The key as RabbitMQ names it, and the default as it would be written: `heartbeat = 60`. In the key
    /// `$x` stands for one free segment.
    pub(super) line: &'static str,
    /// Another name of the same option.
    pub(super) alias: Option<&'static str>,
    pub(super) kind: Kind,
    /// The option's meaning, in one or two sentences of markdown.
    pub(super) doc: &'static str,
}

impl ConfigOption {
    pub(super) fn key(&self) -> &'static str {
        self.line.split_once(" = ").map_or(self.line, |(key, _)| key)
    }

    /// The default as it would be written; empty without one.
    pub(super) fn default(&self) -> &'static str {
        self.line.split_once(" = ").map_or("", |(_, default)| default)
    }
}

/// Rows of the table: `"key = default", also "alias" => Kind(..), "meaning";`, with an alias where there is
/// one. The kind `OneOf(Type, place)` takes a word of the type and writes it to the place in the draft.
macro_rules! options {
    (@kind OneOf($type:ident, $($place:tt).+)) => {
        $crate::config::kind::Kind::Word(&$type::NAMES, |d, v| {
            d.$($place).+ = $type::of_name(v).unwrap_or_default();
        })
    };
    (@kind $kind:ident $($value:tt)?) => { $crate::config::kind::Kind::$kind $($value)? };
    ($($line:expr $(, also $alias:literal)? => $kind:ident $(($($value:tt)*))?, $doc:expr;)*) => {
        &[$(ConfigOption {
            line: $line,
            alias: [$(Some($alias),)? None][0],
            kind: options!(@kind $kind $(($($value)*))?),
            doc: $doc,
        }),*]
    };
}
pub(super) use options;
