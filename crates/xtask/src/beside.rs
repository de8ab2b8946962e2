//! Tasks beside the steps, with the processor's time that these leave: the binary for publishing takes long
//! to build, and tests wait for much.

use std::fs::File;
use std::io::Seek as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

use crate::repository;

/// A command at the lowest priority whose output is kept until its end.
pub(crate) struct Beside {
    child: Child,
    output: File,
}

impl Beside {
    /// Starts a task of `program`: this one, by the path that it was started with. A build of the workspace
    /// replaces the file.
    pub(crate) fn task(program: &Path, name: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = idle();
        command.arg(program).arg(name).args(arguments);
        Self::start(name, command)
    }

    /// Starts what the suites of interop need and a node does not take part in.
    pub(crate) fn preparing_suites() -> anyhow::Result<Self> {
        let mut command = idle();
        command.arg(repository::root().join("interop/run")).env("INTEROP_PREPARE", "1");
        Self::start("prepare", command)
    }

    fn start(name: &str, mut command: Command) -> anyhow::Result<Self> {
        std::fs::create_dir_all(repository::target())?;
        let mut file = File::options();
        file.create(true).truncate(true).read(true).write(true);
        let output = file.open(repository::target().join(format!("beside-{name}.log")))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
        Ok(Self { child: command.spawn().context("cannot run nice")?, output })
    }

    /// Waits for the end, and prints the output. Whether the task succeeded.
    pub(crate) fn finish(mut self) -> anyhow::Result<bool> {
        let status = self.child.wait()?;
        self.output.rewind()?;
        std::io::copy(&mut self.output, &mut std::io::stdout())?;
        Ok(status.success())
    }
}

fn idle() -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "19"]);
    command
}
