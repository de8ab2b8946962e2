//! A document as the changes it asks for, tried out on a copy of the state: either all of it can be done,
//! or it is said which object cannot, and nothing is.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt;
use std::ops::ControlFlow;
use stdx::{Now, words};

use super::error::{ImportError, ImportErrors};
use super::rules::ImportRules;
use super::steps::{self, Fields, Target, Wanted};
use super::{ABOUT, LISTS, is_flat};
use crate::command::{Command, DestinationName};
use crate::json_count::{JSON_VALUES_MAX, JsonCount};
use crate::outcome::Done;
use crate::password::Salt;
use crate::resource::Resource;
use crate::state::State;

/// The changes a document asks for.
#[derive(Clone, Debug)]
pub struct Import {
    /// The changes, in order. Those that would change nothing are not among them.
    pub steps: Vec<Step>,
    /// The parts left out or not understood, a sentence each.
    pub warnings: Vec<String>,
    /// The state as it would be after the import.
    pub then: State,
}

/// A change that an object of the document asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The object that asks for it, for people.
    pub what: String,
    /// The change.
    pub command: Command,
}

/// Works out what a document asks for; `salt` gives fresh random bytes.
///
/// COMPAT: queues and exchanges that exist are left as they are; everything else is replaced.
///
/// # Errors
/// The objects that cannot be as they are asked for.
pub fn import(
    state: &State,
    document: &[u8],
    rules: ImportRules<'_>,
    salt: &mut dyn FnMut() -> Salt,
) -> Result<Import, ImportErrors> {
    let document = &parts(document)?;
    if let Some(vhost) = rules.into
        && state.vhost(vhost).is_none()
    {
        let error = ImportError::new(format!("vhost '{vhost}'"), "the virtual host does not exist");
        return Err(error.into());
    }
    let hashes_are_old = is_before_3_6(document);
    let mut importer = Importer {
        target: Target { rules, hashes_are_old, salt, then: state.clone() },
        steps: Vec::new(),
        warnings: Vec::new(),
        left_out: BTreeSet::new(),
        unknown: BTreeSet::new(),
    };
    let mut errors = ImportErrors { errors: Vec::new(), n_more: 0 };
    importer.run(document, &mut errors);
    if !errors.errors.is_empty() {
        return Err(errors);
    }
    let Importer { target, steps, warnings, .. } = importer;
    Ok(Import { steps, warnings, then: target.then })
}

/// Names that are not known, of lists and of fields, that a warning tells.
const UNKNOWN_MAX: usize = 1_000;

/// A document's lists, and what it says about itself, as text: objects are read one by one. All together
/// would take twenty times the memory of their text.
#[derive(Default)]
struct Parts<'d> {
    known: BTreeMap<String, &'d RawValue>,
    unknown: BTreeSet<String>,
}

impl<'d> Deserialize<'d> for Parts<'d> {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(PartsVisitor)
    }
}

struct PartsVisitor;

impl<'d> Visitor<'d> for PartsVisitor {
    type Value = Parts<'d>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'d>>(self, mut map: A) -> Result<Parts<'d>, A::Error> {
        let mut parts = Parts::default();
        while let Some(key) = map.next_key::<String>()? {
            let is_known = LISTS.iter().any(|(list, _)| *list == key)
                || words(ABOUT).any(|about| about == key);
            if is_known {
                parts.known.insert(key, map.next_value()?);
                continue;
            }
            map.next_value::<IgnoredAny>()?;
            if parts.unknown.len() < UNKNOWN_MAX {
                parts.unknown.insert(key);
            }
        }
        Ok(parts)
    }
}

/// Reads the objects of a list, each shown as it is read, until `Break` ends the import.
struct Objects<'s>(&'s mut dyn FnMut(&RawValue) -> ControlFlow<()>);

impl<'d> Visitor<'d> for Objects<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'d>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(object) = list.next_element::<&RawValue>()? {
            if (self.0)(object).is_break() {
                return Err(A::Error::custom(ENDED));
            }
        }
        Ok(())
    }
}

fn parts(document: &[u8]) -> Result<Parts<'_>, ImportError> {
    serde_json::from_slice(document).map_err(|error| {
        let reason = match error.classify() {
            Category::Data => "the document is not a JSON object".to_owned(),
            Category::Io | Category::Syntax | Category::Eof => format!("not JSON: {error}"),
        };
        ImportError::new("definitions", reason)
    })
}

/// Parses an object of a list; refuses one that is too large or too deep.
fn object_of(list: &str, text: &RawValue) -> Result<Map<String, Value>, ImportError> {
    if !JsonCount::is_small(text.get().as_bytes()) {
        let text = format!("an object has more than {JSON_VALUES_MAX} values");
        return Err(ImportError::new(list, text));
    }
    let object: Value = serde_json::from_str(text.get())
        .map_err(|error| ImportError::new(list, error.to_string()))?;
    if !is_flat(&object, DEPTH_MAX) {
        let text = format!("nested more than {DEPTH_MAX} levels deep");
        return Err(ImportError::new(list, text));
    }
    if let Value::Object(object) = object {
        return Ok(object);
    }
    Err(ImportError::new(list, format!("not an object: {object}")))
}

/// COMPAT: users exported by versions before 3.6 name no algorithm, and were hashed with MD5.
fn is_before_3_6(document: &Parts<'_>) -> bool {
    let version = |name| document.known.get(name);
    let version = version("rabbitmq_version").or_else(|| version("rabbit_version"));
    let version: Option<String> = version.and_then(|it| serde_json::from_str(it.get()).ok());
    let mut numbers = version.as_deref().unwrap_or_default().split('.');
    let mut number = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    match (number(), number()) {
        (Some(major), Some(minor)) => (major, minor) < (3, 6),
        _ => false,
    }
}

struct Importer<'i> {
    target: Target<'i>,
    steps: Vec<Step>,
    warnings: Vec<String>,
    /// Exchanges and queues that cannot be here, or are refused: what is bound to them is left out too.
    left_out: BTreeSet<String>,
    unknown: BTreeSet<String>,
}

/// The reason when nobody wants a document any more.
const ENDED: &str = "the import was interrupted";
/// Levels of lists and objects in an object of a document.
const DEPTH_MAX: usize = 64;

/// Lists that are regarded when the document goes into one virtual host.
const OF_ONE_VHOST: [&str; 5] = ["parameters", "policies", "queues", "exchanges", "bindings"];

impl Importer<'_> {
    fn run(&mut self, document: &Parts<'_>, errors: &mut ImportErrors) {
        self.warn_of_unknown_lists(document);
        // Limits come last: there may be more than a limit set later allows.
        let mut limits = Vec::new();
        for (list, known) in LISTS {
            let Some(objects) = document.known.get(list) else { continue };
            if self.target.rules.into.is_some() && !OF_ONE_VHOST.contains(&list) {
                if objects.get() != "null" {
                    self.warn(format!("skipped {list}: not part of a virtual host"));
                }
                continue;
            }
            let goes_on = self.target.rules.goes_on;
            let mut is_ended = false;
            let mut see = |object: &RawValue| {
                is_ended = goes_on.is_some_and(|it| !(it.0)());
                if is_ended {
                    return ControlFlow::Break(());
                }
                let taken = object_of(list, object).and_then(|object| {
                    self.note_unknown(list, &object, known);
                    self.object(list, &object, &mut limits)
                });
                taken.unwrap_or_else(|error| errors.add(error));
                ControlFlow::Continue(())
            };
            let mut json = serde_json::Deserializer::from_str(objects.get());
            let read = json.deserialize_any(Objects(&mut see));
            if is_ended {
                return errors.add(ImportError::new(list, ENDED));
            }
            if read.is_err() {
                errors.add(ImportError::new(list, "not a list"));
            }
        }
        for step in limits {
            self.change(step).unwrap_or_else(|error| errors.add(error));
        }
        self.warnings.extend(std::mem::take(&mut self.unknown));
    }

    fn object(
        &mut self,
        list: &str,
        object: &Map<String, Value>,
        limits: &mut Vec<Step>,
    ) -> Result<(), ImportError> {
        let coerced = RefCell::default();
        let mut wanted =
            steps::wanted(&mut self.target, list, &Fields { object, coerced: &coerced })?;
        wanted.warnings.extend(coerced.into_inner());
        let resources: Vec<Resource> = wanted.commands.iter().filter_map(made_by).collect();
        self.take(wanted, limits).inspect_err(|_| {
            self.left_out.extend(resources.iter().map(ToString::to_string));
        })
    }

    fn take(&mut self, wanted: Wanted, limits: &mut Vec<Step>) -> Result<(), ImportError> {
        let Wanted { what, commands, warnings, refused, left_out } = wanted;
        self.left_out.extend(left_out);
        if let Some(refused) = refused {
            if self.target.rules.is_strict {
                return Err(ImportError::new(what, refused));
            }
            self.warn(format!("{what}: skipped: {refused}"));
        }
        for warning in warnings {
            self.warn(format!("{what}: {warning}"));
        }
        for command in commands {
            let step = Step { what: what.clone(), command };
            if matches!(step.command, Command::SetVhostLimits { .. }) {
                limits.push(step);
            } else {
                self.change(step)?;
            }
        }
        Ok(())
    }

    /// Tries a change, and keeps it unless everything is so already.
    fn change(&mut self, step: Step) -> Result<(), ImportError> {
        if self.lacks_an_end(&step) || is_so(&self.target.then, &step.command) {
            return Ok(());
        }
        let outcome = self.target.then.apply(Now::default(), &step.command);
        let outcome =
            outcome.map_err(|error| ImportError::new(step.what.as_str(), error.to_string()))?;
        if !matches!(outcome.done, Done::Nothing) {
            self.steps.push(step);
        }
        Ok(())
    }

    /// Whether the step is a binding from or to something that is left out; then a warning says so.
    fn lacks_an_end(&mut self, step: &Step) -> bool {
        let Command::Bind(spec) = &step.command else { return false };
        let source = Resource::exchange(&spec.vhost, &spec.source);
        let destination = match &spec.destination {
            DestinationName::Queue(name) => Resource::queue(&spec.vhost, name),
            DestinationName::Exchange(name) => Resource::exchange(&spec.vhost, name),
        };
        let missing = [source, destination].map(|end| end.to_string());
        let Some(missing) = missing.iter().find(|end| self.left_out.contains(*end)) else {
            return false;
        };
        let warning = format!("{}: skipped, as {missing} is", step.what);
        self.warn(warning);
        true
    }

    fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    fn warn_of_unknown_lists(&mut self, document: &Parts<'_>) {
        for key in &document.unknown {
            self.warn(format!("skipped unknown `{key}`"));
        }
    }

    /// Notes a warning for each unknown field of a list, however many objects have it.
    fn note_unknown(&mut self, list: &str, object: &Map<String, Value>, known: &str) {
        let left = UNKNOWN_MAX.saturating_sub(self.unknown.len());
        let unknown = object.keys().filter(|key| !words(known).any(|known| known == *key));
        let unknown = unknown.take(left);
        self.unknown.extend(unknown.map(|key| format!("skipped unknown `{key}` of {list}")));
    }
}

/// The exchange or queue that a change makes.
#[expect(clippy::wildcard_enum_match_arm, reason = "others make neither")]
fn made_by(command: &Command) -> Option<Resource> {
    match command {
        Command::DeclareExchange(it) => Some(Resource::exchange(&it.vhost, &it.name)),
        Command::DeclareQueue(it) => Some(Resource::queue(&it.vhost, &it.name)),
        _ => None,
    }
}

/// Whether a change that replaces something would replace it by an equal.
fn is_so(state: &State, command: &Command) -> bool {
    #[expect(clippy::wildcard_enum_match_arm, reason = "others replace nothing")]
    let so = || match command {
        Command::UpdateVhost { vhost, metadata } => Some(state.vhost(vhost)?.metadata == *metadata),
        Command::SetVhostLimits { vhost, limits } => Some(state.vhost(vhost)?.limits == *limits),
        Command::SetPassword { user, password } => Some(state.user(user)?.password == *password),
        Command::SetUserTags { user, tags } => Some(state.user(user)?.tags == *tags),
        Command::SetUserLimits { user, limits } => Some(state.user(user)?.limits == *limits),
        Command::SetPermissions { user, vhost, configure, write, read } => {
            let found = state.user(user)?.permissions_in(vhost)?;
            let patterns = [&found.configure, &found.write, &found.read];
            Some(patterns.map(|pattern| pattern.as_str()) == [configure, write, read])
        }
        Command::SetTopicPermissions { user, vhost, exchange, write, read } => {
            let found = state.user(user)?.topic_permissions_at(vhost, exchange)?;
            Some(found.write() == write && found.read() == read)
        }
        Command::SetPolicy { scope, vhost, policy } => {
            Some(state.vhost(vhost)?.policies.get(*scope, &policy.name)?.spec == *policy)
        }
        Command::SetParameter { vhost, component, name, value } => {
            Some(state.vhost(vhost)?.parameters.get(component, name)? == value)
        }
        Command::SetGlobalParameter { name, value } => {
            Some(state.global_parameters().get(name)? == value)
        }
        // COMPAT: what is there stays as it is, however it differs.
        Command::DeclareExchange(declare) => {
            Some(state.exchange(&declare.vhost, &declare.name).is_some())
        }
        Command::DeclareQueue(declare) => {
            Some(state.queue(&declare.vhost, &declare.name).is_some())
        }
        _ => None,
    };
    so().unwrap_or_default()
}
