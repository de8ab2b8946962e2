//! Enough of a broker of the stream protocol for the tool: one thread per connection, each publish frame
//! one chunk, chunks delivered as far as there is credit.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use streamproto::command::{
    Command as _, OpenResponse, PeerPropertiesResponse, PublishConfirm, SaslHandshakeResponse, Tune,
};
use streamproto::field::Field as _;
use streamproto::{
    Chunk, ChunkHeader, CodeResponse, CommandId, Entry, Key, List, OffsetSpec, ResponseCode,
    ToServer, decode_frame, deliver_prefix,
};

/// The test broker's treatment of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streams {
    /// Streams are there and hold what is published.
    Good,
    /// Chunks are delivered with another checksum.
    Damaged,
    /// Streams exist with other properties.
    Different,
    /// Nobody may publish.
    Closed,
}

/// Chunks of each stream as they are delivered, with the offset behind them.
type Logs = Mutex<HashMap<String, Vec<(u64, Vec<u8>)>>>;

pub(super) struct StreamBroker {
    port: u16,
    logs: Arc<Logs>,
}

impl StreamBroker {
    pub(super) fn start(behaviour: Streams) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let logs = Arc::new(Logs::default());
        let all = Arc::clone(&logs);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (socket, logs) = (socket.unwrap(), Arc::clone(&all));
                std::thread::spawn(move || {
                    let served = Connection::new(socket, logs, behaviour).serve();
                    // The tool may go whenever it likes.
                    drop(served);
                });
            }
        });
        Self { port, logs }
    }

    pub(super) fn uri(&self) -> String {
        format!("rabbitmq-stream://127.0.0.1:{}", self.port)
    }

    pub(super) fn n_chunks(&self, stream: &str) -> usize {
        self.logs.lock().unwrap().get(stream).map_or(0, Vec::len)
    }
}

struct Connection {
    socket: TcpStream,
    logs: Arc<Logs>,
    behaviour: Streams,
    out: Vec<u8>,
    /// Streams of publishers, by number.
    publishers: HashMap<u8, String>,
    /// The stream of each subscription, the next chunk, and the credit.
    subscriptions: HashMap<u8, (String, usize, u16)>,
}

impl Connection {
    fn new(socket: TcpStream, logs: Arc<Logs>, behaviour: Streams) -> Self {
        let (publishers, subscriptions) = (HashMap::new(), HashMap::new());
        Self { socket, logs, behaviour, out: Vec::new(), publishers, subscriptions }
    }

    fn serve(mut self) -> std::io::Result<()> {
        let (mut input, mut buffer) = (Vec::new(), vec![0; 65_536]);
        loop {
            let n = self.socket.read(&mut buffer)?;
            if n == 0 {
                return Ok(());
            }
            input.extend_from_slice(&buffer[..n]);
            let mut used = 0;
            while let Some((frame, n)) = decode_frame(&input[used..], 0).unwrap() {
                used += n;
                self.on_command(ToServer::decode(frame).unwrap());
            }
            input.drain(..used);
            self.deliver();
            self.socket.write_all(&std::mem::take(&mut self.out))?;
        }
    }

    fn answer(&mut self, id: CommandId, correlation_id: u32, code: ResponseCode) {
        let key = id.known_key().unwrap();
        CodeResponse { key, correlation_id, code }.encode_frame(&mut self.out);
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "what the tool does not send is a failure")]
    fn on_command(&mut self, command: ToServer<'_>) {
        let (id, code) = (command.id(), ResponseCode::OK);
        match command {
            ToServer::PeerProperties(asked) => {
                let correlation_id = asked.correlation_id;
                PeerPropertiesResponse { correlation_id, code, ..Default::default() }
                    .encode_frame(&mut self.out);
            }
            ToServer::SaslHandshake(asked) => {
                let (correlation_id, mechanisms) = (asked.correlation_id, List::of(&["PLAIN"]));
                SaslHandshakeResponse { correlation_id, code, mechanisms }
                    .encode_frame(&mut self.out);
            }
            ToServer::SaslAuthenticate(asked) => {
                assert_eq!((asked.mechanism, asked.data), ("PLAIN", &b"\0guest\0guest"[..]));
                self.answer(id, asked.correlation_id, code);
                Tune { frame_max: 1 << 20, heartbeat_secs: 0 }.encode_frame(&mut self.out);
            }
            ToServer::Open(asked) => {
                let correlation_id = asked.correlation_id;
                OpenResponse { correlation_id, code, ..Default::default() }
                    .encode_frame(&mut self.out);
            }
            ToServer::Create(asked) => {
                let is_different = self.behaviour == Streams::Different;
                let code = if is_different { ResponseCode::PRECONDITION_FAILED } else { code };
                self.logs.lock().unwrap().entry(asked.stream.to_owned()).or_default();
                self.answer(id, asked.correlation_id, code);
            }
            ToServer::DeclarePublisher(asked) => {
                self.publishers.insert(asked.publisher_id, asked.stream.to_owned());
                let is_closed = self.behaviour == Streams::Closed;
                let code = if is_closed { ResponseCode::ACCESS_REFUSED } else { code };
                self.answer(id, asked.correlation_id, code);
            }
            ToServer::Subscribe(asked) => {
                assert_eq!(asked.offset, OffsetSpec::First);
                let subscription = (asked.stream.to_owned(), 0, asked.credit);
                self.subscriptions.insert(asked.subscription_id, subscription);
                self.answer(id, asked.correlation_id, code);
            }
            ToServer::Credit(more) => {
                self.subscriptions.get_mut(&more.subscription_id).unwrap().2 += more.credit;
            }
            ToServer::Unsubscribe(asked) => {
                self.subscriptions.remove(&asked.subscription_id);
                self.answer(id, asked.correlation_id, code);
            }
            ToServer::Publish(publish) => {
                let entries: Vec<_> = publish.messages.iter().collect();
                let stream = self.publishers[&publish.publisher_id].clone();
                self.store(&stream, &entries.iter().map(|one| one.entry).collect::<Vec<_>>());
                let ids: Vec<u64> = entries.iter().map(|one| one.publishing_id).collect();
                let (publisher_id, publishing_ids) = (publish.publisher_id, List::of(&ids));
                PublishConfirm { publisher_id, publishing_ids }.encode_frame(&mut self.out);
            }
            ToServer::Close(close) => {
                self.answer(CommandId::request(Key::Close, 1), close.correlation_id, code)
            }
            other => assert_eq!(other.id().known_key(), Some(Key::Tune), "{other:?}"),
        }
    }

    fn store(&mut self, stream: &str, entries: &[Entry<'_>]) {
        let mut logs = self.logs.lock().unwrap();
        let log = logs.get_mut(stream).unwrap();
        let chunk_id = log.last().map_or(0, |(end, _)| *end);
        let mut data = Vec::new();
        entries.iter().for_each(|entry| entry.put(&mut data));
        let n_records = entries.iter().map(|entry| u32::from(entry.n_records())).sum();
        let n_entries = u16::try_from(entries.len()).unwrap();
        let header = ChunkHeader { n_entries, n_records, chunk_id, ..ChunkHeader::default() };
        let mut chunk = Chunk::new(header, &[], &data, &[]).unwrap();
        chunk.header.crc ^= u32::from(self.behaviour == Streams::Damaged);
        let mut bytes = Vec::new();
        chunk.encode(&mut bytes);
        log.push((chunk.header.next_offset(), bytes));
    }

    fn deliver(&mut self) {
        let logs = self.logs.lock().unwrap();
        for (id, (stream, next, credit)) in &mut self.subscriptions {
            let chunks = logs.get(stream).map_or(&[][..], Vec::as_slice);
            while let Some((_, chunk)) = chunks.get(*next).filter(|_| *credit > 0) {
                self.out
                    .extend_from_slice(&deliver_prefix(*id, u32::try_from(chunk.len()).unwrap()));
                self.out.extend_from_slice(chunk);
                (*next, *credit) = (*next + 1, *credit - 1);
            }
        }
    }
}
