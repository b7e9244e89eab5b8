//! The cost of loss: goodput of one QP over a wire that loses packets at random, with selective
//! recovery and with go-back-N.

pub mod figures;

use crate::fabric::{Fabric, Wire};
use roce_stack::{
    Access, Buffer, CompletionQueue, Counters, CqId, Duration, QpAttributes, QpInit, QpKind,
    QpState, QueueLimits, RemoteAddr, SendOp, SendRequest, Sge, TxMeta, WcStatus,
};
use roce_wire::{PathMtu, Psn, RnrTimer};
use std::sync::Arc;

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The wire.
    pub wire: Wire,
    /// Whether to use READs rather than WRITEs.
    pub reads: bool,
    /// Whether the receiver keeps out-of-order packets.
    pub selective: bool,
    /// Number of messages.
    pub messages: u64,
    /// Length of each, in bytes.
    pub message_bytes: u32,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bits of messages per second.
    pub bits_per_sec: f64,
    /// The requester's counters.
    pub requester: Counters,
    /// The responder's counters.
    pub responder: Counters,
}

/// The number of outstanding messages.
const DEPTH: usize = 64;

/// Sends the messages and checks that all arrive.
///
/// # Errors
/// If a message fails; the error contains the run's seed.
pub fn run(run: &Run) -> Result<Outcome, String> {
    let fail = |what: &str| format!("{what}: {run:?}");
    let mut fabric = Fabric::new(run.wire, 1 << 20, run.seed);
    let len = run.message_bytes as usize;
    let mut qpns = Vec::new();
    let mut regions = Vec::new();
    let cq = Arc::new(CompletionQueue::new(CqId(1), 2 * DEPTH));
    for end in &mut fabric.ends {
        if !run.selective {
            end.nic.set_reorder_limit(0);
        }
        let pd = end.nic.alloc_pd();
        let buffer = Arc::new(Buffer::new(len).map_err(|e| fail(&e.to_string()))?);
        let key = end
            .nic
            .register_buffer(pd, Arc::clone(&buffer), Access::ANY_MEMORY)
            .map_err(|e| fail(&e.to_string()))?;
        regions.push((buffer, key));
        let queue = QueueLimits {
            depth: DEPTH,
            max_sge: 1,
        };
        qpns.push(
            end.nic
                .create_qp(QpInit {
                    kind: QpKind::Rc,
                    pd,
                    send_cq: Arc::clone(&cq),
                    recv_cq: Arc::clone(&cq),
                    send: queue,
                    recv: queue,
                    max_inline: 0,
                    signal_all: true,
                })
                .expect("a QP"),
        );
    }
    for side in [0, 1] {
        let path = TxMeta {
            src: fabric.ends[side].address,
            dst: fabric.ends[1 - side].address,
            traffic_class: 0,
            hop_limit: 64,
            version: roce_stack::RoceVersion::V2,
        };
        for step in connect(path, qpns[1 - side]) {
            fabric.ends[side]
                .nic
                .modify_qp(fabric.now, qpns[side], &step)
                .map_err(|e| fail(&e.to_string()))?;
        }
    }
    let pattern: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
    let (from, to) = if run.reads { (1, 0) } else { (0, 1) };
    regions[from]
        .0
        .write(0, &pattern)
        .map_err(|e| fail(&e.to_string()))?;

    let sge = Sge {
        addr: regions[0].0.addr(),
        length: run.message_bytes,
        lkey: regions[0].1,
    };
    let remote = RemoteAddr {
        addr: regions[1].0.addr(),
        rkey: regions[1].1,
    };
    let op = match run.reads {
        true => SendOp::Read(remote),
        false => SendOp::Write(remote),
    };
    let (mut posted, mut done) = (0, 0);
    while done < run.messages {
        while posted < run.messages && posted - done < DEPTH as u64 {
            let wr = SendRequest::new(posted, op, sge);
            fabric.ends[0]
                .nic
                .post_send(fabric.now, qpns[0], &wr)
                .map_err(|e| fail(&e.to_string()))?;
            posted += 1;
        }
        if !fabric.step() {
            return Err(fail("nothing happens any more"));
        }
        while let Some(completion) = cq.poll().map_err(|e| fail(&e.to_string()))? {
            if completion.status != WcStatus::Success || completion.wr_id != done {
                return Err(fail(&format!("{completion:?} instead of {done}")));
            }
            done += 1;
        }
    }
    let mut arrived = vec![0; len];
    regions[to]
        .0
        .read(0, &mut arrived)
        .map_err(|e| fail(&e.to_string()))?;
    if arrived != pattern {
        return Err(fail("the bytes differ"));
    }
    let bits = run.messages * u64::from(run.message_bytes) * 8;
    Ok(Outcome {
        bits_per_sec: bits as f64 / (fabric.now.as_nanos() as f64 / 1e9),
        requester: fabric.ends[0].nic.counters().clone(),
        responder: fabric.ends[1].nic.counters().clone(),
    })
}

/// The transitions that connect a QP.
pub(crate) fn connect(path: TxMeta, peer: roce_wire::Qpn) -> [QpAttributes; 3] {
    let init = QpAttributes {
        state: Some(QpState::Init),
        access: Some(Access::REMOTE_READ | Access::REMOTE_WRITE),
        ..QpAttributes::default()
    };
    let rtr = QpAttributes {
        state: Some(QpState::Rtr),
        dest_qpn: Some(peer),
        path: Some(path),
        path_mtu: Some(PathMtu::Mtu4096),
        rq_psn: Some(Psn::new(0)),
        max_dest_rd_atomic: Some(16),
        min_rnr_timer: Some(RnrTimer::SHORTEST),
        ..QpAttributes::default()
    };
    let rts = QpAttributes {
        state: Some(QpState::Rts),
        sq_psn: Some(Psn::new(0)),
        // About 16 ms. The probes after a loss must not wait for this timeout.
        timeout: Some(12),
        retry_cnt: Some(7),
        rnr_retry: Some(7),
        max_rd_atomic: Some(16),
        ..QpAttributes::default()
    };
    [init, rtr, rts]
}

/// The wire of the experiment: 100 Gb/s, 10 us round trip.
pub fn wire(loss: f64) -> Wire {
    Wire {
        bits_per_sec: 100_000_000_000,
        latency: Duration::from_micros(5),
        loss,
        queue: 16,
    }
}
