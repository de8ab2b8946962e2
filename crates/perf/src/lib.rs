//! The load tool: AMQP 0-9-1 publishers and consumers with PerfTest's options and output, those of
//! AMQP 1.0 (`amqp10`) with omq's, and those of the stream protocol (`stream`) with stream-perf-test's,
//! fast enough to measure any broker. Knows the wire protocols. Never any part of the broker.
//! Start reading at [`run()`], then `config` for what is asked for and `worker` for how it is done.

mod amqp10;
mod assembly;
mod clock;
mod config;
mod confirm_window;
mod confirms;
mod connection;
mod consumer;
mod losses;
mod message;
mod options;
pub mod process;
mod publisher;
mod rate;
mod report;
mod run;
mod setup;
mod shared;
mod socket;
mod stats;
mod stream;
mod template;
mod timerfd;
mod topology;
mod unconfirmed;
mod verify;
mod worker;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use command_help::CommandHelp;
use config::{Config, Format};
use options::{Given, Usage, table};
use report::RunError;
use run::End;

pub use client::{Client, Closed, Link, Unreachable, Uri};
pub use stream::OneByOne;

/// The run failed, or `--verify` found something.
const EXIT_FAILED: u8 = 1;
/// The options make no sense.
const EXIT_USAGE: u8 = 2;
/// There is no broker to talk to, or no longer.
const EXIT_UNREACHABLE: u8 = 3;

/// A tool of this crate: its options, and what it does with them.
struct Tool {
    name: &'static str,
    about: &'static str,
    /// The table of its options.
    options: &'static str,
    /// The rest of its help, behind the options.
    notes: &'static str,
    run: fn(&Given) -> Result<Outcome, Usage>,
}

/// The end of a tool's run, and the format of its results.
struct Outcome {
    end: anyhow::Result<End>,
    format: Format,
}

const PERF: Tool = Tool {
    name: "leveret perf",
    about: "",
    options: options::PERF,
    notes: options::NOTES,
    run: |given| {
        let config = Config::new(given)?;
        Ok(Outcome { end: run::run(&config), format: config.run.format })
    },
};

/// Runs the tool. `args` are the options, without a name in front.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut words = args.map(|arg| arg.to_string_lossy().into_owned()).peekable();
    let first = format!("leveret perf {}", words.peek().map_or("", String::as_str));
    let named =
        [amqp10::LOAD, stream::LOAD, stream::FILL].into_iter().find(|tool| tool.name == first);
    let tool = named.unwrap_or(PERF);
    words.next_if(|_| tool.name == first);
    let options = table::read(tool.options);
    let mut given = match options::parse_from(&options, words) {
        Ok(given) => given,
        Err(usage) => return refuse(&usage),
    };
    let variables = &|name: &str| std::env::var(name).ok();
    if tool.name == PERF.name {
        given.add_variables(&options, variables);
    }
    if given.has("help") {
        return show(&format!("{}{}", options::help_of(tool.name, &options), tool.notes));
    }
    if given.has("environment-variables") {
        return show(&options::variables::help(&options, variables));
    }
    if given.has("metrics-help") {
        return show(report::METRICS_HELP);
    }
    if given.has("version") {
        return show(concat!("leveret perf ", env!("CARGO_PKG_VERSION"), "\n"));
    }
    match (tool.run)(&given) {
        Ok(Outcome { end: Ok(End::Good), .. }) => ExitCode::SUCCESS,
        Ok(Outcome { end: Ok(End::Bad), .. }) => ExitCode::from(EXIT_FAILED),
        Ok(Outcome { end: Ok(End::Unreachable), .. }) => ExitCode::from(EXIT_UNREACHABLE),
        Ok(Outcome { end: Err(error), format }) => fail(&error, format),
        Err(usage) => refuse(&usage),
    }
}

/// The tool with its options.
pub fn command_help() -> CommandHelp {
    let commands = [amqp10::LOAD, stream::LOAD, stream::FILL].map(|tool| help_of(&tool)).into();
    CommandHelp { commands, ..help_of(&PERF) }
}

fn help_of(tool: &Tool) -> CommandHelp {
    options::command_help(tool.name, tool.about, &table::read(tool.options))
}

/// Says why a run could not begin.
fn fail(error: &anyhow::Error, format: Format) -> ExitCode {
    complain(&format!("{error:#}"));
    let is_unreachable = error.downcast_ref::<Unreachable>().is_some();
    let code = if is_unreachable { EXIT_UNREACHABLE } else { EXIT_FAILED };
    if format == Format::Json {
        show(&format!("{}\n", report::failure_json(&RunError::from(error), code)));
    }
    ExitCode::from(code)
}

fn show(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(EXIT_FAILED),
    }
}

fn refuse(usage: &Usage) -> ExitCode {
    complain(&format!("{usage} (see --help)"));
    ExitCode::from(EXIT_USAGE)
}

/// One line on standard error. That it cannot be written is not worth another failure.
fn complain(what: &str) {
    drop(writeln!(std::io::stderr(), "leveret perf: {what}"));
}

/// Tests show that nothing is allocated per message.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: counting::Allocator = counting::Allocator;
