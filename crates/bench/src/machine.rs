//! The machine the measurements run on, as the system describes it.

use std::fs;

use crate::result::Machine;

/// Asks the system; what it does not tell stays empty.
pub(crate) fn machine() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let uname = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let n_cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    Machine {
        cpu: field(&read("/proc/cpuinfo"), "model name", ':').unwrap_or_default(),
        n_cores: u32::try_from(n_cores).unwrap_or(u32::MAX),
        kernel: [word(uname.sysname()), word(uname.release()), word(uname.machine())].join(" "),
        system: field(&read("/etc/os-release"), "PRETTY_NAME", '='),
        memory_bytes: memory_bytes(&read("/proc/meminfo")).unwrap_or(0),
        governor: Some(governor.trim().to_owned()).filter(|governor| !governor.is_empty()),
    }
}

/// Processes that wanted to run in the last minute, on the average; `None` if the system does not tell.
pub(crate) fn load() -> Option<f64> {
    load_of(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn load_of(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The value of the first line with that name in front.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    let value = text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then_some(value)
    });
    value.map(|value| value.trim().trim_matches('"').to_owned())
}

fn memory_bytes(text: &str) -> Option<u64> {
    let total = field(text, "MemTotal", ':')?;
    total.strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kb| kb * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let text = "processor\t: 0\nmodel name\t: A Fast One\nmodel name\t: another\n";
        assert_eq!(field(text, "model name", ':').as_deref(), Some("A Fast One"));
        let text = "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n";
        assert_eq!(field(text, "PRETTY_NAME", '=').as_deref(), Some("Debian GNU/Linux 12"));
        assert_eq!(memory_bytes("MemTotal:       1024 kB\n"), Some(1 << 20));
        assert_eq!(memory_bytes(""), None);
        assert_eq!(load_of("1.86 0.90 0.55 2/612 4711\n"), Some(1.86));
        assert_eq!(load_of(""), None);
    }
}
