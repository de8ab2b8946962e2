//! The cookie that the nodes of a cluster share, from the environment or a file.

use peer::PeerCookie;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// COMPAT: the name of the file, in RabbitMQ's data directory too.
pub const COOKIE_FILE: &str = ".erlang.cookie";
/// COMPAT: letters of a cookie that is made, as Erlang makes them.
const LETTERS: usize = 20;
/// The bytes of a cookie at most, as in Erlang.
const COOKIE_BYTES_MAX: u64 = 255;

/// The reason why there is no cookie.
#[derive(Debug, thiserror::Error)]
pub enum PeerCookieError {
    /// The file cannot be read or made.
    #[error("cannot read or create the cookie {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// COMPAT: Erlang refuses a file that others than its owner may use, with these words.
    #[error(
        "Cookie file {} must be accessible by owner only: run 'chmod 600' on it (its mode is {mode:o})",
        path.display()
    )]
    Permissions {
        /// The file.
        path: PathBuf,
        /// The permissions.
        mode: u32,
    },
    /// The text is empty, too long, or has bytes that are not printable ASCII.
    #[error("{origin} must have 1 to 255 printable ASCII characters on one line")]
    Text {
        /// The file or the variable.
        origin: String,
    },
}

/// The cookie that the environment gives (`RABBITMQ_ERLANG_COOKIE`), else that of the file in the data
/// directory, which is made if it does not exist.
///
/// # Errors
/// The file cannot be used, or the text is no cookie.
pub fn load_cookie(data_dir: &Path, given: Option<&str>) -> Result<PeerCookie, PeerCookieError> {
    if let Some(text) = given {
        return parse(text.as_bytes(), || "RABBITMQ_ERLANG_COOKIE".to_owned());
    }
    let path = data_dir.join(COOKIE_FILE);
    let mut file = File::open(&path);
    if file.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        file = create(&path).and_then(|()| File::open(&path));
    }
    let failed = |source| PeerCookieError::File { path: path.clone(), source };
    let file = file.map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(PeerCookieError::Permissions { path, mode });
    }
    let mut text = Vec::new();
    file.take(COOKIE_BYTES_MAX + 2).read_to_end(&mut text).map_err(failed)?;
    parse(&text, || path.display().to_string())
}

/// Checks a text. Line ends behind it do not count.
fn parse(text: &[u8], origin: impl FnOnce() -> String) -> Result<PeerCookie, PeerCookieError> {
    let n_ends = text.iter().rev().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let cookie = text.get(..text.len() - n_ends).unwrap_or_default();
    let is_text = cookie.iter().all(|byte| (b' '..=b'~').contains(byte));
    let is_short = cookie.len() as u64 <= COOKIE_BYTES_MAX;
    let cookie = Some(cookie).filter(|_| is_text && is_short).and_then(PeerCookie::new);
    cookie.ok_or_else(|| PeerCookieError::Text { origin: origin() })
}

/// Makes the file with a random cookie, whole or not at all.
fn create(path: &Path) -> io::Result<()> {
    let new = path.with_extension("cookie.new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&random_letters()?)?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

/// Random capital letters, each as likely as the others.
fn random_letters() -> io::Result<Vec<u8>> {
    const N_FAIR: u8 = 26 * (u8::MAX / 26);
    let (mut letters, mut random) = (Vec::new(), File::open("/dev/urandom")?);
    while letters.len() < LETTERS {
        let mut bytes = [0; LETTERS];
        random.read_exact(&mut bytes)?;
        let fair = bytes.iter().filter(|byte| **byte < N_FAIR);
        letters.extend(fair.map(|byte| b'A' + byte % 26).take(LETTERS - letters.len()));
    }
    Ok(letters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    fn text_of(dir: &Path) -> String {
        std::fs::read_to_string(dir.join(COOKIE_FILE)).unwrap()
    }

    fn error(dir: &Path, given: Option<&str>) -> String {
        load_cookie(dir, given).unwrap_err().to_string()
    }

    #[test]
    fn a_file_is_made_once_for_its_owner_alone() {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [first, other] = dirs.each_ref().map(|dir| {
            load_cookie(dir.path(), None).unwrap();
            let mode =
                std::fs::metadata(dir.path().join(COOKIE_FILE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            text_of(dir.path())
        });
        assert_eq!(first.len(), LETTERS);
        assert!(first.bytes().all(|byte| byte.is_ascii_uppercase()));
        assert_ne!(first, other);
        load_cookie(dirs[0].path(), None).unwrap();
        assert_eq!(text_of(dirs[0].path()), first);
        assert_eq!(std::fs::read_dir(dirs[0].path()).unwrap().count(), 1);
    }

    #[test]
    fn the_environment_comes_first_and_makes_no_file() {
        let dir = tempfile::tempdir().unwrap();
        assert!(load_cookie(dir.path(), Some("secret")).is_ok());
        assert!(!dir.path().join(COOKIE_FILE).exists());
        assert!(
            error(dir.path(), Some("")).starts_with("RABBITMQ_ERLANG_COOKIE must have 1 to 255")
        );
    }

    #[test]
    fn files_that_others_can_read_or_that_hold_no_cookie_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(COOKIE_FILE);
        let write = |text: &[u8], mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        };
        write(b"SECRET\n", 0o400);
        load_cookie(dir.path(), None).unwrap();
        std::fs::set_permissions(dir.path().join(COOKIE_FILE), Permissions::from_mode(0o600))
            .unwrap();
        for mode in [0o640, 0o604] {
            write(b"SECRET\n", mode);
            let text = error(dir.path(), None);
            assert!(text.contains("must be accessible by owner only"), "{text}");
            assert!(text.ends_with(&format!("(its mode is {mode:o})")), "{text}");
        }
        for text in [&b"\n"[..], b"two\nlines", &[b'x'; 256], "h\u{fc}".as_bytes()] {
            write(text, 0o600);
            assert!(error(dir.path(), None).contains("printable ASCII"));
        }
        write(&[b'x'; 255], 0o600);
        load_cookie(dir.path(), None).unwrap();
    }
}
