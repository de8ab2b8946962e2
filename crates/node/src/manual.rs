//! Completions for shells, and pages for man(1), made from the command line as clap knows it, and from what
//! the tools say of theirs, which clap does not parse.

mod shells;

use std::path::Path;
use std::{fs, io};

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use command_help::{ArgumentHelp, CommandHelp, OptionHelp};

/// The note of a short name of several letters, behind an option's help.
const NOTE: &str = "(short: ";

/// Writes the completions for a shell to standard output.
pub(crate) fn completions(shell: Shell) -> io::Result<()> {
    write_completions(shell, &mut io::stdout())
}

fn write_completions(shell: Shell, output: &mut dyn io::Write) -> io::Result<()> {
    let mut command = command().subcommand(Command::new("help").about("Show a command's help"));
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "leveret", &mut text);
    let mut short_names = shells::ShortNames::new();
    let tools = [ctl::command_help(), perf::command_help(), bench::command_help()];
    tools.iter().for_each(|tool| note_short_names("leveret", tool, &mut short_names));
    let text = shells::improved(shell, &String::from_utf8_lossy(&text), &short_names);
    output.write_all(text.as_bytes())
}

fn note_short_names(words: &str, help: &CommandHelp, all: &mut shells::ShortNames) {
    let words = format!("{words}-{}", help.name);
    help.commands.iter().for_each(|command| note_short_names(&words, command, all));
    let short = |option: &OptionHelp| option.short.clone().filter(|short| short.len() > 1);
    let names = help.options.iter().filter_map(|it| Some((it.long, short(it)?))).collect();
    all.insert(words, names);
}

/// Writes a page for the program and each of its commands into a directory.
pub(crate) fn write_pages(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut command = command();
    command.build();
    write_page(&command, dir)
}

fn write_page(command: &Command, dir: &Path) -> io::Result<()> {
    let page = Man::new(command.clone()).source(concat!("leveret ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    // Pages are not justified: a line with a verb of 60 letters cannot be.
    let text = String::from_utf8_lossy(&text).replacen(".SH NAME", ".na\n.SH NAME", 1);
    fs::write(dir.join(page.get_filename()), text)?;
    let mut below = command.get_subcommands().filter(|it| !it.is_hide_set());
    below.try_for_each(|it| write_page(it, dir))
}

/// The command line with all that the tools take.
fn command() -> Command {
    let tools = [ctl::command_help(), perf::command_help(), bench::command_help()];
    let command = crate::cli::command().disable_help_subcommand(true);
    tools.into_iter().fold(command, |command, tool| {
        command.mut_subcommand(tool.name, |known| match known.get_about() {
            Some(about) => described(CommandHelp { about: about.to_string(), ..tool }),
            None => described(tool),
        })
    })
}

fn described(help: CommandHelp) -> Command {
    let CommandHelp { name, about, usage, options, arguments, commands } = help;
    let command = Command::new(name).about(about).disable_help_flag(true);
    let command = match usage {
        Some(usage) => command.override_usage(usage),
        None => command,
    };
    command
        .disable_help_subcommand(true)
        .args(options.into_iter().map(option))
        .args(arguments.into_iter().zip(PLACES).map(|(it, place)| argument(it, place)))
        .subcommands(commands.into_iter().map(described))
}

fn option(OptionHelp { long, short, value, help }: OptionHelp) -> Arg {
    let arg = Arg::new(long).long(long);
    let short = short.unwrap_or_default();
    let mut letters = short.chars();
    // clap knows short names of one letter.
    let arg = match (letters.next(), letters.next()) {
        (None, _) => arg.help(help),
        (Some(letter), None) => arg.short(letter).help(help),
        (Some(_), Some(_)) => arg.help(format!("{help} {NOTE}-{short})")),
    };
    match value {
        Some(value) => arg.value_name(value),
        None => arg.action(ArgAction::SetTrue),
    }
}

/// Names of arguments to clap, by their place: an option may have an argument's name.
const PLACES: [&str; 6] = ["<1>", "<2>", "<3>", "<4>", "<5>", "<6>"];

fn argument(argument: ArgumentHelp, place: &'static str) -> Arg {
    let ArgumentHelp { name, is_many, is_required, values } = argument;
    let arg = Arg::new(place).value_name(name).required(is_required);
    let arg = if is_many { arg.num_args(1..) } else { arg };
    if values.is_empty() { arg } else { arg.value_parser(PossibleValuesParser::new(values)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands below a command, with the words that lead to them.
    fn walk(words: &str, help: CommandHelp, seen: &mut Vec<(String, CommandHelp)>) {
        let words = format!("{words}-{}", help.name);
        help.commands.iter().for_each(|command| walk(&words, command.clone(), seen));
        seen.push((words, help));
    }

    fn all() -> Vec<(String, CommandHelp)> {
        let mut seen = Vec::new();
        let tools = [ctl::command_help(), perf::command_help(), bench::command_help()];
        tools.into_iter().for_each(|tool| walk("leveret", tool, &mut seen));
        seen
    }

    #[test]
    fn the_described_command_line_is_sound() {
        command().debug_assert();
    }

    fn completed(shell: Shell) -> String {
        let mut text = Vec::new();
        write_completions(shell, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn short_names_of_several_letters_are_completed() {
        for (shell, expected) in [
            (Shell::Fish, &["' -o qpf -r"][..]),
            (Shell::Bash, &[" -qpf --queue-pattern-from ", "-qpf|--queue-pattern-from)"]),
            (Shell::Zsh, &["'-qpf+[first number", "'--queue-pattern-from=[first number"]),
        ] {
            let text = completed(shell);
            assert!(!text.contains(" -s ? "), "{shell}: a wildcard");
            assert!(expected.iter().all(|it| text.contains(it)), "{shell}");
            assert!(!text.contains("(short"), "{shell}: a note is left");
        }
    }

    /// clap's takes 1.1 MB, most of it lists of commands.
    #[test]
    fn fish_completions_are_small_and_name_every_option() {
        let (text, all) = (completed(Shell::Fish), all());
        assert!(text.len() < 300_000, "{}", text.len());
        for (words, help) in all {
            for OptionHelp { long, .. } in &help.options {
                assert!(text.contains(&format!(" -l {long} ")), "{words} --{long}");
            }
            for command in &help.commands {
                assert!(
                    text.contains(&format!("\"{}\"", command.name)),
                    "{words} {}",
                    command.name
                );
            }
        }
    }

    #[test]
    fn every_verb_and_option_has_its_page_and_completion() {
        let dir = tempfile::tempdir().unwrap();
        write_pages(dir.path()).unwrap();
        let mut bash = Vec::new();
        write_completions(Shell::Bash, &mut bash).unwrap();
        let bash = String::from_utf8(bash).unwrap();
        let all = all();
        assert!(all.len() > 150, "{}", all.len());
        for (words, help) in all {
            let page = fs::read_to_string(dir.path().join(format!("{words}.1"))).unwrap();
            let page = page.replace("\\*(Aq", "'").replace('\\', "");
            assert!(!page.contains("ARGUMENT"), "{words}");
            let (_, completed) = bash
                .split_once(&format!("\n        {})\n", words.replace('-', "__subcmd__")))
                .unwrap_or_else(|| panic!("{words} is not completed"));
            let (completed, _) = completed.split_once(";;").unwrap();
            for OptionHelp { long, help: text, .. } in &help.options {
                assert!(!text.is_empty(), "{words} --{long}: no help");
                assert!(page.contains(&format!("--{long}")), "{words} --{long}: not in the page");
                assert!(
                    completed.contains(&format!("--{long}")),
                    "{words} --{long}: not completed"
                );
            }
            for ArgumentHelp { name, .. } in &help.arguments {
                assert!(page.contains(name), "{words}: {name}");
            }
            for command in &help.commands {
                let (name, about) = (command.name, command.about.as_str());
                assert!(page.contains(&format!("{words}-{name}(1)")), "{words} {name}");
                assert!(!about.is_empty() && page.contains(about), "{words} {name}");
                assert!(completed.contains(name), "{words} {name}: not completed");
            }
        }
    }
}
