//! A small filesystem of its own for a node's data, which can really be full: a tmpfs in a mount namespace
//! that a process which does nothing else keeps.
//!
//! Whether a node has one is told by its home: the file `volume` is there, with the number of that process.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The filesystem goes with it.
pub(crate) struct Volume {
    keeper: Child,
    home: PathBuf,
}

fn mark(home: &Path) -> PathBuf {
    home.join("volume")
}

fn keeper_of(home: &Path) -> Option<String> {
    std::fs::read_to_string(mark(home)).ok()
}

/// A node's data as this process finds it.
pub(crate) fn data_dir(home: &Path) -> PathBuf {
    let data = home.join("data");
    match keeper_of(home) {
        Some(keeper) => {
            let root = PathBuf::from(format!("/proc/{keeper}/root"));
            root.join(data.strip_prefix("/").unwrap())
        }
        None => data,
    }
}

/// The command that runs `program` where it finds the filesystem, if this home has one.
pub(crate) fn command(home: &Path, program: &Path) -> Command {
    let Some(keeper) = keeper_of(home) else { return Command::new(program) };
    let mut command = within(&keeper);
    command.arg(program);
    command
}

fn within(keeper: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", keeper, "--user", "--mount", "--preserve-credentials", "--"]);
    command
}

impl Volume {
    /// Of so many bytes, as `data` in `home`.
    ///
    /// # Errors
    /// What this machine has against it: namespaces may be forbidden.
    pub(crate) fn mount(home: &Path, bytes: u64) -> Result<Self, String> {
        let data = home.join("data");
        std::fs::create_dir(&data).unwrap();
        let script =
            format!("mount -t tmpfs -o size={bytes} tmpfs \"$1\" && echo mounted && exec cat");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]).arg(data);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut keeper = command.spawn().map_err(|error| format!("unshare: {error}"))?;
        let mut said = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut said).unwrap();
        if said != "mounted\n" {
            let output = keeper.wait_with_output().unwrap();
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        std::fs::write(mark(home), keeper.id().to_string()).unwrap();
        let entered = within(&keeper.id().to_string()).arg("true").output();
        let volume = Self { keeper, home: home.to_owned() };
        let entered = entered.map_err(|error| format!("nsenter: {error}"))?;
        if entered.status.success() {
            Ok(volume)
        } else {
            Err(String::from_utf8_lossy(&entered.stderr).into_owned())
        }
    }

    /// Makes it larger or smaller.
    pub(crate) fn resize(&self, bytes: u64) {
        let mut command = within(&self.keeper.id().to_string());
        command.args(["mount", "-o", &format!("remount,size={bytes}")]).arg(self.home.join("data"));
        assert!(command.status().unwrap().success(), "remount");
    }

    /// Bytes that are free in it.
    pub(crate) fn free_bytes(&self) -> u64 {
        let stat = rustix::fs::statvfs(data_dir(&self.home)).unwrap();
        stat.f_bavail * stat.f_frsize
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        drop(std::fs::remove_file(mark(&self.home)));
        drop(self.keeper.kill());
        drop(self.keeper.wait());
    }
}
