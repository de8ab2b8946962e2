//! The control socket in the data directory. Who can open it is trusted with everything, as is who
//! knows RabbitMQ's Erlang cookie: only the node's own user can.

use api::SOCKET_FILE;
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// Read and write for the owner, nothing for others.
const MODE: u32 = 0o600;
/// Connections the kernel may hold before they are accepted.
const BACKLOG: i32 = 64;
/// Longer paths do not fit into a socket address.
const ADDRESS_BYTES_MAX: usize = 100;

/// A control socket that is listened on. Its file goes with it.
#[derive(Debug)]
pub struct ControlSocket {
    /// Itself.
    pub listener: UnixListener,
    /// Removes the file.
    pub file: SocketFile,
}

/// The socket's file; removed when dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl ControlSocket {
    /// Listens in `data_dir`. The caller has the directory to itself: a socket that lies there is
    /// left from a node that died, and is replaced.
    ///
    /// # Errors
    /// A file that is not a socket is in the way, or the system refuses.
    pub fn bind(data_dir: &Path) -> io::Result<Self> {
        // Tools in another directory find it by its whole path.
        let data_dir = &data_dir.canonicalize()?;
        let path = data_dir.join(SOCKET_FILE);
        remove_stale(&path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        bind_at(&socket, data_dir, &path)?;
        let file = SocketFile(path);
        // Nobody can connect before `listen`, so there is no moment with other permissions.
        std::fs::set_permissions(&file.0, Permissions::from_mode(MODE))?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let listener = UnixListener::from_std(std::os::unix::net::UnixListener::from(
            std::os::fd::OwnedFd::from(socket),
        ))?;
        Ok(Self { listener, file })
    }
}

fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("{} is in the way: it is not a socket", path.display()),
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Binds by way of the open directory when the path is too long for an address.
fn bind_at(socket: &Socket, data_dir: &Path, path: &Path) -> io::Result<()> {
    if path.as_os_str().len() <= ADDRESS_BYTES_MAX {
        return socket.bind(&SockAddr::unix(path)?);
    }
    let directory = File::open(data_dir)?;
    let short = format!("/proc/self/fd/{}/{SOCKET_FILE}", directory.as_raw_fd());
    socket.bind(&SockAddr::unix(short)?)
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!("cannot remove {}: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_owner_can_open_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(SOCKET_FILE);
        let socket = ControlSocket::bind(dir.path()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::os::unix::net::UnixStream::connect(&path).unwrap();
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_socket_left_behind_is_replaced_but_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(SOCKET_FILE);
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(ControlSocket::bind(dir.path()).unwrap());
        std::fs::write(&path, b"precious").unwrap();
        let error = ControlSocket::bind(dir.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[tokio::test]
    async fn a_data_directory_may_lie_deep() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(120)).join("e".repeat(120));
        std::fs::create_dir_all(&deep).unwrap();
        let socket = ControlSocket::bind(&deep).unwrap();
        assert!(deep.join(SOCKET_FILE).exists());
        drop(socket);
        assert!(!deep.join(SOCKET_FILE).exists());
    }
}
