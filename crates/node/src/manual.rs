//! Completions for shells, and pages for man(1), made from the command line as clap knows it.

use std::io;
use std::path::Path;

use clap_complete::Shell;

/// Writes the completions for a shell to standard output.
pub(crate) fn completions(shell: Shell) {
    clap_complete::generate(shell, &mut crate::cli::command(), "leveret", &mut io::stdout());
}

/// Writes a page for the program and each of its commands into a directory.
pub(crate) fn write_pages(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(crate::cli::command().disable_help_subcommand(true), dir)
}
