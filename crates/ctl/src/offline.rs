//! Verbs that send the node no request, or more than one.

use crate::client::{self, Client, FORMATION, Question, STATE, Unanswered, is_timeout, timed_out};
use crate::control_socket::socket_path;
use crate::failure::{Failure, Invalid, code};
use crate::fields::{items, number, text};
use crate::output::{Answer, Form, Format, Rows};
use crate::verb::Invocation;
use crate::{render, run, usage};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use md5::Md5;
use rustix::process::{Pid, test_kill_process};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256, Sha512};
use std::io::{ErrorKind, Read as _};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Interval at which an awaited condition is looked at again.
const POLL: Duration = Duration::from_millis(50);

pub(crate) fn help(invocation: &Invocation) -> Result<Answer, Failure> {
    if invocation.flag("list-commands") {
        return Ok(Answer::Text(usage::commands(&invocation.tool)));
    }
    match invocation.param("command") {
        "" => Ok(Answer::Text(usage::everything(&invocation.tool))),
        name => match invocation.tool.find(name) {
            Some(verb) => Ok(Answer::Text(usage::of(&invocation.tool, verb))),
            None => Err(usage::not_found(&invocation.tool, name)),
        },
    }
}

#[expect(clippy::unnecessary_wraps, reason = "one of many functions of this type")]
pub(crate) fn autocomplete(invocation: &Invocation) -> Result<Answer, Failure> {
    let prefix = invocation.param("prefix");
    let names =
        invocation.tool.verbs().map(|verb| verb.name()).filter(|name| name.starts_with(prefix));
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    Ok(if names.is_empty() { Answer::Silent } else { Answer::Text(names.join("\n")) })
}

#[expect(clippy::unnecessary_wraps, reason = "one of many functions of this type")]
pub(crate) fn version(invocation: &Invocation) -> Result<Answer, Failure> {
    let own_name = invocation.tool.name().starts_with("leveret");
    let version = if own_name { env!("CARGO_PKG_VERSION") } else { stdx::RABBITMQ_VERSION };
    Ok(match invocation.format {
        Format::Json => Answer::Object(json!({"version": version})),
        Format::Csv => {
            Answer::Rows(Rows::of("version", &json!([{"version": version}]), Form::Whole))
        }
        Format::Default | Format::Table | Format::PrettyTable | Format::Erlang => {
            Answer::Text(version.to_owned())
        }
    })
}

/// Stops listeners and connections. COMPAT: clients see a stopped application until it is started again.
pub(crate) fn stop_app(invocation: &Invocation) -> Result<Answer, Failure> {
    run::ask(invocation, "DELETE /leveret/listeners", Map::new())?;
    let why = [(
        "explanation".to_owned(),
        Value::from("broker forced connection closure with reason 'shutdown'"),
    )];
    run::ask(invocation, "DELETE /leveret/connections", why.into_iter().collect())?;
    Ok(Answer::Done)
}

pub(crate) fn ping(invocation: &Invocation) -> Result<Answer, Failure> {
    let state = Client::connect(&invocation.address, invocation.timeout)
        .map_err(Unanswered::Io)
        .and_then(|client| client.ask(&Question::new(STATE, Map::new(), invocation)));
    let reason = match state {
        Ok(_) => return Ok(Answer::Text("Ping succeeded".to_owned())),
        Err(Unanswered::Io(error)) if is_timeout(&error) => {
            format!("no answer in {} ms", invocation.timeout.unwrap_or_default().as_millis())
        }
        Err(Unanswered::Io(error)) => error.to_string(),
        Err(Unanswered::Garbled) => "the answer could not be understood".to_owned(),
        Err(Unanswered::Refused { text, .. }) => text,
    };
    let (node, socket) = (invocation.node(), socket_path(&invocation.address.data_dir));
    Err(Failure::error(
        code::UNAVAILABLE,
        format!(
            "Failed to connect and authenticate to {node}: control socket {}: {reason}\n{}",
            socket.display(),
            client::running(&invocation.address)
        )
        .trim_end(),
    ))
}

/// Whether the node has started. `Err` when it cannot be reached at all.
pub(crate) fn is_running(invocation: &Invocation) -> Result<bool, Unanswered> {
    let state = ask_anew(invocation, STATE)?;
    Ok(state.get("running").and_then(Value::as_bool).unwrap_or_default())
}

/// Asks a node that may have started since the tool did: its address is looked up again.
fn ask_anew(invocation: &Invocation, route: &'static str) -> Result<Value, Unanswered> {
    let address = client::found(invocation.address.clone());
    let client = Client::connect(&address, invocation.timeout).map_err(Unanswered::Io)?;
    client.ask(&Question::new(route, Map::new(), invocation))
}

/// Has the node join a cluster, and waits until it has started there.
pub(crate) fn join_cluster(invocation: &Invocation) -> Result<Answer, Failure> {
    let member = Value::from(invocation.param("member"));
    let force = Value::from(invocation.flag("force"));
    let asked = [("member".to_owned(), member), ("force".to_owned(), force)];
    run::ask(invocation, "PUT /leveret/cluster/{member}", asked.into_iter().collect())?;
    await_startup(invocation)
}

/// Has the node leave its cluster, and waits until it has started alone.
pub(crate) fn reset(invocation: &Invocation) -> Result<Answer, Failure> {
    leave(invocation, false)
}

/// As [`reset`], without a word to the others.
pub(crate) fn force_reset(invocation: &Invocation) -> Result<Answer, Failure> {
    leave(invocation, true)
}

fn leave(invocation: &Invocation, is_forced: bool) -> Result<Answer, Failure> {
    let force = ("force".to_owned(), Value::from(is_forced));
    run::ask(invocation, "DELETE /leveret/cluster", std::iter::once(force).collect())?;
    await_startup(invocation)
}

/// Has a member go on as the only one of its cluster, and waits until it has started.
pub(crate) fn force_boot(invocation: &Invocation) -> Result<Answer, Failure> {
    if !invocation.flag("discard-others") {
        let text = "the other members of the cluster, and what only they have, are lost for good to this node, \
                    and cannot come back without a reset: confirm it with --discard-others";
        return Err(Failure::error(code::USAGE, text));
    }
    run::ask(invocation, "POST /leveret/cluster/force-boot", Map::new())?;
    await_startup(invocation)
}

pub(crate) fn await_startup(invocation: &Invocation) -> Result<Answer, Failure> {
    let started = Instant::now();
    loop {
        if let Ok(true) = is_running(invocation) {
            return Ok(Answer::Done);
        }
        if invocation.timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
            return Err(timed_out(invocation));
        }
        std::thread::sleep(POLL);
    }
}

/// Waits until as many members of the cluster run.
pub(crate) fn await_online_nodes(invocation: &Invocation) -> Result<Answer, Failure> {
    let n_wanted = invocation.param("count").parse().unwrap_or(u64::MAX);
    let started = Instant::now();
    loop {
        if running_members(invocation).is_ok_and(|n| n >= n_wanted) {
            return Ok(Answer::Done);
        }
        if invocation.timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
            return Err(timed_out(invocation));
        }
        std::thread::sleep(POLL);
    }
}

/// The answer where a verb that looks after other nodes finds none.
pub(crate) fn does_not_apply(invocation: &Invocation) -> Answer {
    if invocation.output_less() {
        return Answer::Done;
    }
    let text = "Target node seems to be the only one in a single node cluster, \
                the command does not apply";
    Answer::Text(text.to_owned())
}

/// Waits until the cluster goes on without the node.
pub(crate) fn await_online_quorum_plus_one(invocation: &Invocation) -> Result<Answer, Failure> {
    let started = Instant::now();
    loop {
        let formation = run::ask(invocation, FORMATION, Map::new())?;
        if formation.get("is_alone").and_then(Value::as_bool) == Some(true) {
            return Ok(does_not_apply(invocation));
        }
        if items(&formation, "endangered").next().is_none() {
            return Ok(Answer::Done);
        }
        if invocation.timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
            // COMPAT: RabbitMQ's text.
            let text = "time is up, no quorum + 1 online replicas came online for at least some \
                        quorum queues";
            return Err(Failure::error(code::UNAVAILABLE, text));
        }
        std::thread::sleep(POLL);
    }
}

/// The number of members of the cluster that run, as far as the node knows; 0 while the node starts.
fn running_members(invocation: &Invocation) -> Result<u64, Unanswered> {
    let formation = ask_anew(invocation, FORMATION)?;
    let is_running = formation.get("running").and_then(Value::as_bool).unwrap_or_default();
    Ok(if is_running { number(&formation, "n_running") } else { 0 })
}

/// Waits for a pid file or takes the given process, then waits for the node while it is alive.
pub(crate) fn wait(invocation: &Invocation) -> Result<Answer, Failure> {
    let started = Instant::now();
    let is_late = || invocation.timeout.is_some_and(|timeout| started.elapsed() >= timeout);
    loop {
        let pid = match invocation.number("pid") {
            Some(pid) => u32::try_from(pid).ok(),
            None => read_pid(invocation.param("pidfile")).ok(),
        };
        if pid.is_some_and(|pid| !is_alive(pid)) && invocation.number("pid").is_some() {
            return Err(Failure::error(code::SOFTWARE, "Error: process is not running."));
        }
        if pid.is_some_and(is_alive) && matches!(is_running(invocation), Ok(true)) {
            return Ok(Answer::Done);
        }
        if is_late() {
            return Err(timed_out(invocation));
        }
        std::thread::sleep(POLL);
    }
}

/// Asks the node to stop; returns its process id.
fn ask_to_stop(invocation: &Invocation) -> Result<u32, Failure> {
    let answer = run::ask(invocation, "POST /leveret/stop", Map::new())?;
    let pid = answer.get("pid").and_then(Value::as_u64);
    pid.and_then(|pid| u32::try_from(pid).ok())
        .ok_or_else(|| Failure::error(code::SOFTWARE, "the node did not tell its process id"))
}

/// Waits until the process is gone, or the control socket of its data directory.
fn await_end(invocation: &Invocation, pid: u32) -> Result<(), Failure> {
    let started = Instant::now();
    while is_alive(pid) {
        if invocation.timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
            return Err(timed_out(invocation));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

fn is_alive(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    // A zombie, for which its parent has not waited, counts as ended.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let is_zombie = stat.is_ok_and(|stat| {
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
    });
    !is_zombie && test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

/// Whether anything listens on the control socket: a node that was killed leaves its file behind.
fn is_reachable(invocation: &Invocation) -> bool {
    match Client::connect(&invocation.address, invocation.timeout) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused),
    }
}

pub(crate) fn stop(invocation: &Invocation) -> Result<Answer, Failure> {
    let node = invocation.node();
    if invocation.flag("idempotent") && !is_reachable(invocation) {
        return Ok(Answer::Text(format!("Node {node} is no longer running")));
    }
    let pidfile = invocation.param("pidfile");
    if pidfile.is_empty() {
        let stopped = ask_to_stop(invocation).and_then(|pid| await_end(invocation, pid));
        return stopped.map(|()| Answer::Done);
    }
    let pid = read_pid(pidfile).map_err(|error| {
        let text = format!("could not read pid from file {pidfile}. Error: {error}");
        Failure::error(code::UNAVAILABLE, text)
    })?;
    ask_to_stop(invocation)?;
    await_end(invocation, pid)?;
    Ok(Answer::Wrapped(format!(
        "process {pid} (take from pid file {pidfile}) is no longer running"
    )))
}

fn read_pid(path: &str) -> std::io::Result<u32> {
    let text = std::fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| std::io::Error::other("it holds no number"))
}

pub(crate) fn shutdown(invocation: &Invocation) -> Result<Answer, Failure> {
    let node = invocation.node();
    let pid = ask_to_stop(invocation)?;
    if invocation.settings.get("wait") == Some(&crate::options::Setting::Flag(false)) {
        return Ok(Answer::Done);
    }
    await_end(invocation, pid)?;
    Ok(Answer::Text(format!(
        "Shutting down RabbitMQ node {node} running at PID {pid}\n\
         Waiting for PID {pid} to terminate\n\
         RabbitMQ node {node} running at PID {pid} successfully shut down"
    )))
}

pub(crate) fn check_port_connectivity(
    invocation: &Invocation,
    listeners: Value,
) -> Result<Answer, Failure> {
    let node = invocation.node();
    let list: Vec<Value> = listeners.as_array().cloned().unwrap_or_default();
    let share = u32::try_from(list.len()).unwrap_or(u32::MAX).saturating_add(1);
    let timeout = invocation.timeout.unwrap_or(Duration::from_secs(30)) / share;
    let address = invocation.text("address");
    let failed: Vec<Value> = list
        .into_iter()
        .filter(|listener| !takes_connections(listener, address, timeout))
        .collect();
    if failed.is_empty() {
        let ports: Vec<String> = render::ports(&listeners).iter().map(u64::to_string).collect();
        let using = address.map_or_else(
            || "using node hostname resolution".to_owned(),
            |address| format!("using {address} for target IP address"),
        );
        let text = format!(
            "Successfully connected to ports {} on node {node} ({using})",
            ports.join(", ")
        );
        let object = json!({"result": "ok", "node": node, "listeners": listeners});
        return render::shown(invocation, object, text);
    }
    let failed = Value::from(failed);
    let text = format!(
        "Connection to ports of the following listeners on node {node} failed: \n{}",
        render::interface_lines(&failed, "I").join("\n")
    );
    let object = json!({"result": "error", "node": node, "failures": failed});
    render::failed(invocation, &object, Failure::error(code::UNAVAILABLE, text))
}

/// Whether a listener accepts a connection, at its own address or at the given one.
fn takes_connections(listener: &Value, address: Option<&str>, timeout: Duration) -> bool {
    let interface = text(listener, "interface").trim_start_matches('[').trim_end_matches(']');
    let host = address.unwrap_or(match interface {
        "0.0.0.0" | "::" | "" => "localhost",
        other => other,
    });
    let port = listener.get("port").and_then(Value::as_u64).and_then(|p| u16::try_from(p).ok());
    let Some(port) = port else { return false };
    let Ok(mut addresses) = (host, port).to_socket_addrs() else { return false };
    addresses.any(|address| TcpStream::connect_timeout(&address, timeout).is_ok())
}

/// The hash of that name, if it is offered.
fn algorithm(name: &str) -> Option<Algorithm> {
    match name.to_ascii_lowercase().as_str() {
        "sha256" | "sha-256" => Some(Algorithm::Sha256),
        "sha512" | "sha-512" => Some(Algorithm::Sha512),
        "md5" => Some(Algorithm::Md5),
        _ => None,
    }
}

#[derive(Clone, Copy)]
enum Algorithm {
    Sha256,
    Sha512,
    Md5,
}

pub(crate) fn check_hash_password(invocation: &Invocation) -> Result<(), Invalid> {
    let given = invocation.params.get("password").and_then(Value::as_str);
    if given == Some("") {
        return Err(Invalid::BadArgument("password cannot be an empty string".to_owned()));
    }
    match invocation.text("hashing-algorithm") {
        Some(name) if algorithm(name).is_none() => {
            Err(Invalid::BadArgument(format!("unsupported hashing algorithm: {name}")))
        }
        Some(_) | None => Ok(()),
    }
}

pub(crate) fn hash_password(invocation: &Invocation) -> Result<Answer, Failure> {
    let mut salt = [0; 4];
    std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut salt)).map_err(
        |error| Failure::error(code::SOFTWARE, format!("no randomness for a salt: {error}")),
    )?;
    let name = invocation.text("hashing-algorithm").unwrap_or("sha256");
    let algorithm = algorithm(name).unwrap_or(Algorithm::Sha256);
    Ok(Answer::Text(salted(algorithm, salt, invocation.param("password"))))
}

/// The salt, then the hash of salt and password, in base64.
fn salted(algorithm: Algorithm, salt: [u8; 4], password: &str) -> String {
    let input = [&salt[..], password.as_bytes()].concat();
    let mut bytes = salt.to_vec();
    match algorithm {
        Algorithm::Sha256 => bytes.extend_from_slice(&Sha256::digest(&input)),
        Algorithm::Sha512 => bytes.extend_from_slice(&Sha512::digest(&input)),
        Algorithm::Md5 => bytes.extend_from_slice(&Md5::digest(&input)),
    }
    BASE64_STANDARD.encode(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_rabbitmq() {
        // From RabbitMQ's guide to passwords: salt 908D C60A, password `test12`.
        let hash = salted(Algorithm::Sha256, [0x90, 0x8D, 0xC6, 0x0A], "test12");
        assert_eq!(hash, "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR");
        assert_eq!(salted(Algorithm::Sha512, [0; 4], "x").len(), 92);
        assert_eq!(salted(Algorithm::Md5, [0; 4], "x").len(), 28);
    }

    #[test]
    fn this_process_is_alive() {
        assert!(is_alive(std::process::id()));
        assert!(!is_alive(i32::MAX.unsigned_abs()));
        assert!(!is_alive(0));
    }
}
