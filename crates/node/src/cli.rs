//! The command line. Tools get their arguments as they stand and read them themselves.

mod rabbitmq_names;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use ctl::environment;
use rabbitmq_names::Called;

use crate::config::{Environment, Sources};

/// The command to run.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Run a node.
    Server(ServerArgs),
    /// Say what keeps a node from running well.
    Doctor(ServerArgs),
    /// Make damaged data usable again.
    Repair(RepairArgs),
    /// Run one of the tools.
    Tool(Tool),
    /// Exit with a code, and a text for people.
    Refused(u8, String),
    /// Print completions.
    Completions(Shell),
    /// Write the manual into a directory.
    Manual(PathBuf),
}

/// A tool to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) kind: ToolKind,
    /// The name the tool was called by, for its messages: `leveret ctl`, `rabbitmqctl`.
    pub(crate) name: String,
    /// The arguments behind the tool's name.
    pub(crate) args: Vec<OsString>,
}

/// The tools in the binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolKind {
    Ctl,
    Perf,
    Bench,
}

/// The first steps, below the help.
const HOW_TO_START: &str = "\
Start a broker:        leveret server
Diagnose this machine: leveret doctor
Manage a running node: leveret ctl status

Data directory: --data-dir or LEVERET_DATA_DIR; by default /var/lib/leveret for root and services,
otherwise $XDG_DATA_HOME/leveret or ~/.local/share/leveret.";

/// A message broker for RabbitMQ's clients.
#[derive(Debug, Parser)]
#[command(name = "leveret", version, arg_required_else_help = true, after_help = HOW_TO_START)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a node.
    Server(ServerArgs),
    /// Diagnose this machine and suggest fixes.
    Doctor(ServerArgs),
    /// Repair a damaged data directory: recover readable data and keep the originals.
    Repair(RepairArgs),
    /// Manage a running node (also installed as rabbitmqctl).
    #[command(disable_help_flag = true)]
    Ctl(ToolArgs),
    /// Generate load and measure a broker.
    #[command(disable_help_flag = true)]
    Perf(ToolArgs),
    /// Run benchmark scenarios.
    #[command(disable_help_flag = true)]
    Bench(ToolArgs),
    /// Print shell completions.
    Completions { shell: Shell },
    /// Write man pages into a directory.
    #[command(hide = true)]
    Manual { dir: PathBuf },
}

/// The arguments of `leveret repair`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RepairArgs {
    /// Data directory (or LEVERET_DATA_DIR) of a stopped node.
    #[arg(long, value_name = "DIR", default_value_os_t = default_data_dir())]
    pub(crate) data_dir: PathBuf,
    /// List damage and losses without changing anything.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Args, Debug)]
struct ToolArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    args: Vec<OsString>,
}

/// Arguments of a node.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerArgs {
    /// Configuration file in rabbitmq.conf format, or a directory of *.conf files.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
    /// Data directory (or LEVERET_DATA_DIR), created if missing.
    #[arg(long, value_name = "DIR", default_value_os_t = default_data_dir())]
    pub(crate) data_dir: PathBuf,
    /// Setting that overrides the configuration files (repeatable).
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Validate the configuration and exit (78 on errors).
    #[arg(long)]
    pub(crate) check_config: bool,
    /// List the configuration keys and exit.
    #[arg(
        long,
        value_name = "FORMAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "text"
    )]
    pub(crate) help_config: Option<HelpConfig>,
    /// The configuration given by environment variables.
    #[arg(skip)]
    pub(crate) environment: Environment,
}

impl ServerArgs {
    /// Adds what the environment says, where arguments do not.
    fn with_environment(mut self) -> Self {
        let mut environment = Environment::read(&environment::of_process, !self.config.is_empty());
        if self.config.is_empty() {
            self.config = std::mem::take(&mut environment.files);
        }
        Self { environment, ..self }
    }

    /// The sources of the configuration.
    pub(crate) fn sources(&self) -> Sources<'_> {
        Sources { files: &self.config, environment: &self.environment, arguments: &self.set }
    }
}

/// The data directory that an environment variable names, or a node's default.
fn default_data_dir() -> PathBuf {
    let variables = &environment::of_process;
    environment::data_dir(variables, &environment::node_name(variables))
        .unwrap_or_else(ctl::default_data_dir)
}

/// The format of `--help-config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HelpConfig {
    Text,
    Markdown,
    Sample,
}

/// The command line as clap describes it.
pub(crate) fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// Reads the arguments, the program's own name being the first.
pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<Invocation, clap::Error> {
    let args: Vec<OsString> = args.collect();
    let args = match rabbitmq_names::called(&args) {
        None => args,
        Some((Called::Ctl(name), rest)) => {
            return Ok(Invocation::Tool(Tool { kind: ToolKind::Ctl, name, args: rest.to_vec() }));
        }
        Some((Called::Refused(code, text), _)) => return Ok(Invocation::Refused(code, text)),
        Some((Called::Server, rest)) => {
            let server = ["leveret", "server"].map(OsString::from);
            server.into_iter().chain(rest.iter().cloned()).collect()
        }
    };
    let cli = Cli::try_parse_from(args)?;
    let tool = |kind, name: &str, ToolArgs { args }| {
        Invocation::Tool(Tool { kind, name: format!("leveret {name}"), args })
    };
    Ok(match cli.command {
        Command::Server(args) => Invocation::Server(args.with_environment()),
        Command::Doctor(args) => Invocation::Doctor(args.with_environment()),
        Command::Completions { shell } => Invocation::Completions(shell),
        Command::Manual { dir } => Invocation::Manual(dir),
        Command::Repair(args) => Invocation::Repair(args),
        Command::Ctl(args) => tool(ToolKind::Ctl, "ctl", args),
        Command::Perf(args) => tool(ToolKind::Perf, "perf", args),
        Command::Bench(args) => tool(ToolKind::Bench, "bench", args),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn parsed(args: &[&str]) -> Invocation {
        parse(args.iter().map(OsString::from)).unwrap()
    }

    fn server(args: &[&str]) -> ServerArgs {
        let Invocation::Server(server) = parsed(args) else { panic!("{args:?}") };
        server
    }

    fn tool(args: &[&str]) -> Tool {
        let Invocation::Tool(tool) = parsed(args) else { panic!("{args:?}") };
        tool
    }

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_node_has_its_arguments_in_either_form() {
        for args in [
            &["leveret", "server", "--data-dir", "d", "--set", "a=b", "--set", "c=d"][..],
            &["/sbin/rabbitmq-server", "--data-dir=d", "--set=a=b", "--set=c=d"][..],
            &["/bin/leveret", "server", "--data-dir=d", "--set=a=b", "--set=c=d"][..],
        ] {
            let args = server(args);
            assert_eq!(args.data_dir, Path::new("d"));
            assert_eq!(args.set, ["a=b", "c=d"]);
        }
    }

    #[test]
    fn tools_get_their_arguments_untouched() {
        let expected = |kind, name: &str, args: &[&str]| {
            let args = args.iter().map(OsString::from).collect();
            Tool { kind, name: name.to_owned(), args }
        };
        assert_eq!(
            tool(&["leveret", "ctl", "-q", "--help", "list_queues", "--", "x"]),
            expected(ToolKind::Ctl, "leveret ctl", &["-q", "--help", "list_queues", "--", "x"])
        );
        assert_eq!(
            tool(&["/usr/sbin/rabbitmqctl", "--version"]),
            expected(ToolKind::Ctl, "rabbitmqctl", &["--version"])
        );
        assert_eq!(
            tool(&["leveret", "perf", "-x", "1"]),
            expected(ToolKind::Perf, "leveret perf", &["-x", "1"])
        );
    }

    #[test]
    fn nonsense_is_a_usage_error() {
        for args in [&["leveret"][..], &["leveret", "sevrer"], &["leveret", "--set", "a=b"]] {
            let error = parse(args.iter().map(OsString::from)).unwrap_err();
            assert_eq!(error.exit_code(), i32::from(crate::EXIT_USAGE));
        }
    }
}
