//! Tables of columns: one row for each column of an object, with the lists that show the column and its
//! readers. Requests and tools name columns by text, which is looked up here alone.

use serde_json::Value;

/// Lists that show a column unless a request names columns, and exceptions of the column.
pub(crate) type Marks = u8;

pub(crate) const LIST: Marks = 1;
/// Lists without figures.
pub(crate) const PLAIN: Marks = 2;
/// Lists without figures that have the numbers of messages.
pub(crate) const TOTALS: Marks = 4;
/// An object shown by itself, and detailed lists.
pub(crate) const ALONE: Marks = 8;
/// The command line tool has no such column.
pub(crate) const NOT_OF_TOOL: Marks = 16;
/// COMPAT: streams have no value.
pub(crate) const NOT_OF_STREAMS: Marks = 32;
/// COMPAT: the API shows null for an object without a value, the tool leaves it out.
pub(crate) const OR_NULL: Marks = 64;
/// COMPAT: an object on a node that is down has the column too, as it has those of `PLAIN`.
pub(crate) const OF_DOWN: Marks = 128;

/// Column of an object. A reader returns `None` for an object that leaves the column out.
pub(crate) struct Column<F: 'static> {
    pub(crate) name: &'static str,
    pub(crate) marks: Marks,
    /// Reads the value for the API.
    pub(crate) read: F,
    /// Reads the value for the command line tool.
    pub(crate) read_typed: F,
}

/// The rows of a table of columns, sorted by name: `NAME [MARKS] READER;`, and where the command line tool
/// shows another value, `NAME [MARKS] READER, tool READER;`. Each column of the enum has a row.
macro_rules! columns {
    (@tool $read:expr, $tool:expr) => { $tool };
    (@tool $read:expr) => { $read };
    ($columns:ident: $($name:ident [$($mark:ident)*] $read:expr $(, tool $tool:expr)?;)*) => {{
        const _: fn($columns) = |column| match column { $($columns::$name => {})* };
        &[$($crate::columns::Column {
            name: $columns::$name.as_str(),
            marks: 0 $(| $crate::columns::$mark)*,
            read: $read,
            read_typed: columns!(@tool $read $(, $tool)?),
        }),*]
    }};
}
pub(crate) use columns;

impl<F: Copy> Column<F> {
    /// The reader for the API, or for the tool if `is_typed`.
    pub(crate) fn reader(&self, is_typed: bool) -> Option<F> {
        match is_typed {
            false => Some(self.read),
            true => (self.marks & NOT_OF_TOOL == 0).then_some(self.read_typed),
        }
    }
}

/// The value of a reader.
#[expect(clippy::unnecessary_wraps, reason = "readers may have none")]
pub(crate) fn some(value: impl Into<Value>) -> Option<Value> {
    Some(value.into())
}

/// Finds a column in a table.
pub(crate) fn find<F>(table: &'static [Column<F>], name: &str) -> Option<&'static Column<F>> {
    let at = table.binary_search_by(|column| column.name.cmp(name)).ok()?;
    table.get(at)
}

/// The names of the columns that lists with one of these marks show.
pub(crate) fn shown<F>(
    table: &'static [Column<F>],
    marks: Marks,
) -> impl Iterator<Item = &'static str> {
    table.iter().filter(move |column| column.marks & marks != 0).map(|column| column.name)
}
