//! The default data directory: the node and its tools have to look in one place.

use std::path::PathBuf;

/// The data directory of a node that the system runs.
const SYSTEM: &str = "/var/lib/leveret";
/// People's user numbers begin here (`UID_MIN` of login.defs).
pub(crate) const PEOPLE_FROM: u32 = 1000;

/// The data directory when neither an argument nor a variable names one: `/var/lib/leveret` for root
/// and the users of services, `$XDG_DATA_HOME/leveret` or `~/.local/share/leveret` for people.
#[must_use]
pub fn default_data_dir() -> PathBuf {
    of(rustix::process::geteuid().as_raw(), &|name| std::env::var_os(name).map(PathBuf::from))
}

fn of(user: u32, variable: &dyn Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let given = |name| variable(name).filter(|path| path.is_absolute());
    // A user without a home of its own has one that is not there, or the root.
    let home = || given("HOME").filter(|home| home.parent().is_some() && home.is_dir());
    let share = given("XDG_DATA_HOME").or_else(|| Some(home()?.join(".local/share")));
    match share {
        Some(share) if user >= PEOPLE_FROM => share.join("leveret"),
        Some(_) | None => PathBuf::from(SYSTEM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(user: u32, variables: &[(&str, &str)]) -> PathBuf {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name);
        of(user, &|name| find(name).map(|(_, value)| PathBuf::from(value)))
    }

    #[test]
    fn services_have_the_systems_directory_and_people_their_own() {
        let home = std::env::temp_dir();
        let home = home.to_str().unwrap();
        let system = PathBuf::from("/var/lib/leveret");
        assert_eq!(with(0, &[("HOME", home), ("XDG_DATA_HOME", "/x")]), system);
        assert_eq!(with(999, &[("HOME", home)]), system);
        let own = PathBuf::from(home).join(".local/share/leveret");
        assert_eq!(with(1000, &[("HOME", home)]), own);
        assert_eq!(with(1000, &[("HOME", home), ("XDG_DATA_HOME", "relative")]), own);
        assert_eq!(with(1000, &[("XDG_DATA_HOME", "/x")]), PathBuf::from("/x/leveret"));
        for nowhere in [&[("HOME", "/")][..], &[("HOME", "/nonexistent")][..], &[][..]] {
            assert_eq!(with(1000, nowhere), system);
        }
    }
}
