//! Keys that exist in RabbitMQ, and the nearest name to one that does not.

use super::options::OPTIONS;
use stdx::edit_distance;

const LIST: &str = include_str!("known-keys.txt");

fn known_keys() -> impl Iterator<Item = &'static str> {
    LIST.lines().filter(|line| !line.starts_with('#'))
}

/// Whether RabbitMQ has this key.
pub(super) fn is_known(key: &[String]) -> bool {
    known_keys().any(|pattern| {
        let mut segments = pattern.split('.');
        let all = key.iter().all(|part| {
            segments.next().is_some_and(|segment| segment.starts_with('$') || segment == part)
        });
        all && segments.next().is_none()
    })
}

/// The known key most like `key`; of equally near ones the first that Leveret acts on.
pub(super) fn nearest(key: &[String]) -> String {
    let wanted = key.join(".");
    OPTIONS
        .iter()
        .flat_map(|option| [Some(option.key), option.alias])
        .flatten()
        .chain(known_keys())
        .map(|pattern| with_names_of(pattern, key))
        .min_by_key(|candidate| edit_distance(candidate, &wanted))
        .unwrap_or_default()
}

/// The pattern with its free segments taken from `key` where `key` has them.
fn with_names_of(pattern: &str, key: &[String]) -> String {
    let segments: Vec<&str> = pattern
        .split('.')
        .enumerate()
        .map(|(at, segment)| match key.get(at) {
            Some(given) if segment.starts_with('$') => given,
            Some(_) | None => segment,
        })
        .collect();
    segments.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn the_list_is_sorted_and_complete() {
        let keys: Vec<&str> = known_keys().collect();
        assert_eq!(keys.len(), 1_111);
        assert!(keys.is_sorted());
    }

    #[test]
    fn every_option_but_our_own_is_a_rabbitmq_key() {
        let ours = [
            "amqp091.immediate",
            "backlog_memory",
            "durability",
            "queue_index_max_journal_entries",
            "stream.durability",
        ];
        for option in OPTIONS.iter().filter(|option| !ours.contains(&option.key)) {
            for name in [Some(option.key), option.alias].into_iter().flatten() {
                assert!(is_known(&key(name)), "{name}");
            }
        }
    }

    #[test]
    fn free_segments_match_any_name() {
        assert!(is_known(&key("listeners.ssl.default")));
        assert!(is_known(&key("auth_backends.1.authn")));
        assert!(is_known(&key("ssl_options.certfile")));
        assert!(!is_known(&key("auth_backends.1.author")));
        assert!(!is_known(&key("listeners")));
        assert!(!is_known(&key("listeners.ssl.default.more")));
    }

    #[test]
    fn the_nearest_name_is_found() {
        for (wrong, right) in [
            ("heartbeet", "heartbeat"),
            ("listener.tcp.default", "listeners.tcp.default"),
            ("disk_free_limit.absolut", "disk_free_limit.absolute"),
            ("maxconnections", "max_connections"),
            ("ssl_options.cert_file", "ssl_options.certfile"),
        ] {
            assert_eq!(nearest(&key(wrong)), right);
        }
    }
}
