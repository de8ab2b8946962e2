//! The file the log goes to, which may be moved away while it is written.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Mutex;

/// A new file can be read by its owner and group: names of clients and users stand in it.
const FILE_MODE: u32 = 0o640;

/// A file that lines are appended to.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl LogFile {
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let file = Mutex::new(append_to(&path)?);
        Ok(Self { path, file })
    }

    /// Goes on with the file that is at the path now, or with a new one.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let file = append_to(&self.path)?;
        *stdx::lock(&self.file) = file;
        Ok(())
    }
}

fn append_to(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path)
}

/// Takes one line at a time.
impl io::Write for &LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Whole, so that no line of another thread comes in between.
        stdx::lock(&self.file).write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        stdx::lock(&self.file).flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_that_was_moved_is_followed_by_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("log"), dir.path().join("log.1"));
        let log = LogFile::open(path.clone()).unwrap();
        let say = |text: &str| (&log).write_all(text.as_bytes()).unwrap();
        say("a");
        std::fs::rename(&path, &moved).unwrap();
        say("b");
        log.reopen().unwrap();
        say("c");
        log.reopen().unwrap();
        say("d");
        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "ab");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "cd");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & !FILE_MODE, 0, "{mode:o}");
    }
}
