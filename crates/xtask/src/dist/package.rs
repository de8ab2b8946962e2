//! The Debian package: the files of `packaging/` and what the binary writes of itself, laid out for dpkg-deb.

use std::path::Path;
use std::process::Command;

use super::{copy, run, write_file};
use crate::repository::{output, root};
use crate::steps::{installed, say};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Files of `packaging/`, where they go, and their permissions.
const FILES: &[(&str, &str, u32)] = &[
    ("deb/postinst", "DEBIAN/postinst", 0o755),
    ("deb/prerm", "DEBIAN/prerm", 0o755),
    ("deb/postrm", "DEBIAN/postrm", 0o755),
    ("deb/conffiles", "DEBIAN/conffiles", 0o644),
    ("deb/copyright", "usr/share/doc/leveret/copyright", 0o644),
    ("logrotate/leveret", "etc/logrotate.d/leveret", 0o644),
    ("systemd/leveret.service", "usr/lib/systemd/system/leveret.service", 0o644),
];

/// A shell, and where it looks for completions.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/leveret"),
    ("fish", "usr/share/fish/vendor_completions.d/leveret.fish"),
    ("zsh", "usr/share/zsh/vendor-completions/_leveret"),
];

/// Writes the package for the binary.
pub(super) fn write(dir: &Path, binary: &Path, date: u64) -> anyhow::Result<()> {
    if !installed("dpkg-deb") {
        say("left out: the Debian package: dpkg-deb is not installed");
        return Ok(());
    }
    let staged = dir.join("deb");
    for (from, to, mode) in FILES {
        copy(&root().join("packaging").join(from), &staged.join(to), *mode)?;
    }
    copy(binary, &staged.join("usr/bin/leveret"), 0o755)?;
    let sample = output(&mut run(binary, &["server", "--help-config=sample"]))?;
    write_file(&staged.join("etc/leveret/rabbitmq.conf"), sample.as_bytes(), 0o644)?;
    std::fs::create_dir_all(staged.join("etc/leveret/conf.d"))?;
    for (shell, place) in COMPLETIONS {
        let completions = output(&mut run(binary, &["completions", shell]))?;
        write_file(&staged.join(place), completions.as_bytes(), 0o644)?;
    }
    pages(&staged, binary)?;
    write_file(&staged.join("DEBIAN/control"), control(binary)?.as_bytes(), 0o644)?;
    let archive = dir.join(format!("leveret_{VERSION}_amd64.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zgzip", "--build"]).arg(&staged).arg(&archive);
    output(build.env("SOURCE_DATE_EPOCH", date.to_string()))?;
    std::fs::remove_dir_all(&staged)?;
    say(&format!("{}", archive.display()));
    Ok(())
}

/// The manual, compressed as Debian has it.
fn pages(staged: &Path, binary: &Path) -> anyhow::Result<()> {
    let pages = staged.join("usr/share/man/man1");
    output(run(binary, &["manual"]).arg(&pages))?;
    let mut gzip = Command::new("gzip");
    gzip.args(["--best", "--no-name", "--recursive"]).arg(&pages);
    output(&mut gzip).map(drop)
}

fn control(binary: &Path) -> anyhow::Result<String> {
    let kib = std::fs::metadata(binary)?.len().div_ceil(1024);
    Ok(format!(
        "Package: leveret\n\
         Version: {VERSION}\n\
         Architecture: amd64\n\
         Maintainer: The Leveret developers\n\
         Installed-Size: {kib}\n\
         Pre-Depends: init-system-helpers (>= 1.54)\n\
         Depends: adduser\n\
         Suggests: logrotate\n\
         Section: net\n\
         Priority: optional\n\
         Description: message broker that RabbitMQ's clients use unchanged\n \
         Speaks AMQP 0-9-1 with RabbitMQ's extensions, takes its configuration files,\n \
         and answers its command line tools' names. One static binary.\n"
    ))
}
