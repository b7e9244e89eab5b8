//! The TCP connection between client and server: one JSON value per line.

use super::op::Op;
use crate::error::Error;
use roce_verbs::device::Gid;
use roce_verbs::{Endpoint, Psn, Qpn, RemoteAddr};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The longest line to accept, in bytes.
const MAX_LINE: u64 = 64 << 10;

/// The version of the protocol; both sides must have the same.
pub(super) const VERSION: u32 = 4;

/// The first message of each side, and the first of each further end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    /// The largest path MTU that its link allows, or its user selected.
    pub(super) path_mtu: usize,
    pub(super) gid: [u8; 16],
    /// The address and key of its buffer.
    pub(super) addr: u64,
    pub(super) rkey: u32,
    /// The size of both buffers and the number of outstanding messages. The client chooses them,
    /// and the server repeats them.
    pub(super) buffer_len: usize,
    pub(super) depth: usize,
    /// Whether packets take no lane. The client chooses it.
    pub(super) sockets_only: bool,
}

impl Hello {
    pub(super) fn remote(&self) -> RemoteAddr {
        RemoteAddr {
            addr: self.addr,
            rkey: self.rkey,
        }
    }
}

/// The QP of each side, new for each phase.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct PeerQp {
    pub(super) qpn: u32,
    pub(super) psn: u32,
}

impl PeerQp {
    /// The endpoint to connect to, together with the peer's GID.
    pub(super) fn endpoint(self, peer: &Hello) -> Endpoint {
        Endpoint {
            gid: Gid(peer.gid),
            qpn: Qpn::from_bits(self.qpn),
            psn: Psn::new(self.psn),
        }
    }
}

/// The next measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Phase {
    pub(super) kind: Kind,
    pub(super) op: Op,
    pub(super) size: usize,
    /// The number of buffers in use, each of that size.
    pub(super) slots: usize,
    /// Round trips, for latency.
    pub(super) iterations: u32,
    /// Whether to wait for WRITEs by polling memory alone.
    pub(super) watch_memory: bool,
    /// One SEND or WRITE in this many asks for a completion.
    pub(super) signal_every: u32,
    pub(super) seed: u64,
    /// The end that measures: 0 for the first that was opened.
    pub(super) end: usize,
}

impl Phase {
    /// Wrong data: the position, and the bytes found.
    pub(super) fn mismatch(&self, what: impl Display) -> Error {
        let (op, size) = (self.op.label(), self.size);
        Error::new(format_args!(
            "{op} of {size} bytes delivered wrong data: {what}"
        ))
    }
}

/// The two kinds of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    Bandwidth,
    Latency,
}

/// Requests from client to server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Open another end, whose packets take another way.
    Open(Hello),
    /// Prepare for this phase, and connect to this QP.
    Prepare(Phase, PeerQp),
    /// The phase is over, with this many messages sent. Check what arrived.
    Finish { messages: u64 },
}

/// Answers from server to client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// Ready for the phase, with this QP.
    Ready(PeerQp),
    /// The data is right; this many bytes were compared.
    Right { bytes: u64 },
    /// The data is wrong.
    Wrong { what: String },
    /// Another failure.
    Failed { what: String },
}

/// The connection.
pub(super) struct Control {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Control {
    pub(super) fn new(stream: TcpStream, timeout: Duration) -> Result<Self, Error> {
        let set_up = || {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(timeout))?;
            stream.set_write_timeout(Some(timeout))?;
            stream.try_clone()
        };
        let writer = set_up().map_err(|e| lost(&e))?;
        Ok(Self {
            reader: BufReader::new(stream),
            writer,
        })
    }

    pub(super) fn send(&mut self, message: &impl Serialize) -> Result<(), Error> {
        let mut line =
            serde_json::to_vec(message).map_err(|e| Error::new(format_args!("control: {e}")))?;
        line.push(b'\n');
        self.writer.write_all(&line).map_err(|e| lost(&e))
    }

    /// The next message; `None` if the peer closed the connection.
    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Error> {
        let mut line = Vec::new();
        let mut limited = (&mut self.reader).take(MAX_LINE);
        limited.read_until(b'\n', &mut line).map_err(|e| lost(&e))?;
        if line.is_empty() {
            return Ok(None);
        }
        let message = serde_json::from_slice(&line).map_err(|e| {
            Error::new(format_args!(
                "the peer does not speak the protocol of `roce perf`: {e}"
            ))
        })?;
        Ok(Some(message))
    }

    /// The next message; its absence is an error.
    pub(super) fn expect<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        self.receive()?
            .ok_or_else(|| Error::new("the peer closed the control connection"))
    }
}

fn lost(error: &std::io::Error) -> Error {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    match error.kind() {
        WouldBlock | TimedOut => Error::new("the peer has stopped answering"),
        _ => Error::new(format_args!("the control connection broke: {error}")),
    }
}
