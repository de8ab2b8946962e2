//! The run directory: a file for each running node of a user, from which the tool finds a node that has
//! another data directory than the default.
//!
//! A user's directory is the first of these that can be had: that of the service (`RUNTIME_DIRECTORY`),
//! `$XDG_RUNTIME_DIR/leveret`, `/run/leveret` for root, and `leveret-UID` where temporary files are. A file
//! is named after the data directory of its node. Files are hints: only a node that answers at its control
//! socket counts, and only files of this user and of system users are believed.

use crate::control_socket::{connect, has_ended};
use crate::data_dir::PEOPLE_FROM;
use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The name of run directories below those of the system.
const NAME: &str = "leveret";
/// The directory of the system's services, and of root's nodes.
const SYSTEM: &str = "/run/leveret";
/// Directories of users who are logged in.
const USERS: &str = "/run/user";
/// Mode of the run directory: all users may see which nodes run, but only the owner may register one.
const MODE: u32 = 0o755;
/// Permissions of group and others to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
const EXTENSION: &str = "json";
/// Longest file that is read, bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024;
/// Files of one directory that are read, and directories of other users that are looked into.
const FILES_MAX: usize = 1024;

/// A node that runs, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningNode {
    /// The node's name.
    pub name: String,
    /// The whole path of its data directory, where its control socket is.
    pub data_dir: PathBuf,
    /// The number of its process.
    pub pid: u32,
    /// The address of its first listener; empty without one.
    pub address: String,
}

/// A node's file in the run directory; removed when dropped.
#[derive(Debug)]
pub struct Registration(PathBuf);

/// A file of a run directory.
#[derive(Clone, Debug)]
pub(crate) struct RunFile {
    path: PathBuf,
    /// The user who has written it.
    pub(crate) owner: u32,
    pub(crate) node: RunningNode,
}

/// Says in the user's run directory that a node runs.
///
/// # Errors
/// No directory is this user's alone, or it cannot be written.
pub fn register(node: &RunningNode) -> io::Result<Registration> {
    let dir = own().ok_or_else(|| io::Error::other("there is no run directory of this user"))?;
    for file in files(&dir) {
        file.remove_if_ended();
    }
    let name = name_of(&node.data_dir);
    let (path, temporary) = (dir.join(&name).with_extension(EXTENSION), dir.join(&name));
    let data_dir = node.data_dir.to_str().ok_or(ErrorKind::InvalidFilename)?;
    let text = json!({
        "node": node.name, "data_dir": data_dir, "pid": node.pid, "address": node.address,
    });
    let mut file = File::create(&temporary)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    std::fs::rename(temporary, &path)?;
    Ok(Registration(path))
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The file may have been removed by hand.
        drop(std::fs::remove_file(&self.0));
    }
}

/// The files of this user's run directory.
pub(crate) fn of_this_user() -> Vec<RunFile> {
    own().iter().flat_map(|dir| files(dir)).collect()
}

/// The files of all run directories that this user may read.
pub(crate) fn of_everybody() -> Vec<RunFile> {
    let below = |dir: &Path| {
        let entries = std::fs::read_dir(dir).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path())).take(FILES_MAX).collect::<Vec<_>>()
    };
    let of_users = below(Path::new(USERS)).into_iter().map(|dir| dir.join(NAME));
    let prefix = format!("{NAME}-");
    let is_one = |path: &PathBuf| {
        path.file_name().and_then(OsStr::to_str).is_some_and(|it| it.starts_with(&prefix))
    };
    let temporary = below(&std::env::temp_dir()).into_iter().filter(is_one);
    let dirs = std::iter::once(PathBuf::from(SYSTEM)).chain(of_users).chain(temporary);
    dirs.filter(|dir| is_private(dir)).flat_map(|dir| files(&dir)).collect()
}

impl RunFile {
    /// Whether the tool may tell the node what the operator tells the tool.
    pub(crate) fn is_trusted(&self) -> bool {
        self.owner < PEOPLE_FROM || self.owner == geteuid().as_raw()
    }

    /// Whether no node listens at its control socket. The file of one that was killed is removed.
    pub(crate) fn remove_if_ended(&self) -> bool {
        let has_ended = connect(&self.node.data_dir).is_err_and(|error| has_ended(&error));
        // Another node may have written the file anew.
        let is_same = || read(&self.path).is_some_and(|there| there.node == self.node);
        if has_ended && self.owner == geteuid().as_raw() && is_same() {
            // Another run of the tool may have removed it.
            drop(std::fs::remove_file(&self.path));
        }
        has_ended
    }
}

/// The run directory of this user, made if need be.
fn own() -> Option<PathBuf> {
    let user = geteuid().as_raw();
    let given = |name| {
        let dirs = std::env::var_os(name)?;
        std::env::split_paths(&dirs).next().filter(|dir| dir.is_absolute() && is_own(dir))
    };
    // `RUNTIME_DIRECTORY` may be that of another service, inherited by a shell.
    let is_ours = |dir: &PathBuf| dir.file_name() == Some(OsStr::new(NAME));
    let of_service = || given("RUNTIME_DIRECTORY").filter(is_ours);
    let of_session = || given("XDG_RUNTIME_DIR").map(|dir| made(dir.join(NAME)));
    let of_system =
        || (user == 0).then(|| made(PathBuf::from(SYSTEM))).filter(|dir| is_private(dir));
    let temporary = || Some(made(std::env::temp_dir().join(format!("{NAME}-{user}"))));
    let own = |dir: Option<PathBuf>| dir.filter(|dir| is_own(dir));
    own(of_service()).or_else(|| own(of_session())).or_else(of_system).or_else(|| own(temporary()))
}

/// Makes a directory with the right mode; the caller checks one that exists.
fn made(dir: PathBuf) -> PathBuf {
    drop(DirBuilder::new().mode(MODE).create(&dir));
    dir
}

/// The properties of a directory, no link, in which only its owner can create files.
fn private(dir: &Path) -> Option<Metadata> {
    let found = std::fs::symlink_metadata(dir).ok()?;
    (found.is_dir() && found.mode() & WRITABLE_BY_OTHERS == 0).then_some(found)
}

fn is_private(dir: &Path) -> bool {
    private(dir).is_some()
}

fn is_own(dir: &Path) -> bool {
    private(dir).is_some_and(|found| found.uid() == geteuid().as_raw())
}

/// The name of the file of the node with that data directory.
fn name_of(data_dir: &Path) -> String {
    let digest = Sha256::digest(data_dir.as_os_str().as_encoded_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn files(dir: &Path) -> Vec<RunFile> {
    let Some(found) = private(dir) else { return Vec::new() };
    let entries = std::fs::read_dir(dir).into_iter().flatten().take(FILES_MAX);
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_one = |path: &PathBuf| path.extension() == Some(OsStr::new(EXTENSION));
    let files = paths.filter(is_one).filter_map(|path| read(&path));
    // Root may write where a service does.
    let mut files: Vec<RunFile> =
        files.filter(|file| [0, found.uid()].contains(&file.owner)).collect();
    files.sort_by(|a, b| a.node.data_dir.cmp(&b.node.data_dir));
    files
}

/// The node that a file names; none if it is not such a file.
fn read(path: &Path) -> Option<RunFile> {
    // Neither a link nor a pipe of somebody else makes the tool read another file, or wait.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let found = file.metadata().ok().filter(Metadata::is_file)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    let told: Value = serde_json::from_str(&text).ok()?;
    // Control characters could write over a terminal.
    let field = |name| told.get(name)?.as_str().filter(|it| !it.contains(char::is_control));
    let node = RunningNode {
        name: field("node")?.to_owned(),
        data_dir: PathBuf::from(field("data_dir")?),
        pid: u32::try_from(told.get("pid")?.as_u64()?).ok()?,
        address: field("address")?.to_owned(),
    };
    let owner = found.uid();
    node.data_dir.is_absolute().then(|| RunFile { path: path.to_owned(), owner, node })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_socket::socket_path;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    fn node(data_dir: &str) -> RunningNode {
        let address = "127.0.0.1:5672".to_owned();
        RunningNode { name: "hare@box".to_owned(), data_dir: data_dir.into(), pid: 7, address }
    }

    fn write(dir: &Path, name: &str, text: &str) {
        std::fs::write(dir.join(name), text).unwrap();
    }

    #[test]
    fn reads_files_of_private_directories_only() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let text = r#"{"node":"hare@box","data_dir":"/d","pid":7,"address":"127.0.0.1:5672"}"#;
        write(dir, "a.json", text);
        for (name, wrong) in [
            ("relative.json", text.replace("/d", "d")),
            ("escape.json", text.replace("/d", "/\\u001b[2J")),
            ("pid.json", text.replace('7', "-7")),
            (
                "long.json",
                format!("{}{text}", " ".repeat(usize::try_from(FILE_BYTES_MAX).unwrap())),
            ),
            ("empty.json", String::new()),
            ("other.txt", text.to_owned()),
        ] {
            write(dir, name, &wrong);
        }
        write(dir, "elsewhere", &text.replace("/d", "/elsewhere"));
        symlink(dir.join("elsewhere"), dir.join("link.json")).unwrap();
        let found: Vec<RunningNode> = files(dir).into_iter().map(|file| file.node).collect();
        assert_eq!(found, [node("/d")]);
        for mode in [0o775, 0o757] {
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(files(dir).is_empty() && !is_own(dir), "{mode:o}");
        }
    }

    #[test]
    fn removes_files_of_nodes_that_have_ended() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().join("data");
        std::fs::create_dir(&data_dir).unwrap();
        let text = |pid: u32| {
            json!({"node": "a", "data_dir": data_dir, "pid": pid, "address": ""}).to_string()
        };
        write(dir.path(), "a.json", &text(1));
        let stale = files(dir.path()).pop().unwrap();
        write(dir.path(), "a.json", &text(2));
        assert!(stale.remove_if_ended());
        let other = files(dir.path()).pop().expect("another node's by now");
        let socket = UnixListener::bind(socket_path(&data_dir)).unwrap();
        assert!(!other.remove_if_ended());
        drop(socket);
        assert!(other.remove_if_ended(), "its socket is left, and nobody listens");
        assert!(files(dir.path()).is_empty());
    }

    #[test]
    fn names_files_after_data_directories() {
        assert_eq!(name_of(Path::new("/a")).len(), 16);
        assert_ne!(name_of(Path::new("/a")), name_of(Path::new("/b")));
    }
}
