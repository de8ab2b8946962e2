//! The options of the log.

use super::{Draft, fits};
use crate::config::kind::Kind;
use crate::config::logging::{Category, FACILITIES, Formatter, Transport};
use crate::config::option::{ConfigOption, row};
use crate::config::units::Level;

const LEAST: &str = "The least level logged there; `log.default.level` when not set.";
const FORMATTERS: &[&str] = &["plaintext", "json"];
const FORM: &str = "The form of its lines: text, or an object with the keys `time`, `level`, `msg`, `domain` and \
                    what else is known.";
/// The level and the form of what goes to a place.
macro_rules! place {
    ($name:literal, $($place:ident).+) => {
        &[
            row(
                concat!("log.", $name, ".level"),
                Kind::Level(|d, v| d.log.$($place).+.level = Some(v)),
                LEAST,
            ),
            row(
                concat!("log.", $name, ".formatter = plaintext"),
                Kind::Word(FORMATTERS, |d, v| d.log.$($place).+.formatter = formatter(v)),
                FORM,
            ),
        ]
    };
}
const OF_CATEGORY: &str = "The least level of lines about this; `log.default.level` when not set.";

fn formatter(word: &str) -> Formatter {
    if word == "json" { Formatter::Json } else { Formatter::Plain }
}

/// Every option of the log that Leveret acts on.
pub(in crate::config) const OPTIONS: &[&[ConfigOption]] = &[
    &[row(
        "log.console = true",
        Kind::Flag(|d, v| d.log.console.is_on = v),
        "Log to standard error.",
    )],
    place!("console", console.place),
    &[
        row(
            "log.file = false",
            Kind::FileOrFalse(|d, v| d.log.path = Some(v)),
            "Log to this file. A relative path is inside `log.dir`, or the data directory. After it was moved \
         away SIGHUP or `leveret ctl rotate_logs` begins a new one.",
        ),
        row(
            "log.dir",
            Kind::Text(|d, v| d.log.dir = Some(v.into())),
            "The directory of the log file; the data directory when not set. If it is set and `log.file` is \
         not, the file has the node's name, as in `rabbit@host.log`.",
        ),
    ],
    place!("file", file),
    &[
        row(
            "log.file.rotation.size = 0",
            Kind::ByteSize(0..=u64::MAX, |d, v| d.log.rotation.bytes = v),
            "A file of this size moves itself away: `log` becomes `log.0`, `log.0` becomes `log.1`. 0 is never.",
        ),
        row(
            "log.file.rotation.date",
            Kind::Period(|d, v| d.log.rotation.period = v),
            "When a file moves itself away, in UTC, with the first line after that: `$D0` each day at midnight, \
         `$H30` each hour, 30 minutes past, `$W0D23` each Sunday at 23, `$M1D0` each first of a month.",
        ),
        row(
            "log.file.rotation.count = 10",
            Kind::Integer(0..=1_000, "", |d, v| d.log.rotation.count = v),
            "Old files that are kept.",
        ),
        row(
            "log.file.rotation.compress = false",
            Kind::Flag(|d, v| d.log.rotation.compress = v),
            "Whether old files are compressed, as `log.0.gz`.",
        ),
        row(
            "log.exchange = false",
            Kind::Flag(|d, v| d.log.exchange.is_on = v),
            "Publish the log to the exchange `amq.rabbitmq.log` of the virtual host `default_vhost`, a message for \
         each line, with its level as the routing key: `debug`, `info`, `warning` or `error`. Lines that no \
         queue is bound for and nobody watches, and those beyond 1 MiB that wait, are not published.",
        ),
    ],
    place!("exchange", exchange.place),
    &[row(
        "log.syslog = false",
        Kind::Flag(|d, v| d.log.syslog.is_on = v),
        "Log to a syslog server. While it cannot be reached lines are lost.",
    )],
    place!("syslog", syslog.place),
    &[
        row(
            "log.syslog.host = localhost",
            Kind::Text(|d, v| v.clone_into(&mut d.log.syslog_settings.host)),
            "The server's name or address.",
        )
        .also("log.syslog.ip"),
        row(
            "log.syslog.port = 514",
            Kind::Integer(1..=65_535, "", |d, v| d.log.syslog_settings.port = fits(v)),
            "The server's port.",
        ),
        row(
            "log.syslog.transport = udp",
            Kind::Word(&Transport::NAMES, |d, v| {
                d.log.syslog_settings.transport = Transport::of_name(v).unwrap_or_default()
            }),
            "How lines go to the server. With `tls` the keys of `ssl_options` count that stand behind `log.syslog`, as in \
         `log.syslog.ssl_options.cacertfile`: the server's certificate has to be issued by one of these \
         authorities, for its name, unless `log.syslog.ssl_options.verify = verify_none`.",
        ),
        row(
            "log.syslog.protocol = rfc3164",
            Kind::Word(&["rfc3164", "rfc5424"], |d, v| {
                d.log.syslog_settings.is_rfc5424 = v == "rfc5424"
            }),
            "The form of what is sent.",
        ),
        row(
            "log.syslog.facility = daemon",
            Kind::Word(&FACILITIES, |d, v| {
                let number = FACILITIES.iter().position(|known| *known == v);
                d.log.syslog_settings.facility = number.unwrap_or_default();
            }),
            "The kind of program that lines come from.",
        ),
        row(
            "log.syslog.identity = rabbitmq-server",
            Kind::Text(|d, v| v.clone_into(&mut d.log.syslog_settings.identity)),
            "The name of the program that lines come from.",
        ),
        row(
            "log.journald = false",
            Kind::Flag(|d, v| d.log.journald.target.is_on = v),
            "Log to systemd's journal, besides what it has of standard error.",
        ),
        row(
            "log.journald.level",
            Kind::Level(|d, v| d.log.journald.target.place.level = Some(v)),
            LEAST,
        ),
        row(
            "log.journald.fields = SYSLOG_IDENTIFIER=\"leveret\" priority RABBITMQ_DOMAIN=domain",
            Kind::Text(|d, v| d.log.journald.fields = Some(v.to_owned())),
            "The fields of an entry besides `MESSAGE`: `NAME=\"text\"`, `NAME=what` or `what` alone, of `priority`, \
         `level`, `domain`, `time` (`syslog_timestamp`), `pid` (`syslog_pid`) and what a line says besides its \
         text, such as `connection`, `queue` or `vhost`. Lines have no `file`, `line` or `mfa`.",
        ),
        row(
            "otel.endpoint = none",
            Kind::TextOrNone(|d, v| d.config.messages.otel.endpoint = v.map(str::to_owned)),
            "The address of a collector of OpenTelemetry, as `http://host:4318`: it is sent figures, and spans of \
         messages with a sampled `traceparent` header, as OTLP in JSON over HTTP. Leveret's own key.",
        ),
        row(
            "otel.interval = 10",
            Kind::Integer(1..=3_600, "seconds", |d, v| d.config.messages.otel.interval_s = v),
            "The time between two sendings of figures. Leveret's own key.",
        ),
        row(
            "otel.sample_new",
            Kind::Ratio(|d, v| d.config.messages.otel.sample_new = v),
            "The share of messages without such a header that are given one, with a trace of their own. Leveret's \
         own key.",
        ),
        row(
            "log.default.level = info",
            Kind::Level(|d, v| d.log.default_level = v),
            "The least level logged where nothing else is said.",
        ),
        row(
            "log.connection.level",
            Kind::Level(|d, v| set(d, Category::Connection, v)),
            OF_CATEGORY,
        ),
        row("log.channel.level", Kind::Level(|d, v| set(d, Category::Channel, v)), OF_CATEGORY),
        row("log.queue.level", Kind::Level(|d, v| set(d, Category::Queue, v)), OF_CATEGORY),
    ],
];

fn set(draft: &mut Draft, category: Category, level: Level) {
    draft.log.categories.insert(category, level);
}
