//! The connection manager's events: a server that examines each request before it answers.
//!
//! ```text
//! cargo run --example connection_manager                    both ends, over loopback
//! ```
//!
//! `Listener` and `Connection`, which the other examples use, block at each step of a connection. A
//! program with many connections, or with an event loop of its own, takes the steps one by one:
//!
//! ```text
//! client                                          server
//! agent.connect(request)          ── REQ ──►      Requested: qp.accept_with, agent.accept,
//!                                                 or agent.reject
//! Replied: qp.connect_with        ◄── REP ──
//! agent.ready                     ── RTU ──►      Established
//!            …  SEND, WRITE, READ between the two queue pairs  …
//! agent.disconnect                ── DREQ ──►     DisconnectRequested: agent.disconnect
//! Disconnected                    ◄── DREP ──
//! ```
//!
//! Here, the server expects a password in the private data of a request. It refuses the first
//! client, which sends a wrong one, and accepts the second.

use roce_verbs::cm::ConnectionManager;
use roce_verbs::prelude::*;
use roce_verbs::roce_cm::{
    ConnectRequest, ConnectionId, Event, Path, PortSpace, RejectReason, ServiceId,
};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const PASSWORD: &[u8] = b"open sesame";

#[allow(dead_code)] // A test includes this file and calls `run`.
fn main() -> Outcome {
    run(&[])
}

pub(crate) fn run(_arguments: &[String]) -> Outcome {
    let server = End::open()?;
    let claim = server.manager.claim_port(PortSpace::Tcp, LOOPBACK, 0)?;
    server.manager.listen(&claim, 16)?;
    let service = claim.service();
    let server = thread::spawn(move || server.serve());

    match End::open()?.connect(service, b"let me in") {
        Err(error) => println!("client: {error}"),
        Ok(_) => return Err("a wrong password was accepted".into()),
    }
    let client = End::open()?;
    let connection = client.connect(service, PASSWORD)?;
    client.memory.write(0, b"hello")?;
    client
        .qp
        .post_send(&SendRequest::send(client.memory.slice(0, 5)?))?;
    client.cq.wait_polling()?.ok()?;
    client
        .manager
        .with(|agent, now| agent.disconnect(now, connection, &[]))?;
    server.join().expect("the server does not panic")
}

/// A queue pair, and the events of its device's connections.
struct End {
    manager: Arc<ConnectionManager>,
    events: Receiver<Event>,
    cq: CompletionQueue,
    qp: QueuePair,
    memory: MemoryRegion,
}

impl End {
    fn open() -> Outcome<Self> {
        let context = Device::with_address(LOOPBACK)?.open()?;
        let manager = context.connection_manager()?;
        // The manager's thread delivers the events. A program with an event loop would wake the
        // loop up here.
        let (sender, events) = channel();
        manager.set_sink(Box::new(move |event| {
            // This fails if this end has been dropped.
            let _ = sender.send(event);
        }));
        let pd = context.alloc_pd();
        let cq = context.create_cq(16);
        let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;
        let memory = pd.allocate(4096, Access::LOCAL_WRITE)?;
        Ok(Self {
            manager,
            events,
            cq,
            qp,
            memory,
        })
    }

    fn connect(&self, service: ServiceId, password: &[u8]) -> Outcome<ConnectionId> {
        let path = Path {
            local: LOOPBACK,
            remote: LOOPBACK,
        };
        let options = ConnectOptions::default();
        let request = ConnectRequest {
            private: password.to_vec(),
            ..self.qp.connect_request(service, &options)?
        };
        self.manager.activate(path.local)?;
        let connection = self
            .manager
            .with(|agent, now| agent.connect(now, path, &request))?;
        match self.events.recv()? {
            Event::Replied { reply, .. } => {
                self.qp.connect_with(&path, &reply, &options)?;
                self.manager
                    .with(|agent, now| agent.ready(now, connection, &[]))?;
                Ok(connection)
            }
            Event::Rejected { private, .. } => {
                let why = String::from_utf8_lossy(private.trimmed());
                Err(format!("the server refused: {why}").into())
            }
            event => Err(format!("an answer was expected, not {event:?}").into()),
        }
    }

    /// Answers requests until one connection has been established and has ended.
    fn serve(&self) -> Outcome {
        loop {
            match self.events.recv()? {
                Event::Requested {
                    connection,
                    path,
                    request,
                    ..
                } if request.private.trimmed() == PASSWORD => {
                    let options = ConnectOptions::default();
                    self.qp.to_init(options.access)?;
                    let sges = [self.memory.all()?];
                    self.qp.post_recv(&RecvRequest {
                        wr_id: 1,
                        sges: &sges,
                    })?;
                    let acceptance = self.qp.accept_with(&path, &request, &options)?;
                    self.manager
                        .with(|agent, now| agent.accept(now, connection, &acceptance))?;
                }
                Event::Requested { connection, .. } => {
                    let (why, text) = (RejectReason::CONSUMER, b"wrong password");
                    self.manager
                        .with(|agent, now| agent.reject(now, connection, why, text))?;
                }
                Event::Established { .. } => {
                    let received = self.cq.wait_polling()?.ok()?;
                    println!("server: received {} bytes", received.byte_len);
                    let mut text = [0; 5];
                    self.memory.read(0, &mut text)?;
                    if &text != b"hello" {
                        return Err(format!("received {text:?}").into());
                    }
                }
                // The client waits for this answer.
                Event::DisconnectRequested { connection, .. } => {
                    self.manager
                        .with(|agent, now| agent.disconnect(now, connection, &[]))?;
                }
                Event::TimeWaitOver { .. } => return Ok(()),
                event => return Err(format!("unexpected: {event:?}").into()),
            }
        }
    }
}
