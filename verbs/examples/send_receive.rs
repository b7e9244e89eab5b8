//! SEND and receive: messages between two queue pairs.
//!
//! ```text
//! cargo run --example send_receive                            both ends, over loopback
//! cargo run --example send_receive -- server 10.0.0.1:7471    one end …
//! cargo run --example send_receive -- client 10.0.0.1:7471    … and the other, on two hosts
//! ```
//!
//! A SEND goes into the memory of the oldest receive request that the peer has posted. So the peer
//! first posts a receive. Its completion says that a message has arrived, and how long the message
//! is. If the peer has posted no receive, the sender's NIC waits and retries.
//!
//! Here, the client sends a line, and the server sends it back in upper case.

mod ends;

use ends::{Outcome, TIMEOUT};
use roce_verbs::prelude::*;
use std::net::SocketAddr;

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
    let memory = pd.allocate(4096, Access::LOCAL_WRITE)?;
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;

    // Post the receive for the client's first message before the client can send it.
    qp.to_init(Access::empty())?;
    post_receive(&qp, &memory)?;
    let connection = listener
        .accept()
        .accept(qp, &ConnectOptions::default(), b"")?;

    let mut message = received(&cq, &memory)?;
    println!("server: received {:?}", String::from_utf8_lossy(&message));
    message.make_ascii_uppercase();
    send(&connection, &cq, &memory, &message)?;
    connection.wait_for_end(TIMEOUT);
    Ok(())
}

fn client(context: &Context, server: SocketAddr) -> Outcome {
    let pd = context.alloc_pd();
    let cq = context.create_cq(16);
    // Separate memory for sent and for received messages.
    let (outgoing, incoming) = (
        pd.allocate(4096, Access::empty())?,
        pd.allocate(4096, Access::LOCAL_WRITE)?,
    );
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;
    let connection = Connection::connect(qp, server, &ConnectOptions::default(), b"")?;

    post_receive(&connection, &incoming)?;
    send(&connection, &cq, &outgoing, b"hello, queue pair")?;
    let answer = received(&cq, &incoming)?;
    println!("client: received {:?}", String::from_utf8_lossy(&answer));
    if answer != b"HELLO, QUEUE PAIR" {
        return Err(format!("a wrong answer: {answer:?}").into());
    }
    connection.disconnect(TIMEOUT);
    Ok(())
}

fn post_receive(qp: &QueuePair, memory: &MemoryRegion) -> Outcome {
    let sges = [memory.all()?];
    Ok(qp.post_recv(&RecvRequest {
        wr_id: 1,
        sges: &sges,
    })?)
}

fn send(qp: &QueuePair, cq: &CompletionQueue, memory: &MemoryRegion, message: &[u8]) -> Outcome {
    memory.write(0, message)?;
    let request = SendRequest::send(memory.slice(0, message.len())?);
    qp.post_send(&request.id(2))?;
    // Until the SEND has completed, the memory belongs to the NIC.
    cq.wait_polling()?.ok()?;
    Ok(())
}

fn received(cq: &CompletionQueue, memory: &MemoryRegion) -> Outcome<Vec<u8>> {
    let completion = cq.wait_polling()?.ok()?;
    let mut message = vec![0; completion.byte_len as usize];
    memory.read(0, &mut message)?;
    Ok(message)
}
