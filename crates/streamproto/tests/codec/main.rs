//! Tests of the codec from outside: bytes worked out from the reference, round trips, and the fuzz
//! targets' checks.

mod chunks;
mod errors;
mod fixtures;
mod fuzz;
mod grammar;
mod round_trip;
