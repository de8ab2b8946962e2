//! Whole conversations with the front: a client made of the codec on one side, a broker made of
//! scripted events on the other; no sockets, no clocks.

#[cfg(test)]
mod conversation;
#[cfg(test)]
mod deliveries;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod handshake;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod splits;
#[cfg(test)]
mod timing;
#[cfg(test)]
mod unsettled;
#[cfg(test)]
mod wakeups;
