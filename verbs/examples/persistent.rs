//! FLUSH to persistence: a log in a file of the peer, whose records survive a loss of power.
//!
//! ```text
//! cargo run --example persistent                            both ends, over loopback
//! cargo run --example persistent -- server 10.0.0.1:7471    one end …
//! cargo run --example persistent -- client 10.0.0.1:7471    … and the other
//! ```
//!
//! The client appends records to a file of the server, without the server's program noticing. A
//! record is written, then flushed to persistence. Behind that, an ATOMIC WRITE counts it, and the
//! count is flushed as well. When the client knows that the second FLUSH has succeeded, the record
//! is on the server's disk, or in its persistent memory. The power may fail at any time: the count is
//! never ahead of the records.
//!
//! The file is beside the program, and the next run appends to it.

mod ends;

use ends::{Outcome, TIMEOUT};
use roce_verbs::prelude::*;
use roce_verbs::work::{Flush, FlushPlacement, FlushSelectivity};
use std::fs::OpenOptions;
use std::net::SocketAddr;

/// The size of a record in bytes.
const RECORD: usize = 64;
/// The records that fit in the log. After the last, the log begins again.
const RECORDS: u64 = 1000;
/// The log in the file: the number of records so far, and after a page the records.
const COUNT: u64 = 0;
const FIRST: u64 = 4096;
const LEN: usize = FIRST as usize + RECORDS as usize * RECORD;

#[allow(dead_code)] // A test includes this file and calls `run`.
fn main() -> Outcome {
    run(&std::env::args().skip(1).collect::<Vec<_>>())
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    ends::run(arguments, server, client)
}

fn server(context: &Context, listener: &Listener) -> Outcome {
    // Unlike /tmp, this folder is on a disk, and every user can write to it.
    let path = format!("/var/tmp/roce-persistent-{}.log", nix::unistd::getuid());
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).read(true).write(true);
    let file = file.open(&path)?;
    file.set_len(LEN as u64)?;
    let pd = context.alloc_pd();
    let cq = context.create_cq(16);
    let remote_rights = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::FLUSH_PERSISTENT;
    let log = pd.register_file(&file, 0, LEN, Access::LOCAL_WRITE | remote_rights)?;
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;
    let remote = log.remote(0).to_string();
    let connection = listener
        .accept()
        .accept(qp, &ConnectOptions::default(), remote.as_bytes())?;
    connection.wait_for_end(TIMEOUT);

    let mut count = [0; 8];
    log.read(COUNT as usize, &mut count)?;
    let count = u64::from_ne_bytes(count);
    println!("server: {path} has {count} records");
    let newest = count.checked_sub(1).ok_or("no record")?;
    let mut record = [0; RECORD];
    log.read(place(newest) as usize, &mut record)?;
    match record == content(newest) {
        true => Ok(()),
        false => Err(format!("record {newest} is not as it was written").into()),
    }
}

fn client(context: &Context, server: SocketAddr) -> Outcome {
    let pd = context.alloc_pd();
    let cq = context.create_cq(16);
    let memory = pd.allocate(RECORD + 8, Access::LOCAL_WRITE)?;
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;
    let connection = Connection::connect(qp, server, &ConnectOptions::default(), b"")?;
    let log: RemoteAddr = std::str::from_utf8(connection.private().trimmed())?.parse()?;
    let (record, count) = (memory.slice(0, RECORD)?, memory.slice(RECORD, 8)?);

    let read = SendOp::Read(log.offset(COUNT));
    connection.post_send(&SendRequest::new(0, read, count))?;
    cq.wait_polling()?.ok()?;
    let mut found = [0; 8];
    memory.read(RECORD, &mut found)?;
    let before = u64::from_ne_bytes(found);

    for number in before..before + 10 {
        let at = log.offset(place(number));
        memory.write(0, &content(number))?;
        memory.write(RECORD, &(number + 1).to_ne_bytes())?;
        // All four leave at once, and are executed one after the other.
        let posted = connection.post_sends(&[
            SendRequest::new(1, SendOp::Write(at), record),
            SendRequest::new(2, flush(at, RECORD), ()),
            SendRequest::new(3, SendOp::AtomicWrite(log.offset(COUNT)), count),
            SendRequest::new(4, flush(log.offset(COUNT), 8), ()),
        ]);
        posted.map_err(|(_, refused)| refused)?;
        for _ in 0..4 {
            cq.wait_polling()?.ok()?;
        }
        println!("client: record {number} is durable");
    }
    connection.disconnect(TIMEOUT);
    Ok(())
}

/// A FLUSH of some bytes to persistence.
fn flush(remote: RemoteAddr, len: usize) -> SendOp {
    SendOp::Flush(Flush {
        remote,
        len: len as u32,
        placement: FlushPlacement::PERSISTENCE,
        selectivity: FlushSelectivity::Range,
    })
}

/// The place of a record in the log.
fn place(number: u64) -> u64 {
    FIRST + number % RECORDS * RECORD as u64
}

/// The content of a record.
fn content(number: u64) -> [u8; RECORD] {
    std::array::from_fn(|i| (number as usize * 7 + i) as u8)
}
