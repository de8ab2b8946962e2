//! Samples of files in every format that was ever written, in directories of the repository.

use std::io;
use std::path::Path;

use segments::{Disk, OpenMode};

use crate::MemoryDisk;

fn content(disk: &MemoryDisk, name: &str) -> io::Result<Vec<u8>> {
    let file = disk.open(name, OpenMode::Existing)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Compares the files in `dir` with the sample in `samples`, byte by byte. With `LEVERET_WRITE_SAMPLES` set,
/// a sample that is not there is written.
///
/// # Errors
/// Those of both disks.
///
/// # Panics
/// If the files differ.
pub fn compare_with_sample(disk: &MemoryDisk, dir: &str, samples: &Path) -> io::Result<()> {
    let names = disk.list(dir)?;
    if std::env::var_os("LEVERET_WRITE_SAMPLES").is_some() && !samples.exists() {
        std::fs::create_dir_all(samples)?;
        for name in &names {
            std::fs::write(samples.join(name), content(disk, &format!("{dir}/{name}"))?)?;
        }
    }
    let mut known = Vec::new();
    for entry in std::fs::read_dir(samples)? {
        known.push(entry?.file_name().to_string_lossy().into_owned());
    }
    known.sort();
    assert_eq!(names, known);
    for name in names {
        let known = std::fs::read(samples.join(&name))?;
        let written = content(disk, &format!("{dir}/{name}"))?;
        assert_eq!(written, known, "{name} is written otherwise");
    }
    Ok(())
}

/// A disk with the sample in `samples` in `dir`.
///
/// # Errors
/// Those of both disks.
pub fn disk_with_sample(samples: &Path, dir: &str) -> io::Result<MemoryDisk> {
    let disk = MemoryDisk::new();
    disk.create_dir(dir)?;
    for entry in std::fs::read_dir(samples)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let file = disk.open(&format!("{dir}/{name}"), OpenMode::New)?;
        file.write_at(0, &std::fs::read(entry.path())?)?;
    }
    Ok(disk)
}
