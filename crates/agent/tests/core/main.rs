//! The harness's core without a network: invariants for any sequence of events.

#[cfg(test)]
mod assembly;
#[cfg(test)]
mod digests;
#[cfg(test)]
mod knocks;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod renewal;
#[cfg(test)]
mod stops;
#[cfg(test)]
mod table;
#[cfg(test)]
mod world;
