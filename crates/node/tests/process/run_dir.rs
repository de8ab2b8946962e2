//! Tools find the nodes of this machine by themselves.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::support::wait_until;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// A user that no machine has.
const USER: u32 = 54_321;

/// The directories of a machine on which nobody else runs nodes: run directories, temporary files, data.
struct Machine(TempDir);

/// A running node, killed when the test ends.
struct Node(Child);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for (name, mode) in [("run", 0o700), ("tmp", 0o1777)] {
            std::fs::create_dir(machine.path(name)).unwrap();
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(machine.path(name), permissions).unwrap();
        }
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(machine.0.path(), open).unwrap();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The files by which nodes are found.
    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("run/leveret")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
        for name in ["LEVERET_DATA_DIR", "RUNTIME_DIRECTORY", "XDG_DATA_HOME", "RABBITMQ_NODENAME"]
        {
            command.env_remove(name);
        }
        command.env("XDG_RUNTIME_DIR", self.path("run")).env("TMPDIR", self.path("tmp"));
        command.env("HOME", self.0.path()).current_dir("/").stdin(Stdio::null());
        command
    }

    fn start(&self, name: &str, change: impl FnOnce(&mut Command)) -> Node {
        let mut command = self.command();
        command.arg("server").arg("--data-dir").arg(self.path(name));
        command.env("RABBITMQ_NODENAME", format!("{name}@box"));
        command.args([
            "--set",
            "listeners.tcp.1=127.0.0.1:0",
            "--set",
            "stream.listeners.tcp=none",
        ]);
        command.args(["--set", "management.enabled=false", "--set", "prometheus.enabled=false"]);
        change(&mut command);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains(" ready on "), "{ready}");
        Node(child)
    }

    /// Runs the tool: its exit code and all that it says.
    fn ctl(&self, args: &[&str], change: impl FnOnce(&mut Command)) -> (i32, String) {
        let mut command = self.command();
        change(command.arg("ctl").args(args));
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    }

    /// Asserts that the tool finds the node of that name.
    fn expect(&self, name: &str, args: &[&str], change: impl FnOnce(&mut Command)) {
        let (code, said) = self.ctl(&[args, &["-q", "os_env"]].concat(), change);
        assert_eq!(code, 0, "{args:?}: {said}");
        assert!(said.contains(&format!("RABBITMQ_NODENAME={name}@box\n")), "{args:?}: {said}");
    }
}

impl Node {
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn the_tool_takes_the_only_node_or_lists_them() {
    let machine = Machine::new();
    let hare = machine.start("hare", |_| ());
    assert_eq!(machine.files().len(), 1);
    machine.expect("hare", &[], |_| ());
    machine.expect("hare", &["-n", "hare@box"], |_| ());
    assert_eq!(machine.ctl(&["-n", "other@box", "list_users"], |_| ()).0, 69);

    let jill = machine.start("jill", |_| ());
    let option = |name: &str| {
        format!(" --data-dir {}  (node {name}@box on 127.0.0.1:", machine.path(name).display())
    };
    for verb in ["list_users", "ping", "status"] {
        let (code, said) = machine.ctl(&[verb], |_| ());
        assert_eq!(code, 69, "{said}");
        assert!(["hare", "jill"].iter().all(|name| said.contains(&option(name))), "{said}");
    }
    for name in ["hare", "jill"] {
        let data_dir = machine.path(name).display().to_string();
        machine.expect(name, &["--data-dir", &data_dir], |_| ());
        machine.expect(name, &["-n", &format!("{name}@box")], |_| ());
        machine.expect(name, &[], |tool| {
            tool.env("LEVERET_DATA_DIR", &data_dir);
        });
    }

    drop(hare);
    assert_eq!(machine.files().len(), 2, "a node that is killed leaves its file");
    machine.expect("jill", &[], |_| ());
    assert_eq!(machine.files().len(), 1, "and the tool removes it");
    jill.stop();
    assert!(machine.files().is_empty());
    let (code, said) = machine.ctl(&["list_users"], |_| ());
    assert_eq!(code, 69);
    assert!(!["hare", "jill"].iter().any(|name| said.contains(&option(name))), "{said}");
}

/// `await_startup` may be called before the node has said where it is.
#[test]
fn the_tool_waits_for_a_node_that_it_has_yet_to_find() {
    let machine = Machine::new();
    let mut command = machine.command();
    command.args(["ctl", "-q", "await_startup", "--timeout", "60"]);
    let mut waiting = command.stdout(Stdio::null()).spawn().unwrap();
    let _node = machine.start("hare", |_| ());
    wait_until("the tool has found the node", || waiting.try_wait().unwrap().is_some());
    assert!(waiting.wait().unwrap().success());
}

/// A run directory is nobody else's, and nobody is told what to do by a file of somebody else.
#[test]
fn only_files_of_the_user_and_the_system_are_believed() {
    if !geteuid().is_root() {
        eprintln!("only root can start nodes of several users");
        return;
    }
    let machine = Machine::new();
    let as_user = |command: &mut Command| {
        command.env_remove("XDG_RUNTIME_DIR").uid(USER).gid(USER);
    };
    let whose = |path: &Path| chown(path, Some(USER), Some(USER)).unwrap();
    std::fs::create_dir(machine.path("hare")).unwrap();
    whose(&machine.path("hare"));
    let _node = machine.start("hare", as_user);
    let dir = machine.path(&format!("tmp/leveret-{USER}"));
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
    machine.expect("hare", &[], as_user);
    // Root is told of it, and has to say that it is meant.
    let (code, said) = machine.ctl(&["list_users"], |_| ());
    assert_eq!(code, 69, "{said}");
    assert!(said.contains(&format!("user {USER})")), "{said}");

    // Another user has made the directory first: nothing of it is read, and nothing written into it.
    let other = machine.path(&format!("tmp/leveret-{}", USER + 1));
    std::fs::rename(&dir, &other).unwrap();
    whose(&other);
    let as_other = |command: &mut Command| {
        command.env_remove("XDG_RUNTIME_DIR").uid(USER + 1).gid(USER + 1);
    };
    assert_eq!(machine.ctl(&["list_users"], as_other).0, 69);
    std::fs::create_dir(machine.path("jill")).unwrap();
    chown(machine.path("jill"), Some(USER + 1), Some(USER + 1)).unwrap();
    let _jill = machine.start("jill", as_other);
    assert_eq!(std::fs::read_dir(&other).unwrap().count(), 1);
}
