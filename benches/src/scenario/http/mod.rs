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

/// A route that is measured beside the bare one.
struct Pair {
    what: &'static str,
    path: &'static str,
    keys: Keys,
    bar: Option<Bar>,
}

const fn pair(what: &'static str, keys: Keys, at_least: f64) -> Pair {
    Pair { what, path: "/layered", keys, bar: Some(Bar::AtLeast(at_least)) }
}

const NEW: &str = "http: new keys, to the bare route";
const SAME: &str = "http: the same key, to the bare route";
const NONE: &str = "http: no key, to the bare route";

const OVER_MEMORY: [Pair; 3] =
    [pair(NEW, Keys::New, 0.75), pair(SAME, Keys::Same, 0.95), pair(NONE, Keys::None, 0.95)];

const OVER_REDIS: [Pair; 5] = [
    pair(NEW, Keys::New, 0.40),
    pair(SAME, Keys::Same, 0.70),
    pair(NONE, Keys::None, 0.95),
    Pair {
        what: "http: a plain SET NX and SET in the layer's place, to the bare route",
        path: "/set",
        keys: Keys::New,
        bar: None,
    },
    Pair {
        what: "http: a plain GET in the layer's place, to the bare route",
        path: "/get",
        keys: Keys::Same,
        bar: None,
    },
];

const OVER_POSTGRES: [Pair; 3] = [
    Pair { what: NEW, path: "/layered", keys: Keys::New, bar: None },
    Pair { what: SAME, path: "/layered", keys: Keys::Same, bar: None },
    pair(NONE, Keys::None, 0.95),
];

pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let pairs: &[Pair] = match args.url.split(':').next() {
        Some("memory") => &OVER_MEMORY,
        Some("redis") => &OVER_REDIS,
        _ => &OVER_POSTGRES,
    };
    let mut series = std::process::id().wrapping_shl(12);
    for &Pair { what, path, keys, bar } in pairs.iter().filter(|pair| args.wants(pair.what)) {
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for number in 0..args.runs {
            series = series.wrapping_add(1);
            // who goes first takes turns
            if number % 2 == 0 {
                bare.push(load(args, "/bare", keys, series)?);
                ours.push(load(args, path, keys, series)?);
            } else {
                ours.push(load(args, path, keys, series)?);
                bare.push(load(args, "/bare", keys, series)?);
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

/// Requests on a service of their own.
fn load(args: &Args, path: &'static str, keys: Keys, series: u32) -> anyhow::Result<Taken> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let address = runtime.block_on(service::start(&args.url))?;
    let each = (args.keys / 4 / CONNECTIONS).max(1);
    let mut clients = Vec::new();
    for number in 0..CONNECTIONS {
        clients.push(runtime.block_on(Client::connect(address, path, keys, (series, number)))?);
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
