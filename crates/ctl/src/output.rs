//! A verb's output, in each of the formats. Text in, text out: nothing is printed here.

mod csv;
mod erlang;
mod json;
mod pretty;
mod table;

pub(crate) use erlang::atom;
use serde_json::{Map, Value};
use std::io::IsTerminal as _;
use stdx::words;

stdx::named! {
    /// The output formats.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Format {
        /// The verb's own format: text, or a table with tabs.
        Default = "string",
        Table = "table",
        Csv = "csv",
        Json = "json",
        PrettyTable = "pretty_table",
        /// Erlang terms.
        Erlang = "erlang",
    }
}

impl Format {
    /// Whether programs read the format, so that no informational line may precede the output.
    pub(crate) const fn is_for_machines(self) -> bool {
        match self {
            Self::Csv | Self::Json => true,
            Self::Default | Self::Table | Self::PrettyTable | Self::Erlang => false,
        }
    }
}

/// A verb's answer, before it is formatted.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// Success without output.
    Done,
    /// No output in any format.
    Silent,
    /// A sentence.
    Text(String),
    /// A value that is wrapped with the node's name in JSON.
    Wrapped(String),
    /// An object for JSON, shown as it is; only answered when JSON was asked for.
    Object(Value),
    /// Settings by application, shown as lines of `key = value`.
    Settings(Value),
    /// A listing.
    Rows(Rows),
}

/// A column of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListingColumn {
    pub(crate) title: &'static str,
    /// The path to the value in what the node sent, with a dot between its steps.
    pub(crate) source: &'static str,
    /// Whether the value is shown as JSON text.
    is_json: bool,
}

impl ListingColumn {
    /// A column as tables of verbs write it: its title, or `title:source`, with `!` behind it for JSON text.
    pub(crate) fn of(text: &'static str) -> Self {
        let (text, is_json) = text.strip_suffix('!').map_or((text, false), |text| (text, true));
        let (title, source) = text.split_once(':').unwrap_or((text, text));
        Self { title, source, is_json }
    }

    /// Columns with commas between them.
    pub(crate) fn all(text: &'static str) -> impl Iterator<Item = Self> {
        words(text).map(Self::of)
    }

    /// The value of an object; empty if it has none.
    fn value_of(&self, object: &Value) -> Value {
        match self.source.split('.').try_fold(object, |value, step| value.get(step)) {
            None | Some(Value::Null) => "".into(),
            Some(value) if self.is_json => value.to_string().into(),
            Some(value) => value.clone(),
        }
    }
}

/// A listing: every row has a value for every column.
#[derive(Debug, PartialEq)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Value>>,
    pub(crate) form: Form,
}

/// The form of a listing when no format is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A listing in one piece. COMPAT: RabbitMQ's tools print an empty line for an empty one.
    Whole,
    /// A listing that comes as a stream. COMPAT: RabbitMQ's tools print nothing for an empty one.
    Streamed,
    /// A table in a box.
    Pretty,
}

impl Rows {
    /// Brings what the node sent into the order of the columns.
    pub(crate) fn new(columns: &[ListingColumn], objects: &Value, form: Form) -> Self {
        let row = |object: &Value| columns.iter().map(|column| column.value_of(object)).collect();
        let rows = objects.as_array().into_iter().flatten().map(row).collect();
        Self { columns: columns.iter().map(|column| column.title).collect(), rows, form }
    }

    /// Makes a listing as [`Self::new`] does, of columns with commas between them.
    pub(crate) fn of(columns: &'static str, objects: &Value, form: Form) -> Self {
        Self::new(&ListingColumn::all(columns).collect::<Vec<_>>(), objects, form)
    }
}

/// The format of an answer and its details.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style<'a> {
    pub(crate) format: Format,
    /// Listings begin with the names of the columns.
    pub(crate) headers: bool,
    /// The output is a terminal that shows bold letters.
    pub(crate) bold: bool,
    /// The node's name.
    pub(crate) node: &'a str,
}

/// Formats an answer for printing, each line ended; empty if nothing is printed.
pub(crate) fn written(answer: &Answer, style: Style<'_>) -> String {
    match (answer, style.format) {
        (Answer::Silent, _) => String::new(),
        (Answer::Done, Format::Json) => json::line(&wrapped(style.node, None)),
        (
            Answer::Done,
            Format::Default | Format::Table | Format::Csv | Format::PrettyTable | Format::Erlang,
        ) => String::new(),
        (Answer::Text(text), Format::Json) => json::line(&Value::Object(Map::from_iter([(
            "message".to_owned(),
            text.as_str().into(),
        )]))),
        (Answer::Wrapped(text), Format::Json) => json::line(&wrapped(style.node, Some(text))),
        (Answer::Text(text) | Answer::Wrapped(text), Format::PrettyTable) => {
            pretty::boxed(text, style.bold)
        }
        (
            Answer::Text(text) | Answer::Wrapped(text),
            Format::Default | Format::Table | Format::Csv | Format::Erlang,
        ) => format!("{text}\n"),
        (Answer::Settings(value), Format::Json) | (Answer::Object(value), _) => json::line(value),
        (Answer::Settings(value), Format::Erlang) => erlang::line(value),
        (Answer::Settings(value), _) => settings(value),
        (Answer::Rows(rows), Format::Json) => json::rows(rows),
        (Answer::Rows(rows), Format::Erlang) => erlang::rows(rows),
        (Answer::Rows(rows), Format::Csv) => csv::rows(rows),
        (Answer::Rows(rows), Format::PrettyTable) => pretty::rows(rows, style.bold),
        (Answer::Rows(rows), Format::Default) if rows.form == Form::Pretty => {
            pretty::rows(rows, style.bold)
        }
        (Answer::Rows(rows), Format::Default | Format::Table) => table::rows(rows, style.headers),
    }
}

fn settings(applications: &Value) -> String {
    let of_each = applications.as_object().into_iter().flat_map(Map::values);
    let all = of_each.filter_map(Value::as_object).flatten();
    all.map(|(key, value)| format!("{key} = {}\n", table::cell(value))).collect()
}

fn wrapped(node: &str, value: Option<&str>) -> Value {
    let mut object = Map::new();
    object.insert("result".to_owned(), "ok".into());
    object.insert("node".to_owned(), node.into());
    object.extend(value.map(|value| ("value".to_owned(), value.into())));
    Value::Object(object)
}

/// Whether standard output is a terminal.
pub(crate) fn shows_bold() -> bool {
    !cfg!(test) && std::io::stdout().is_terminal()
}

/// Makes a text bold if `bold`.
pub(crate) fn emphasised(text: &str, bold: bool) -> String {
    if bold { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
}

#[cfg(test)]
mod tests;
