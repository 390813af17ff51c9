//! The store against real servers. A server that is missing is a failure, never a skip.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod failover;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod migration;
#[cfg(test)]
mod model;
#[cfg(test)]
mod network;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod outages;
#[cfg(test)]
mod replies;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod support;
#[cfg(test)]
#[cfg(feature = "tokio-rustls-comp")]
mod tls;
#[cfg(test)]
mod transport;
#[cfg(test)]
mod trips;
