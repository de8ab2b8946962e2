//! Values of a JSON text at paths such as `$.order.items[0]['unit price']`.
//!
//! The text is read once for all paths of a filter, without a tree of it: what stands at no path is passed
//! over, and where all are found the rest is not read. So a text need not be JSON behind that.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Operand;

/// The most steps of a path: a reader of JSON calls itself for each.
pub(super) const DEPTH_MAX: usize = 64;

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Member(String),
    Element(usize),
}

/// All paths of a filter, as a tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Paths {
    root: Node,
    n: usize,
}

/// A place in a text that is on a path.
#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    /// The number of the path that ends here.
    path: Option<usize>,
    members: BTreeMap<String, Self>,
    elements: BTreeMap<usize, Self>,
}

/// A value in a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found<'t> {
    Missing,
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(Cow<'t, str>),
    /// An array or an object.
    Container,
}

impl Paths {
    /// The number of a path.
    pub(super) fn add(&mut self, steps: Vec<Step>) -> usize {
        let place = steps.into_iter().fold(&mut self.root, |node, step| match step {
            Step::Member(name) => node.members.entry(name).or_default(),
            Step::Element(index) => node.elements.entry(index).or_default(),
        });
        *place.path.get_or_insert_with(|| {
            self.n += 1;
            self.n - 1
        })
    }

    /// The value at each path. Of members with the same name the first that has the path counts.
    pub(super) fn read<'t>(&self, text: &'t [u8]) -> Box<[Found<'t>]> {
        let mut found = vec![Found::Missing; self.n].into();
        let reading = Reading { node: &self.root, found: &mut found, n_missing: &mut { self.n } };
        // An error is the end of what is JSON, or of what is asked for.
        let _end = reading.deserialize(&mut serde_json::Deserializer::from_slice(text));
        found
    }
}

impl Found<'_> {
    pub(super) fn operand(&self) -> Operand<'_> {
        match self {
            Self::Missing | Self::Null => Operand::Unknown,
            Self::Bool(value) => Operand::Bool(*value),
            Self::Integer(value) => Operand::Integer((*value).into()),
            Self::Float(value) => Operand::Float(*value),
            Self::Text(text) => Operand::Text(text.as_bytes()),
            Self::Container => Operand::Opaque,
        }
    }
}

/// The reader of what stands at a node.
struct Reading<'n, 'f, 't> {
    node: &'n Node,
    found: &'f mut Box<[Found<'t>]>,
    n_missing: &'f mut usize,
}

impl<'n, 't> Reading<'n, '_, 't> {
    fn of<'s>(&'s mut self, node: &'n Node) -> Reading<'n, 's, 't> {
        Reading { node, found: self.found, n_missing: self.n_missing }
    }

    /// Notes the value here. The last value that is asked for gives an error: nothing more is read.
    fn note<E: Error>(&mut self, value: Found<'t>) -> Result<(), E> {
        let place = self.node.path.and_then(|path| self.found.get_mut(path));
        if let Some(place @ Found::Missing) = place {
            *place = value;
            *self.n_missing -= 1;
        }
        if *self.n_missing == 0 { Err(E::custom("")) } else { Ok(()) }
    }
}

impl<'t> DeserializeSeed<'t> for Reading<'_, '_, 't> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, text: D) -> Result<(), D::Error> {
        text.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Reading<'_, '_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(mut self, value: bool) -> Result<(), E> {
        self.note(Found::Bool(value))
    }

    fn visit_i64<E: Error>(mut self, value: i64) -> Result<(), E> {
        self.note(Found::Integer(value))
    }

    #[expect(clippy::cast_precision_loss, reason = "beyond i64, numbers are floats")]
    fn visit_u64<E: Error>(mut self, value: u64) -> Result<(), E> {
        self.note(i64::try_from(value).map_or(Found::Float(value as f64), Found::Integer))
    }

    fn visit_f64<E: Error>(mut self, value: f64) -> Result<(), E> {
        self.note(Found::Float(value))
    }

    fn visit_str<E: Error>(mut self, value: &str) -> Result<(), E> {
        self.note(Found::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_borrowed_str<E: Error>(mut self, value: &'t str) -> Result<(), E> {
        self.note(Found::Text(Cow::Borrowed(value)))
    }

    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        self.note(Found::Null)
    }

    fn visit_seq<A: SeqAccess<'t>>(mut self, mut array: A) -> Result<(), A::Error> {
        self.note(Found::Container)?;
        for index in 0.. {
            let read = match self.node.elements.get(&index) {
                Some(node) => array.next_element_seed(self.of(node))?,
                None => array.next_element::<IgnoredAny>()?.map(drop),
            };
            if read.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'t>>(mut self, mut object: A) -> Result<(), A::Error> {
        self.note(Found::Container)?;
        while let Some(member) = object.next_key_seed(Member(self.node))? {
            match member {
                Some(node) => object.next_value_seed(self.of(node))?,
                None => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Finds the member of a node that has the name which is read.
struct Member<'n>(&'n Node);

impl<'n, 't> DeserializeSeed<'t> for Member<'n> {
    type Value = Option<&'n Node>;

    fn deserialize<D: Deserializer<'t>>(self, name: D) -> Result<Self::Value, D::Error> {
        name.deserialize_str(self)
    }
}

impl<'n> Visitor<'_> for Member<'n> {
    type Value = Option<&'n Node>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.members.get(name))
    }
}
