//! The categories of events, each with a level of its own, and which line goes where.

use crate::config::{Category, Level, Logging};
use meta::QueueKind;
use tracing::level_filters::LevelFilter;

impl Category {
    /// The category of the events of a module.
    pub(super) fn of(target: &str) -> Self {
        let krate = target.split("::").next().unwrap_or_default();
        match krate {
            "net" | "edge" | "tls" | "front_amqp091" | "front_amqp10" | "front_stream" => {
                Self::Connection
            }
            "broker" if target.starts_with("broker::session") => Self::Channel,
            "content" | "queue_type" | "chunk_log" => Self::Queue,
            // The crate of a queue type has its name.
            krate if QueueKind::of_name(krate).is_some() => Self::Queue,
            _ => Self::Default,
        }
    }
}

/// The least levels of categories and of places.
#[derive(Debug)]
pub(super) struct Levels {
    default: LevelFilter,
    categories: Vec<(Category, LevelFilter)>,
    /// The level of each place; `None` for that of the category.
    places: Vec<Option<LevelFilter>>,
}

impl Levels {
    pub(super) fn new(logging: &Logging, places: Vec<Option<Level>>) -> Self {
        let categories = logging.categories.iter().map(|(category, it)| (*category, filter(*it)));
        Self {
            default: filter(logging.default_level),
            categories: categories.collect(),
            places: places.into_iter().map(|level| level.map(filter)).collect(),
        }
    }

    /// Sets a level for all categories and places.
    pub(super) fn set(&mut self, level: Level) {
        self.default = filter(level);
        self.categories.clear();
        self.places.fill(None);
    }

    /// The least level of a category at a place: the category's, as far as the place has not a higher one.
    fn least(&self, place: Option<LevelFilter>, category: Category) -> LevelFilter {
        let own = self.categories.iter().find(|(known, _)| *known == category);
        match (own, place) {
            (Some((_, own)), Some(place)) => (*own).min(place),
            (Some((_, own)), None) => *own,
            (None, place) => place.unwrap_or(self.default),
        }
    }

    /// The lowest level of any category at any place.
    pub(super) fn lowest(&self) -> LevelFilter {
        let of_place = |place: &Option<LevelFilter>| {
            let levels = Category::ALL.map(|category| self.least(*place, category)).into_iter();
            levels.max().unwrap_or(LevelFilter::OFF)
        };
        self.places.iter().map(of_place).max().unwrap_or(LevelFilter::OFF)
    }

    /// The lowest level of lines without a category of their own, at any place but those of the bits in
    /// `but`.
    pub(super) fn in_force(&self, but: u8) -> LevelFilter {
        let places = self.places.iter().enumerate().filter(|(at, _)| but & 1 << at == 0);
        let levels = places.map(|(_, place)| self.least(*place, Category::Default));
        levels.max().unwrap_or(self.default)
    }

    /// The places, a bit each, that a line goes to.
    pub(super) fn places(&self, category: Category, level: tracing::Level) -> u8 {
        let wants = |place: &Option<LevelFilter>| level <= self.least(*place, category);
        let bits = self.places.iter().enumerate().filter(|(_, place)| wants(place));
        bits.fold(0, |bits, (at, _)| bits | 1 << at)
    }
}

const fn filter(level: Level) -> LevelFilter {
    match level {
        Level::Debug => LevelFilter::DEBUG,
        Level::Info | Level::Notice => LevelFilter::INFO,
        Level::Warning => LevelFilter::WARN,
        Level::Error => LevelFilter::ERROR,
        Level::Nothing => LevelFilter::OFF,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_where_its_category_and_the_place_want_it() {
        let mut levels = Levels {
            default: LevelFilter::INFO,
            categories: vec![
                (Category::Connection, LevelFilter::ERROR),
                (Category::Queue, LevelFilter::DEBUG),
            ],
            places: vec![None, Some(LevelFilter::DEBUG), Some(LevelFilter::WARN)],
        };
        let places = |levels: &Levels, target, level| levels.places(Category::of(target), level);
        assert_eq!(places(&levels, "node::start", tracing::Level::INFO), 0b011);
        assert_eq!(places(&levels, "node::start", tracing::Level::DEBUG), 0b010);
        assert_eq!(places(&levels, "net::accept", tracing::Level::WARN), 0);
        assert_eq!(places(&levels, "net::accept", tracing::Level::ERROR), 0b111);
        assert_eq!(places(&levels, "classic::queue", tracing::Level::DEBUG), 0b011);
        assert_eq!(levels.lowest(), LevelFilter::DEBUG);
        assert_eq!(levels.in_force(0), LevelFilter::DEBUG);
        assert_eq!(levels.in_force(0b010), LevelFilter::INFO);
        assert_eq!(levels.in_force(0b011), LevelFilter::WARN);
        levels.set(Level::Error);
        assert_eq!(places(&levels, "classic::queue", tracing::Level::WARN), 0);
        assert_eq!(levels.lowest(), LevelFilter::ERROR);
    }
}
