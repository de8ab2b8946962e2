//! A container image, as an archive in the OCI layout: `podman load`, `docker load` and `skopeo copy` read
//! it, and no daemon is needed to make it. Its tree is what users of RabbitMQ's image expect.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{copy, rfc_3339, write_file};
use crate::repository::{output, root};
use crate::steps::say;

/// The user in the image: RabbitMQ's has these numbers, so that volumes stay readable.
const USER: &str = "999:999";

/// The tools' names, links to the binary.
const NAMES: &[&str] = &[
    "rabbitmq-diagnostics",
    "rabbitmq-plugins",
    "rabbitmq-queues",
    "rabbitmq-server",
    "rabbitmq-streams",
    "rabbitmq-upgrade",
    "rabbitmqadmin",
    "rabbitmqctl",
];

/// The busybox applets that scripts in a container use; `sh` stands in `bin`, for the health check.
const APPLETS: &[&str] = &[
    "awk", "base64", "basename", "cat", "chmod", "chown", "cp", "cut", "date", "df", "dirname",
    "du", "echo", "env", "expr", "false", "find", "free", "grep", "head", "hostname", "id", "kill",
    "ln", "ls", "mkdir", "mktemp", "mv", "nc", "nslookup", "ping", "printf", "ps", "pwd", "rm",
    "rmdir", "sed", "seq", "sh", "sleep", "sort", "stat", "tail", "tar", "tee", "test", "timeout",
    "top", "touch", "tr", "true", "uname", "uniq", "vi", "wc", "wget", "which", "whoami", "xargs",
];

/// Folders of the image's user.
const OWN_FOLDERS: &[&str] = &["var/lib/rabbitmq", "var/log/rabbitmq"];

/// Writes the image for the binary.
pub(super) fn write(dir: &Path, binary: &Path, date: u64) -> anyhow::Result<()> {
    let Some(busybox) = busybox() else {
        say(
            "left out: the image, which needs a static busybox for its shell: apt-get install busybox-static, or BUSYBOX=FILE",
        );
        return Ok(());
    };
    let work = dir.join("image");
    let tree = work.join("tree");
    lay_out(&tree, binary, &busybox)?;
    let layer = pack(&work, &tree, date)?;
    let blobs = work.join("oci/blobs/sha256");
    std::fs::create_dir_all(&blobs)?;
    let diff_id = sha256(&layer)?;
    output(Command::new("gzip").args(["--best", "--no-name"]).arg(&layer))?;
    let layer = blob(&blobs, &std::fs::read(layer.with_extension("tar.gz"))?)?;
    let config = blob(&blobs, config(&diff_id, &rfc_3339(date)?).to_string().as_bytes())?;
    let manifest = manifest(&config, &layer).to_string();
    let manifest = blob(&blobs, manifest.as_bytes())?;
    write_file(&work.join("oci/index.json"), index(&manifest).to_string().as_bytes(), 0o644)?;
    write_file(&work.join("oci/oci-layout"), b"{\"imageLayoutVersion\":\"1.0.0\"}", 0o644)?;
    // What docker load of older versions reads.
    let old = json!([{
        "Config": format!("blobs/sha256/{}", config.digest),
        "RepoTags": ["leveret:latest"],
        "Layers": [format!("blobs/sha256/{}", layer.digest)],
    }]);
    write_file(&work.join("oci/manifest.json"), old.to_string().as_bytes(), 0o644)?;
    let archive = dir.join("leveret-image.tar");
    output(tar(&archive, &work.join("oci"), date).args(["--owner=0", "--group=0", "."]))?;
    std::fs::remove_dir_all(&work)?;
    say(&format!("{}", archive.display()));
    Ok(())
}

/// A static busybox of this machine.
fn busybox() -> Option<PathBuf> {
    let given = std::env::var_os("BUSYBOX").map(PathBuf::from);
    let path = given.unwrap_or_else(|| PathBuf::from("/bin/busybox"));
    let headers = output(Command::new("readelf").args(["--wide", "--program-headers"]).arg(&path));
    headers.is_ok_and(|headers| !headers.contains("INTERP")).then_some(path)
}

fn lay_out(tree: &Path, binary: &Path, busybox: &Path) -> anyhow::Result<()> {
    let packaging = root().join("packaging/image");
    copy(binary, &tree.join("usr/bin/leveret"), 0o755)?;
    copy(busybox, &tree.join("bin/busybox"), 0o755)?;
    let script = "usr/local/bin/docker-entrypoint.sh";
    copy(&packaging.join("docker-entrypoint.sh"), &tree.join(script), 0o755)?;
    for name in ["passwd", "group", "nsswitch.conf"] {
        copy(&packaging.join(name), &tree.join("etc").join(name), 0o644)?;
    }
    let defaults = "etc/rabbitmq/conf.d/10-defaults.conf";
    copy(&packaging.join("10-defaults.conf"), &tree.join(defaults), 0o644)?;
    for (name, text) in [("rabbitmq.conf", ""), ("enabled_plugins", "[].\n")] {
        write_file(&tree.join("etc/rabbitmq").join(name), text.as_bytes(), 0o644)?;
    }
    for folder in ["usr/sbin", "tmp"].iter().chain(OWN_FOLDERS) {
        std::fs::create_dir_all(tree.join(folder))?;
    }
    // Charts and probes call it.
    copy(&packaging.join("bash"), &tree.join("bin/bash"), 0o755)?;
    for applet in APPLETS {
        std::os::unix::fs::symlink("busybox", tree.join("bin").join(applet))?;
    }
    for name in NAMES {
        std::os::unix::fs::symlink("../bin/leveret", tree.join("usr/sbin").join(name))?;
    }
    Ok(())
}

/// The tree as one archive: everything is root's but the user's own folders. No path is in it twice: podman
/// refuses that.
fn pack(work: &Path, tree: &Path, date: u64) -> anyhow::Result<PathBuf> {
    let layer = work.join("layer.tar");
    let later = OWN_FOLDERS.iter().chain(&["tmp"]).map(|folder| format!("--exclude=./{folder}"));
    output(tar(&layer, tree, date).args(later).args([
        "--owner=0",
        "--group=0",
        "--mode=u=rwX,go=rX",
        ".",
    ]))?;
    let mut rest = tar(&layer, tree, date);
    rest.args(["--append", "--owner=999", "--group=999", "--mode=u=rwx,g=rx,o="]);
    output(rest.args(OWN_FOLDERS.iter().map(|folder| format!("./{folder}"))))?;
    // Everybody's, as everywhere.
    let mut tmp = tar(&layer, tree, date);
    output(tmp.args(["--append", "--owner=0", "--group=0", "--mode=a=rwx,+t", "./tmp"]))?;
    Ok(layer)
}

/// Writes or appends to an archive that depends on nothing but the files.
fn tar(archive: &Path, dir: &Path, date: u64) -> Command {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--numeric-owner", "--format=gnu", "--no-acls", "--no-xattrs"]);
    tar.arg(format!("--mtime=@{date}")).arg("--directory").arg(dir).arg("--file").arg(archive);
    if !archive.exists() {
        tar.arg("--create");
    }
    tar
}

/// A file named by its content.
struct Blob {
    digest: String,
    bytes: u64,
}

fn blob(blobs: &Path, content: &[u8]) -> anyhow::Result<Blob> {
    let temporary = blobs.join("new");
    write_file(&temporary, content, 0o644)?;
    let digest = sha256(&temporary)?;
    std::fs::rename(temporary, blobs.join(&digest))?;
    Ok(Blob { digest, bytes: u64::try_from(content.len())? })
}

fn sha256(file: &Path) -> anyhow::Result<String> {
    let printed = output(Command::new("sha256sum").arg(file))?;
    let digest = printed.split(' ').next().context("sha256sum prints nothing")?;
    ensure!(digest.len() == 64, "sha256sum prints {printed:?}");
    Ok(digest.to_owned())
}

fn config(diff_id: &str, created: &str) -> Value {
    json!({
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": USER,
            "ExposedPorts": { "5672/tcp": {} },
            "Env": [
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME=/var/lib/rabbitmq",
                "LEVERET_DEFAULT_DATA_DIR=/var/lib/rabbitmq/leveret",
                "LANG=C.UTF-8",
            ],
            "Entrypoint": ["docker-entrypoint.sh"],
            "Cmd": ["rabbitmq-server"],
            "Volumes": { "/var/lib/rabbitmq": {} },
            "Healthcheck": {
                "Test": ["CMD", "rabbitmq-diagnostics", "-q", "ping"],
                "Interval": 30_000_000_000_u64,
                "Timeout": 10_000_000_000_u64,
                "Retries": 3,
            },
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "leveret",
                "org.opencontainers.image.version": env!("CARGO_PKG_VERSION"),
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{diff_id}")] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    })
}

fn descriptor(kind: &str, Blob { digest, bytes }: &Blob) -> Value {
    let media_type = format!("application/vnd.oci.image.{kind}");
    json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes })
}

fn manifest(config: &Blob, layer: &Blob) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("config.v1+json", config),
        "layers": [descriptor("layer.v1.tar+gzip", layer)],
    })
}

fn index(manifest: &Blob) -> Value {
    let mut descriptor = descriptor("manifest.v1+json", manifest);
    if let Value::Object(fields) = &mut descriptor {
        let name = json!({ "org.opencontainers.image.ref.name": "latest", "io.containerd.image.name": "leveret:latest" });
        fields.insert("annotations".to_owned(), name);
        fields.insert("platform".to_owned(), json!({ "architecture": "amd64", "os": "linux" }));
    }
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [descriptor],
    })
}
