//! RabbitMQ's files of Erlang terms, `advanced.config` and `rabbitmq.config`, as settings of `rabbitmq.conf`:
//! `[{rabbit, [{heartbeat, 60}]}].` is `heartbeat = 60`. Yields settings with their place; knows nothing of
//! what the keys mean.

use super::syntax::{ParsedLine, Place, Setting, SyntaxError};
use std::path::Path;

/// Longest file that is read.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 20;
/// Deepest nesting of lists and tuples.
const DEPTH_MAX: usize = 64;

/// A term, as far as a configuration has such.
#[derive(Clone, Debug, PartialEq)]
enum Term {
    Atom(String),
    /// A string or a binary.
    Text(String),
    /// A number, as it is written in decimal.
    Number(String),
    List(Vec<Self>),
    /// A tuple, with the line that it begins in.
    Tuple(Vec<Self>, usize),
}

/// Keys that have other names in `rabbitmq.conf`, by what they begin with; the first that fits counts.
const RENAMED: &[(&str, &str)] = &[
    ("rabbit.tcp_listeners", "listeners.tcp"),
    ("rabbit.ssl_listeners", "listeners.ssl"),
    ("rabbit.permit_deprecated_features", "deprecated_features.permit"),
    ("rabbit.default_consumer_prefetch", "rabbit.default_consumer_prefetch"),
    ("rabbit.default_consumer_prefetch_of_channel", "rabbit.default_consumer_prefetch_of_channel"),
    ("rabbit.queue_index_max_journal_entries", "rabbit.queue_index_max_journal_entries"),
    ("rabbit.local_random_exchange_enabled", "exchange_types.local_random.enabled"),
    ("rabbit.", ""),
    ("rabbitmq_management.listener.cowboy_opts", "management.listener.server"),
    ("rabbitmq_management.tcp_config.cowboy_opts", "management.tcp"),
    ("rabbitmq_management.tcp_config", "management.tcp"),
    ("rabbitmq_management.ssl_config.cowboy_opts", "management.ssl"),
    ("rabbitmq_management.ssl_config", "management.ssl"),
    ("rabbitmq_management.max_http_body_size", "management.http.max_body_size"),
    ("rabbitmq_management.disable_management_stats", "management.disable_stats"),
    ("rabbitmq_management.cors_allow_origins", "management.cors.allow_origins"),
    ("rabbitmq_management.cors_max_age", "management.cors.max_age"),
    ("rabbitmq_management.content_security_policy", "management.csp.policy"),
    ("rabbitmq_management.strict_transport_security", "management.hsts.policy"),
    ("rabbitmq_management.", "management."),
    ("rabbitmq_prometheus.tcp_config.cowboy_opts", "prometheus.tcp"),
    ("rabbitmq_prometheus.tcp_config", "prometheus.tcp"),
    ("rabbitmq_prometheus.ssl_config.cowboy_opts", "prometheus.ssl"),
    ("rabbitmq_prometheus.ssl_config.ssl_opts", "prometheus.ssl"),
    ("rabbitmq_prometheus.ssl_config", "prometheus.ssl"),
    ("rabbitmq_prometheus.", "prometheus."),
    ("rabbitmq_stream.tcp_listeners", "stream.listeners.tcp"),
    ("rabbitmq_stream.ssl_listeners", "stream.listeners.ssl"),
    ("rabbitmq_stream.", "stream."),
];

/// Lists whose items are flags of that name.
const FLAGS: [&str; 2] = ["loopback_users", "default_user_tags"];

/// Parses a whole file, its settings in order and at most one error. `path` only says where they stand.
pub(super) fn parse_file(path: &Path, text: &str) -> Vec<ParsedLine> {
    let mut terms = Terms { rest: text, line: 1 };
    let place = |line| Place::Line(path.to_owned(), line);
    let applications = match terms.file() {
        Ok(Term::List(applications)) => applications,
        Ok(_) => {
            return vec![Err((place(1), SyntaxError::Term("a list of applications is expected")))];
        }
        Err(reason) => return vec![Err((place(terms.line), SyntaxError::Term(reason)))],
    };
    let mut settings = Vec::new();
    for application in &applications {
        flatten(application, String::new(), 1, &mut |key, value, line| {
            let key = renamed(&key).split('.').map(str::to_owned).collect();
            settings.push(Ok(Setting { key, value, place: place(line) }));
        });
    }
    settings
}

fn renamed(key: &str) -> String {
    let fits = |(from, to): &(&str, &str)| {
        let rest = key.strip_prefix(from)?;
        (from.ends_with('.') || rest.is_empty() || rest.starts_with('.'))
            .then(|| format!("{to}{rest}"))
    };
    RENAMED.iter().find_map(fits).unwrap_or_else(|| key.to_owned())
}

/// Takes a term apart into keys and values. The items of a list have numbers in the place of names.
fn flatten(term: &Term, key: String, line: usize, put: &mut dyn FnMut(String, String, usize)) {
    let last = key.rsplit('.').next().unwrap_or_default().to_owned();
    let below = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    match term {
        // COMPAT: a value that is not set; of this key it means never.
        Term::Atom(value) if value == "undefined" => {
            if last == "consumer_timeout" {
                put(key, "infinity".to_owned(), line);
            }
        }
        Term::Atom(value) | Term::Text(value) | Term::Number(value) => put(
            match (last.as_str(), matches!(term, Term::Number(_))) {
                ("vm_memory_high_watermark", true) => below("relative"),
                ("disk_free_limit" | "vm_memory_high_watermark", _) => below("absolute"),
                _ => key,
            },
            value.clone(),
            line,
        ),
        Term::List(items) if items.is_empty() => put(key, "none".to_owned(), line),
        Term::List(items) if last == "default_permissions" => {
            for (name, item) in ["configure", "write", "read"].into_iter().zip(items) {
                flatten(item, below(name), line, put);
            }
        }
        Term::List(items) => {
            for (at, item) in items.iter().enumerate() {
                let pair =
                    matches!(item, Term::Tuple(pair, _) if matches!(pair[..], [Term::Atom(_), _]));
                if let Term::Atom(name) | Term::Text(name) = item
                    && FLAGS.contains(&last.as_str())
                {
                    put(below(name), "true".to_owned(), line);
                } else if pair {
                    flatten(item, key.clone(), line, put);
                } else {
                    flatten(item, below(&(at + 1).to_string()), line, put);
                }
            }
        }
        Term::Tuple(items, line) => match &items[..] {
            // The address of a listener.
            [Term::Text(host), Term::Number(port)] => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                put(key, format!("{host}:{port}"), *line);
            }
            [Term::Atom(global), Term::Number(number)] if last == "default_consumer_prefetch" => {
                if global == "true" {
                    put(format!("{key}_of_channel"), global.clone(), *line);
                }
                put(key, number.clone(), *line);
            }
            [Term::Atom(name), value] => {
                let name = if name == "mem_relative" { "relative" } else { name };
                flatten(value, below(name), *line, put);
            }
            _ => put(key, "a term".to_owned(), *line),
        },
    }
}

/// The reason why a text is no term.
type Reason = &'static str;

struct Terms<'t> {
    rest: &'t str,
    line: usize,
}

impl Terms<'_> {
    /// Parses a term with its full stop, and nothing behind it.
    fn file(&mut self) -> Result<Term, Reason> {
        self.skip();
        if self.rest.is_empty() {
            return Ok(Term::List(Vec::new()));
        }
        let term = self.term(DEPTH_MAX)?;
        self.expect('.', "a full stop is expected at the end")?;
        self.skip();
        if self.rest.is_empty() { Ok(term) } else { Err("only comments may follow the full stop") }
    }

    /// Skips blanks and comments.
    fn skip(&mut self) {
        loop {
            let rest = self.rest.trim_start();
            let blanks = self.rest.get(..self.rest.len() - rest.len()).unwrap_or_default();
            self.line += blanks.matches('\n').count();
            self.rest = rest;
            if !rest.starts_with('%') {
                return;
            }
            self.rest = rest.get(rest.find('\n').unwrap_or(rest.len())..).unwrap_or_default();
        }
    }

    fn take(&mut self, c: char) -> bool {
        self.skip();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, c: char, reason: Reason) -> Result<(), Reason> {
        if self.take(c) { Ok(()) } else { Err(reason) }
    }

    fn term(&mut self, depth: usize) -> Result<Term, Reason> {
        let depth = depth.checked_sub(1).ok_or("lists and tuples are nested too deeply")?;
        self.skip();
        let line = self.line;
        if self.take('[') {
            return self.items(']', depth).map(Term::List);
        }
        if self.take('{') {
            return self.items('}', depth).map(|items| Term::Tuple(items, line));
        }
        if let Some(rest) = self.rest.strip_prefix("#{") {
            self.rest = rest;
            return self.map(depth).map(Term::List);
        }
        if let Some(rest) = self.rest.strip_prefix("<<") {
            self.rest = rest;
            let text = if self.rest.trim_start().starts_with('"') {
                self.quoted('"')?
            } else {
                String::new()
            };
            self.skip();
            self.rest = self.rest.strip_prefix("/utf8").unwrap_or(self.rest);
            self.expect('>', "a binary ends with `>>`")?;
            return self.expect('>', "a binary ends with `>>`").map(|()| Term::Text(text));
        }
        match self.rest.chars().next() {
            Some('"') => self.quoted('"').map(Term::Text),
            Some('\'') => self.quoted('\'').map(Term::Atom),
            Some('a'..='z') => {
                Ok(Term::Atom(self.word(|c| c.is_alphanumeric() || matches!(c, '_' | '@'))))
            }
            Some('0'..='9' | '-' | '+') => self.number(),
            _ => Err("a term is expected: a list, a tuple, an atom, a text or a number"),
        }
    }

    fn items(&mut self, end: char, depth: usize) -> Result<Vec<Term>, Reason> {
        let mut items = Vec::new();
        if self.take(end) {
            return Ok(items);
        }
        loop {
            items.push(self.term(depth)?);
            if self.take(end) {
                return Ok(items);
            }
            self.expect(',', "a comma or a closing bracket is expected")?;
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Term>, Reason> {
        let mut items = Vec::new();
        while !self.take('}') {
            if !items.is_empty() {
                self.expect(',', "a comma or a closing bracket is expected")?;
            }
            let (key, line) = (self.term(depth)?, self.line);
            self.expect('=', "`=>` is expected behind the key of a map")?;
            self.expect('>', "`=>` is expected behind the key of a map")?;
            items.push(Term::Tuple(vec![key, self.term(depth)?], line));
        }
        Ok(items)
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    /// Parses a number. A point without a digit behind it is no fraction: it may be the full stop.
    fn number(&mut self) -> Result<Term, Reason> {
        let sign = self.word(|c| matches!(c, '-' | '+'));
        let mut number = self.word(|c| c.is_ascii_digit() || c == '_').replace('_', "");
        if let Some(rest) = self.rest.strip_prefix('#') {
            self.rest = rest;
            let base = number.parse().ok().filter(|base| (2..=36).contains(base));
            let base = base.ok_or("a number has no such base")?;
            let digits = self.word(|c| c.is_ascii_alphanumeric());
            let value =
                u64::from_str_radix(&digits, base).map_err(|_| "invalid number in its base")?;
            number = value.to_string();
        } else if let Some(rest) = self
            .rest
            .strip_prefix('.')
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        {
            self.rest = rest;
            number = format!("{number}.{}", self.word(|c| c.is_ascii_digit()));
        }
        if number.is_empty() {
            return Err("a number is expected behind its sign");
        }
        Ok(Term::Number(format!("{}{number}", sign.trim_start_matches('+'))))
    }

    /// Parses a text in quotation marks, or several one after the other.
    fn quoted(&mut self, mark: char) -> Result<String, Reason> {
        let mut text = String::new();
        while self.take(mark) {
            let mut chars = self.rest.char_indices();
            let end = loop {
                match chars.next() {
                    None => return Err("a text has no closing quotation mark"),
                    Some((at, c)) if c == mark => break at + c.len_utf8(),
                    Some((_, '\\')) => match chars.next().map(|(_, c)| c) {
                        Some('n') => text.push('\n'),
                        Some('t') => text.push('\t'),
                        Some('s') => text.push(' '),
                        Some(c) => text.push(c),
                        None => return Err("a text has no closing quotation mark"),
                    },
                    Some((_, c)) => text.push(c),
                }
            };
            let (read, rest) = self.rest.split_at(end);
            self.line += read.matches('\n').count();
            self.rest = rest;
            if mark == '\'' {
                break;
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let show = |line: ParsedLine| match line {
            Ok(Setting { key, value, place }) => format!("{place} {} = {value}", key.join(".")),
            Err((place, error)) => format!("{place} {error}"),
        };
        parse_file(Path::new("a"), text).into_iter().map(show).collect()
    }

    #[test]
    fn terms_are_settings() {
        let text = r#"
%% what the manual shows
[
  {rabbit, [
    {tcp_listeners, [5672, {"::1", 5673}]}, {heartbeat, 16#3C},
    {vm_memory_high_watermark, 0.4}, {disk_free_limit, {mem_relative, 1.5}},
    {loopback_users, [<<"guest">>, 'Root']}, {auth_mechanisms, ['PLAIN']},
    {default_permissions, [<<".*">>, <<"^w">>, <<"">>]},
    {ssl_options, [{certfile, "/a b.pem"}, {versions, ['tlsv1.2']}, {verify, verify_peer}]},
    {permit_deprecated_features, #{global_qos => true}},
    {default_consumer_prefetch, {true, 250}}, {consumer_timeout, undefined}, {channel_max, undefined}
  ]},
  {rabbitmq_management, [{listener, [{port, 1}, {ssl, false}, {cowboy_opts, [{compress, true}]}]},
                         {tcp_config, [{ip, "127.0.0.1"}]}]},
  {rabbitmq_stream, [{tcp_listeners, []}]}
]."#;
        assert_eq!(
            read(text),
            [
                "a:5 listeners.tcp.1 = 5672",
                "a:5 listeners.tcp.2 = [::1]:5673",
                "a:5 heartbeat = 60",
                "a:6 vm_memory_high_watermark.relative = 0.4",
                "a:6 disk_free_limit.relative = 1.5",
                "a:7 loopback_users.guest = true",
                "a:7 loopback_users.Root = true",
                "a:7 auth_mechanisms.1 = PLAIN",
                "a:8 default_permissions.configure = .*",
                "a:8 default_permissions.write = ^w",
                "a:8 default_permissions.read = ",
                "a:9 ssl_options.certfile = /a b.pem",
                "a:9 ssl_options.versions.1 = tlsv1.2",
                "a:9 ssl_options.verify = verify_peer",
                "a:10 deprecated_features.permit.global_qos = true",
                "a:11 rabbit.default_consumer_prefetch_of_channel = true",
                "a:11 rabbit.default_consumer_prefetch = 250",
                "a:11 consumer_timeout = infinity",
                "a:13 management.listener.port = 1",
                "a:13 management.listener.ssl = false",
                "a:13 management.listener.server.compress = true",
                "a:14 management.tcp.ip = 127.0.0.1",
                "a:15 stream.listeners.tcp = none",
            ]
        );
        assert_eq!(read("% nothing\n"), [""; 0]);
        assert_eq!(read("[].\n"), [""; 0]);
    }

    #[test]
    fn what_is_no_term_is_told_with_its_line() {
        let deep = format!("{}{}.", "[".repeat(100), "]".repeat(100));
        for (text, line, reason) in [
            ("[{rabbit, [{heartbeat, 60}]}]", 1, "full stop"),
            ("[\n{rabbit,\n [}].", 3, "a term is expected"),
            ("[\n{rabbit [}].", 2, "a comma"),
            ("[{a, \"b}].", 1, "no closing"),
            ("[{a, <<\"b\">}].", 1, "`>>`"),
            ("[{a, 99#1}].", 1, "base"),
            ("[]. x", 1, "only comments"),
            (&deep, 1, "nested too deeply"),
        ] {
            let told = read(text);
            assert!(
                told.len() == 1 && told[0].starts_with(&format!("a:{line} ")),
                "{text}: {told:?}"
            );
            assert!(told[0].contains(reason), "{text}: {told:?}");
        }
        for end in 0..40 {
            read("[{rabbit, [{heartbeat, 1.5}, {a, <<\"\\n\">>}]}].".get(..end).unwrap());
        }
    }
}
