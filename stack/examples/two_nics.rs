//! Two NICs exchange messages in one thread, without a network and without a clock: the number of
//! instructions depends on nothing but the code.
//!
//! ```text
//! cargo build --release -p roce-stack --example two_nics
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/two_nics write 8 10000
//! ```
//!
//! The difference between two counts, divided by the difference of their instructions, is the cost
//! of one message: both NICs, the ICRC, the copies, and packets in memory between them. With
//! `record` as a fourth argument, both NICs record the events of their QPs. `.ci/instructions`
//! compares two commits by this program.

use roce_port::memory::{MemoryIp, MemoryPort};
use roce_stack::{
    Access, Buffer, CompletionQueue, CqId, Duration, Instant, Nic, NicConfig, QpAttributes, QpInit,
    QpKind, QpState, QueueLimits, RecvRequest, RemoteAddr, RoceVersion, SendOp, SendRequest, Sge,
    TxMeta, WcOpcode, WcStatus,
};
use roce_wire::{PathMtu, Psn, Qpn, RnrTimer};
use std::error::Error;
use std::sync::Arc;

const USAGE: &str = "usage: two_nics write|read|send BYTES COUNT [record]";

/// The largest number of outstanding messages.
const DEPTH: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (kind, bytes, count, records) = match &arguments[..] {
        [kind, bytes, count] => (kind, bytes, count, false),
        [kind, bytes, count, word] if word == "record" => (kind, bytes, count, true),
        _ => return Err(USAGE.into()),
    };
    let bytes: u32 = bytes.parse().map_err(|_| USAGE)?;
    let count: u64 = count.parse().map_err(|_| USAGE)?;

    let mut nics = [1, 2].map(|n| {
        Nic::new(&NicConfig {
            seed: [n; 32],
            max_packet_bytes: 4200,
            window_bytes: 1 << 20,
        })
    });
    for nic in &mut nics {
        nic.record_events(records);
    }
    let pds = nics.each_mut().map(Nic::alloc_pd);
    let sent = Arc::new(CompletionQueue::new(CqId(1), 2 * DEPTH));
    let received = Arc::new(CompletionQueue::new(CqId(2), 2 * DEPTH));
    let mut qpns = Vec::new();
    let mut sges = Vec::new();
    for (nic, pd) in nics.iter_mut().zip(pds) {
        let queue = QueueLimits {
            depth: DEPTH,
            max_sge: 1,
        };
        qpns.push(nic.create_qp(QpInit {
            kind: QpKind::Rc,
            pd,
            send_cq: sent.clone(),
            recv_cq: received.clone(),
            send: queue,
            recv: queue,
            max_inline: 0,
            signal_all: true,
        })?);
        let buffer = Arc::new(Buffer::new(bytes as usize)?);
        let lkey = nic.register_buffer(pd, buffer.clone(), Access::ANY_MEMORY)?;
        sges.push(Sge {
            addr: buffer.addr(),
            length: bytes,
            lkey,
        });
    }
    for side in [0, 1] {
        for step in transitions(side, qpns[1 - side])? {
            nics[side].modify_qp(Instant::ZERO, qpns[side], &step)?;
        }
    }

    let remote = RemoteAddr {
        addr: sges[1].addr,
        rkey: sges[1].lkey,
    };
    let op = match kind.as_str() {
        "write" => SendOp::Write(remote),
        "read" => SendOp::Read(remote),
        "send" => SendOp::Send,
        _ => return Err(USAGE.into()),
    };
    let mut port = MemoryPort::new(MemoryIp::V4, 4200);
    let mut now = Instant::ZERO;
    let (mut posted, mut done) = (0, 0);
    while done < count {
        while posted < count && posted - done < DEPTH as u64 {
            if op == SendOp::Send {
                nics[1].post_recv(
                    now,
                    qpns[1],
                    &RecvRequest {
                        wr_id: posted,
                        sges: &[sges[1]],
                    },
                )?;
            }
            nics[0].post_send(now, qpns[0], &SendRequest::new(posted, op, sges[0]))?;
            posted += 1;
        }
        for side in [0, 1] {
            nics[side].transmit(now, &mut port);
            for frame in std::mem::take(&mut port.out) {
                nics[1 - side].receive(now, &frame.meta, &frame.bytes);
                port.recycle(frame.bytes);
            }
        }
        while let Some(completion) = sent.poll()? {
            if completion.status != WcStatus::Success || completion.wr_id != done {
                return Err(format!("{completion:?} instead of {done}").into());
            }
            done += 1;
        }
        while let Some(completion) = received.poll()? {
            assert_eq!(completion.opcode, WcOpcode::Recv);
        }
        now = now + Duration::from_micros(1);
    }
    println!("{count} messages of {bytes} bytes ({kind})");
    Ok(())
}

/// The transitions that connect the QP of `side` with its peer's.
fn transitions(side: usize, peer: Qpn) -> Result<[QpAttributes; 3], Box<dyn Error>> {
    let addresses = ["10.0.0.1".parse()?, "10.0.0.2".parse()?];
    let init = QpAttributes {
        state: Some(QpState::Init),
        access: Some(Access::REMOTE_READ | Access::REMOTE_WRITE),
        ..QpAttributes::default()
    };
    let rtr = QpAttributes {
        state: Some(QpState::Rtr),
        dest_qpn: Some(peer),
        path: Some(TxMeta {
            src: addresses[side],
            dst: addresses[1 - side],
            traffic_class: 0,
            hop_limit: 64,
            version: RoceVersion::V2,
        }),
        path_mtu: Some(PathMtu::Mtu4096),
        rq_psn: Some(Psn::new(0)),
        max_dest_rd_atomic: Some(16),
        min_rnr_timer: Some(RnrTimer::SHORTEST),
        ..QpAttributes::default()
    };
    let rts = QpAttributes {
        state: Some(QpState::Rts),
        sq_psn: Some(Psn::new(0)),
        timeout: Some(14),
        retry_cnt: Some(7),
        rnr_retry: Some(7),
        max_rd_atomic: Some(16),
        ..QpAttributes::default()
    };
    Ok([init, rtr, rts])
}
