use std::{
    collections::HashSet,
    net::{Ipv4Addr, TcpListener},
    sync::{Mutex, PoisonError},
};

/// Below the range that the system takes ports for outgoing connections from, so that none of those
/// sits on a server's port while it restarts. A Redis Cluster bus is 10 000 above.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A port of loopback that nobody listens on and that this process has not given out before.
///
/// Another process may still be faster: who starts a server tries another port when it does not start.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = given.get_or_insert_default();
    loop {
        let port = fastrand::u16(PORTS);
        if is_free(port) && is_free(port + 10_000) && given.insert(port) {
            return port;
        }
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
