//! The load tool for AMQP 1.0, with omq's options ([`LOAD`]): publishers and consumers whose connections are
//! driven as those of AMQP 0-9-1 are, or which are such.
//! Start reading at `config` for what is asked for, then `client` and `session` for how it is done.

pub(crate) mod client;
mod config;
pub(crate) mod links;
pub(crate) mod session;
pub(crate) mod transfer;

use crate::{Outcome, Tool};

/// The end of the help.
const NOTES: &str = "\
Filters and rates are of AMQP 1.0's consumers. Queues are declared over AMQP 0-9-1.
Exit codes: 0 success, 1 failed or --verify found an error, 2 usage, 3 no broker.
";

/// The load tool.
pub(crate) const LOAD: Tool = Tool {
    name: "leveret perf amqp10",
    about: "Generate load over AMQP 1.0, with the options of omq",
    options: include_str!("amqp10/options.txt"),
    notes: NOTES,
    run: |given| {
        let config = config::config(given)?;
        Ok(Outcome { end: crate::run::run(&config), format: config.run.format })
    },
};
