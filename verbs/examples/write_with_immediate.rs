//! RDMA WRITE with immediate data: bytes that appear in the peer's memory, and a notification.
//!
//! ```text
//! cargo run --example write_with_immediate                            both ends, over loopback
//! cargo run --example write_with_immediate -- server 10.0.0.1:7471    one end …
//! cargo run --example write_with_immediate -- client 10.0.0.1:7471    … and the other
//! ```
//!
//! A WRITE places bytes in the peer's memory without the peer's program noticing. With immediate
//! data, it also completes one of the peer's receive requests, and the completion carries 32 bits.
//! So the peer learns which bytes have arrived. The receive needs no memory of its own.
//!
//! Here, the client writes blocks to places of its choice, and the immediate data is the number of
//! the block. The server passes on its memory's address and key in its answer to the client's
//! connection request.

mod ends;

use ends::{Outcome, TIMEOUT};
use roce_verbs::prelude::*;
use std::net::SocketAddr;

/// The size of a block in bytes, and the number of blocks in the server's memory.
const BLOCK: usize = 100_000;
const BLOCKS: usize = 8;
/// The blocks that the client writes, in this order.
const ORDER: [usize; 3] = [5, 0, 7];

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
    let memory = pd.allocate(BLOCK * BLOCKS, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;

    qp.to_init(Access::REMOTE_WRITE)?;
    for _ in ORDER {
        qp.post_recv(&RecvRequest {
            wr_id: 1,
            sges: &[],
        })?;
    }
    let remote = memory.remote(0).to_string();
    let connection = listener
        .accept()
        .accept(qp, &ConnectOptions::default(), remote.as_bytes())?;

    for expected in ORDER {
        let completion = cq.wait_polling()?.ok()?;
        let block = completion.imm.ok_or("no immediate data")? as usize;
        println!("server: {} bytes in block {block}", completion.byte_len);
        let mut bytes = vec![0; BLOCK];
        memory.read(block * BLOCK, &mut bytes)?;
        if block != expected || bytes != content(block) {
            return Err(format!("block {block} is not as it was written").into());
        }
    }
    connection.wait_for_end(TIMEOUT);
    Ok(())
}

fn client(context: &Context, server: SocketAddr) -> Outcome {
    let pd = context.alloc_pd();
    let cq = context.create_cq(16);
    let memory = pd.allocate(BLOCK, Access::empty())?;
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;
    let connection = Connection::connect(qp, server, &ConnectOptions::default(), b"")?;
    let remote: RemoteAddr = std::str::from_utf8(connection.private().trimmed())?.parse()?;

    for block in ORDER {
        memory.write(0, &content(block))?;
        let target = remote.offset((block * BLOCK) as u64);
        let op = SendOp::WriteImm(target, block as u32);
        connection.post_send(&SendRequest::new(1, op, memory.all()?))?;
        cq.wait_polling()?.ok()?;
    }
    println!("client: wrote blocks {ORDER:?}");
    connection.disconnect(TIMEOUT);
    Ok(())
}

/// The content of a block.
fn content(block: usize) -> Vec<u8> {
    (0..BLOCK)
        .map(|i| (i * 7 + i / 251 + block) as u8)
        .collect()
}
