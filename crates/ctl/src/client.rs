//! An HTTP/1.0 request to the node over its control socket, and the answer.

use crate::control_socket::{connect, socket_path};
use crate::failure::{Failure, code};
use crate::run_dir::{self, RunFile, RunningNode};
use crate::verb::{Invocation, NodeAddress};
use api::{ErrorCode, NODE_HEADER, UNANSWERED_HEADER};
use serde_json::{Map, Value};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longest answer that is read, bytes.
const ANSWER_BYTES_MAX: u64 = 1 << 30;
/// Longest head of an answer, bytes.
const HEAD_BYTES_MAX: u64 = 64 * 1024;

/// Route that tells whether the node has started; also asked to see whether it answers at all.
pub(crate) const STATE: &str = "GET /leveret/state";
/// Route that tells how many nodes the cluster has, is to have, and can find.
pub(crate) const FORMATION: &str = "GET /leveret/cluster/formation";
/// Field of a request that becomes the whole body.
pub(crate) const DOCUMENT: &str = "document";

/// A connection to the node, good for one request.
pub(crate) struct Client {
    stream: UnixStream,
    /// The node that has to answer, if the operator named one.
    node: Option<String>,
}

/// The reason why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The node could not be reached, or went away.
    Io(io::Error),
    /// The answer cannot be understood.
    Garbled,
    /// The node refused: a code, and a text for people. Codes that no verb decides by count as bad requests.
    Refused { error: ErrorCode, text: String },
}

impl Client {
    /// Connects to the node of `address`; `timeout` is the longest wait of each read and write.
    pub(crate) fn connect(address: &NodeAddress, timeout: Option<Duration>) -> io::Result<Self> {
        let stream = connect(&address.data_dir)?;
        let timeout = timeout.map(|timeout| timeout.max(Duration::from_millis(1)));
        stream.set_read_timeout(timeout)?;
        stream.set_write_timeout(timeout)?;
        // Control characters are left out: a line break would end the header.
        let name = || address.node.chars().filter(|c| !c.is_control()).collect();
        Ok(Self { stream, node: address.is_named.then(name) })
    }

    /// Sends one request and waits for its answer.
    pub(crate) fn ask(mut self, question: &Question) -> Result<Value, Unanswered> {
        self.send(question)?;
        understand_all(Vec::new(), self.stream)
    }

    /// Sends one request and shows the lines of its answer as they come, until no more are wanted.
    pub(crate) fn follow(
        mut self,
        question: &Question,
        see: &mut dyn FnMut(&str) -> bool,
    ) -> Result<(), Unanswered> {
        self.send(question)?;
        let mut lines = BufReader::new(self.stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let n = lines.by_ref().take(HEAD_BYTES_MAX).read_line(&mut head);
            if n.map_err(Unanswered::Io)? == 0 || head.len() as u64 > HEAD_BYTES_MAX {
                return Err(Unanswered::Garbled);
            }
        }
        if !head.split(' ').nth(1).is_some_and(|status| status.starts_with('2')) {
            return understand_all(head.into_bytes(), lines).map(drop);
        }
        let mut line = String::new();
        while lines.by_ref().take(ANSWER_BYTES_MAX).read_line(&mut line).map_err(Unanswered::Io)?
            > 0
            && see(line.trim_end_matches('\n'))
        {
            line.clear();
        }
        Ok(())
    }

    /// Sends a request. A node that refuses it need not read all of it: then the answer says why.
    fn send(&mut self, question: &Question) -> Result<(), Unanswered> {
        let node = self.node.take().map(|node| format!("{NODE_HEADER}: {node}\r\n"));
        let Question { method, address, body } = question;
        // Answers of HTTP 1.0 end with the connection, and come in no pieces.
        let head = format!(
            "{method} {address} HTTP/1.0\r\nhost: localhost\r\n{}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            node.unwrap_or_default(),
            body.len()
        );
        let sent = self.stream.write_all(head.as_bytes());
        match sent.and_then(|()| self.stream.write_all(body.as_bytes())) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Unanswered::Io(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// A request to the node.
pub(crate) struct Question {
    method: &'static str,
    address: String,
    body: String,
}

impl Question {
    /// Makes a request by a route, `PUT /permissions/{vhost}/{user}`, whose parts are taken from the fields,
    /// or left out. The other fields are the query, or the body if the method has one.
    pub(crate) fn new(
        route: &'static str,
        mut fields: Map<String, Value>,
        invocation: &Invocation,
    ) -> Self {
        let (method, template) = route.split_once(' ').unwrap_or_default();
        let (template, query) = template.split_once('?').unwrap_or((template, ""));
        let mut address = String::from("/api");
        for part in template.split('/').skip(1) {
            let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
            let part = match name.map(|name| (name, fields.remove(name))) {
                None => Some(part.to_owned()),
                Some((_, Some(value))) => Some(parameter(&plain(&value))),
                Some(("node", None)) => Some(parameter(invocation.node())),
                Some((_, None)) => None,
            };
            address.extend(part.map(|part| format!("/{part}")));
        }
        let document = fields.remove(DOCUMENT).as_ref().map(plain);
        if method != "GET" && document.is_none() {
            return Self { method, address, body: Value::Object(fields).to_string() };
        }
        let fields =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(&plain(value))));
        let query = query.split_terminator('&').map(str::to_owned).chain(fields);
        for (n, field) in query.enumerate() {
            address.push(if n == 0 { '?' } else { '&' });
            address.push_str(&field);
        }
        Self { method, address, body: document.unwrap_or_default() }
    }
}

/// A field as text: the items of a list are joined by commas.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// Percent-encodes a text for an address, apart from commas.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b',' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Percent-encodes a parameter of an address, always with its first character: no parameter is taken for a
/// word of the template.
fn parameter(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    let first: String = first.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("{first}{}", encoded(rest))
}

/// The address of a node that runs elsewhere, if none has the default data directory: the only node of this
/// user, or else of all users whose nodes are trusted. Where there are several the address stays, and
/// [`unreachable()`] lists them.
pub(crate) fn found(address: NodeAddress) -> NodeAddress {
    if !address.is_guessed || connect(&address.data_dir).is_ok() {
        return address;
    }
    let only = |files: Vec<RunFile>| {
        let mut usable = files.into_iter().filter_map(|file| answering(&address, &file));
        usable.next().map(|first| usable.next().is_none().then_some(first))
    };
    only(run_dir::of_this_user())
        .or_else(|| only(run_dir::of_everybody()))
        .flatten()
        .unwrap_or(address)
}

/// The address of a file's node, if that may be asked, and is the one that the operator has named. Files of
/// nodes that have ended are removed.
fn answering(wanted: &NodeAddress, file: &RunFile) -> Option<NodeAddress> {
    let address = NodeAddress {
        data_dir: file.node.data_dir.clone(),
        is_guessed: false,
        node: if wanted.is_named { wanted.node.clone() } else { file.node.name.clone() },
        ..wanted.clone()
    };
    if !file.is_trusted() || file.remove_if_ended() {
        return None;
    }
    let timeout = Some(Duration::from_secs(1));
    let client = Client::connect(&address, timeout).ok()?;
    // An operator's request goes to no node of an untrusted user.
    let peer = rustix::net::sockopt::socket_peercred(&client.stream).map(|peer| peer.uid.as_raw());
    let state =
        Question { method: "GET", address: "/api/leveret/state".to_owned(), body: String::new() };
    let is_that_node = || !wanted.is_named || client.ask(&state).is_ok();
    (peer == Ok(file.owner) && is_that_node()).then_some(address)
}

/// The nodes that run, each with the option that names it, if no node was named; else empty.
pub(crate) fn running(address: &NodeAddress) -> String {
    if !address.is_guessed {
        return String::new();
    }
    let mut files = run_dir::of_this_user();
    files.extend(run_dir::of_everybody());
    let line = |RunFile { node, owner, .. }: &RunFile| {
        let RunningNode { name, data_dir, pid, address } = node;
        let data_dir = data_dir.display();
        let listens = if address.is_empty() { String::new() } else { format!(" on {address}") };
        format!(" --data-dir {data_dir}  (node {name}{listens}, process {pid}, user {owner})\n")
    };
    let running = files.iter().filter(|file| !file.remove_if_ended());
    let mut lines: Vec<String> = running.map(line).collect();
    lines.sort_unstable();
    lines.dedup();
    match lines.as_slice() {
        [] => String::new(),
        lines => format!(
            "These nodes run on this machine; the option says which one is meant:\n\n{}\n",
            lines.concat()
        ),
    }
}

/// Takes an answer apart as [`understand`] does, with the rest of it. The connection is reset behind an
/// answer to a request that was not read to its end.
fn understand_all(mut answer: Vec<u8>, rest: impl Read) -> Result<Value, Unanswered> {
    match rest.take(ANSWER_BYTES_MAX).read_to_end(&mut answer) {
        Err(error) if answer.is_empty() || error.kind() != ErrorKind::ConnectionReset => {
            Err(Unanswered::Io(error))
        }
        Ok(_) | Err(_) => understand(&answer),
    }
}

/// Takes a whole HTTP answer apart.
fn understand(answer: &[u8]) -> Result<Value, Unanswered> {
    const BLANK_LINE: &[u8] = b"\r\n\r\n";
    let end = answer.windows(BLANK_LINE.len()).position(|window| window == BLANK_LINE);
    let (head, rest) = end.map(|end| answer.split_at(end)).ok_or(Unanswered::Garbled)?;
    let body = rest.get(BLANK_LINE.len()..).unwrap_or_default();
    let head = std::str::from_utf8(head).map_err(|_| Unanswered::Garbled)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
    let is_refused = status.ok_or(Unanswered::Garbled)? >= 400;
    if body.is_empty() && !is_refused {
        return Ok(Value::Null);
    }
    let answer: Value = serde_json::from_slice(body).map_err(|_| Unanswered::Garbled)?;
    let field = |name| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    if !is_refused {
        for node in unanswered(head) {
            let text =
                format!("Warning: node {node} did not answer: what only it knows is missing\n");
            // An operator without standard error is not told.
            drop(io::stderr().write_all(text.as_bytes()));
        }
        return Ok(answer);
    }
    let error = ErrorCode::of_name(&field("error")).unwrap_or(ErrorCode::BadRequest);
    let text = field("reason");
    if error == ErrorCode::OtherNode {
        let text = format!("this socket is that of node '{text}', which was not asked");
        return Err(Unanswered::Io(io::Error::other(text)));
    }
    Err(Unanswered::Refused { error, text })
}

/// The nodes that have no part in an answer since they did not answer the one that was asked.
fn unanswered(head: &str) -> impl Iterator<Item = &str> {
    let mut headers = head.lines().filter_map(|line| line.split_once(": "));
    let names = headers.find(|(name, _)| name.eq_ignore_ascii_case(UNANSWERED_HEADER));
    names.into_iter().flat_map(|(_, names)| names.split(','))
}

/// The text when the node cannot be reached. Nodes that run elsewhere are listed if no node was named.
pub(crate) fn unreachable(invocation: &Invocation, error: &io::Error) -> Failure {
    let NodeAddress { node, data_dir, .. } = &invocation.address;
    let others = running(&invocation.address);
    Failure::bare(
        code::UNAVAILABLE,
        format!(
            "Error: unable to perform an operation on node '{node}'. \
             Please see diagnostics information and suggestions below.\n\n{others}\
             Most common reasons for this are:\n\n \
             * The node is not running\n \
             * It runs with another data directory: name it with --data-dir or LEVERET_DATA_DIR\n \
             * It runs on another machine: this tool reaches nodes of this machine only\n \
             * This user may not open its control socket\n\n\
             DIAGNOSTICS\n===========\n\n\
             control socket: {}\nerror: {error}\n",
            socket_path(data_dir).display()
        ),
    )
}

/// The text when the node did not answer in time.
pub(crate) fn timed_out(invocation: &Invocation) -> Failure {
    let timeout_ms = invocation.timeout.unwrap_or_default().as_millis();
    Failure::bare(
        code::TEMPORARY,
        format!(
            "Error: operation {} on node {} timed out. Timeout value used: {timeout_ms}",
            invocation.verb.name(),
            invocation.node()
        ),
    )
}

/// Whether an error says that time is up.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_understood() {
        let cut = b"HTTP/1.1 200 OK\r\n\r\n[1,2,";
        assert!(matches!(understand(cut), Err(Unanswered::Garbled)));
        assert_eq!(understand(b"HTTP/1.1 200 OK\r\n\r\n[1 ]").unwrap(), json!([1]));
        assert_eq!(understand(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap(), Value::Null);
        let body = r#"{"error":"no_such_user","reason":"bob"}"#;
        let refused = format!("HTTP/1.1 404 x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let Err(Unanswered::Refused { error, text }) = understand(refused.as_bytes()) else {
            panic!("not refused");
        };
        assert_eq!((error, text.as_str()), (ErrorCode::NoSuchUser, "bob"));
        let lacking = "HTTP/1.1 200 OK\r\nleveret-unanswered: a@b,c@d\r\ncontent-length: 2";
        assert_eq!(unanswered(lacking).collect::<Vec<_>>(), ["a@b", "c@d"]);
        assert!(matches!(understand(b"nonsense"), Err(Unanswered::Garbled)));
        assert!(matches!(understand(b""), Err(Unanswered::Garbled)));
    }

    #[test]
    fn a_node_may_refuse_what_it_has_not_read() {
        let (stream, mut node) = UnixStream::pair().unwrap();
        let refusing = std::thread::spawn(move || {
            node.read_exact(&mut [0; 1]).unwrap();
            node.write_all(b"HTTP/1.0 404 x\r\n\r\n{\"error\":\"a\",\"reason\":\"b\"}").unwrap();
        });
        let (address, body) = ("/api".to_owned(), "x".repeat(8 << 20));
        let question = Question { method: "POST", address, body };
        let refused = Client { stream, node: None }.ask(&question).unwrap_err();
        assert!(matches!(refused, Unanswered::Refused { error: ErrorCode::BadRequest, .. }));
        refusing.join().unwrap();
    }
}
