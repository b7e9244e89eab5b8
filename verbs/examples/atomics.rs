//! Atomics: a counter and a lock in the peer's memory.
//!
//! ```text
//! cargo run --example atomics                            both ends, over loopback
//! cargo run --example atomics -- server 10.0.0.1:7471    one end …
//! cargo run --example atomics -- client 10.0.0.1:7471    … and the other, on two hosts
//! ```
//!
//! Fetch-and-add and compare-and-swap change 8 bytes of the peer's memory, at an address that is a
//! multiple of 8, and return the previous value. No other access to these bytes through the NIC
//! comes in between. The server's program does nothing meanwhile.

mod ends;

use ends::{Outcome, TIMEOUT};
use roce_verbs::prelude::*;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

/// The offsets of the counter and the lock in the server's memory.
const COUNTER: u64 = 0;
const LOCK: u64 = 8;
/// The values of the lock: free, and held by the client.
const FREE: u64 = 0;
const CLIENT: u64 = 0xc11e47;

#[allow(dead_code)] // A test includes this file and calls `run`.
fn main() -> Outcome {
    run(&std::env::args().skip(1).collect::<Vec<_>>())
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    ends::run(arguments, server, client)
}

fn server(context: &Context, listener: &Listener) -> Outcome {
    let pd = context.alloc_pd();
    let cq = context.create_cq(16);
    let memory = pd.allocate(16, Access::LOCAL_WRITE | Access::REMOTE_ATOMIC)?;
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;
    let remote = memory.remote(0).to_string();
    let connection = listener
        .accept()
        .accept(qp, &ConnectOptions::default(), remote.as_bytes())?;
    connection.wait_for_end(TIMEOUT);

    let value = |at: u64| {
        memory
            .atomic_u64(at as usize)
            .map(|v| v.load(Ordering::SeqCst))
    };
    println!("server: the counter is {}", value(COUNTER)?);
    match (value(COUNTER)?, value(LOCK)?) {
        (45, FREE) => Ok(()),
        other => Err(format!("counter and lock are {other:?}").into()),
    }
}

fn client(context: &Context, server: SocketAddr) -> Outcome {
    let pd = context.alloc_pd();
    let cq = context.create_cq(16);
    let memory = pd.allocate(8, Access::LOCAL_WRITE)?;
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;
    let connection = Connection::connect(qp, server, &ConnectOptions::default(), b"")?;
    let remote: RemoteAddr = std::str::from_utf8(connection.private().trimmed())?.parse()?;
    // Performs an atomic operation, and returns the previous value.
    let fetch = |op| -> Outcome<u64> {
        connection.post_send(&SendRequest::new(1, op, memory.all()?))?;
        cq.wait_polling()?.ok()?;
        Ok(memory.atomic_u64(0)?.load(Ordering::SeqCst))
    };

    let mut sum = 0;
    for add in 0..10 {
        let before = fetch(SendOp::FetchAdd {
            remote: remote.offset(COUNTER),
            add,
        })?;
        if before != sum {
            return Err(format!("the counter was {before}, not {sum}").into());
        }
        sum += add;
    }
    let swap = |compare, swap| SendOp::CompareSwap {
        remote: remote.offset(LOCK),
        compare,
        swap,
    };
    let (first, second) = (fetch(swap(FREE, CLIENT))?, fetch(swap(FREE, CLIENT))?);
    println!(
        "client: got the lock: {}, and once more: {}",
        first == FREE,
        second == FREE
    );
    let released = fetch(swap(CLIENT, FREE))?;
    if (first, second, released) != (FREE, CLIENT, CLIENT) {
        return Err("the lock did not hold".into());
    }
    connection.disconnect(TIMEOUT);
    Ok(())
}
