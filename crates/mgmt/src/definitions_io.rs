//! Definitions as a document: what operators export and import, and what a node imports at its start.

use crate::api_error::ApiError;
use crate::{Course, Management, salt};
use api::ErrorCode;
use broker::Broker;
use control::View;
use meta::definitions::{
    Document, FINGERPRINT_PARAMETER, GoesOn, Import, ImportRules, Origin, Step,
};
use meta::{Command, HashAlgorithm, Json, MetaError, Name, State, definitions};
use serde_json::Value;

/// Changes that become durable together.
const BATCH: usize = 1024;

/// The outcome of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The number of changes made.
    pub n_changes: usize,
    /// Parts of the document that were left out or not understood.
    pub warnings: Vec<String>,
}

/// The options of an import.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportOptions<'a> {
    /// The virtual host for a document of a single one.
    pub into: Option<&'a str>,
    /// Whether documents equal to those imported last are skipped.
    pub skip_if_unchanged: bool,
    /// The hash of passwords that the documents have as they are.
    pub hashing: HashAlgorithm,
    /// Whether parts that RabbitMQ refuses are errors, instead of left out with a warning.
    pub is_strict: bool,
    /// The user who gets all permissions in virtual hosts that are made.
    pub importer: Option<&'a str>,
}

/// Imports documents, one after the other. A document with an invalid part is not imported at all. The end of
/// `course` stops the import between two batches of changes.
///
/// # Errors
/// Which document (by its place in the list) cannot be imported, and why, naming the objects, a line each; or
/// how far it has come.
pub async fn import_definitions(
    broker: &Broker,
    documents: &[impl AsRef<[u8]> + Sync],
    options: ImportOptions<'_>,
    course: &Course,
) -> Result<Imported, (usize, String)> {
    let mut imported = Imported { n_changes: 0, warnings: Vec::new() };
    let fingerprint = definitions::fingerprint(documents.iter().map(AsRef::as_ref));
    let fingerprint = Value::from(fingerprint);
    if options.skip_if_unchanged {
        let view = broker.view();
        let last = view.meta.global_parameters().get(FINGERPRINT_PARAMETER);
        if last.is_some_and(|last| last.value() == fingerprint) {
            return Ok(imported);
        }
    }
    for (at, document) in documents.iter().enumerate() {
        let planned = plan(&broker.view().meta, document.as_ref(), options, course);
        let Import { steps, warnings, .. } = planned.map_err(|reason| (at, reason))?;
        imported.warnings.extend(warnings);
        imported.n_changes += steps.len();
        let n_steps = steps.len();
        // Applied changes are dropped batch by batch, since the node's state has their content.
        let mut steps = steps.into_iter();
        loop {
            if let Some(why) = course.end().filter(|_| steps.len() > 0) {
                let n_made = n_steps - steps.len();
                return Err((at, format!("{n_made} of {n_steps} changes applied: {why}")));
            }
            let batch: Vec<Step> = steps.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            let made = broker.changes().apply_all(batch.iter().map(|step| &step.command)).await;
            made.map_err(|(n, error)| {
                let what = batch.get(n).map_or("", |step| step.what.as_str());
                (at, format!("{what}: {error}"))
            })?;
        }
    }
    if options.skip_if_unchanged {
        note(broker, &fingerprint).await.map_err(|error| (0, error.to_string()))?;
    }
    Ok(imported)
}

fn plan(
    state: &State,
    document: &[u8],
    options: ImportOptions<'_>,
    course: &Course,
) -> Result<Import, String> {
    // COMPAT: an empty file defines nothing.
    let document = document.strip_prefix("\u{feff}".as_bytes()).unwrap_or(document);
    let document = if document.trim_ascii().is_empty() { b"{}" } else { document };
    // The first salt is taken here: a lack of randomness cannot be reported in the middle of an import.
    let mut next_salt = salt().map_err(|api_error| api_error.text)?;
    let mut fresh = || {
        let fresh = next_salt;
        next_salt = salt().unwrap_or(next_salt);
        fresh
    };
    let ImportOptions { into, hashing, is_strict, importer, .. } = options;
    let into = into.map(Name::from);
    let goes_on = || course.end().is_none();
    let goes_on = Some(GoesOn(&goes_on));
    let rules = ImportRules { into: into.as_ref(), hashing, is_strict, importer, goes_on };
    let planned = definitions::import(state, document, rules, &mut fresh);
    planned.map_err(|error| match course.end() {
        Some(why) => format!("no changes applied: {why}"),
        None => error.to_string(),
    })
}

/// Whether documents can be imported into an empty node.
///
/// # Errors
/// As [`import_definitions`].
pub fn check_definitions(
    documents: &[impl AsRef<[u8]>],
    options: ImportOptions<'_>,
) -> Result<(), (usize, String)> {
    let mut state = State::new();
    for (at, document) in documents.iter().enumerate() {
        let planned = plan(&state, document.as_ref(), options, &Course::default());
        state = planned.map_err(|reason| (at, reason))?.then;
    }
    Ok(())
}

async fn note(broker: &Broker, fingerprint: &Value) -> Result<(), MetaError> {
    let value = Json::parse(&fingerprint.to_string())?;
    let name = Name::from(FINGERPRINT_PARAMETER);
    broker.apply_definition(Command::SetGlobalParameter { name, value }).await.map(|_| ())
}

/// Shows all definitions, or those of one virtual host.
///
/// # Errors
/// There is no such virtual host.
pub fn export<T>(
    management: &Management,
    view: &View,
    vhost: Option<&str>,
    show: impl FnOnce(Document<'_>) -> T,
) -> Result<T, ApiError> {
    let (node_info, state) = (&management.node_info, &view.meta);
    let name = state.global_parameters().cluster_name();
    let origin = Origin {
        rabbitmq_version: &node_info.rabbitmq_version,
        product_version: &node_info.version,
        cluster_name: name.as_ref().unwrap_or(&node_info.name),
    };
    let Some(vhost) = vhost else { return Ok(show(definitions::export(state, origin))) };
    let vhost = state.vhost(vhost).ok_or_else(|| MetaError::VhostNotFound(Name::from(vhost)))?;
    Ok(show(definitions::export_vhost(state, vhost, origin)))
}

/// The changes that an import of a document would make, in order, each by the object that asks for it.
///
/// # Errors
/// The reason why the document cannot be imported.
pub fn foretell(
    management: &Management,
    document: &[u8],
    options: ImportOptions<'_>,
    course: &Course,
) -> Result<Import, ApiError> {
    let options = ImportOptions { hashing: management.hashing, ..options };
    let planned = plan(&management.broker.view().meta, document, options, course);
    planned.map_err(|reason| ApiError::new(kind_of_end(course), reason))
}

/// Imports a document.
///
/// # Errors
/// The reason why the document cannot be imported.
pub async fn import(
    management: &Management,
    document: &[u8],
    options: ImportOptions<'_>,
    course: &Course,
) -> Result<Imported, ApiError> {
    let options = ImportOptions { hashing: management.hashing, ..options };
    let imported = import_definitions(&management.broker, &[document], options, course).await;
    let Imported { n_changes, warnings } = imported.map_err(|(_, reason)| {
        if course.end().is_some() {
            tracing::warn!("import of definitions: {reason}");
        }
        ApiError::new(kind_of_end(course), reason)
    })?;
    for warning in &warnings {
        tracing::warn!("import of definitions: {warning}");
    }
    tracing::info!("import of definitions: {n_changes} changes");
    Ok(Imported { n_changes, warnings })
}

fn kind_of_end(course: &Course) -> ErrorCode {
    if course.end().is_some() { ErrorCode::Ended } else { ErrorCode::Invalid }
}
