//! Documents in files: definitions that are exported and imported.

use crate::failure::{Failure, Invalid, code};
use crate::fields::{number, texts};
use crate::output::{Answer, Format};
use crate::verb::Invocation;
use api::DOCUMENT_BYTES_MAX;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// The file name that stands for standard input and output.
const STANDARD: &str = "-";

/// Only its owner reads and writes a file of definitions.
const PRIVATE_MODE: u32 = 0o600;

/// Reads a document from a file, or from `input` when none is named.
pub(crate) fn read(file: &str, input: &mut dyn io::BufRead) -> Result<String, Failure> {
    let mut text = String::new();
    let limit = DOCUMENT_BYTES_MAX as u64 + 1;
    let read = match file {
        "" | STANDARD => input.take(limit).read_to_string(&mut text),
        path => File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text)),
    };
    let refused = |reason: String| Err(Failure::error(code::DATA, reason));
    match read {
        Ok(0) if matches!(file, "" | STANDARD) => refused("Standard input is empty".to_owned()),
        Ok(0) => refused(format!("File {file} is zero-sized")),
        Ok(n) if n > DOCUMENT_BYTES_MAX => {
            refused(format!("The document is longer than {DOCUMENT_BYTES_MAX} bytes"))
        }
        Ok(_) => Ok(text),
        Err(error) => refused(format!("Could not read from file {file}: {error}")),
    }
}

pub(crate) fn check_import(invocation: &Invocation) -> Result<(), Invalid> {
    check_format(invocation)?;
    match invocation.param("file") {
        "" | STANDARD => Ok(()),
        path if Path::new(path).exists() => Ok(()),
        path => Err(Invalid::BadArgument(format!("File {path} does not exist"))),
    }
}

pub(crate) fn check_export(invocation: &Invocation) -> Result<(), Invalid> {
    check_format(invocation)?;
    let directory = match Path::new(invocation.param("file")).parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => return Ok(()),
    };
    if directory.exists() {
        return Ok(());
    }
    let text = format!("Directory {} does not exist", directory.display());
    Err(Invalid::BadArgument(text))
}

fn check_format(invocation: &Invocation) -> Result<(), Invalid> {
    match invocation.text("format") {
        None => Ok(()),
        Some(format) if format.eq_ignore_ascii_case("json") => Ok(()),
        Some(_) => Err(Invalid::BadArgument("Format should be json".to_owned())),
    }
}

pub(crate) fn export_banner(invocation: &Invocation) -> String {
    match invocation.param("file") {
        STANDARD => String::new(),
        path => format!("Exporting definitions in JSON to a file at \"{path}\" ..."),
    }
}

pub(crate) fn import_banner(invocation: &Invocation) -> String {
    match invocation.param("file") {
        "" | STANDARD => "Importing definitions in JSON from standard input ...".to_owned(),
        path => format!("Importing definitions in JSON from a file at \"{path}\" ..."),
    }
}

pub(crate) fn exported(invocation: &Invocation, document: Value) -> Result<Answer, Failure> {
    let text = serde_json::to_string_pretty(&document).unwrap_or_default();
    let path = invocation.param("file");
    // The document itself is printed: nothing else may be then.
    if path == STANDARD {
        return Ok(if invocation.format == Format::Json {
            Answer::Object(document)
        } else {
            Answer::Text(text)
        });
    }
    match write_private(path, &(text + "\n")) {
        Ok(()) => Ok(Answer::Done),
        Err(error) => {
            let text = format!("Could not write to file {path}: {error}");
            Err(Failure::error(code::DATA, text))
        }
    }
}

/// Writes a file that only its owner can read, also if it was there before: definitions hold password hashes.
fn write_private(path: &str, text: &str) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE_MODE).open(path)?;
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(PRIVATE_MODE))?;
    }
    file.write_all(text.as_bytes())
}

/// Answers after an import. COMPAT: parts that were left out do not fail it, unless `--strict` asks for that.
pub(crate) fn imported(invocation: &Invocation, answer: Value) -> Result<Answer, Failure> {
    let warnings: Vec<&str> = texts(&answer, "warnings").collect();
    let is_failure = invocation.flag("strict") && !warnings.is_empty();
    if invocation.format == Format::Json && !is_failure {
        let node = invocation.node();
        return Ok(Answer::Object(json!({"result": "ok", "node": node, "warnings": warnings})));
    }
    let mut lines: Vec<String> =
        warnings.iter().map(|warning| format!("Warning: {warning}")).collect();
    if !invocation.output_less() {
        let n_changes = number(&answer, "changes");
        lines.push(format!("Successfully imported definitions: {n_changes} changes"));
    }
    if is_failure {
        return Err(Failure::bare(code::LEFT_OUT, lines.join("\n")));
    }
    Ok(if lines.is_empty() { Answer::Done } else { Answer::Text(lines.join("\n")) })
}
