//! The options of the log.

use super::{Draft, fits};
use crate::config::logging::{Category, FACILITIES, Formatter, Transport};
use crate::config::option::{ConfigOption, options};
use crate::config::units::Level;

const LEAST: &str = "Minimum level logged there; `log.default.level` when unset.";
const FORMATTERS: &[&str] = &["plaintext", "json"];
const FORM: &str = "Format of log lines: text, or JSON objects with `time`, `level`, `msg`, `domain` and further \
                    fields.";
/// The level and the form of what goes to a place.
macro_rules! place {
    ($name:literal, $($place:ident).+) => {
        options! {
            concat!("log.", $name, ".level") => Level(|d, v| d.log.$($place).+.level = Some(v)), LEAST;
            concat!("log.", $name, ".formatter = plaintext") =>
                Word(FORMATTERS, |d, v| d.log.$($place).+.formatter = formatter(v)), FORM;
        }
    };
}
const OF_CATEGORY: &str = "Minimum level of this category; `log.default.level` when unset.";

fn formatter(word: &str) -> Formatter {
    if word == "json" { Formatter::Json } else { Formatter::Plain }
}

/// Every option of the log that Leveret acts on.
pub(in crate::config) const OPTIONS: &[&[ConfigOption]] = &[
    options! {
        "log.console = true" => Flag(|d, v| d.log.console.is_on = v), "Log to standard error.";
    },
    place!("console", console.place),
    options! {
        "log.file = false" => FileOrFalse(|d, v| d.log.path = Some(v)),
            "Log file, relative to `log.dir` or the data directory. After moving the file, SIGHUP or \
             `leveret ctl rotate_logs` starts a new one.";
        "log.dir" => Text(|d, v| d.log.dir = Some(v.into())),
            "Directory of the log file; the data directory when unset. If `log.file` is unset, the file is \
             named after the node, as in `rabbit@host.log`.";
    },
    place!("file", file),
    options! {
        "log.file.rotation.size = 0" => ByteSize(0..=u64::MAX, |d, v| d.log.rotation.bytes = v),
            "Size at which a log file is rotated: `log` becomes `log.0`, `log.0` becomes `log.1`. 0: \
             never.";
        "log.file.rotation.date" => Period(|d, v| d.log.rotation.period = v),
            "Time at which a log file is rotated, in UTC, with the next line: `$D0` daily at midnight, \
             `$H30` hourly at half past, `$W0D23` on Sundays at 23:00, `$M1D0` on the first of each \
             month.";
        "log.file.rotation.count = 10" => Integer(0..=1_000, "", |d, v| d.log.rotation.count = v),
            "Number of rotated files to keep.";
        "log.file.rotation.compress = false" => Flag(|d, v| d.log.rotation.compress = v),
            "Compress rotated files, as `log.0.gz`.";
        "log.exchange = false" => Flag(|d, v| d.log.exchange.is_on = v),
            "Publish each log line to the exchange `amq.rabbitmq.log` of the virtual host `default_vhost`, \
             with its level as routing key: `debug`, `info`, `warning` or `error`. Lines without a bound \
             queue, and lines beyond 1 MiB of unpublished ones, are dropped.";
    },
    place!("exchange", exchange.place),
    options! {
        "log.syslog = false" => Flag(|d, v| d.log.syslog.is_on = v),
            "Log to a syslog server. Lines are lost while it is unreachable.";
    },
    place!("syslog", syslog.place),
    options! {
        "log.syslog.host = localhost", also "log.syslog.ip" =>
            Text(|d, v| v.clone_into(&mut d.log.syslog_settings.host)),
            "Host name or address of the syslog server.";
        "log.syslog.port = 514" => Integer(1..=65_535, "", |d, v| d.log.syslog_settings.port = fits(v)),
            "Port of the syslog server.";
        "log.syslog.transport = udp" => OneOf(Transport, log.syslog_settings.transport),
            "Transport to the syslog server. `tls` uses the keys `log.syslog.ssl_options.*`, such as \
             `cacertfile`: the server's certificate must be issued by one of these CAs, for its host name, \
             unless `log.syslog.ssl_options.verify = verify_none`.";
        "log.syslog.protocol = rfc3164" =>
            Word(&["rfc3164", "rfc5424"], |d, v| d.log.syslog_settings.is_rfc5424 = v == "rfc5424"),
            "Syslog message format.";
        "log.syslog.facility = daemon" => Word(&FACILITIES, |d, v| {
            let number = FACILITIES.iter().position(|known| *known == v);
            d.log.syslog_settings.facility = number.unwrap_or_default();
        }),
            "Syslog facility.";
        "log.syslog.identity = rabbitmq-server" =>
            Text(|d, v| v.clone_into(&mut d.log.syslog_settings.identity)),
            "Syslog application name.";
        "log.journald = false" => Flag(|d, v| d.log.journald.target.is_on = v),
            "Log to systemd's journal directly, in addition to standard error.";
        "log.journald.level" => Level(|d, v| d.log.journald.target.place.level = Some(v)), LEAST;
        "log.journald.fields = SYSLOG_IDENTIFIER=\"leveret\" priority RABBITMQ_DOMAIN=domain" =>
            Text(|d, v| d.log.journald.fields = Some(v.to_owned())),
            "Fields of a journal entry besides `MESSAGE`: `NAME=\"text\"`, `NAME=field` or `field`, where \
             `field` is `priority`, `level`, `domain`, `time` (`syslog_timestamp`), `pid` (`syslog_pid`) \
             or a field of the line, such as `connection`, `queue` or `vhost`. `file`, `line` and `mfa` \
             are not available.";
        "otel.endpoint = none" => TextOrNone(|d, v| d.config.messages.otel.endpoint = v.map(str::to_owned)),
            "OpenTelemetry collector, as `http://host:4318`, that gets metrics, and spans of messages with \
             a sampled `traceparent` header, as OTLP in JSON over HTTP. Leveret's own key.";
        "otel.interval = 10" => Integer(1..=3_600, "seconds", |d, v| d.config.messages.otel.interval_s = v),
            "Interval between exports of metrics. Leveret's own key.";
        "otel.sample_new" => Ratio(|d, v| d.config.messages.otel.sample_new = v),
            "Share of messages without a `traceparent` header for which a new trace is started. Leveret's \
             own key.";
        "log.default.level = info" => Level(|d, v| d.log.default_level = v), "Default minimum log level.";
        "log.connection.level" => Level(|d, v| set(d, Category::Connection, v)), OF_CATEGORY;
        "log.channel.level" => Level(|d, v| set(d, Category::Channel, v)), OF_CATEGORY;
        "log.queue.level" => Level(|d, v| set(d, Category::Queue, v)), OF_CATEGORY;
    },
];

fn set(draft: &mut Draft, category: Category, level: Level) {
    draft.log.categories.insert(category, level);
}
