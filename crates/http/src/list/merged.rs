//! Lists of which other nodes have a part: their rows come as text, in the order that the query wants.

use super::{Row, RowSet};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The rows of another node: the first that the query wants there.
#[derive(Debug)]
pub(crate) struct OtherRows {
    node: String,
    rows: Vec<Box<RawValue>>,
    /// Rows there, of which the query does not want all.
    n_total: usize,
    /// Rows that the query wants.
    n_filtered: usize,
}

impl OtherRows {
    /// Reads the answer of a node: a list, or its first page.
    pub(crate) fn parse(node: &str, answer: &[u8]) -> Option<Self> {
        let (rows, n_total, n_filtered): (Vec<Box<RawValue>>, usize, usize);
        if answer.starts_with(b"[") {
            rows = serde_json::from_slice(answer).ok()?;
            (n_total, n_filtered) = (rows.len(), rows.len());
        } else {
            let page: BTreeMap<&str, &RawValue> = serde_json::from_slice(answer).ok()?;
            let number = |name| serde_json::from_str(page.get(name)?.get()).ok();
            rows = serde_json::from_str(page.get("items")?.get()).ok()?;
            (n_total, n_filtered) = (number("total_count")?, number("filtered_count")?);
        }
        // An object without any of the columns that are wanted is an empty list.
        let is_row = |row: &RawValue| row.get().starts_with('{') || row.get() == "[]";
        let is_sound = rows.iter().all(|row| is_row(row)) && n_filtered >= rows.len();
        let is_number = (n_filtered..=u32::MAX as usize).contains(&n_total);
        (is_sound && is_number).then(|| Self { node: node.to_owned(), rows, n_total, n_filtered })
    }
}

/// The order of rows where the query does not say one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeOrder {
    /// By node, and within it in the node's order.
    Node,
    /// By virtual host and name.
    Name,
}

/// The place of a row: its node among the others, or none for this one, and its place there.
#[derive(Clone, Copy, Debug)]
struct RowPlace {
    other: Option<usize>,
    at: usize,
}

/// A list of this node's rows and those of others.
#[derive(Debug)]
pub(crate) struct Merged<T> {
    own: T,
    others: Vec<OtherRows>,
    places: Vec<RowPlace>,
}

impl<T: RowSet> Merged<T> {
    /// Merges the rows of this node, whose name is `node`, with those of others in the order of their names.
    /// `is_reversed` if those of the others come from the last on.
    pub(crate) fn new(
        own: T,
        node: &str,
        mut others: Vec<OtherRows>,
        (order, is_reversed): (MergeOrder, bool),
    ) -> Self {
        if is_reversed {
            others.iter_mut().for_each(|it| it.rows.reverse());
        }
        let n_before = others.iter().filter(|it| *it.node < *node).count();
        let places = |other: Option<usize>, n| (0..n).map(move |at| RowPlace { other, at });
        let of_other = |(nth, it): (usize, &OtherRows)| places(Some(nth), it.rows.len());
        let before = others.iter().enumerate().take(n_before).flat_map(of_other);
        let after = others.iter().enumerate().skip(n_before).flat_map(of_other);
        let mut sorted: Vec<RowPlace> =
            before.chain(places(None, own.len())).chain(after).collect();
        let mut this = Self { own, others, places: Vec::new() };
        if order == MergeOrder::Name {
            sorted.sort_by_cached_key(|place| this.name_of(*place));
        }
        this.places = sorted;
        this
    }

    fn name_of(&self, place: RowPlace) -> [Option<String>; 2] {
        let row = self.at(place);
        ["vhost", "name"].map(|column| {
            let value = row.as_ref()?.value(column)?;
            value.as_str().map(str::to_owned)
        })
    }

    fn at(&self, RowPlace { other, at }: RowPlace) -> Option<MergedRow<T::Row<'_>>> {
        let Some(other) = other else { return self.own.row(at).map(MergedRow::Own) };
        let row = serde_json::from_str(self.others.get(other)?.rows.get(at)?.get());
        Some(MergedRow::Other(row.unwrap_or_default()))
    }
}

impl<T: RowSet> RowSet for Merged<T> {
    type Row<'t> = MergedRow<T::Row<'t>>;

    fn len(&self) -> usize {
        self.places.len()
    }

    fn row(&self, at: usize) -> Option<Self::Row<'_>> {
        self.at(*self.places.get(at)?)
    }

    fn n_total(&self) -> usize {
        self.own.len() + self.others.iter().map(|it| it.n_total).sum::<usize>()
    }

    fn n_beyond(&self) -> usize {
        self.others.iter().map(|it| it.n_filtered - it.rows.len()).sum()
    }
}

/// A row of a merged list.
pub(crate) enum MergedRow<R> {
    Own(R),
    Other(Value),
}

impl<R: Row> Row for MergedRow<R> {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        let own = if let Self::Own(row) = self { Some(row.columns()) } else { None };
        own.into_iter().flatten()
    }

    fn value(&self, column: &str) -> Option<Value> {
        match self {
            Self::Own(row) => row.value(column),
            Self::Other(row) => row.value(column),
        }
    }

    fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Own(row) => row.name(),
            Self::Other(row) => row.name(),
        }
    }

    fn object(&self) -> Value {
        match self {
            Self::Own(row) => row.object(),
            Self::Other(row) => row.clone(),
        }
    }
}
