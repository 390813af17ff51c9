//! The HTTP layer beside the bare route: one axum service, 64 keep-alive connections on loopback.

mod client;
mod service;

use std::net::SocketAddr;

use tokio::runtime::{Builder, Runtime};

use self::client::{Client, Keys};
use crate::{
    cli::Args,
    driver::{Taken, timed},
    report::{Bar, Figure, Report, Row},
};

const CONNECTIONS: u32 = 64;

/// What is sent, and the bars it has to meet over memory and over a store on a server.
const PAIRS: [(&str, Keys, f64, f64); 3] = [
    ("http: new keys, to the bare route", Keys::New, 0.75, 0.40),
    ("http: the same key, to the bare route", Keys::Same, 0.95, 0.70),
    ("http: no key, to the bare route", Keys::None, 0.95, 0.95),
];

pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let is_memory = args.url.starts_with("memory:");
    for (what, keys, memory, server) in PAIRS.into_iter().filter(|(what, ..)| args.wants(what)) {
        let bar = Some(Bar::AtLeast(if is_memory { memory } else { server }));
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for number in 0..args.runs {
            // who goes first takes turns
            if number % 2 == 0 {
                bare.push(load(args, "/bare", keys)?);
                ours.push(load(args, "/layered", keys)?);
            } else {
                ours.push(load(args, "/layered", keys)?);
                bare.push(load(args, "/bare", keys)?);
            }
        }
        let mut add = |what: &str, unit, figure: fn(&Taken) -> f64, bar| {
            report.add(Row {
                what: what.to_owned(),
                unit,
                ours: ours.iter().map(figure).collect(),
                other: bare.iter().map(figure).collect(),
                figure: Figure::OursToOther,
                bar,
            });
        };
        add(what, "/s", Taken::per_second, bar);
        add("the same, CPU time of client and server", "ns", Taken::cpu_ns, None);
    }
    Ok(())
}

/// Requests on a service with a store of its own.
fn load(args: &Args, path: &'static str, keys: Keys) -> anyhow::Result<Taken> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let address = runtime.block_on(service::start(&args.url))?;
    let each = (args.keys / 4 / CONNECTIONS).max(1);
    let mut clients = Vec::new();
    for number in 0..CONNECTIONS {
        clients.push(runtime.block_on(Client::connect(address, path, keys, number))?);
    }
    // what is made at the first use is not what is measured
    clients = all(&runtime, clients, 10)?;
    let mut sent = Ok(clients);
    let taken = timed(each * CONNECTIONS, || {
        if let Ok(clients) = std::mem::replace(&mut sent, Ok(Vec::new())) {
            sent = all(&runtime, clients, each);
        }
    });
    sent.map(|_| taken)
}

/// All clients at once, each one request after the other.
fn all(runtime: &Runtime, clients: Vec<Client>, each: u32) -> anyhow::Result<Vec<Client>> {
    let tasks = clients.into_iter().map(|mut client| {
        runtime.spawn(async move {
            client.send(each).await?;
            anyhow::Ok(client)
        })
    });
    let tasks: Vec<_> = tasks.collect();
    runtime.block_on(async {
        let mut clients = Vec::new();
        for task in tasks {
            clients.push(task.await??);
        }
        Ok(clients)
    })
}

/// Where the service listens.
type Address = SocketAddr;
