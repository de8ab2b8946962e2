//! The table of options as text for a terminal, as a page of the documentation, and as a sample file.

use std::fmt::Write as _;

use super::environment::{Effect, VARIABLES, Variable};
use super::known;
use super::option::ConfigOption;
use super::options;
use stdx::words;

/// The groups of options on the page of the documentation and in the sample file: the first key of each,
/// and its title.
const GROUPS: &[(&str, &str)] = &[
    ("listeners.tcp", "Listeners and sockets"),
    ("handshake_timeout", "AMQP 0-9-1 and AMQP 1.0"),
    ("stream.listeners.tcp", "Stream protocol"),
    ("max_connections", "Limits"),
    ("deprecated_features.permit.$name", "Deprecated features"),
    ("auth_mechanisms.$name", "Logins and passwords"),
    ("default_vhost", "First start"),
    ("consumer_timeout", "Consumers"),
    ("message_interceptors.incoming.set_header_timestamp.overwrite", "Message interceptors"),
    ("event_exchange.vhost", "Event exchange"),
    ("default_limits.vhosts.$id.pattern", "New virtual hosts"),
    ("load_definitions", "Definitions"),
    ("vm_memory_high_watermark.relative", "Memory and disk alarms"),
    ("queue_index_embed_msgs_below", "Queues and storage"),
    ("log.console", "Log"),
    ("cluster_name", "Node"),
    ("distribution.listener.port_range.min", "Other nodes"),
    ("listeners.ssl", "TLS"),
    ("management.enabled", "HTTP API and Prometheus"),
];

const EXPECT: &str = "writing to a String does not fail";

/// The text of `leveret server --help-config`.
pub(crate) fn help_text() -> String {
    let mut out = String::new();
    for option in options::all() {
        writeln!(out, "{}", option.line).expect(EXPECT);
        if let Some(alias) = option.alias {
            writeln!(out, "    Alias: `{alias}`.").expect(EXPECT);
        }
        writeln!(out, "    {}\n    Takes {}.\n", option.doc, option.kind.expects()).expect(EXPECT);
    }
    out
}

/// The page `docs/configuration.md`.
pub(crate) fn markdown() -> String {
    let mut out = String::from(HEAD);
    for (_, title) in GROUPS {
        let anchor = title.to_lowercase().replace(' ', "-").replace('.', "");
        writeln!(out, "- [{title}](#{anchor})").expect(EXPECT);
    }
    out.push_str("- [Keys without effect](#keys-without-effect)\n");
    out.push_str("- [Environment variables](#environment-variables)\n");
    for option in options::all() {
        if let Some(title) = group_begun_by(option) {
            writeln!(out, "\n## {title}").expect(EXPECT);
        }
        write_section(&mut out, option);
    }
    out.push_str(WITHOUT_EFFECT);
    for (keys, why) in known::WITHOUT_EFFECT {
        let keys: Vec<String> = words(keys).map(|key| format!("`{}`", shown_start(key))).collect();
        writeln!(out, "| {} | {why} |", keys.join(", ")).expect(EXPECT);
    }
    out.push_str(ENVIRONMENT);
    for variable in VARIABLES {
        write_variable(&mut out, variable);
    }
    out
}

/// A start of keys, as a pattern.
fn shown_start(key: &str) -> String {
    let is_whole = key.ends_with(|last: char| last.is_ascii_alphanumeric());
    format!("{key}{}", if is_whole { "" } else { "*" })
}

fn write_variable(out: &mut String, variable: &Variable) {
    let Variable { name, effect, doc } = variable;
    let effect = match effect {
        Effect::Setting(key) => format!("`{key}`: {doc}"),
        Effect::Read => (*doc).to_owned(),
        Effect::Nothing => format!("none, with a warning: {doc}"),
        Effect::Retired => "the node does not start: use a configuration file".to_owned(),
    };
    writeln!(out, "| `{name}` | {effect} |").expect(EXPECT);
}

/// The file `docs/rabbitmq.conf.example`: every option, commented out.
pub(crate) fn sample() -> String {
    let mut out = String::from(SAMPLE_HEAD);
    for option in options::all() {
        if let Some(title) = group_begun_by(option) {
            writeln!(out, "\n\n## ---- {title} ----").expect(EXPECT);
        }
        write_sample(&mut out, option);
    }
    out
}

/// The title of the group whose first option this is.
fn group_begun_by(option: &ConfigOption) -> Option<&'static str> {
    GROUPS.iter().find(|(first, _)| *first == option.key()).map(|(_, title)| *title)
}

fn write_sample(out: &mut String, option: &ConfigOption) {
    out.push_str("\n##");
    let mut width = 2;
    let takes = format!("Value: {}.", option.kind.expects());
    for word in option.doc.split_whitespace().chain(takes.split_whitespace()) {
        if width + word.len() >= SAMPLE_COLUMNS {
            out.push_str("\n##");
            width = 2;
        }
        write!(out, " {word}").expect(EXPECT);
        width += word.len() + 1;
    }
    let line = format!("# {} = {}", option.key(), option.default());
    writeln!(out, "\n{}", line.trim_end()).expect(EXPECT);
}

fn write_section(out: &mut String, option: &ConfigOption) {
    writeln!(out, "\n### `{}`\n\n{}\n", option.key(), option.doc).expect(EXPECT);
    writeln!(out, "- Value: {}.", option.kind.expects()).expect(EXPECT);
    if !option.default().is_empty() {
        writeln!(out, "- Default: `{}`.", option.default()).expect(EXPECT);
    }
    if let Some(alias) = option.alias {
        writeln!(out, "- Alias: `{alias}`.").expect(EXPECT);
    }
}

const HEAD: &str = "\
<!-- Generated by `cargo xtask docs` from crates/node/src/config/options.rs. Do not edit. -->
# Configuration

Leveret reads RabbitMQ's `rabbitmq.conf` format and key names:

```
leveret server --config /etc/leveret/rabbitmq.conf --data-dir /var/lib/leveret --set heartbeat=30
```

- One `key = value` per line. `#` starts a comment; quote a value with `'` if it contains `#` or starts or
  ends with a space. A dot within a name is written `\\.`.
- `--config` may be repeated; a directory means its `*.conf` files, sorted. The last setting of a key
  applies; `--set` overrides all files.
- Keys of RabbitMQ that Leveret does not support yet are accepted with a warning in the log. Any other
  key is an error that names the line and the closest key.
- Encrypted values (`encrypted:...`), `include` and `$(...)` are rejected.

[`rabbitmq.conf.example`](rabbitmq.conf.example) lists every option with its default, commented out.

";

const WITHOUT_EFFECT: &str = "
## Keys without effect

Keys of RabbitMQ that are accepted with a warning and have no effect.

| keys | why |
|---|---|
";

const ENVIRONMENT: &str = "
## Environment variables

Variables of RabbitMQ and of its image. Arguments override variables, and variables override files. An empty
variable is unset. The tools use the same variables to find the node.

| variable | effect |
|---|---|
";

/// Width of the sample file's comments.
const SAMPLE_COLUMNS: usize = 100;

const SAMPLE_HEAD: &str = "\
## Leveret's options, each commented out with its default. In a key, $name and the like stand for a
## name of your own. `leveret server --check-config` reports the errors of a changed file.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_docs_page_is_fresh() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == markdown(), "docs/configuration.md is stale: run `cargo xtask docs`");
    }

    #[test]
    fn the_sample_file_is_fresh() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rabbitmq.conf.example");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        let stale = "docs/rabbitmq.conf.example is stale: run `cargo xtask docs`";
        assert!(committed == sample(), "{stale}");
    }

    #[test]
    fn every_group_begins_with_an_option() {
        for (first, title) in GROUPS {
            assert!(options::all().any(|option| option.key() == *first), "{title}");
        }
    }

    #[test]
    fn the_help_text_has_every_option() {
        let help = help_text();
        for option in options::all() {
            assert!(help.lines().any(|line| line.starts_with(option.key())), "{}", option.key());
        }
    }
}
