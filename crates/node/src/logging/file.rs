//! The file the log goes to, which may be moved away while it is written, or which moves itself away when it
//! is large or old: `log` becomes `log.0`, `log.0` becomes `log.1`.

use crate::config::Rotation;
use crate::wall;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::UNIX_EPOCH;

/// A new file can be read by its owner and group: names of clients and users stand in it.
const FILE_MODE: u32 = 0o640;
/// A file that lines are appended to.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    rotation: Rotation,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
    /// When it was written last, in seconds since 1970.
    written_s: u64,
}

impl LogFile {
    pub(super) fn open(path: PathBuf, rotation: Rotation) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let open = Mutex::new(append_to(&path)?);
        Ok(Self { path, rotation, open })
    }

    /// Goes on with the file that is at the path now, or with a new one.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let open = append_to(&self.path)?;
        *stdx::lock(&self.open) = open;
        Ok(())
    }

    /// Appends whole lines.
    pub(super) fn append(&self, lines: &[u8]) -> io::Result<()> {
        self.append_at(lines, wall::since_1970().as_secs())
    }

    fn append_at(&self, lines: &[u8], now_s: u64) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut open = stdx::lock(&self.open);
        let Rotation { bytes, period, .. } = &self.rotation;
        let is_large = *bytes > 0 && open.bytes >= *bytes;
        let is_old = period.as_ref().is_some_and(|it| it.of(open.written_s) < it.of(now_s));
        if open.bytes > 0 && (is_large || is_old) {
            // A file that cannot be moved goes on.
            let _stays = self.move_away();
            *open = append_to(&self.path)?;
        }
        open.bytes += lines.len() as u64;
        open.written_s = now_s;
        open.file.write_all(lines)
    }

    fn move_away(&self) -> io::Result<()> {
        let count = self.rotation.count;
        if count == 0 {
            return std::fs::remove_file(&self.path);
        }
        let (last, end) = (count - 1, if self.rotation.compress { ".gz" } else { "" });
        for at in (0..last).rev() {
            // There may be fewer.
            let _none = std::fs::rename(self.old(at, end), self.old(at + 1, end));
        }
        let newest = self.old(0, "");
        std::fs::rename(&self.path, &newest)?;
        if self.rotation.compress { compress(&newest, &self.old(0, end)) } else { Ok(()) }
    }

    fn old(&self, at: u64, end: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{at}{end}"));
        path.into()
    }
}

/// Takes the place of a file.
fn compress(from: &Path, to: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(FILE_MODE);
    let mut encoder = GzEncoder::new(options.open(to)?, Compression::fast());
    io::copy(&mut File::open(from)?, &mut encoder)?;
    encoder.finish()?;
    std::fs::remove_file(from)
}

fn append_to(path: &Path) -> io::Result<Open> {
    let file = OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path)?;
    let facts = file.metadata()?;
    let since_1970 = facts.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Open { file, bytes: facts.len(), written_s: since_1970.as_secs() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Period;
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_file_that_was_moved_is_followed_by_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("log"), dir.path().join("moved"));
        let log = LogFile::open(path.clone(), Rotation::default()).unwrap();
        log.append(b"a").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        log.append(b"b").unwrap();
        log.reopen().unwrap();
        log.append(b"c").unwrap();
        log.reopen().unwrap();
        log.append(b"d").unwrap();
        assert_eq!((read(&moved), read(&path)), ("ab".to_owned(), "cd".to_owned()));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & !FILE_MODE, 0, "{mode:o}");
    }

    #[test]
    fn a_large_file_moves_away_and_so_many_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let rotation = Rotation { bytes: 4, count: 2, ..Rotation::default() };
        let log = LogFile::open(path.clone(), rotation).unwrap();
        ["aaaa", "bbb", "bb", "cccccc", "d"]
            .iter()
            .for_each(|it| log.append(it.as_bytes()).unwrap());
        let old = |at| read(&log.old(at, ""));
        assert_eq!((read(&path), old(0), old(1)), ("d".into(), "cccccc".into(), "bbbbb".into()));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[test]
    fn an_old_file_moves_away_at_the_first_line_of_another_day_and_is_compressed() {
        const DAY_S: u64 = 86_400;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (period, compress) = (Period::parse("$D0"), true);
        let rotation = Rotation { period, compress, ..Rotation::default() };
        let log = LogFile::open(path.clone(), rotation).unwrap();
        let tomorrow = (1_u64 << 32) / DAY_S * DAY_S;
        log.append_at(b"a", tomorrow).unwrap();
        log.append_at(b"b", tomorrow + DAY_S - 1).unwrap();
        log.append_at(b"c", tomorrow + DAY_S).unwrap();
        let mut text = String::new();
        let old = File::open(log.old(0, ".gz")).unwrap();
        flate2::read::GzDecoder::new(old).read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), read(&path).as_str()), ("ab", "c"));
        assert!(!log.old(0, "").exists());
    }
}
