//! What must hold for any input of a client of the stream protocol whose session is a broker's. Shared by the
//! fuzz target and by an ordinary test of the crate `net`, which needs no fuzzer.

use broker::{Broker, Identity, Session};
use edge::{AuthFailure, Step, TaskOutbox as _, WriteBatch};
use front_stream::{ClientOutbox, Connection, Settings};
use log::WalOptions;
use meta::{Command as Change, PasswordHash};
use session::{Outbox, Request};
use std::io::IoSlice;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;
use stdx::Now;
use streamproto::command::{
    Create, DeclarePublisher, Open, PeerProperties, Publish, PublishedMessage, SaslAuthenticate,
    SaslHandshake, Tune,
};
use streamproto::{Command, Entry, List, ToClient, decode_frame};
use testing::MemoryDisk;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

const NOW: Now = Now::at_ms(0);
const FRAME_MAX: u32 = 4096;
const PORT: u16 = 5552;
/// Longest input.
const INPUT_BYTES_MAX: usize = 64 * 1024;
/// Answers that a client reads, bytes.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Time after which nothing is expected to happen any more.
const DEADLINE: Duration = Duration::from_secs(60);

/// A node in memory and the threads that serve it, for all inputs.
static NODE: LazyLock<Mutex<(Runtime, Arc<Broker>)>> = LazyLock::new(|| {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let options = WalOptions { segment_bytes: 1 << 20, ..WalOptions::default() };
    let broker = Broker::open(Arc::new(MemoryDisk::new()), options).expect("an empty disk");
    let password = PasswordHash::new(Default::default(), "fuzz");
    let user = Change::CreateUser { user: "fuzz".into(), password, tags: Vec::new() };
    runtime.block_on(broker.apply_definition(user)).expect("a user");
    Mutex::new((runtime, broker))
});

/// A client that says anything once it is let in, in reads whose size the first octet tells: no more than a frame
/// is kept, all that it is told is frames for clients, it comes to its end, and whoever comes then is served.
pub(crate) fn session(input: &[u8]) {
    let Some((&size, said)) = input.split_first() else { return };
    if said.len() > INPUT_BYTES_MAX {
        return;
    }
    let node = NODE.lock().unwrap_or_else(PoisonError::into_inner);
    let (runtime, broker) = &*node;
    runtime.block_on(async {
        let conversation = async {
            make_vhost(broker).await;
            let mut client = Client::new(broker);
            client.says(&hello()).await;
            for piece in said.chunks(usize::from(size) + 1) {
                client.says(piece).await;
                assert!(client.kept.len() <= FRAME_MAX as usize + 4);
            }
            client.end().await;
            Client::new(broker).publishes_one().await;
            let gone = Change::DeleteVhost { vhost: "/".into() };
            broker.apply_definition(gone).await.expect("it is there");
        };
        timeout(DEADLINE, conversation).await.expect("everything is worked off");
    });
}

async fn make_vhost(broker: &Arc<Broker>) {
    let all = || ".*".to_owned();
    let (vhost, user) = ("/".into(), "fuzz".into());
    let made = Change::CreateVhost { vhost: "/".into(), metadata: Default::default() };
    broker.apply_definition(made).await.expect("a virtual host");
    let allowed =
        Change::SetPermissions { user, vhost, configure: all(), write: all(), read: all() };
    broker.apply_definition(allowed).await.expect("permissions");
}

fn hello() -> Vec<u8> {
    let mut out = Vec::new();
    PeerProperties::default().encode_frame(&mut out);
    SaslHandshake { correlation_id: 2 }.encode_frame(&mut out);
    let (mechanism, data) = ("PLAIN", &b"\0fuzz\0fuzz"[..]);
    SaslAuthenticate { correlation_id: 3, mechanism, data }.encode_frame(&mut out);
    Tune { frame_max: FRAME_MAX, heartbeat_secs: 0 }.encode_frame(&mut out);
    Open { correlation_id: 4, virtual_host: "/" }.encode_frame(&mut out);
    out
}

/// A client, with the task that would serve it.
struct Client {
    broker: Arc<Broker>,
    front: Connection,
    outbox: Arc<ClientOutbox>,
    session: Option<Session>,
    kept: Vec<u8>,
    requests: Vec<Request>,
    batch: WriteBatch,
    output: Vec<u8>,
}

impl Client {
    fn new(broker: &Arc<Broker>) -> Self {
        let front = Connection::new(Arc::new(Settings::default()), PORT, NOW);
        Self {
            broker: Arc::clone(broker),
            outbox: front.outbox(),
            front,
            session: None,
            kept: Vec::new(),
            requests: Vec::new(),
            batch: WriteBatch::default(),
            output: Vec::new(),
        }
    }

    async fn says(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        loop {
            let progress = self.front.read(NOW, &self.kept, &mut self.requests);
            if let Some(session) = &mut self.session {
                let stops = session
                    .submit(&session::ReadInput::of(&self.kept), &mut self.requests)
                    .await
                    .is_err();
                session.wake();
                if stops {
                    self.end().await;
                }
            }
            self.requests.clear();
            self.kept.drain(..progress.consumed);
            self.reads();
            match progress.step {
                Step::Again => {}
                Step::Authenticate(_) => {
                    let renewed = self.session.as_mut().map_or(Ok(()), Session::renew_login);
                    self.front.authenticated(NOW, renewed.map_err(AuthFailure::Error));
                }
                Step::Open { vhost } => {
                    let user = "fuzz".into();
                    let identity = Identity { user, vhost, ..Identity::default() };
                    let outbox: Arc<dyn Outbox> = Arc::<ClientOutbox>::clone(&self.outbox);
                    let opened = Session::open(Arc::clone(&self.broker), identity, outbox);
                    let told = opened.map(|session| self.session = Some(session));
                    self.front.opened(NOW, told);
                }
                Step::More | Step::Close | Step::SpeaksOther => break,
            }
        }
    }

    /// Takes what it is told, up to a limit; subscriptions go on then.
    fn reads(&mut self) {
        while self.output.len() < OUTPUT_BYTES_MAX && self.outbox.try_take(&mut self.batch) {
            while !self.batch.is_written() {
                let mut slices = [IoSlice::new(&[]); 4];
                let n_slices = self.batch.fill(&mut slices);
                let before = self.output.len();
                slices[..n_slices].iter().for_each(|slice| self.output.extend_from_slice(slice));
                assert!(self.output.len() > before, "a disk in memory has no files to be sent");
                self.batch.advance(self.output.len() - before);
            }
            let links = std::mem::take(self.batch.resume());
            if let Some(session) = &self.session {
                session.resume(&links);
            }
            if self.batch.close_mode.is_some() {
                break;
            }
        }
    }

    /// What it was told, as commands.
    fn told(&self) -> Vec<String> {
        let (mut rest, mut told) = (&self.output[..], Vec::new());
        while !rest.is_empty() {
            let frame = decode_frame(rest, 0).expect("the server sends frames");
            let (frame, used) = frame.expect("and whole ones");
            told.push(format!(
                "{:?}",
                ToClient::decode(frame).expect("that are commands for clients")
            ));
            rest = &rest[used..];
        }
        told
    }

    async fn end(&mut self) {
        if let Some(session) = self.session.take() {
            session.close().await;
        }
        self.front.read(NOW, &[], &mut self.requests);
        self.reads();
        self.told();
    }

    /// A message of its own, to a stream of its own, which is confirmed.
    async fn publishes_one(mut self) {
        let mut said = hello();
        let (stream, reference, publisher_id) = ("a stream that nobody else names", "", 1);
        Create { correlation_id: 5, stream, arguments: List::default() }.encode_frame(&mut said);
        DeclarePublisher { correlation_id: 6, publisher_id, reference, stream }
            .encode_frame(&mut said);
        let messages = [PublishedMessage { publishing_id: 1, entry: Entry::Message(b"x") }];
        Publish { publisher_id, messages: List::of(&messages) }.encode_frame(&mut said);
        self.says(&said).await;
        while !self.told().iter().any(|command| command.contains("PublishConfirm")) {
            sleep(Duration::from_millis(1)).await;
            self.reads();
        }
        self.end().await;
    }
}
