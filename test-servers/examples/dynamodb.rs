//! A `DynamoDB` emulator on loopback, for trying things out. It keeps everything in memory until it is
//! interrupted.
//!
//! `cargo run -p test-servers --features dynamodb --example dynamodb -- 8000`

use std::io::Error;

use test_servers::dynamodb::DynamoDbEmulator;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = match std::env::args().nth(1) {
        None => 8_000,
        Some(port) => {
            port.parse().map_err(|_| Error::other(format!("`{port}` is no port: 0 to 65535")))?
        }
    };
    let emulator = DynamoDbEmulator::start_on(port)?;
    println!("store URL: {}&create=on", emulator.url("idempotency"));
    loop {
        std::thread::park();
    }
}
