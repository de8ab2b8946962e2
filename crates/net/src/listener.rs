//! Binding of listening sockets.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use crate::front::Protocol;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

/// The address a listener binds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A port on every address of the machine, IPv6 and IPv4. 0 takes any free port.
    Every(u16),
    /// A port on one address. Port 0 takes any free port.
    One(SocketAddr),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(port) => write!(f, "port {port}"),
            Self::One(address) => address.fmt(f),
        }
    }
}

/// The clients that a listener is for.
#[derive(Clone, Debug)]
pub struct Service {
    /// The protocol its clients speak.
    pub protocol: Protocol,
    /// Another protocol that some of its clients speak, which they say with their first bytes.
    pub other: Option<Protocol>,
    /// The certificates they are shown, if they speak it over TLS.
    pub tls: Option<Arc<tls::Context>>,
}

impl Service {
    /// RabbitMQ's word for its listeners.
    pub fn listener_name(&self) -> &'static str {
        let [plain, tls] = self.protocol.kind().row().listeners;
        if self.tls.is_some() { tls } else { plain }
    }

    /// RabbitMQ's description of its listeners.
    pub fn purpose(&self) -> String {
        let protocols = [Some(&self.protocol), self.other.as_ref()].into_iter().flatten();
        let purposes: Vec<_> = protocols.map(|it| it.kind().row().purpose).collect();
        let over = if self.tls.is_some() { " over TLS" } else { "" };
        format!("{}{over}", purposes.join(" and "))
    }
}

impl ListenAddress {
    /// A socket that listens there. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The system refuses.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        let socket = match self {
            Self::One(address) => listen(address, backlog)?,
            Self::Every(port) => {
                match listen((Ipv6Addr::UNSPECIFIED, port).into(), backlog) {
                    // A machine without IPv6.
                    Err(error) if no_such_family(&error) => {
                        listen((Ipv4Addr::UNSPECIFIED, port).into(), backlog)?
                    }
                    other => other?,
                }
            }
        };
        TcpListener::from_std(socket.into())
    }
}

/// A bound and listening TCP socket.
#[derive(Debug)]
pub struct Listener {
    /// The socket, to accept connections from.
    pub socket: TcpListener,
    /// The address bound, with the port the system chose where 0 was asked for.
    pub address: SocketAddr,
    backlog: u32,
    /// The clients it is for.
    pub service: Service,
}

impl Listener {
    /// Binds and listens. `backlog` is the number of connections the kernel
    /// holds until they are accepted. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The system refuses: the port is in use, or the address is not this machine's, for example.
    pub fn bind(address: ListenAddress, backlog: u32, service: Service) -> io::Result<Self> {
        let socket = address.listen(backlog)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address, backlog, service })
    }

    /// Closes the socket.
    #[must_use]
    pub fn close(self) -> ClosedListener {
        let Self { address, backlog, service, .. } = self;
        ClosedListener { address, backlog, service }
    }
}

/// A listener whose socket is closed.
#[derive(Clone, Debug)]
pub struct ClosedListener {
    /// The address of the socket.
    pub address: SocketAddr,
    backlog: u32,
    service: Service,
}

impl ClosedListener {
    /// Binds a socket like the one before: at the very port, and with its backlog.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn open(&self) -> io::Result<Listener> {
        Listener::bind(ListenAddress::One(self.address), self.backlog, self.service.clone())
    }
}

fn listen(address: SocketAddr, backlog: u32) -> io::Result<Socket> {
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM, Some(socket2::Protocol::TCP))?;
    if address.is_ipv6() {
        // [::] takes IPv4 clients too, as the port alone promises.
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // A restarted node does not wait for old connections in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket)
}

/// EAFNOSUPPORT as the socket is made, EADDRNOTAVAIL as it is bound.
fn no_such_family(error: &io::Error) -> bool {
    const EAFNOSUPPORT: i32 = 97;
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(EAFNOSUPPORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(address: ListenAddress) -> io::Result<Listener> {
        let service =
            Service { protocol: Protocol::Amqp091(Arc::default()), other: None, tls: None };
        Listener::bind(address, 16, service)
    }

    #[tokio::test]
    async fn a_port_alone_takes_ipv4_clients() {
        let listener = bind(ListenAddress::Every(0)).unwrap();
        let port = listener.address.port();
        assert_ne!(port, 0);
        let client = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let (_, from) = listener.socket.accept().await.unwrap();
        assert_eq!(from.port(), client.local_addr().unwrap().port());
    }

    #[tokio::test]
    async fn a_port_in_use_is_refused() {
        let first = bind(ListenAddress::One("127.0.0.1:0".parse().unwrap())).unwrap();
        let error = bind(ListenAddress::One(first.address)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        let port = first.address.port();
        let error = bind(ListenAddress::Every(port)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
