//! Lists: filter, order, pages, columns. Pure: a set of rows and a query in, rows out.
//! Columns of a row are worked out when somebody asks for them: to order a hundred thousand rows takes one
//! column of each, to show a page all columns of a hundred. The order is places in the set, so that it can
//! be kept for the next page.

mod condition;
mod merged;

pub(crate) use merged::{MergeOrder, Merged, OtherRows};

use crate::query::Query;
use crate::refusal::Refusal;
use axum::http::StatusCode;
use condition::Condition;
use mgmt::{Course, Matching};
use pattern::{Limits, Pattern};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

/// Rows of a page if the query does not say.
const PAGE_SIZE: usize = 100;
/// Rows of the largest page.
const PAGE_SIZE_MAX: usize = 500;
/// Longest regular expression, characters.
const REGEX_CHARS_MAX: usize = 1_024;
/// Most columns that a query may name.
const COLUMNS_MAX: usize = 256;
/// Most conditions that a query may have.
const CONDITIONS_MAX: usize = 16;

/// Rows after which it is looked whether anybody still waits for the list.
const SLICE: usize = 256;

/// Parts of a query that say which rows are shown of those in order, and how.
const OF_PAGES: [&str; 4] = ["page", "page_size", FIRST, "columns"];
/// The number of rows of a first page that another node of the cluster wants.
const FIRST: &str = "first";
/// Most rows that are put in order ahead of the page that is asked for.
const AHEAD_MAX: usize = 10_000;

/// The rows of a list, by their places.
pub(crate) trait RowSet: Send + Sync + 'static {
    /// The type of a row.
    type Row<'t>: Row;

    fn len(&self) -> usize;

    fn row(&self, at: usize) -> Option<Self::Row<'_>>;

    /// The number of rows there are, with those that have not come from other nodes.
    fn n_total(&self) -> usize {
        self.len()
    }

    /// The number of rows that the query wants and that have not come from other nodes.
    fn n_beyond(&self) -> usize {
        0
    }
}

impl<R: Row + Send + Sync + 'static> RowSet for Vec<R> {
    type Row<'t> = &'t R;

    fn len(&self) -> usize {
        self.len()
    }

    fn row(&self, at: usize) -> Option<&R> {
        self.get(at)
    }
}

/// A row of a list.
pub(crate) trait Row {
    /// The row's columns, in the order in which they are shown.
    fn columns(&self) -> impl Iterator<Item = &'static str>;

    /// The value of a column; `None` if this row leaves the column out.
    fn value(&self, column: &str) -> Option<Value>;

    /// The name that filters look at.
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    /// The row with all its columns.
    fn object(&self) -> Value {
        let field = |column: &'static str| Some((column.to_owned(), self.value(column)?));
        Value::Object(self.columns().filter_map(field).collect())
    }
}

impl<R: Row> Row for &R {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        (*self).columns()
    }

    fn value(&self, column: &str) -> Option<Value> {
        (*self).value(column)
    }

    fn name(&self) -> Cow<'_, str> {
        (*self).name()
    }

    fn object(&self) -> Value {
        (*self).object()
    }
}

/// A row that is an object already.
impl Row for Value {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        std::iter::empty()
    }

    fn value(&self, column: &str) -> Option<Value> {
        self.get(column).cloned()
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.get("name").and_then(Self::as_str).unwrap_or_default())
    }

    fn object(&self) -> Value {
        self.clone()
    }
}

/// Rows on their way out, and the text around them.
pub(crate) struct Rows {
    pub(crate) head: String,
    pub(crate) items: Box<dyn Iterator<Item = Value> + Send>,
    pub(crate) tail: String,
    /// Whether the list is so short that it is answered in one piece.
    pub(crate) is_page: bool,
}

/// The places of the rows that a query wants, in its order.
#[derive(Debug)]
pub(crate) struct Arrangement {
    n_total: usize,
    n_filtered: usize,
    /// The places of the wanted rows, as far as they are in order.
    places: Vec<usize>,
    /// The reason why no rows are shown.
    refusal: Option<Refusal>,
}

impl Arrangement {
    /// Whether the arrangement goes as far as a listing needs.
    pub(crate) fn reaches(&self, listing: &Listing) -> bool {
        self.places.len() >= listing.end().min(self.n_filtered)
    }
}

/// A query's wishes of a list.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The number and the size of the page.
    page: Option<(usize, usize)>,
    filter: Filter,
    /// Conditions, all of which a row fulfils.
    conditions: Vec<Condition>,
    /// The columns, each as a path.
    columns: Option<Vec<Vec<String>>>,
    sort: Option<Vec<String>>,
    reverse: bool,
    course: Course,
}

#[derive(Debug)]
enum Filter {
    All,
    Contains(String),
    Matches(Pattern),
}

impl Listing {
    pub(crate) fn of(query: &Query) -> Result<Self, Refusal> {
        let (columns, page) = (columns(query)?, page_of(query)?);
        Ok(Self {
            // COMPAT: only pages are filtered.
            filter: if page.is_some() { Filter::of(query)? } else { Filter::All },
            conditions: if page.is_some() { conditions(query)? } else { Vec::new() },
            page,
            columns,
            sort: query.get("sort").filter(|sort| !sort.is_empty()).map(path_of),
            reverse: query.flag("sort_reverse"),
            course: Course::default(),
        })
    }

    /// Makes the listing end with the course of its request.
    pub(crate) fn during(self, course: &Course) -> Self {
        Self { course: course.clone(), ..self }
    }

    /// A row with the columns that the query wants.
    pub(crate) fn shown<R: Row>(&self, row: &R) -> Value {
        chosen(row, self.columns.as_deref())
    }

    /// The parts of a query that an arrangement follows from: of its page nothing but that it wants one.
    pub(crate) fn arranging(query: &Query) -> Query {
        let is_of_order = |(name, _): &&(String, String)| !OF_PAGES.contains(&name.as_str());
        let page = query.get("page").map(|_| ("page".to_owned(), String::new()));
        Query(query.0.iter().filter(is_of_order).cloned().chain(page).collect())
    }

    /// The query by which another node is asked for its part of a list: its first rows, as far as the page
    /// goes, with the columns that rows are merged by.
    pub(crate) fn part(query: &Query) -> Result<Query, Refusal> {
        let listing = Self::of(query)?;
        let mut part = Self::arranging(query);
        if listing.page.is_some() {
            part.0.push((FIRST.to_owned(), listing.end().to_string()));
        }
        if let Some(columns) = query.get("columns") {
            let of_conditions = listing.conditions.iter().map(Condition::path);
            let merged_by = of_conditions.chain(listing.sort.as_deref()).map(|path| path.join("."));
            let all = [columns.to_owned(), "vhost,name".to_owned()].into_iter().chain(merged_by);
            part.0.push(("columns".to_owned(), all.collect::<Vec<_>>().join(",")));
        }
        Ok(part)
    }

    /// Whether the rows come in the reverse of the order that they have by themselves.
    pub(crate) const fn is_reversed(&self) -> bool {
        self.reverse && self.sort.is_none()
    }

    /// The place behind the last row that is wanted.
    fn end(&self) -> usize {
        self.page.map_or(usize::MAX, |(number, size)| number.saturating_mul(size))
    }

    /// The places of the rows that the query wants, as far as its page and some way ahead.
    pub(crate) fn arrange<T: RowSet>(&self, set: &T) -> Result<Arrangement, Refusal> {
        let n_total = set.n_total();
        let mut places = match self.wanted(set) {
            Ok(places) => places,
            Err(refusal) => {
                self.course.check()?;
                let (places, refusal) = (Vec::new(), Some(refusal));
                return Ok(Arrangement { n_total, n_filtered: 0, places, refusal });
            }
        };
        let n_filtered = places.len() + set.n_beyond();
        if let Some(path) = &self.sort {
            let mut keyed = Vec::with_capacity(places.len());
            for (nth, at) in places.into_iter().enumerate() {
                self.check(nth)?;
                let key = set.row(at).and_then(|row| value_at(&row, path));
                keyed.push(Keyed { key: key.unwrap_or(Value::Null), at });
            }
            places = sorted(keyed, self.reverse, self.end().max(AHEAD_MAX));
        } else if self.reverse {
            places.reverse();
        }
        Ok(Arrangement { n_total, n_filtered, places, refusal: None })
    }

    /// Fails when nobody waits for the list any more; checked every [`SLICE`] rows.
    fn check(&self, at: usize) -> Result<(), Refusal> {
        if at.is_multiple_of(SLICE) { Ok(self.course.check()?) } else { Ok(()) }
    }

    /// The places of the rows that the query wants, in the order of the set.
    fn wanted<T: RowSet>(&self, set: &T) -> Result<Vec<usize>, Refusal> {
        if matches!(self.filter, Filter::All) && self.conditions.is_empty() {
            return Ok((0..set.len()).collect());
        }
        let (mut places, mut matching) = (Vec::new(), Matching::during(&self.course));
        for at in 0..set.len() {
            self.check(at)?;
            let Some(row) = set.row(at) else { continue };
            let is_taken = self.filter.takes(&row.name(), &mut matching)?
                && self.conditions.iter().all(|it| it.takes(&row));
            places.extend(is_taken.then_some(at));
        }
        Ok(places)
    }

    /// The rows that the query wants, which `arrangement` reaches.
    pub(crate) fn show<T: RowSet>(
        self,
        set: Arc<T>,
        arrangement: &Arrangement,
    ) -> Result<Rows, Refusal> {
        let Arrangement { n_total, n_filtered, ref places, ref refusal } = *arrangement;
        if let Some(refusal) = refusal {
            return Err(refusal.clone());
        }
        let (mut head, mut tail) = (String::from("["), String::from("]"));
        let mut range = 0..n_filtered;
        if let Some((number, size)) = self.page {
            let n_pages = n_filtered.div_ceil(size);
            if number > n_pages.max(1) {
                let text = format!(
                    "Page out of range, page: {number} page size: {size}, len: {n_filtered}"
                );
                let status = StatusCode::BAD_REQUEST;
                return Err(Refusal::of_status(status, "page_out_of_range", text));
            }
            let start = ((number - 1) * size).min(n_filtered);
            range = start..(start + size).min(n_filtered);
            head = format!(
                "{{\"filtered_count\":{n_filtered},\"item_count\":{},\"page\":{number},\
                 \"page_count\":{n_pages},\"page_size\":{size},\"total_count\":{n_total},\"items\":[",
                range.len()
            );
            tail = String::from("]}");
        }
        let columns = self.columns;
        let places: Vec<usize> = places.iter().take(range.end).skip(range.start).copied().collect();
        let shown = move |at| Some(chosen(&set.row(at)?, columns.as_deref()));
        let items = Box::new(places.into_iter().filter_map(shown));
        Ok(Rows { head, items, tail, is_page: self.page.is_some() })
    }

    /// The rows of a set that the query wants.
    pub(crate) fn rows<T: RowSet>(self, set: T) -> Result<Rows, Refusal> {
        let arrangement = self.arrange(&set)?;
        self.show(Arc::new(set), &arrangement)
    }
}

/// The text that a list of these rows is answered with for a query as it comes in, for fuzzers and tests.
///
/// # Errors
/// The reason that a client is told.
pub fn shown(query: &str, rows: Vec<Value>) -> Result<String, String> {
    let listing = Query::parse(query).and_then(|query| Listing::of(&query)?.rows(rows));
    let Rows { head, items, tail, .. } = listing.map_err(|refusal| refusal.reason)?;
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    Ok(format!("{head}{}{tail}", items.join(",")))
}

/// The conditions of the query's `where`, each a text such as `messages>10`.
fn conditions(query: &Query) -> Result<Vec<Condition>, Refusal> {
    let parsed = query.all("where").map(|text| {
        let told = || Refusal::bad_request(format!("invalid column condition: `{text}`"));
        Condition::parse(text).ok_or_else(told)
    });
    let conditions: Vec<Condition> = parsed.collect::<Result<_, _>>()?;
    if conditions.len() > CONDITIONS_MAX {
        let text = format!("more than {CONDITIONS_MAX} conditions");
        return Err(Refusal::bad_request(text));
    }
    Ok(conditions)
}

fn page_of(query: &Query) -> Result<Option<(usize, usize)>, Refusal> {
    let (page, size) = (query.get("page"), query.get("page_size"));
    // COMPAT: a size alone makes no pages.
    let Some(page) = page else { return Ok(None) };
    if let Some(n_rows) = query.get(FIRST) {
        let n_rows = n_rows.parse().map_err(|_| Refusal::bad_request("invalid number of rows"))?;
        return Ok(Some((1, usize::max(n_rows, 1))));
    }
    let number = page.parse().ok().filter(|number| *number > 0);
    let most = |size: &usize| (1..=PAGE_SIZE_MAX).contains(size);
    let size_given = size.map_or(Some(PAGE_SIZE), |size| size.parse().ok()).filter(most);
    let is_number = |text: &str| text.parse::<i64>().is_ok();
    if ![Some(page), size].into_iter().flatten().all(is_number) {
        return Err(Refusal::bad_request("Pagination parameters are invalid"));
    }
    match (number, size_given) {
        (Some(number), Some(given)) => Ok(Some((number, given))),
        _ => Err(Refusal::of_status(
            StatusCode::BAD_REQUEST,
            "invalid_pagination_parameters",
            format!(
                "Invalid pagination parameters: page number {}, page size {}",
                page,
                size.unwrap_or("undefined")
            ),
        )),
    }
}

impl Filter {
    fn of(query: &Query) -> Result<Self, Refusal> {
        let Some(name) = query.get("name").filter(|name| !name.is_empty()) else {
            return Ok(Self::All);
        };
        if !query.flag("use_regex") {
            return Ok(Self::Contains(name.to_lowercase()));
        }
        if name.chars().count() > REGEX_CHARS_MAX {
            let text =
                format!("the regular expression is longer than {REGEX_CHARS_MAX} characters");
            return Err(Refusal::bad_request(text));
        }
        let compiled = Pattern::perl_ignoring_case(name, &Limits::NAMES);
        compiled.map(Self::Matches).map_err(|error| Refusal::bad_request(error.to_string()))
    }

    fn takes(&self, name: &str, matching: &mut Matching) -> Result<bool, Refusal> {
        Ok(match self {
            Self::All => true,
            Self::Contains(text) => name.to_lowercase().contains(text),
            Self::Matches(pattern) => matching.matches(pattern, name)?,
        })
    }
}

/// The place of a row, and the value that it is sorted by.
struct Keyed {
    key: Value,
    at: usize,
}

/// The places by their keys, as far as the first `n`, which are all that is wanted.
fn sorted(mut keyed: Vec<Keyed>, reverse: bool, n: usize) -> Vec<usize> {
    let order = |left: &Keyed, right: &Keyed| {
        let by_value = compare(&left.key, &right.key);
        let by_value = if reverse { by_value.reverse() } else { by_value };
        by_value.then(left.at.cmp(&right.at))
    };
    if (1..keyed.len()).contains(&n) {
        keyed.select_nth_unstable_by(n - 1, order);
        keyed.truncate(n);
    }
    keyed.sort_unstable_by(order);
    keyed.into_iter().map(|it| it.at).collect()
}

/// The value at a path into a row.
fn value_at<R: Row>(row: &R, path: &[String]) -> Option<Value> {
    let (first, rest) = path.split_first()?;
    let mut value = row.value(first)?;
    for step in rest {
        value = value.get_mut(step)?.take();
    }
    Some(value)
}

/// COMPAT: Erlang's order of terms, as far as columns have them: what is not there, numbers, words, lists,
/// texts.
fn compare(left: &Value, right: &Value) -> Ordering {
    const fn rank(value: &Value) -> u8 {
        match value {
            Value::Null => 0,
            Value::Number(_) => 1,
            Value::Bool(_) => 2,
            Value::Object(_) => 3,
            Value::Array(_) => 4,
            Value::String(_) => 5,
        }
    }
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            let real = |number: &serde_json::Number| number.as_f64().unwrap_or_default();
            match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => real(left).total_cmp(&real(right)),
            }
        }
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        _ => rank(left).cmp(&rank(right)),
    }
}

/// The steps of a column into a row.
fn path_of(text: &str) -> Vec<String> {
    text.split('.').map(str::to_owned).collect()
}

/// The columns that a query wants, each as a path; none for all.
fn columns(query: &Query) -> Result<Option<Vec<Vec<String>>>, Refusal> {
    let Some(columns) = query.get("columns") else { return Ok(None) };
    let paths: Vec<Vec<String>> = columns.split(',').map(path_of).collect();
    if paths.len() > COLUMNS_MAX {
        return Err(Refusal::bad_request(format!("more than {COLUMNS_MAX} columns")));
    }
    Ok(Some(paths))
}

/// An answer of one object, or of a list made before, with the columns that the query wants.
pub(crate) fn reduced(query: &Query, value: Value) -> Result<Value, Refusal> {
    let Some(columns) = columns(query)? else { return Ok(value) };
    let of = |row| shown_row(reduced_to(&columns, row));
    Ok(if let Value::Array(rows) = value { rows.into_iter().map(of).collect() } else { of(value) })
}

/// Objects, also those of lists, with the columns alone.
fn reduced_to(columns: &[impl AsRef<[String]>], value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(|it| reduced_to(columns, it)).collect(),
        Value::Object(fields) => {
            let kept = fields.into_iter().filter_map(|(name, value)| {
                let value = column(columns, &name, value)?;
                Some((name, value))
            });
            Value::Object(kept.collect())
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

/// The value of a column as far as it is wanted. COMPAT: what has no columns of its own is shown whole.
fn column(columns: &[impl AsRef<[String]>], name: &str, value: Value) -> Option<Value> {
    let within = |path| {
        let (first, rest) = <[String]>::split_first(path)?;
        (first == name).then_some(rest)
    };
    let rests: Vec<&[String]> = columns.iter().map(AsRef::as_ref).filter_map(within).collect();
    match rests.iter().any(|rest| rest.is_empty()) {
        true => Some(value),
        false if rests.is_empty() => None,
        false => Some(reduced_to(&rests, value)),
    }
}

/// The row as it is shown. COMPAT: an object that has none of the columns is an empty list.
fn shown_row(row: Value) -> Value {
    if row.as_object().is_some_and(Map::is_empty) { json!([]) } else { row }
}

/// The row with the columns that were asked for.
fn chosen<R: Row>(row: &R, columns: Option<&[Vec<String>]>) -> Value {
    let Some(columns) = columns else { return row.object() };
    let mut fields = Map::new();
    for name in columns.iter().filter_map(|path| path.first()) {
        if !fields.contains_key(name)
            && let Some(value) = row.value(name).and_then(|value| column(columns, name, value))
        {
            fields.insert(name.clone(), value);
        }
    }
    shown_row(Value::Object(fields))
}

#[cfg(test)]
mod tests;
