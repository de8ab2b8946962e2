//! Tests of the codec from outside: round trips, another codec as oracle, and the fuzz targets'
//! checks.

mod fuzz;
mod oracle;
mod round_trip;
mod strategy;
