//! The load tool for streams: publishers and consumers of the stream protocol with stream-perf-test's
//! options ([`run()`]), and the filler of streams with chunks of an exact size ([`fill()`]).
//! Start reading at `config` for what is asked for, then `setup` and `connection` for how it is done.

mod client;
mod config;
mod connection;
mod consumer;
mod fill;
mod message;
mod one_by_one;
mod options;
mod producer;
mod run;
mod setup;
mod super_stream;
mod topology;
mod unconfirmed;

pub(crate) use fill::fill;
pub use one_by_one::OneByOne;
pub(crate) use run::run;

use crate::options::command_help;
use command_help::CommandHelp;

/// The tools for streams, with their options.
pub(crate) fn commands() -> Vec<CommandHelp> {
    let load = "Generate load on streams, with the options of stream-perf-test";
    let fill = "Create streams and fill them with chunks of an exact size";
    vec![
        command_help("leveret perf stream", load, options::OPTIONS),
        command_help("leveret perf stream-fill", fill, options::FILL_OPTIONS),
    ]
}
