//! RabbitMQ's environment variables: which are settings, which name files, which say nothing here, and
//! which keep a node from starting. `VARIABLES` is the list, of which the documentation is made too.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ctl::environment::Variables;

use super::syntax::{Place, Setting};
use super::units::LEVELS;

/// An environment variable of RabbitMQ, and its effect.
pub(super) struct Variable {
    pub(super) name: &'static str,
    pub(super) effect: Effect,
    /// The variable's effect, or why it has none, as part of a sentence.
    pub(super) doc: &'static str,
}

/// The effect of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The variable is the setting of this key.
    Setting(&'static str),
    /// The variable is read where it is needed.
    Read,
    /// The variable has no effect, which the log says.
    Nothing,
    /// The node does not start: RabbitMQ's image has dropped the variable, and what it asks for would be
    /// missing.
    Retired,
}

const fn setting(name: &'static str, key: &'static str, doc: &'static str) -> Variable {
    Variable { name, effect: Effect::Setting(key), doc }
}

const fn read(name: &'static str, doc: &'static str) -> Variable {
    Variable { name, effect: Effect::Read, doc }
}

const fn nothing(name: &'static str, doc: &'static str) -> Variable {
    Variable { name, effect: Effect::Nothing, doc }
}

const fn retired(name: &'static str) -> Variable {
    Variable { name, effect: Effect::Retired, doc: "" }
}

const NODE_PORT: &str = "RABBITMQ_NODE_PORT";
const NODE_ADDRESS: &str = "RABBITMQ_NODE_IP_ADDRESS";
const CONFIG_FILE: &str = "RABBITMQ_CONFIG_FILE";
const ADVANCED_FILE: &str = "RABBITMQ_ADVANCED_CONFIG_FILE";
const CONFIG_FILES: &str = "RABBITMQ_CONFIG_FILES";
const LOG_LEVELS: &str = "RABBITMQ_LOG";
const LOGS: &str = "RABBITMQ_LOGS";
const PLUGINS_FILE: &str = "RABBITMQ_ENABLED_PLUGINS_FILE";

const NO_ERLANG: &str = "Erlang is not used";
const NO_PLUGINS: &str = "plugins are built in or not supported";
const ONE_DIRECTORY: &str = "everything is in the data directory";

/// The variables that are looked at.
pub(super) const VARIABLES: &[Variable] = &[
    setting("RABBITMQ_DEFAULT_USER", "default_user", "the user created on the first start"),
    setting("RABBITMQ_DEFAULT_PASS", "default_pass", "the password of this user"),
    setting(
        "RABBITMQ_DEFAULT_VHOST",
        "default_vhost",
        "the virtual host created on the first start",
    ),
    read(NODE_PORT, "the port of `listeners.tcp.default`, replacing all `listeners.tcp` in files"),
    read(NODE_ADDRESS, "the address of this listener; all when unset or `auto`"),
    read("RABBITMQ_NODENAME", "the node name; `@` and the host name are appended if missing"),
    read("RABBITMQ_USE_LONGNAME", "`true`: append the fully qualified host name"),
    read(
        CONFIG_FILE,
        "the configuration file, with or without `.conf`, unless `--config` is given; a missing file \
         causes a warning",
    ),
    read(CONFIG_FILES, "a directory, or `DIRECTORY/*.conf`, read after `RABBITMQ_CONFIG_FILE`"),
    read(
        "RABBITMQ_DATA_DIR",
        "the data directory, unless `--data-dir` or `LEVERET_DATA_DIR` is given",
    ),
    read("RABBITMQ_MNESIA_DIR", "the data directory, if `RABBITMQ_DATA_DIR` is unset"),
    read(
        "RABBITMQ_MNESIA_BASE",
        "the parent of the data directory, which has the node's name, if both are unset",
    ),
    setting("RABBITMQ_LOG_BASE", "log.dir", "the directory of the log file"),
    read(LOGS, "`log.file`; `-` and `-stderr`: the console, and no file"),
    read(LOG_LEVELS, "a level: `log.default.level`; levels of categories have no effect"),
    read(PLUGINS_FILE, "causes a warning for each plugin in this file that is not built in"),
    read(
        ADVANCED_FILE,
        "a file of Erlang terms, with or without `.config`: its settings that have a key in \
         `rabbitmq.conf` count after those of all files, others are a warning. Without it, \
         `advanced.config` beside each configuration file",
    ),
    nothing("RABBITMQ_CONF_ENV_FILE", "set its variables in the node's environment"),
    read(
        "RABBITMQ_ERLANG_COOKIE",
        "the secret that the nodes of a cluster share; `.erlang.cookie` in the data directory when unset",
    ),
    nothing("RABBITMQ_ENABLED_PLUGINS", NO_PLUGINS),
    nothing("RABBITMQ_PLUGINS_DIR", NO_PLUGINS),
    nothing("RABBITMQ_PLUGINS_EXPAND_DIR", NO_PLUGINS),
    nothing("RABBITMQ_QUORUM_DIR", ONE_DIRECTORY),
    nothing("RABBITMQ_STREAM_DIR", ONE_DIRECTORY),
    nothing("RABBITMQ_FEATURE_FLAGS", "all feature flags are always enabled"),
    nothing("RABBITMQ_FEATURE_FLAGS_FILE", "all feature flags are always enabled"),
    read("RABBITMQ_PID_FILE", "file for the process id of the started node"),
    setting(
        "RABBITMQ_DIST_PORT",
        "distribution.listener.port_range.min",
        "the port that other nodes connect to",
    ),
    nothing("RABBITMQ_SERVER_ERL_ARGS", NO_ERLANG),
    nothing("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", NO_ERLANG),
    nothing("RABBITMQ_SERVER_START_ARGS", NO_ERLANG),
    nothing("RABBITMQ_CTL_ERL_ARGS", NO_ERLANG),
    retired("RABBITMQ_DEFAULT_PASS_FILE"),
    retired("RABBITMQ_DEFAULT_USER_FILE"),
    retired("RABBITMQ_MANAGEMENT_SSL_CACERTFILE"),
    retired("RABBITMQ_MANAGEMENT_SSL_CERTFILE"),
    retired("RABBITMQ_MANAGEMENT_SSL_DEPTH"),
    retired("RABBITMQ_MANAGEMENT_SSL_FAIL_IF_NO_PEER_CERT"),
    retired("RABBITMQ_MANAGEMENT_SSL_KEYFILE"),
    retired("RABBITMQ_MANAGEMENT_SSL_VERIFY"),
    retired("RABBITMQ_SSL_CACERTFILE"),
    retired("RABBITMQ_SSL_CERTFILE"),
    retired("RABBITMQ_SSL_DEPTH"),
    retired("RABBITMQ_SSL_FAIL_IF_NO_PEER_CERT"),
    retired("RABBITMQ_SSL_KEYFILE"),
    retired("RABBITMQ_SSL_VERIFY"),
    retired("RABBITMQ_VM_MEMORY_HIGH_WATERMARK"),
];

/// The configuration given by environment variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    /// Configuration files that variables name and that exist.
    pub(crate) files: Vec<PathBuf>,
    /// A file of Erlang terms that counts after `files`.
    pub(super) advanced: Option<PathBuf>,
    pub(super) settings: Vec<Setting>,
    pub(super) warnings: Vec<String>,
    /// The variables that keep a node from starting.
    pub(super) retired: Vec<&'static str>,
}

impl Environment {
    /// Reads the variables. If arguments name configuration files, variables that do have no effect.
    pub(crate) fn read(variables: Variables<'_>, has_files: bool) -> Self {
        let mut this = Self::default();
        for Variable { name, effect, doc } in VARIABLES {
            let Some(value) = variables(name) else { continue };
            match effect {
                Effect::Setting(key) => this.set(name, key, value),
                Effect::Read => {}
                Effect::Nothing => this.warnings.push(format!("{name} has no effect: {doc}")),
                Effect::Retired => this.retired.push(name),
            }
        }
        this.add_listener(variables(NODE_ADDRESS), variables(NODE_PORT));
        variables(LOGS).iter().for_each(|value| this.add_log(value));
        variables(LOG_LEVELS).iter().for_each(|value| this.add_levels(value));
        variables(PLUGINS_FILE).iter().for_each(|value| this.look_at_plugins(Path::new(value)));
        if let Some(path) = variables(ADVANCED_FILE) {
            let path = with_ending(&path, "config");
            match path.exists() {
                true => this.advanced = Some(path),
                false => this.warn(ADVANCED_FILE, &missing(&path)),
            }
        }
        if !has_files {
            variables(CONFIG_FILE).iter().for_each(|value| this.add_file(value));
            variables(CONFIG_FILES).iter().for_each(|value| this.add_directory(value));
        }
        this
    }

    fn set(&mut self, name: &'static str, key: &str, value: String) {
        let key = key.split('.').map(str::to_owned).collect();
        self.settings.push(Setting { key, value, place: Place::Variable(name) });
    }

    fn warn(&mut self, name: &str, what: &str) {
        self.warnings.push(format!("{name}: {what}"));
    }

    fn add_listener(&mut self, address: Option<String>, port: Option<String>) {
        let name = if port.is_some() { NODE_PORT } else { NODE_ADDRESS };
        let address = address.filter(|address| address != "auto");
        let port = match (&address, port) {
            (None, None) => return,
            (_, port) => port.unwrap_or_else(|| "5672".to_owned()),
        };
        let value = match address {
            None => port,
            Some(address) if address.contains(':') && !address.starts_with('[') => {
                format!("[{address}]:{port}")
            }
            Some(address) => format!("{address}:{port}"),
        };
        self.set(name, "listeners.tcp.default", value);
    }

    fn add_log(&mut self, value: &str) {
        match value {
            "-" | "-stderr" => {
                self.set(LOGS, "log.console", "true".to_owned());
                self.set(LOGS, "log.file", "false".to_owned());
            }
            other if other.starts_with("exchange:") || other.starts_with("syslog:") => {
                self.warn(LOGS, "only files, `-` and `-stderr` are supported");
            }
            file => self.set(LOGS, "log.file", file.to_owned()),
        }
    }

    fn add_levels(&mut self, value: &str) {
        for part in value.split(',').filter(|part| !part.is_empty()) {
            if LEVELS.iter().any(|(level, _)| *level == part) {
                self.set(LOG_LEVELS, "log.default.level", part.to_owned());
            } else {
                self.warn(LOG_LEVELS, &format!("`{part}` has no effect"));
            }
        }
    }

    /// Adds a file. COMPAT: a file that does not exist is ignored.
    fn add_file(&mut self, value: &str) {
        let is_complete = |ending: &str| Path::new(value).extension() == Some(OsStr::new(ending));
        let path = with_ending(value, "conf");
        let path = match [path.clone(), with_ending(value, "config")] {
            _ if is_complete("config") => PathBuf::from(value),
            [conf, config] if !conf.exists() && config.exists() => config,
            _ => path,
        };
        self.add_existing(CONFIG_FILE, path);
    }

    fn add_directory(&mut self, value: &str) {
        let path = PathBuf::from(value.strip_suffix("/*.conf").unwrap_or(value));
        if path.as_os_str().to_string_lossy().contains('*') {
            return self.warn(CONFIG_FILES, "the only supported pattern is DIRECTORY/*.conf");
        }
        self.add_existing(CONFIG_FILES, path);
    }

    fn add_existing(&mut self, name: &str, path: PathBuf) {
        if path.exists() {
            self.files.push(path);
        } else {
            self.warn(name, &missing(&path));
        }
    }

    /// Warns of plugins that a file enables and that are not supported. COMPAT: the file is like
    /// `[rabbitmq_management,rabbitmq_shovel].`; one that does not exist enables nothing.
    fn look_at_plugins(&mut self, path: &Path) {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('%'));
        let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let names = lines.flat_map(|line| line.split(is_end)).filter(|name| !name.is_empty());
        for name in names.filter(|name| !ctl::is_built_in_plugin(name)) {
            let path = path.display();
            self.warn(PLUGINS_FILE, &format!("{path} enables {name}, which is not supported"));
        }
    }
}

fn missing(path: &Path) -> String {
    format!("{} does not exist and is ignored", path.display())
}

/// The path with an ending that it may have been given without.
fn with_ending(value: &str, ending: &str) -> PathBuf {
    match Path::new(value).extension() {
        Some(given) if given == ending => PathBuf::from(value),
        Some(_) | None => PathBuf::from(format!("{value}.{ending}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &[(&str, &str)]) -> Environment {
        let find = |wanted: &str| list.iter().find(|(name, _)| *name == wanted);
        Environment::read(&|name| find(name).map(|(_, value)| (*value).to_owned()), false)
    }

    fn settings(list: &[(&str, &str)]) -> Vec<String> {
        let environment = of(list);
        let line = |setting: &Setting| format!("{}={}", setting.key.join("."), setting.value);
        environment.settings.iter().map(line).collect()
    }

    #[test]
    fn settings_are_those_of_rabbitmq() {
        assert_eq!(of(&[]), Environment::default());
        assert_eq!(
            settings(&[("RABBITMQ_DEFAULT_USER", "u"), ("RABBITMQ_DEFAULT_PASS", "p")]),
            ["default_user=u", "default_pass=p"]
        );
        for (list, listener) in [
            (&[("RABBITMQ_NODE_PORT", "5673")][..], "5673"),
            (&[("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")], "127.0.0.1:5672"),
            (&[("RABBITMQ_NODE_IP_ADDRESS", "::1"), ("RABBITMQ_NODE_PORT", "1")], "[::1]:1"),
            (&[("RABBITMQ_NODE_IP_ADDRESS", "auto"), ("RABBITMQ_NODE_PORT", "1")], "1"),
        ] {
            assert_eq!(settings(list), [format!("listeners.tcp.default={listener}")]);
        }
        assert_eq!(settings(&[("RABBITMQ_NODE_IP_ADDRESS", "auto")]), [""; 0]);
        assert_eq!(settings(&[("RABBITMQ_LOGS", "-")]), ["log.console=true", "log.file=false"]);
        assert_eq!(settings(&[("RABBITMQ_LOGS", "/l/x.log")]), ["log.file=/l/x.log"]);
        assert_eq!(settings(&[("RABBITMQ_LOG_BASE", "/l")]), ["log.dir=/l"]);
        assert_eq!(
            settings(&[("RABBITMQ_DIST_PORT", "25673")]),
            ["distribution.listener.port_range.min=25673"]
        );
        assert_eq!(
            settings(&[("RABBITMQ_LOG", "debug,+color,connection=error")]),
            ["log.default.level=debug"]
        );
    }

    #[test]
    fn what_says_nothing_and_what_is_retired() {
        let environment = of(&[("RABBITMQ_STREAM_DIR", "x"), ("RABBITMQ_LOG", "info,queue=debug")]);
        assert_eq!(
            environment.warnings,
            [
                "RABBITMQ_STREAM_DIR has no effect: everything is in the data directory",
                "RABBITMQ_LOG: `queue=debug` has no effect"
            ]
        );
        let retired = of(&[("RABBITMQ_SSL_KEYFILE", "x"), ("RABBITMQ_DEFAULT_PASS_FILE", "y")]);
        assert_eq!(retired.retired, ["RABBITMQ_DEFAULT_PASS_FILE", "RABBITMQ_SSL_KEYFILE"]);
    }

    #[test]
    fn files_are_found_with_and_without_their_ending() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rabbitmq.conf");
        std::fs::write(&file, "").unwrap();
        let name = file.to_str().unwrap();
        for given in [name, name.strip_suffix(".conf").unwrap()] {
            assert_eq!(of(&[("RABBITMQ_CONFIG_FILE", given)]).files, [file.as_path()]);
        }
        let pattern = format!("{}/*.conf", dir.path().display());
        assert_eq!(of(&[("RABBITMQ_CONFIG_FILES", &pattern)]).files, [dir.path()]);
        let missing = of(&[("RABBITMQ_CONFIG_FILE", "/nowhere/rabbitmq")]);
        assert_eq!(missing.files, [""; 0].map(PathBuf::from));
        assert!(missing.warnings.iter().any(|text| text.contains("/nowhere/rabbitmq.conf")));
        let plugins = dir.path().join("enabled_plugins");
        let text = "% comment\n[rabbitmq_mqtt,rabbitmq_event_exchange].\n";
        std::fs::write(&plugins, text).unwrap();
        let warnings = of(&[("RABBITMQ_ENABLED_PLUGINS_FILE", plugins.to_str().unwrap())]).warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings.iter().all(|text| text.contains("enables rabbitmq_mqtt")));
    }
}
