//! A server and a client, each a function that can be copied into a program of its own. The client
//! writes to the server's memory, and then says so by a message.
//!
//! ```text
//! cargo run --example client_server -- server 127.0.0.1:7471
//! cargo run --example client_server -- client 127.0.0.1:7471
//! ```

use roce_verbs::prelude::*;
use std::net::SocketAddr;
use std::time::Duration;

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

#[allow(dead_code)] // A test includes this file and calls `run`.
fn main() -> Outcome {
    run(&std::env::args().skip(1).collect::<Vec<_>>())
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    match arguments {
        [role, address] if role == "server" => server(address.parse()?),
        [role, address] if role == "client" => client(address.parse()?),
        _ => Err("usage: server ADDRESS:PORT, or client ADDRESS:PORT".into()),
    }
}

fn server(address: SocketAddr) -> Outcome {
    // The device of the interface that has this address.
    let context = Device::with_address(address.ip())?.open()?;
    let listener = Listener::bind(&context, address)?;
    let pd = context.alloc_pd();
    let cq = context.create_cq(16);
    let shared = pd.allocate(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let inbox = pd.allocate(64, Access::LOCAL_WRITE)?;
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;

    // A receive can be posted from INIT on. It must be there before the client sends, which it may
    // do as soon as `accept` has answered it.
    qp.to_init(Access::REMOTE_WRITE)?;
    qp.post_recv(&RecvRequest {
        wr_id: 1,
        sges: &[inbox.all()?],
    })?;

    // The client needs the address and the key of `shared`. The answer to its request carries them,
    // as text.
    let key = shared.remote(0).to_string();
    let request = listener.accept();
    let connection = request.accept(qp, &ConnectOptions::default(), key.as_bytes())?;

    // A WRITE is not announced here. The message that follows it is.
    let received = cq.wait_polling()?.ok()?;
    let mut written = [0; 13];
    shared.read(0, &mut written)?;
    let text = String::from_utf8_lossy(&written);
    println!("a message of {} bytes; {text:?}", received.byte_len);
    connection.wait_for_end(Duration::from_secs(10));
    Ok(())
}

fn client(server: SocketAddr) -> Outcome {
    // The device from which the route leads to the server.
    let context = Device::towards(server.ip())?.open()?;
    let pd = context.alloc_pd();
    let cq = context.create_cq(16);
    let memory = pd.allocate(4096, Access::empty())?;
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;
    let connection = Connection::connect(qp, server, &ConnectOptions::default(), b"")?;
    // The server's private data, without the zeros that pad it.
    let key = std::str::from_utf8(connection.private().trimmed())?;
    let shared: RemoteAddr = key.parse()?;

    memory.write(0, b"hello, server")?;
    connection.post_send(&SendRequest::write(memory.slice(0, 13)?, shared))?;
    cq.wait_polling()?.ok()?;
    connection.post_send(&SendRequest::send(memory.slice(0, 5)?))?;
    cq.wait_polling()?.ok()?;
    connection.disconnect(Duration::from_secs(10));
    Ok(())
}
