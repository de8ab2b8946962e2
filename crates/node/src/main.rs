//! The `leveret` binary: configuration, start order, shutdown, and the tools under their names.
//! Knows every crate. Never what a frame or a message is.
//! Start reading at [`main`], then `start_order`.

mod allocator;
mod cli;
mod config;
mod definitions;
mod descriptors;
mod doctor;
mod logging;
mod manual;
mod notify;
mod otel;
mod repair;
mod resources;
mod signals;
mod start_order;
mod wall;
mod welcome;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use config::ConfigError;

use cli::{HelpConfig, Invocation, ServerArgs, Tool, ToolKind};

/// The configuration is wrong (`EX_CONFIG` of sysexits.h, as RabbitMQ's tools have it).
const EXIT_CONFIG: u8 = 78;
/// The command line makes no sense.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let started = Instant::now();
    match cli::parse(std::env::args_os()) {
        Ok(Invocation::Server(args)) => serve(&args, started),
        Ok(Invocation::Doctor(args)) => doctor::run(&args),
        Ok(Invocation::Repair(args)) => match repair::run(&args, &mut std::io::stdout()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&one_line(&error));
                ExitCode::FAILURE
            }
        },
        Ok(Invocation::Tool(tool)) => run_tool(tool),
        Ok(Invocation::Refused(code, text)) => {
            drop(writeln!(std::io::stderr(), "{text}"));
            ExitCode::from(code)
        }
        // The reader may close the pipe before the end of the completions.
        Ok(Invocation::Completions(shell)) => {
            manual::completions(shell).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
        }
        Ok(Invocation::Manual(dir)) => write_manual(&dir),
        Err(error) => error.exit(),
    }
}

fn run_tool(Tool { kind, name, args }: Tool) -> ExitCode {
    match kind {
        ToolKind::Ctl => ctl::run(std::iter::once(name.into()).chain(args)),
        ToolKind::Perf => perf::run(args.into_iter()),
        ToolKind::Bench => bench::run(args.into_iter()),
    }
}

fn serve(args: &ServerArgs, started: Instant) -> ExitCode {
    if let Some(format) = args.help_config {
        let text = match format {
            HelpConfig::Text => config::help_text(),
            HelpConfig::Markdown => config::markdown(),
            HelpConfig::Sample => config::sample(),
        };
        return match std::io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    if args.check_config {
        return check_config(args);
    }
    match start_order::run(args, started) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&one_line(&error));
            if start_order::is_usage(&error) {
                ExitCode::from(EXIT_USAGE)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn write_manual(dir: &Path) -> ExitCode {
    match manual::write_pages(dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("cannot write the manual to {}: {error}", dir.display()));
            ExitCode::FAILURE
        }
    }
}

/// Prints all errors of the configuration; nothing is started or made.
fn check_config(args: &ServerArgs) -> ExitCode {
    let checked = config::check(args.sources());
    for error in &checked.errors {
        complain(&error_line(error));
    }
    let (wrong, warnings) = start_order::wrong_files(&checked.config, &args.data_dir);
    for warning in checked.warnings.iter().map(ToString::to_string).chain(warnings) {
        complain(&format!("warning: {warning}"));
    }
    wrong.iter().for_each(|error| complain(&one_line(error)));
    if checked.errors.is_empty() && wrong.is_empty() {
        return match writeln!(std::io::stdout(), "the configuration is valid") {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    ExitCode::from(EXIT_CONFIG)
}

/// An error with what caused it.
fn error_line(error: &ConfigError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

/// An error with what caused it; some say the cause themselves.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

/// Prints a line to standard error; an error of writing it is ignored.
fn complain(what: &str) {
    drop(writeln!(std::io::stderr(), "leveret: {what}"));
}
