//! Lines to a syslog server, over UDP, TCP or TLS. A server that cannot be reached loses lines; those with
//! connections are tried again in a while.

use super::record::{Record, severity};
use crate::config::{Formatter, SyslogSettings, Transport};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stdx::{Civil, Date};

/// Longest wait for a server: lines for other places wait meanwhile.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Time until a server that could not be reached is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A way to a server.
#[derive(Debug)]
enum Way {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    /// No connection; the next attempt is made from this time on, or with the next line if `None`.
    None(Option<Instant>),
}

/// The sender of lines to a server.
#[derive(Debug)]
pub(super) struct Syslog {
    settings: SyslogSettings,
    host_name: String,
    way: Way,
    /// The configuration of connections for [`Transport::Tls`].
    tls: Option<Arc<ClientConfig>>,
}

impl Syslog {
    pub(super) fn new(settings: SyslogSettings, host_name: String) -> Result<Self, tls::Errors> {
        let is_tls = settings.transport == Transport::Tls;
        let tls = is_tls.then(|| tls::client_config(&settings.tls)).transpose()?;
        Ok(Self { settings, host_name, way: Way::None(None), tls })
    }

    /// Sends a line, if that can be done.
    pub(super) fn send(&mut self, record: &Record, formatter: Formatter) {
        let text = match formatter {
            Formatter::Plain | Formatter::Bare => record.text(),
            Formatter::Json => record.line(formatter),
        };
        let message = self.message(record, &text);
        if matches!(&self.way, Way::None(until) if until.is_none_or(|until| Instant::now() >= until))
        {
            self.way = self.connect().unwrap_or_else(|_| after_a_while());
        }
        // RFC 6587 and 5425: a number of bytes for the one, lines for the other.
        let framed = if self.settings.is_rfc5424 {
            format!("{} {message}", message.len())
        } else {
            format!("{message}\n")
        };
        let sent = match &mut self.way {
            Way::Udp(socket) => socket.send(message.as_bytes()).map(drop),
            Way::Tcp(socket) => socket.write_all(framed.as_bytes()),
            Way::Tls(session) => {
                session.write_all(framed.as_bytes()).and_then(|()| session.flush())
            }
            Way::None(_) => return,
        };
        if sent.is_err() && self.settings.transport != Transport::Udp {
            self.way = after_a_while();
        }
    }

    fn connect(&self) -> io::Result<Way> {
        let SyslogSettings { host, port, transport, .. } = &self.settings;
        let mut addresses = (host.as_str(), *port).to_socket_addrs()?;
        let address = addresses.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
        if *transport == Transport::Udp {
            let any = if address.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
            let socket = UdpSocket::bind(any)?;
            socket.connect(address)?;
            return Ok(Way::Udp(socket));
        }
        let socket = TcpStream::connect_timeout(&address, TIMEOUT)?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        let Some(config) = &self.tls else { return Ok(Way::Tcp(socket)) };
        // The handshake, which the first line waits for, has this time.
        socket.set_read_timeout(Some(TIMEOUT))?;
        let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
        let session = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        Ok(Way::Tls(Box::new(StreamOwned::new(session, socket))))
    }

    fn message(&self, record: &Record, text: &str) -> String {
        let priority = self.settings.facility * 8 + severity(record.level);
        let (host, identity, id) = (&self.host_name, &self.settings.identity, std::process::id());
        if self.settings.is_rfc5424 {
            let time = record.time('T');
            return format!("<{priority}>1 {time} {host} {identity} {id} - - {text}");
        }
        let Civil { date: Date { month, day, .. }, time: (hour, minute, second) } =
            Civil::at(record.unix_micros / 1_000_000);
        let month = MONTHS.iter().zip(1..).find(|(_, number)| *number == month);
        let month = month.map_or("Jan", |(name, _)| name);
        format!(
            "<{priority}>{month} {day:>2} {hour:02}:{minute:02}:{second:02} {host} {identity}[{id}]: {text}"
        )
    }
}

fn after_a_while() -> Way {
    Way::None(Instant::now().checked_add(RETRY_AFTER))
}
