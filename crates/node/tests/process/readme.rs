//! The commands of the README, as they are printed.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

const README: &str = include_str!("../../../../README.md");
/// The lines before blocks of commands that this test runs.
const RUN: &str = "<!-- run -->\n```sh\n";
const RUN_IN_THE_BACKGROUND: &str = "<!-- run: in the background -->\n```sh\n";

/// The blocks of commands behind a mark.
fn blocks(mark: &str) -> Vec<&'static str> {
    README.split(mark).skip(1).map(|rest| rest.split_once("```").unwrap().0).collect()
}

/// The environment gives what would be in the way of others on this machine: ports and places. Commands stay
/// as printed.
#[test]
fn the_commands_of_the_readme_run_as_printed() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    std::fs::create_dir(path("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_leveret"), path("bin/leveret")).unwrap();
    let settings = "listeners.tcp.1 = 127.0.0.1:0\nstream.listeners.tcp = none\n\
                    management.tcp.port = 0\nmanagement.tcp.ip = 127.0.0.1\nprometheus.enabled = false\n";
    std::fs::write(path("rabbitmq.conf"), settings).unwrap();
    let shell = |commands: &str| {
        let mut shell = Command::new("sh");
        let search = std::env::var("PATH").unwrap();
        shell.args(["-e", "-c", commands]).current_dir(home.path()).stdin(Stdio::null());
        shell.env("PATH", format!("{}:{search}", path("bin").display()));
        shell.env("RABBITMQ_CONFIG_FILE", path("rabbitmq.conf"));
        shell.env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.path());
        shell.env_remove("LEVERET_DATA_DIR").env_remove("RUNTIME_DIRECTORY");
        shell.stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    };

    let [server] = blocks(RUN_IN_THE_BACKGROUND)[..] else { panic!("one command starts a node") };
    let mut node = shell(&format!("exec {server}"));
    node.env("LEVERET_DATA_DIR", path("data")).stderr(Stdio::null());
    let mut node = node.spawn().unwrap();
    let mut out = BufReader::new(node.stdout.take().unwrap());
    let mut ready = String::new();
    out.read_line(&mut ready).unwrap();
    assert!(ready.contains(" ready on "), "{ready}");

    let blocks = blocks(RUN);
    assert!(!blocks.is_empty());
    for block in blocks {
        let ran = shell(block).output().unwrap();
        let told = [ran.stdout, ran.stderr].concat();
        assert!(ran.status.success(), "{block}\n{}", String::from_utf8_lossy(&told));
    }
    kill_process(Pid::from_child(&node), Signal::TERM).unwrap();
    assert!(node.wait().unwrap().success());
    let mut welcome = String::new();
    out.read_to_string(&mut welcome).unwrap();
    assert!(welcome.contains("amqp://guest:guest@127.0.0.1:"), "{welcome}");
}
