//! The options of the log.

use super::{Draft, fits};
use crate::config::kind::Kind;
use crate::config::logging::{Category, FACILITIES, Formatter, Transport};
use crate::config::option::{ConfigOption, row};
use crate::config::units::Level;

const LEAST: &str = "Minimum level logged there; `log.default.level` when unset.";
const FORMATTERS: &[&str] = &["plaintext", "json"];
const FORM: &str = "Format of log lines: text, or JSON objects with `time`, `level`, `msg`, `domain` and further \
                    fields.";
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
const OF_CATEGORY: &str = "Minimum level of this category; `log.default.level` when unset.";

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
            "Log file, relative to `log.dir` or the data directory. After moving the file, SIGHUP or \
         `leveret ctl rotate_logs` starts a new one.",
        ),
        row(
            "log.dir",
            Kind::Text(|d, v| d.log.dir = Some(v.into())),
            "Directory of the log file; the data directory when unset. If `log.file` is unset, the file is named \
         after the node, as in `rabbit@host.log`.",
        ),
    ],
    place!("file", file),
    &[
        row(
            "log.file.rotation.size = 0",
            Kind::ByteSize(0..=u64::MAX, |d, v| d.log.rotation.bytes = v),
            "Size at which a log file is rotated: `log` becomes `log.0`, `log.0` becomes `log.1`. 0: never.",
        ),
        row(
            "log.file.rotation.date",
            Kind::Period(|d, v| d.log.rotation.period = v),
            "Time at which a log file is rotated, in UTC, with the next line: `$D0` daily at midnight, `$H30` \
         hourly at half past, `$W0D23` on Sundays at 23:00, `$M1D0` on the first of each month.",
        ),
        row(
            "log.file.rotation.count = 10",
            Kind::Integer(0..=1_000, "", |d, v| d.log.rotation.count = v),
            "Number of rotated files to keep.",
        ),
        row(
            "log.file.rotation.compress = false",
            Kind::Flag(|d, v| d.log.rotation.compress = v),
            "Compress rotated files, as `log.0.gz`.",
        ),
        row(
            "log.exchange = false",
            Kind::Flag(|d, v| d.log.exchange.is_on = v),
            "Publish each log line to the exchange `amq.rabbitmq.log` of the virtual host `default_vhost`, with its \
         level as routing key: `debug`, `info`, `warning` or `error`. Lines without a bound queue, and lines \
         beyond 1 MiB of unpublished ones, are dropped.",
        ),
    ],
    place!("exchange", exchange.place),
    &[row(
        "log.syslog = false",
        Kind::Flag(|d, v| d.log.syslog.is_on = v),
        "Log to a syslog server. Lines are lost while it is unreachable.",
    )],
    place!("syslog", syslog.place),
    &[
        row(
            "log.syslog.host = localhost",
            Kind::Text(|d, v| v.clone_into(&mut d.log.syslog_settings.host)),
            "Host name or address of the syslog server.",
        )
        .also("log.syslog.ip"),
        row(
            "log.syslog.port = 514",
            Kind::Integer(1..=65_535, "", |d, v| d.log.syslog_settings.port = fits(v)),
            "Port of the syslog server.",
        ),
        row(
            "log.syslog.transport = udp",
            Kind::Word(&Transport::NAMES, |d, v| {
                d.log.syslog_settings.transport = Transport::of_name(v).unwrap_or_default()
            }),
            "Transport to the syslog server. `tls` uses the keys `log.syslog.ssl_options.*`, such as `cacertfile`: the \
         server's certificate must be issued by one of these CAs, for its host name, unless \
         `log.syslog.ssl_options.verify = verify_none`.",
        ),
        row(
            "log.syslog.protocol = rfc3164",
            Kind::Word(&["rfc3164", "rfc5424"], |d, v| {
                d.log.syslog_settings.is_rfc5424 = v == "rfc5424"
            }),
            "Syslog message format.",
        ),
        row(
            "log.syslog.facility = daemon",
            Kind::Word(&FACILITIES, |d, v| {
                let number = FACILITIES.iter().position(|known| *known == v);
                d.log.syslog_settings.facility = number.unwrap_or_default();
            }),
            "Syslog facility.",
        ),
        row(
            "log.syslog.identity = rabbitmq-server",
            Kind::Text(|d, v| v.clone_into(&mut d.log.syslog_settings.identity)),
            "Syslog application name.",
        ),
        row(
            "log.journald = false",
            Kind::Flag(|d, v| d.log.journald.target.is_on = v),
            "Log to systemd's journal directly, in addition to standard error.",
        ),
        row(
            "log.journald.level",
            Kind::Level(|d, v| d.log.journald.target.place.level = Some(v)),
            LEAST,
        ),
        row(
            "log.journald.fields = SYSLOG_IDENTIFIER=\"leveret\" priority RABBITMQ_DOMAIN=domain",
            Kind::Text(|d, v| d.log.journald.fields = Some(v.to_owned())),
            "Fields of a journal entry besides `MESSAGE`: `NAME=\"text\"`, `NAME=field` or `field`, where `field` is \
         `priority`, `level`, `domain`, `time` (`syslog_timestamp`), `pid` (`syslog_pid`) or a field of the \
         line, such as `connection`, `queue` or `vhost`. `file`, `line` and `mfa` are not available.",
        ),
        row(
            "otel.endpoint = none",
            Kind::TextOrNone(|d, v| d.config.messages.otel.endpoint = v.map(str::to_owned)),
            "OpenTelemetry collector, as `http://host:4318`, that gets metrics, and spans of messages with a \
         sampled `traceparent` header, as OTLP in JSON over HTTP. Leveret's own key.",
        ),
        row(
            "otel.interval = 10",
            Kind::Integer(1..=3_600, "seconds", |d, v| d.config.messages.otel.interval_s = v),
            "Interval between exports of metrics. Leveret's own key.",
        ),
        row(
            "otel.sample_new",
            Kind::Ratio(|d, v| d.config.messages.otel.sample_new = v),
            "Share of messages without a `traceparent` header for which a new trace is started. Leveret's own key.",
        ),
        row(
            "log.default.level = info",
            Kind::Level(|d, v| d.log.default_level = v),
            "Default minimum log level.",
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
