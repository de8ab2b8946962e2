//! The command line tool: RabbitMQ's verbs, arguments, output and exit codes, over the node's control
//! socket. Never queues, storage or any crate of the server: it sees the data directory, the run
//! directory and JSON.
//! Start reading at [`run()`], then `verb` for what a verb is and `verbs` for the list of them.

mod client;
mod control_socket;
mod data_dir;
mod document;
pub mod environment;
mod eval;
mod failure;
mod feature_flags;
mod fields;
mod limits;
mod offline;
mod options;
mod output;
mod plugins;
mod recent;
mod render;
mod report;
mod run;
mod run_dir;
mod tail;
mod top;
mod unavailable;
mod units;
mod usage;
mod verb;
mod verbs;

pub use data_dir::default_data_dir;
pub use plugins::is_built_in as is_built_in_plugin;
pub use run_dir::{Registration, RunningNode, register};

use command_help::CommandHelp;
use failure::{Failure, Invalid};
use run::Terminal;
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use verb::{Invocation, Tool, Verb};

/// Runs one command. The first of `args` is the name that help shows the tool by, for example
/// `rabbitmqctl` (a path is cut to its last part); the rest is the command line.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut args = args.map(|arg| arg.to_string_lossy().into_owned());
    let tool = args.next().unwrap_or_else(|| "rabbitmqctl".to_owned());
    let tool = Tool::new(tool.rsplit('/').next().unwrap_or_default(), verbs::TABLES);
    let given: Vec<String> = args.collect();
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let mut terminal = Terminal { input: &mut input, output: &mut output };
    match run_with(&tool, given, &mut terminal) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(text) = failure.text {
                // A closed standard error is ignored: the exit code still tells of the failure.
                drop(writeln!(std::io::stderr(), "{text}"));
            }
            ExitCode::from(failure.code)
        }
    }
}

/// The tool with all its verbs and their options.
pub fn command_help() -> CommandHelp {
    usage::command_help(&Tool::new("leveret ctl", verbs::TABLES))
}

fn run_with(tool: &Tool, given: Vec<String>, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    let given = match given.as_slice() {
        [only] if only == "--version" => vec!["version".to_owned()],
        [only] if only == "--help" => vec!["help".to_owned()],
        _ => in_one_word(given),
    };
    let args = options::parse(&given, &[]).args;
    let Some(name) = args.first() else {
        return Err(Failure::bare(failure::code::USAGE, usage::everything(tool)));
    };
    let verb = tool.find(name).ok_or_else(|| {
        unavailable::refusal(name).unwrap_or_else(|| usage::not_found(tool, name))
    })?;
    let mut invocation = Invocation::new(tool, verb, &given)
        .map_err(|invalid| not_accepted(tool, verb, &given, &invalid))?;
    if invocation.flag("help") {
        drop(writeln!(terminal.output, "{}", usage::of(tool, verb)));
        return Ok(());
    }
    invocation.address = client::found(invocation.address);
    run::execute(&mut invocation, terminal)
}

/// Joins `messages` and the word behind it into a verb: `messages browse` is `browse_messages`.
fn in_one_word(mut given: Vec<String>) -> Vec<String> {
    let first = given.iter().position(|word| !word.starts_with('-'));
    if let Some(first) = first.filter(|at| given.get(*at).is_some_and(|word| word == "messages"))
        && given.get(first + 1).is_some_and(|word| !word.starts_with('-'))
    {
        given.remove(first);
        given.get_mut(first).into_iter().for_each(|verb| verb.push_str("_messages"));
    }
    given
}

fn not_accepted(tool: &Tool, verb: &Verb, given: &[String], invalid: &Invalid) -> Failure {
    Failure::bare(
        invalid.code(),
        format!(
            "Error (argument validation): {invalid}\nArguments given:\n\t{}\n{}",
            given.join(" "),
            usage::base(tool, verb)
        ),
    )
}

#[cfg(test)]
mod tests;
