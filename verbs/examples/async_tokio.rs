//! Asynchronous READ and WRITE: a completion queue that a tokio task waits for.
//!
//! ```text
//! cargo run --example async_tokio                            both ends, over loopback
//! cargo run --example async_tokio -- server 10.0.0.1:7471    one end …
//! cargo run --example async_tokio -- client 10.0.0.1:7471    … and the other, on two hosts
//! ```
//!
//! A completion channel has a file descriptor that is readable while an announcement waits. So any
//! event loop can wait for completions: here tokio's, through `AsyncFd`. Nothing spins, and the
//! context's background thread drives the NIC while all tasks sleep.
//!
//! The client writes a text into the server's memory and reads it back, as futures.

mod ends;

use ends::{Outcome, TIMEOUT};
use roce_verbs::completion::{CompletionChannel, Notify};
use roce_verbs::prelude::*;
use std::io::ErrorKind;
use std::net::SocketAddr;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Builder;

const TEXT: &[u8] = b"written and read without a thread that waits";

#[allow(dead_code)] // A test includes this file and calls `run`.
fn main() -> Outcome {
    run(&std::env::args().skip(1).collect::<Vec<_>>())
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    ends::run(arguments, server, client)
}

/// The server's program does nothing while the client works.
fn server(context: &Context, listener: &Listener) -> Outcome {
    let pd = context.alloc_pd();
    let cq = context.create_cq(1);
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
    let memory = pd.allocate(4096, access)?;
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;
    let remote = memory.remote(0).to_string();
    let connection = listener
        .accept()
        .accept(qp, &ConnectOptions::default(), remote.as_bytes())?;
    connection.wait_for_end(TIMEOUT);
    let mut text = vec![0; TEXT.len()];
    memory.read(0, &mut text)?;
    match text == TEXT {
        true => Ok(()),
        false => Err("the client wrote something else".into()),
    }
}

fn client(context: &Context, server: SocketAddr) -> Outcome {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(write_and_read(context, server))
}

async fn write_and_read(context: &Context, server: SocketAddr) -> Outcome {
    let pd = context.alloc_pd();
    let channel = context.create_channel()?;
    let cq = context.create_cq_with_channel(16, &channel);
    let memory = pd.allocate(4096, Access::LOCAL_WRITE)?;
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;

    // `connect` blocks until the server answers, so it must not run on the runtime's thread.
    let connecting = move || Connection::connect(qp, server, &ConnectOptions::default(), b"");
    let connection = tokio::task::spawn_blocking(connecting).await??;
    let remote: RemoteAddr = std::str::from_utf8(connection.private().trimmed())?.parse()?;
    // Newer versions of tokio have the unsafe `register` instead, whose caller promises that the
    // descriptor stays open. A channel keeps its descriptor until it is dropped.
    #[allow(deprecated)]
    let channel = AsyncFd::new(channel)?;
    let link = AsyncLink {
        connection,
        cq,
        channel,
    };

    memory.write(0, TEXT)?;
    let (text, copy) = (
        memory.slice(0, TEXT.len())?,
        memory.slice(2048, TEXT.len())?,
    );
    link.perform(SendOp::Write(remote), text).await?;
    link.perform(SendOp::Read(remote), copy).await?;
    let mut read = vec![0; TEXT.len()];
    memory.read(2048, &mut read)?;
    println!("client: read {:?}", String::from_utf8_lossy(&read));
    if read != TEXT {
        return Err("what was read differs from what was written".into());
    }
    tokio::task::spawn_blocking(move || link.connection.disconnect(TIMEOUT)).await?;
    Ok(())
}

/// A connection whose operations are futures.
struct AsyncLink {
    connection: Connection,
    cq: CompletionQueue,
    channel: AsyncFd<CompletionChannel>,
}

impl AsyncLink {
    /// Performs one operation, from or into local memory.
    async fn perform(&self, op: SendOp, memory: Sge) -> Outcome<Completion> {
        self.connection
            .post_send(&SendRequest::new(1, op, memory))?;
        Ok(self.completion().await?.ok()?)
    }

    async fn completion(&self) -> Outcome<Completion> {
        loop {
            if let Some(completion) = self.cq.poll()? {
                return Ok(completion);
            }
            self.cq.request_notify(Notify::Next);
            // A completion that came before the request is not announced.
            if let Some(completion) = self.cq.poll()? {
                return Ok(completion);
            }
            let mut ready = self.channel.readable().await?;
            // Takes an announcement. If there is none, the loop waits for the descriptor again.
            let _ = ready.try_io(|channel| {
                let announced = channel.get_ref().poll();
                announced.ok_or_else(|| ErrorKind::WouldBlock.into())
            });
        }
    }
}
