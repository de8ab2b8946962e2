//! Definitions that a node imports at its start.

use crate::config::DefinitionsSource;
use anyhow::Context as _;
use api::DOCUMENT_BYTES_MAX;
use broker::Broker;
use meta::HashAlgorithm;
use mgmt::{Course, ImportOptions, Imported, check_definitions, import_definitions};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Imports the documents the configuration names, at every start: what is so already is left alone.
pub(crate) async fn load(
    broker: &Broker,
    source: &DefinitionsSource,
    hashing: HashAlgorithm,
) -> anyhow::Result<()> {
    let path = source.path.as_path();
    let (files, documents) = documents(path)?;
    let skip_if_unchanged = source.skip_if_unchanged;
    let options = ImportOptions { skip_if_unchanged, hashing, ..ImportOptions::default() };
    let imported = import_definitions(broker, &documents, options, &Course::default()).await;
    let Imported { n_changes, warnings } = imported
        .map_err(|(at, reason)| cannot_import(files.get(at).unwrap_or(&source.path), &reason))?;
    for warning in warnings {
        tracing::warn!("import of definitions: {warning}");
    }
    tracing::info!("imported definitions from {}: {n_changes} changes", path.display());
    Ok(())
}

/// Whether a node can import the documents.
pub(crate) fn check(source: &DefinitionsSource, hashing: HashAlgorithm) -> anyhow::Result<()> {
    let (files, documents) = documents(&source.path)?;
    let options = ImportOptions { hashing, ..ImportOptions::default() };
    check_definitions(&documents, options)
        .map_err(|(at, reason)| cannot_import(files.get(at).unwrap_or(&source.path), &reason))
}

fn cannot_import(path: &Path, reason: &str) -> anyhow::Error {
    let before = if reason.contains('\n') { "\n" } else { " " };
    anyhow::anyhow!("cannot import the definitions in {}:{before}{reason}", path.display())
}

fn documents(path: &Path) -> anyhow::Result<(Vec<PathBuf>, Vec<Vec<u8>>)> {
    let files = files(path).with_context(|| cannot_read(path))?;
    let read = |file: &PathBuf| read(file).with_context(|| cannot_read(file));
    let documents = files.iter().map(read).collect::<Result<_, _>>()?;
    Ok((files, documents))
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read the definitions in {}", path.display())
}

/// The file itself, or the files of a directory in the order of their names. COMPAT: whatever they are
/// called, but hidden ones are not definitions: mounted directories have such.
fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !is_hidden && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = DOCUMENT_BYTES_MAX as u64;
    let n = File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if n > DOCUMENT_BYTES_MAX {
        return Err(std::io::Error::other(format!("longer than {limit} bytes")));
    }
    Ok(bytes)
}
