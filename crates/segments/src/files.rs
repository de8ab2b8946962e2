//! Files and directories that may be missing.

use std::io;

use crate::disk::{Disk, OpenMode};
use crate::error::{IoContext, Result};

/// The names in a directory, or `None` if there is no such directory.
pub fn list_if_there(disk: &dyn Disk, dir: &str) -> Result<Option<Vec<String>>> {
    match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        listed => listed.map(Some).context("list", dir),
    }
}

/// The whole content of a file, or `None` if there is no such file.
pub fn read_file(disk: &dyn Disk, name: &str) -> Result<Option<Vec<u8>>> {
    let file = match disk.open(name, OpenMode::Existing) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("open", name),
    };
    let length = file.len().context("size", name)?;
    let length = usize::try_from(length).map_err(io::Error::other).context("size", name)?;
    let mut bytes = vec![0; length];
    let n = file.read_at(0, &mut bytes).context("read", name)?;
    bytes.truncate(n);
    Ok(Some(bytes))
}
