//! Whole conversations with the front: a client made of the codec on one side, a broker made of scripted
//! events on the other; no sockets, no clocks.

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod handshake;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod running;
