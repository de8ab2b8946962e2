//! The written form of a machine: its exact state, without bodies.
//!
//! ```text
//! version u8: 2 if a consumer has link credit, 3 if a message has notes
//! settings | clock ms u64 | last used ms u64 | closed u8
//! next position u64 | fresh by priority, falling: priority u8, ranges | returned, in order: ranges
//! delayed: (position, until ms) | departing: next number u64, (number, range, reason u8)
//! deadlines: (due ms, ranges) | overdue: ranges | counts: (range, failed u32, acquired u32) | sizes
//! deliveries u64 | turns u64 | comers u64 | active option | consumers | publishers | named | waiting
//! notes: (position, length u32, bytes); from version 3 on
//! list: n u64 | n items      range: start u64 | end u64      option: is there u8 | u64
//! ```

use super::Machine;
use super::backlog::Backlog;
use super::bounds::{COUNTER_MAX, MESSAGES_MAX, NAME_BYTES_MAX, PRIORITY_MAX, REFUSED_RUNS_MAX};
use super::codec::{VERSION, read_attach, read_link_credit, write_attach, write_link_credit};
use super::held::Delivery;
use super::holders::{Holder, Holders, Reach};
use super::items::{put_option, read_option};
use super::publishers::{Numbers, Publishers, Waiter};
use super::settings::Settings;
use super::sizes::Sizes;
use crate::delivery_counts::LEVELS_MAX;
use crate::positions::{PositionRange, PositionSet};
use crate::unacked::Unacked;
use crate::{DeliveryCounts, DeliveryRoom, Reason};
use stdx::UnixMs;
use stdx::record::{Reader, RecordError, put_bool, put_bytes, put_u8, put_u32, put_u64};

/// The version of machines with consumers that have link credit, and without notes.
const VERSION_OF_LINKS: u8 = 2;
/// The version of machines with notes beside messages.
const VERSION_OF_NOTES: u8 = 3;

impl Machine {
    /// Appends the written form: [restored](Machine::restore) it behaves like this one, and has the same
    /// written form.
    pub fn write(&self, out: &mut Vec<u8>) {
        let has_links = self.consumers.table.values().any(|it| it.link.is_some());
        let version = match (self.backlog.notes.is_empty(), has_links) {
            (true, false) => VERSION,
            (true, true) => VERSION_OF_LINKS,
            (false, _) => VERSION_OF_NOTES,
        };
        put_u8(out, version);
        self.settings.write(out);
        put_u64(out, self.clock_ms.get());
        put_u64(out, self.last_used_ms.get());
        put_bool(out, self.is_closed);
        write_backlog(&self.backlog, out);
        write_consumers(&self.consumers, version >= VERSION_OF_LINKS, out);
        write_publishers(&self.publishers, out);
        put_list(out, self.waiting.iter(), |out, (position, waiter)| {
            put_u64(out, *position);
            put_option(out, waiter.publisher);
            put_u64(out, waiter.number);
            put_u32(out, waiter.bytes);
            put_u64(out, waiter.came_ms.get());
            put_bool(out, waiter.named.is_some());
            if let Some((name, id)) = waiter.named.as_deref() {
                put_bytes(out, name);
                put_u64(out, *id);
            }
        });
        put_list(out, self.waiting.given_up.iter(), |out, position| put_u64(out, *position));
        if version >= VERSION_OF_NOTES {
            put_list(out, self.backlog.notes.iter(), |out, (position, notes)| {
                put_u64(out, position);
                put_bytes(out, notes);
            });
        }
    }

    /// The machine of a written form.
    ///
    /// # Errors
    /// It is no written form, or one of a later version. No more memory is taken for it than some times its
    /// size, and a bit per message.
    pub fn restore(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(bytes);
        let reader = &mut reader;
        let version = reader.u8()?;
        valid((VERSION..=VERSION_OF_NOTES).contains(&version))?;
        let settings = Settings::read(reader)?;
        let (clock_ms, last_used_ms) = (read_time(reader)?, read_time(reader)?);
        let is_closed = reader.bool()?;
        let mut machine = Self { last_used_ms, is_closed, ..Self::new(settings, clock_ms) };
        read_backlog(&mut machine.backlog, reader)?;
        read_consumers(&mut machine.consumers, version >= VERSION_OF_LINKS, reader)?;
        read_publishers(&mut machine.publishers, reader)?;
        for _ in 0..reader.u64()? {
            let (position, waiter) = read_waiter(reader)?;
            valid(machine.waiting.insert(position, waiter))?;
        }
        for _ in 0..reader.u64()? {
            machine.waiting.given_up.insert(reader.u64()?);
        }
        if version >= VERSION_OF_NOTES {
            read_notes(&mut machine.backlog, reader)?;
        }
        valid(reader.is_empty())?;
        hold_again(&mut machine.backlog, &machine.consumers)?;
        Ok(machine)
    }
}

fn read_notes(backlog: &mut Backlog, reader: &mut Reader<'_>) -> Result<(), RecordError> {
    let mut end = 0;
    for _ in 0..reader.u64()? {
        let (position, notes) = (reader.u64()?, reader.bytes()?);
        valid(end <= position && position < backlog.next_position && !notes.is_empty())?;
        valid(backlog.notes.set(position, notes))?;
        end = position + 1;
    }
    Ok(())
}

/// Takes what consumers hold for held, and checks that each message stands at one place.
fn hold_again(backlog: &mut Backlog, consumers: &Holders) -> Result<(), RecordError> {
    let held = consumers.table.values().flat_map(|consumer| consumer.held.iter());
    let held = held.map(|delivery| delivery.position);
    let mut away: Vec<u64> = held.chain(backlog.delayed_until.keys().copied()).collect();
    away.sort_unstable();
    for position in away {
        valid(position < backlog.next_position && backlog.away.last() < Some(position))?;
        backlog.away.push_back(position, 1);
    }
    let departing = backlog.departing.iter().map(|run| run.positions);
    let all = backlog.ready.ranges().chain(backlog.away.ranges()).chain(departing);
    let mut all: Vec<PositionRange> = all.collect();
    all.sort_unstable_by_key(|range| range.start);
    let (mut end, mut n_messages) = (0, 0);
    let mut n_noted = 0;
    for range in all {
        valid(end <= range.start && range.end <= backlog.next_position)?;
        (end, n_messages) = (range.end, n_messages + range.len());
        n_noted += backlog.notes.n_in(range);
    }
    valid(n_messages <= MESSAGES_MAX && n_noted == backlog.notes.len())?;
    backlog.measure();
    Ok(())
}
fn valid(is_valid: bool) -> Result<(), RecordError> {
    is_valid.then_some(()).ok_or(RecordError::Invalid)
}

fn put_range(out: &mut Vec<u8>, range: PositionRange) {
    put_u64(out, range.start);
    put_u64(out, range.end);
}

fn read_time(reader: &mut Reader<'_>) -> Result<UnixMs, RecordError> {
    reader.u64().map(UnixMs::from_raw)
}

fn read_range(reader: &mut Reader<'_>) -> Result<PositionRange, RecordError> {
    let range = PositionRange { start: reader.u64()?, end: reader.u64()? };
    valid(range.start < range.end && range.end <= COUNTER_MAX)?;
    Ok(range)
}

/// A number of things that are counted one by one.
fn read_counter(reader: &mut Reader<'_>) -> Result<u64, RecordError> {
    let counter = reader.u64()?;
    valid(counter < COUNTER_MAX)?;
    Ok(counter)
}

/// Writes a list whose length is known when it is written.
fn put_list<T>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = T>,
    mut put: impl FnMut(&mut Vec<u8>, T),
) {
    let at = out.len();
    put_u64(out, 0);
    let mut n = 0_u64;
    for item in items {
        put(out, item);
        n += 1;
    }
    let end = at + size_of::<u64>();
    out.get_mut(at..end).expect("it was put").copy_from_slice(&n.to_le_bytes());
}

/// Reads ranges that rise and hold no more positions than a queue.
fn read_set(reader: &mut Reader<'_>) -> Result<PositionSet, RecordError> {
    let (mut set, mut end) = (PositionSet::new(), 0);
    for _ in 0..reader.u64()? {
        let range = read_range(reader)?;
        valid(end <= range.start && set.len().saturating_add(range.len()) <= MESSAGES_MAX)?;
        set.push_back(range.start, range.len());
        end = range.end;
    }
    Ok(set)
}

fn write_backlog(backlog: &Backlog, out: &mut Vec<u8>) {
    put_u64(out, backlog.next_position);
    put_list(out, backlog.ready.fresh(), |out, (priority, ready)| {
        put_u8(out, priority);
        put_list(out, ready.ranges(), put_range);
    });
    let mut returned = backlog.ready.returned().map(PositionRange::one).peekable();
    let runs = std::iter::from_fn(|| {
        let mut run = returned.next()?;
        while let Some(next) = returned.next_if(|next| next.start == run.end) {
            run.end = next.end;
        }
        Some(run)
    });
    put_list(out, runs, put_range);
    put_list(out, backlog.delayed_until.iter(), |out, (position, until_ms)| {
        put_u64(out, *position);
        put_u64(out, until_ms.get());
    });
    put_u64(out, backlog.departing.next_number());
    put_list(out, backlog.departing.iter(), |out, run| {
        put_u64(out, run.first_number);
        put_range(out, run.positions);
        put_u8(out, run.reason as u8);
    });
    put_list(out, backlog.expiry.buckets.iter(), |out, (due_ms, runs)| {
        put_u64(out, due_ms.get());
        put_list(out, runs.iter().copied(), put_range);
    });
    put_list(out, backlog.expiry.overdue.ranges(), put_range);
    put_list(out, count_runs(backlog).into_iter(), |out, (range, counts)| {
        put_range(out, range);
        put_u32(out, counts.n_failed);
        put_u32(out, counts.n_acquired);
    });
    backlog.sizes.write(out);
}

const fn is_level(counts: DeliveryCounts) -> bool {
    counts.n_failed as usize <= LEVELS_MAX && counts.n_acquired as usize <= LEVELS_MAX
}

/// The counts of messages that came back, by position; runs of equal ones where these are small.
fn count_runs(backlog: &Backlog) -> Vec<(PositionRange, DeliveryCounts)> {
    let mut runs: Vec<(PositionRange, DeliveryCounts)> = Vec::new();
    for (position, counts) in backlog.counts.iter() {
        match runs.last_mut() {
            Some((last, known)) if last.end == position && *known == counts && is_level(counts) => {
                last.end += 1;
            }
            Some(_) | None => runs.push((PositionRange::one(position), counts)),
        }
    }
    runs.sort_unstable_by_key(|(range, _)| range.start);
    runs
}

fn read_backlog(backlog: &mut Backlog, reader: &mut Reader<'_>) -> Result<(), RecordError> {
    backlog.next_position = read_counter(reader)?;
    let mut above = PRIORITY_MAX + 1;
    for _ in 0..reader.u64()? {
        let priority = reader.u8()?;
        valid(priority < above)?;
        above = priority;
        for range in read_set(reader)?.ranges() {
            backlog.ready.restore(range, priority);
        }
    }
    let order = (0..reader.u64()?).map(|_| read_range(reader)).collect::<Result<_, _>>()?;
    valid(backlog.ready.restore_returned(order, MESSAGES_MAX))?;
    for _ in 0..reader.u64()? {
        let (position, until_ms) = (read_counter(reader)?, read_time(reader)?);
        valid(backlog.delayed_until.insert(position, until_ms).is_none())?;
        backlog.delayed.push(position, until_ms);
    }
    let next_number = read_counter(reader)?;
    for _ in 0..reader.u64()? {
        let (number, positions) = (reader.u64()?, read_range(reader)?);
        let end = number.checked_add(positions.len()).ok_or(RecordError::Invalid)?;
        valid(backlog.departing.next_number() <= number && end <= next_number)?;
        backlog.departing.restore(number, positions, read_reason(reader)?);
    }
    backlog.departing.restore_next(next_number);
    let mut earlier = None;
    for _ in 0..reader.u64()? {
        let due_ms = read_time(reader)?;
        valid(earlier < Some(due_ms))?;
        earlier = Some(due_ms);
        for _ in 0..reader.u64()? {
            let run = read_range(reader)?;
            valid(run.end <= backlog.next_position)?;
            backlog.expiry.push_run(due_ms, run);
        }
    }
    backlog.expiry.overdue = read_set(reader)?;
    let (mut end, mut n_counted) = (0, 0_u64);
    for _ in 0..reader.u64()? {
        let range = read_range(reader)?;
        let counts = DeliveryCounts { n_failed: reader.u32()?, n_acquired: reader.u32()? };
        n_counted = n_counted.saturating_add(range.len());
        valid(end <= range.start && n_counted <= MESSAGES_MAX)?;
        valid(range.end <= backlog.next_position)?;
        valid(is_level(counts) || range.len() == 1)?;
        valid(counts.n_failed <= counts.n_acquired && counts.n_acquired > 0)?;
        backlog.counts.restore_run(range, counts);
        end = range.end;
    }
    backlog.sizes = Sizes::read(reader, backlog.next_position)?;
    Ok(())
}

fn read_reason(reader: &mut Reader<'_>) -> Result<Reason, RecordError> {
    let reasons = [Reason::Rejected, Reason::Expired, Reason::MaxLen, Reason::DeliveryLimit];
    let code = reader.u8()?;
    reasons.into_iter().find(|reason| *reason as u8 == code).ok_or(RecordError::Invalid)
}

fn write_consumers(consumers: &Holders, has_links: bool, out: &mut Vec<u8>) {
    put_u64(out, consumers.next_number);
    put_u64(out, consumers.n_turns);
    put_u64(out, consumers.n_came);
    put_option(out, consumers.active);
    put_list(out, consumers.table.values(), |out, consumer| {
        write_attach(&consumer.terms, out);
        put_u64(out, consumer.came);
        put_bool(out, consumer.is_cancelled);
        match consumer.reach {
            Reach::Up => put_u8(out, 0),
            Reach::GivenUp => put_u8(out, 1),
            Reach::Lost(since_ms) => {
                put_u8(out, 2);
                put_u64(out, since_ms.get());
            }
        }
        put_option(out, consumer.turn);
        put_option(out, consumer.alarm_ms.map(UnixMs::get));
        put_list(out, consumer.held.iter(), |out, delivery| {
            put_u64(out, delivery.number);
            put_u64(out, delivery.position);
            put_u64(out, delivery.at_ms.get());
        });
        put_list(out, consumer.timed_out.iter(), |out, number| put_u64(out, *number));
        if has_links {
            put_bool(out, consumer.link.is_some());
            consumer.link_credit().into_iter().for_each(|it| write_link_credit(it, out));
        }
    });
}

fn read_consumers(
    consumers: &mut Holders,
    has_links: bool,
    reader: &mut Reader<'_>,
) -> Result<(), RecordError> {
    consumers.next_number = read_counter(reader)?;
    consumers.n_turns = read_counter(reader)?;
    consumers.n_came = read_counter(reader)?;
    consumers.active = read_option(reader)?;
    let mut earlier = None;
    for _ in 0..reader.u64()? {
        let mut consumer = read_consumer(reader, consumers.next_number)?;
        if has_links && reader.bool()? {
            consumer.terms.has_link_credit = true;
            consumer.link = Some(DeliveryRoom::of_link(read_link_credit(reader)?));
        }
        valid(earlier < Some(consumer.terms.consumer))?;
        earlier = Some(consumer.terms.consumer);
        consumers.put_back(consumer);
    }
    Ok(())
}

fn read_consumer(reader: &mut Reader<'_>, next_number: u64) -> Result<Holder, RecordError> {
    let terms = read_attach(reader, false)?;
    let (came, is_cancelled) = (reader.u64()?, reader.bool()?);
    let reach = match reader.u8()? {
        0 => Reach::Up,
        1 => Reach::GivenUp,
        2 => Reach::Lost(read_time(reader)?),
        3..=u8::MAX => return Err(RecordError::Invalid),
    };
    let turn = read_option(reader)?;
    let alarm_ms = read_option(reader)?.map(UnixMs::from_raw);
    let (mut held, mut next) = (Unacked::default(), 0);
    for _ in 0..reader.u64()? {
        let (number, position) = (reader.u64()?, read_counter(reader)?);
        valid(next <= number && number < next_number)?;
        next = number + 1;
        held.hold(Delivery { number, position, at_ms: read_time(reader)? });
    }
    let timed_out = (0..reader.u64()?).map(|_| reader.u64()).collect::<Result<_, _>>()?;
    let link = None;
    Ok(Holder { terms, came, is_cancelled, reach, held, link, timed_out, turn, alarm_ms })
}

fn write_publishers(publishers: &Publishers, out: &mut Vec<u8>) {
    put_list(out, publishers.numbered.iter(), |out, (publisher, numbers)| {
        put_u64(out, *publisher);
        write_numbers(numbers, out);
    });
    put_list(out, publishers.named.iter(), |out, (name, numbers)| {
        put_bytes(out, name);
        write_numbers(numbers, out);
    });
}

fn write_numbers(numbers: &Numbers, out: &mut Vec<u8>) {
    put_u64(out, numbers.next);
    put_list(out, numbers.refused.iter(), |out, (start, end)| {
        put_u64(out, *start);
        put_u64(out, *end);
    });
}

fn read_publishers(
    publishers: &mut Publishers,
    reader: &mut Reader<'_>,
) -> Result<(), RecordError> {
    for _ in 0..reader.u64()? {
        publishers.numbered.insert(reader.u64()?, read_numbers(reader)?, u32::MAX);
    }
    for _ in 0..reader.u64()? {
        let name = reader.bytes()?;
        valid(name.len() <= NAME_BYTES_MAX)?;
        publishers.named.insert(name.into(), read_numbers(reader)?, u32::MAX);
    }
    Ok(())
}

fn read_waiter(reader: &mut Reader<'_>) -> Result<(u64, Waiter), RecordError> {
    let (position, publisher, number) = (reader.u64()?, read_option(reader)?, reader.u64()?);
    let (bytes, came_ms) = (reader.u32()?, read_time(reader)?);
    let named = if reader.bool()? {
        let name = reader.bytes()?;
        valid(name.len() <= NAME_BYTES_MAX)?;
        Some(Box::new((name.to_vec(), reader.u64()?)))
    } else {
        None
    };
    Ok((position, Waiter { publisher, number, named, bytes, came_ms }))
}

fn read_numbers(reader: &mut Reader<'_>) -> Result<Numbers, RecordError> {
    let mut numbers = Numbers::from(reader.u64()?);
    let mut last = 0;
    for _ in 0..reader.u64()? {
        let (start, end) = (reader.u64()?, reader.u64()?);
        valid(last <= start && start < end && end <= numbers.next)?;
        numbers.refused.insert(start, end);
        last = end;
    }
    valid(numbers.refused.len() <= REFUSED_RUNS_MAX)?;
    Ok(numbers)
}
