//! Traces to files, as RabbitMQ's tracing plugin writes them: each has a queue that is bound to
//! `amq.rabbitmq.trace`, whose messages a session in a user's name fetches every while and writes down.
//!
//! Nobody else pays for that: of too many messages that wait the oldest go, and a file that is full, or a
//! disk, ends its trace, with a word in the log.

mod form;

use crate::Api;
use crate::caller::Caller;
use crate::refusal::Refusal;
use crate::user_session::{Got, Told, UserSession};
use broker::{Alarm, Broker};
use form::Form;
use serde_json::{Map, Value};
use session::{Op, QueueBinding, QueueDeclaration, ShortString, Table};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Traces at a time.
const TRACES_MAX: usize = 32;
/// A file of so many bytes is full.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Bytes of messages that wait in a trace's queue.
const WAITING_BYTES_MAX: i64 = 64 << 20;
/// Messages that are fetched at a time, and about as many bytes of them.
const PORTION_MAX: usize = 256;
const PORTION_BYTES_MAX: usize = 1 << 20;
/// Time between looks for messages.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Longest name: it is in those of a file and of a queue.
const NAME_BYTES_MAX: usize = 200;
/// The exchange that copies of messages go to.
const EXCHANGE: &str = "amq.rabbitmq.trace";

/// A trace's virtual host and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TraceKey {
    pub(crate) vhost: String,
    pub(crate) name: String,
}

/// The traces that are being written.
#[derive(Debug, Default)]
pub(crate) struct Traces(Mutex<BTreeMap<TraceKey, Trace>>);

#[derive(Debug)]
struct Trace {
    /// The settings that the user gave, without a password.
    settings: Map<String, Value>,
    stopped: Arc<Notify>,
}

impl Traces {
    /// The settings of all traces by their keys.
    pub(crate) fn all(&self) -> BTreeMap<TraceKey, Map<String, Value>> {
        let traces = stdx::lock(&self.0);
        traces.iter().map(|(key, trace)| (key.clone(), trace.settings.clone())).collect()
    }

    /// Ends a trace. False if there is none; with `only`, if it is another one.
    pub(crate) fn stop(&self, broker: &Broker, key: &TraceKey, only: Option<&Arc<Notify>>) -> bool {
        let mut traces = stdx::lock(&self.0);
        let is_it = |trace: &Trace| only.is_none_or(|only| Arc::ptr_eq(only, &trace.stopped));
        if !traces.get(key).is_some_and(is_it) {
            return false;
        }
        traces.remove(key).into_iter().for_each(|trace| trace.stopped.notify_one());
        if !traces.keys().any(|it| it.vhost == key.vhost) {
            let _was_there = broker.firehose().stop(&key.vhost, None);
        }
        true
    }

    fn add(&self, broker: &Broker, key: &TraceKey, trace: Trace) -> Result<(), Refusal> {
        let mut traces = stdx::lock(&self.0);
        if traces.contains_key(key) {
            return Err(Refusal::bad_request("the trace already exists"));
        }
        if traces.len() >= TRACES_MAX {
            return Err(Refusal::bad_request(format!(
                "the limit of {TRACES_MAX} traces is reached"
            )));
        }
        if !broker.firehose().start(&key.vhost, None) {
            return Err(Refusal::lacks("vhost_not_found"));
        }
        traces.insert(key.clone(), trace);
        Ok(())
    }
}

/// The request to begin a trace.
pub(crate) struct Wanted {
    pub(crate) key: TraceKey,
    pub(crate) pattern: ShortString,
    pub(crate) is_json: bool,
    pub(crate) payload_bytes_max: usize,
    /// The settings as they are shown.
    pub(crate) settings: Map<String, Value>,
}

/// Whether a trace, or its file, can have the name: it is in no other directory.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c != '/' && !c.is_control();
    !["", ".", ".."].contains(&name)
        && name.len() <= NAME_BYTES_MAX + 4
        && name.chars().all(is_plain)
}

/// Begins a trace in the name of a user.
pub(crate) async fn start(api: &Arc<Api>, user: &Caller, wanted: Wanted) -> Result<(), Refusal> {
    let Wanted { key, pattern, is_json, payload_bytes_max, settings } = wanted;
    if !is_name(&key.name) || key.name.len() > NAME_BYTES_MAX {
        return Err(Refusal::bad_request("invalid file name"));
    }
    let mut session = UserSession::open(api, user, &key.vhost).await?;
    let file = prepare(&mut session, api, &key.name, pattern).await;
    let stopped = Arc::<Notify>::default();
    let added = file.and_then(|(queue, file)| {
        let trace = Trace { settings, stopped: Arc::clone(&stopped) };
        api.traces.add(&api.management.broker, &key, trace)?;
        Ok((queue, file))
    });
    let (queue, file) = match added {
        Ok(added) => added,
        Err(refusal) => {
            session.close().await;
            return Err(refusal);
        }
    };
    let form = Form { is_json, payload_bytes_max };
    let mut tracer = Tracer { api: Arc::clone(api), session, queue, form, file: Arc::new(file) };
    tokio::spawn(async move {
        let ended = tracer.run(&stopped).await;
        let Tracer { api, session, .. } = tracer;
        session.close().await;
        if let Err(reason) = ended
            && api.traces.stop(&api.management.broker, &key, Some(&stopped))
        {
            tracing::warn!(vhost = %key.vhost, "trace '{}' stopped: {reason}", key.name);
        }
    });
    Ok(())
}

/// Makes the queue and opens the file.
async fn prepare(
    session: &mut UserSession,
    api: &Api,
    name: &str,
    pattern: ShortString,
) -> Result<(ShortString, File), Refusal> {
    let queue = format!("trace-{name}-{}", api.now().unix_ms.get());
    let queue =
        ShortString::new(&queue).map_err(|_| Refusal::bad_request("the name is too long"))?;
    let mut arguments = Table::new();
    arguments.push(ShortString::from_static("x-max-length-bytes"), WAITING_BYTES_MAX);
    arguments.push(ShortString::from_static("x-queue-type"), session::Value::from("classic"));
    let declaration = QueueDeclaration {
        queue: queue.clone(),
        passive: false,
        durable: false,
        exclusive: true,
        auto_delete: false,
        arguments,
    };
    session.ask(Op::DeclareQueue(declaration)).await?;
    let (exchange, arguments) = (ShortString::from_static(EXCHANGE), Table::new());
    let binding = QueueBinding { queue: queue.clone(), exchange, routing_key: pattern, arguments };
    session.ask(Op::BindQueue(binding)).await?;
    let (dir, name) = (api.management.node_info.trace_dir.clone(), format!("{name}.log"));
    let opened =
        spawn_blocking(move || open(&dir, &name)).await.map_err(|_| Refusal::internal())?;
    let file =
        opened.map_err(|error| Refusal::bad_request(format!("cannot open the file: {error}")))?;
    Ok((queue, file))
}

fn open(dir: &Path, name: &str) -> io::Result<File> {
    fs::create_dir_all(dir)?;
    File::options().append(true).create(true).open(dir.join(name))
}

/// A trace at work.
struct Tracer {
    api: Arc<Api>,
    session: UserSession,
    queue: ShortString,
    form: Form,
    file: Arc<File>,
}

impl Tracer {
    /// Writes down what comes until the trace is stopped, and what has come until then.
    async fn run(&mut self, stopped: &Notify) -> Result<(), String> {
        loop {
            let n = self.write_portion().await?;
            let wait = if n < PORTION_MAX { LOOK_EVERY } else { Duration::ZERO };
            if timeout(wait, stopped.notified()).await.is_ok() {
                self.write_portion().await?;
                return Ok(());
            }
        }
    }

    /// Writes down some messages; returns how many.
    async fn write_portion(&mut self) -> Result<usize, String> {
        let (mut all, mut n_bytes) = (Vec::new(), 0);
        while all.len() < PORTION_MAX && n_bytes < PORTION_BYTES_MAX {
            let get = Op::Get { queue: self.queue.clone(), no_ack: true };
            let told = self.session.ask(get).await.map_err(|refusal| refusal.reason)?;
            let Told::Got(got) = told else { break };
            n_bytes += got.message.size_bytes();
            all.push(got);
        }
        if all.is_empty() {
            return Ok(0);
        }
        if self.api.management.broker.alarms.is_on(Alarm::Disk) {
            return Err("disk alarm".to_owned());
        }
        let (file, form, unix_ms) =
            (Arc::clone(&self.file), self.form, self.api.now().unix_ms.get());
        let n = all.len();
        let written = spawn_blocking(move || write(&file, form, &all, unix_ms)).await;
        let written = written.map_err(|error| error.to_string())?;
        written.map(|()| n).map_err(|error| format!("cannot write the file: {error}"))
    }
}

fn write(mut file: &File, form: Form, all: &[Box<Got>], unix_ms: u64) -> io::Result<()> {
    let mut text = Vec::new();
    all.iter().for_each(|got| form.write(&got.message.message(), unix_ms, &mut text));
    if file.metadata()?.len() + text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    file.write_all(&text)
}
