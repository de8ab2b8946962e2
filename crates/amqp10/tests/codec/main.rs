//! Tests of the codec from outside: bytes worked out from the specification or seen from real peers, round
//! trips, hostile bytes, another implementation, and the fuzz targets' checks.

#[cfg(test)]
mod frames;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod generated;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod performatives;
#[cfg(test)]
mod values;
