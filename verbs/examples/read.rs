//! RDMA READ: fetches the peer's memory, while the peer's program does nothing.
//!
//! ```text
//! cargo run --example read                            both ends, over loopback
//! cargo run --example read -- server 10.0.0.1:7471    one end …
//! cargo run --example read -- client 10.0.0.1:7471    … and the other, on two hosts
//! ```
//!
//! The server registers memory that peers may read, and passes on its address and key. From then on
//! the server makes no call: its NIC answers. The client fetches several pieces at once: READs that
//! are posted together are in flight together.

mod ends;

use ends::{Outcome, TIMEOUT};
use roce_verbs::prelude::*;
use std::net::SocketAddr;

/// The size of the server's memory in bytes, and the number of pieces in which the client fetches
/// it.
const BYTES: usize = 1 << 20;
const PIECES: usize = 4;

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
    let memory = pd.allocate(BYTES, Access::REMOTE_READ)?;
    memory.write(0, &content())?;
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;

    // The key gives this peer access to this memory and nothing else.
    let remote = memory.remote(0).to_string();
    let connection = listener
        .accept()
        .accept(qp, &ConnectOptions::default(), remote.as_bytes())?;
    connection.wait_for_end(TIMEOUT);
    Ok(())
}

fn client(context: &Context, server: SocketAddr) -> Outcome {
    let pd = context.alloc_pd();
    let cq = context.create_cq(16);
    let memory = pd.allocate(BYTES, Access::LOCAL_WRITE)?;
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;
    let connection = Connection::connect(qp, server, &ConnectOptions::default(), b"")?;
    let remote: RemoteAddr = std::str::from_utf8(connection.private().trimmed())?.parse()?;

    let piece = BYTES / PIECES;
    for at in (0..BYTES).step_by(piece) {
        let source = remote.offset(at as u64);
        let read = SendRequest::read(memory.slice(at, piece)?, source);
        connection.post_send(&read.id(at as u64))?;
    }
    for _ in 0..PIECES {
        let completion = cq.wait_polling()?.ok()?;
        println!(
            "client: {} bytes from offset {}",
            completion.byte_len, completion.wr_id
        );
    }
    let mut fetched = vec![0; BYTES];
    memory.read(0, &mut fetched)?;
    if fetched != content() {
        return Err("what was fetched differs from what is there".into());
    }
    connection.disconnect(TIMEOUT);
    Ok(())
}

fn content() -> Vec<u8> {
    (0..BYTES).map(|i| (i * 7 + i / 251) as u8).collect()
}
