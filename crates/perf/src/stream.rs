//! The load tool for streams: publishers and consumers of the stream protocol with stream-perf-test's
//! options ([`LOAD`]), and the filler of streams with chunks of an exact size ([`FILL`]).
//! Start reading at `config` for what is asked for, then `setup` and `connection` for how it is done.

mod client;
mod config;
mod connection;
mod consumer;
mod fill;
mod message;
mod one_by_one;
mod producer;
mod run;
mod setup;
mod super_stream;
mod topology;
mod unconfirmed;

pub use one_by_one::OneByOne;

use crate::{Outcome, Tool};

/// The load tool.
pub(crate) const LOAD: Tool = Tool {
    name: "leveret perf stream",
    about: "Generate load on streams, with the options of stream-perf-test",
    options: include_str!("stream/options.txt"),
    notes: "",
    run: |given| {
        let config = config::Config::new(given)?;
        Ok(Outcome { end: run::run(&config), format: config.run.format })
    },
};

/// The filler.
pub(crate) const FILL: Tool = Tool {
    name: "leveret perf stream-fill",
    about: "Create streams and fill them with chunks of an exact size",
    options: include_str!("stream/fill.txt"),
    notes: "",
    run: |given| {
        let fill = fill::Fill::new(given)?;
        Ok(Outcome { end: fill.run(), format: fill.format })
    },
};
