//! The control socket of a node, in its data directory.

use api::SOCKET_FILE;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Longer paths do not fit into a socket address.
const ADDRESS_BYTES_MAX: usize = 100;

/// The path of the control socket of the node with that data directory.
pub(crate) fn socket_path(data_dir: &Path) -> PathBuf {
    data_dir.join(SOCKET_FILE)
}

/// Connects by way of the open directory when the path is too long for a socket address.
pub(crate) fn connect(data_dir: &Path) -> io::Result<UnixStream> {
    let path = socket_path(data_dir);
    if path.as_os_str().len() <= ADDRESS_BYTES_MAX {
        return UnixStream::connect(path);
    }
    let directory = File::open(data_dir)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET_FILE}", directory.as_raw_fd()))
}

/// Whether [`connect`] has failed because no node listens there.
pub(crate) fn has_ended(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}
