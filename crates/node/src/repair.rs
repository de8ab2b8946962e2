//! `leveret repair`: what is damaged in a data directory, what is lost by it, and a directory that a
//! node starts on again, with the originals beside. The reading and writing is `broker::repair`.

use crate::cli::RepairArgs;
use crate::wall;
use anyhow::Context as _;
use broker::{Repair, repair};
use log::{DataDir, FORMAT_FILE, LOG_FILE};
use segments::{Disk, RealDisk};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stdx::{Civil, Date};

/// The directory of repaired files, inside that of the originals until it takes their place.
const ANEW: &str = "anew";
/// The prefix of directories that keep damaged originals.
const ASIDE_PREFIX: &str = "damaged-";

/// Repairs, or says what would be done. Says everything to `out`.
///
/// # Errors
/// The directory is in use or cannot be repaired; nothing has changed then, but for a directory
/// beside the data that says so.
pub(crate) fn run(args: &RepairArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let dir = &args.data_dir;
    let is_ours = dir.join(FORMAT_FILE).is_file();
    anyhow::ensure!(is_ours, "{} is not a Leveret data directory", dir.display());
    let disk = RealDisk::new(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let data_dir = DataDir::open(Arc::new(disk))?;
    refuse_half_exchanged(dir)?;
    let disk = data_dir.disk();
    let found = repair(&disk, None)?;
    match &found.refusal {
        Some(refusal) => {
            writeln!(out, "a node cannot start on {}: {refusal}", dir.display())?;
        }
        None if found.closed_streams > 0 => {
            let n = found.closed_streams;
            writeln!(out, "a node can start on {}, with {n} streams closed", dir.display())?;
        }
        None => {
            return Ok(writeln!(out, "no damage: a node can start on {}", dir.display())?);
        }
    }
    tell(&found, out)?;
    if args.dry_run {
        return Ok(writeln!(out, "dry run: nothing was changed")?);
    }
    let aside = place_aside(dir)?;
    let anew = aside.join(ANEW);
    let written = RealDisk::new(&anew).context("cannot create a directory for recovered data")?;
    let written: Arc<dyn Disk> = Arc::new(written);
    repair(&disk, Some(Arc::clone(&written)))?;
    written.sync_all().context("cannot sync recovered data")?;
    data_dir.mark()?;
    exchange(dir, &aside, &found)?;
    disk.sync_all().context("cannot sync the data directory")?;
    let left = repair(&disk, None)?;
    anyhow::ensure!(
        left.refusal.is_none() && left.closed_streams == 0,
        "the recovered data is inconsistent"
    );
    writeln!(out, "repaired; the original files are in {}", aside.display())?;
    Ok(())
}

fn tell(found: &Repair, out: &mut dyn Write) -> std::io::Result<()> {
    for damage in &found.damage {
        writeln!(out, "damaged: {damage}")?;
    }
    for lost in &found.lost {
        writeln!(out, "lost: {lost}")?;
    }
    Ok(())
}

/// A new directory for the originals.
fn place_aside(dir: &Path) -> anyhow::Result<PathBuf> {
    let seconds = wall::since_1970().as_secs();
    let Civil { date: Date { year, month, day }, time: (hour, minute, second) } =
        Civil::at(seconds);
    let name =
        format!("{ASIDE_PREFIX}{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z");
    let aside = dir.join(name);
    std::fs::create_dir(&aside).with_context(|| format!("cannot create {}", aside.display()))?;
    Ok(aside)
}

/// A repair that was interrupted while it exchanged files left some of either kind: what is missing is not
/// lost.
fn refuse_half_exchanged(dir: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let aside = entry?.path();
        let is_aside =
            aside.file_name().is_some_and(|name| name.to_string_lossy().starts_with(ASIDE_PREFIX));
        let is_half = is_aside
            && aside.join(ANEW).is_dir()
            && std::fs::read_dir(&aside)?
                .filter_map(Result::ok)
                .any(|entry| entry.file_name() != ANEW);
        anyhow::ensure!(
            !is_half,
            "an earlier repair was interrupted: move everything in {} but '{ANEW}' back to {}, replacing what is there, \
             delete the directory, and repair again",
            aside.display(),
            dir.display()
        );
    }
    Ok(())
}

/// Sets the originals aside and puts what was written in their place. The file that says which log
/// belongs here goes first and comes last: a node refuses everything in between.
fn exchange(dir: &Path, aside: &Path, found: &Repair) -> anyhow::Result<()> {
    let anew = aside.join(ANEW);
    let others = found.set_aside.iter().filter(|name| *name != LOG_FILE);
    let is_log_replaced = found.set_aside.iter().any(|name| name == LOG_FILE);
    if is_log_replaced {
        move_if_there(dir, aside, LOG_FILE)?;
    }
    for name in others {
        move_if_there(dir, aside, name)?;
        move_if_there(&anew, dir, name)?;
        // Directories that have given everything away; those that have not refuse.
        for parent in Path::new(name).ancestors().skip(1).filter(|it| !it.as_os_str().is_empty()) {
            std::fs::remove_dir(anew.join(parent)).ok();
        }
    }
    move_if_there(&anew, dir, LOG_FILE)?;
    std::fs::remove_dir(&anew).context("cannot remove an empty directory")
}

fn move_if_there(from: &Path, to: &Path, name: &str) -> anyhow::Result<()> {
    let (from, to) = (from.join(name), to.join(name));
    if !from.exists() {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::rename(&from, &to).with_context(|| format!("cannot move {}", from.display()))
}
