//! Many QPs between two NICs of one process: the memory per QP, and whether their total throughput
//! equals that of a few.

pub mod bounded;
pub mod destinations;
pub mod figures;
pub mod wires;

use crate::recovery::connect;
use roce_stack::{
    Access, Buffer, CompletionQueue, CqId, Instant, Nic, NicConfig, QpInit, QpKind, QueueLimits,
    RemoteAddr, SendOp, SendRequest, Sge, Stat, WcStatus,
};
use roce_wire::Qpn;
use std::sync::Arc;
use wires::{Memory, Wires};

/// The receive buffer of a port, in bytes.
pub const RECEIVE_BUFFER: usize = 2 << 20;

/// Length of a message, in bytes.
pub const MESSAGE: u32 = 64 << 10;

/// Two NICs with connected QPs.
#[derive(Debug)]
pub struct Many<W = Memory> {
    nics: [Nic; 2],
    wires: W,
    message: u32,
    qpns: [Vec<Qpn>; 2],
    cq: Arc<CompletionQueue>,
    /// Local key and address, remote key and address.
    memory: [(u32, u64); 2],
    started: std::time::Instant,
}

/// The result of moving data.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Bits of messages per second.
    pub bits_per_sec: f64,
    /// Packets that did not fit the receive buffer.
    pub dropped: u64,
    /// Packets that were retransmitted.
    pub repeated: u64,
}

impl Many {
    /// `qps` connected QPs with queues of `depth` requests each, and ports in memory.
    ///
    /// # Errors
    /// If a step fails; the text says which.
    pub fn new(qps: usize, depth: usize) -> Result<Self, String> {
        Self::connect_over(Memory::default(), qps, depth, MESSAGE)
    }
}

impl<W: Wires> Many<W> {
    /// `qps` connected QPs with queues of `depth` requests each, for messages of `message` bytes.
    ///
    /// # Errors
    /// If a step fails; the text says which.
    pub fn connect_over(wires: W, qps: usize, depth: usize, message: u32) -> Result<Self, String> {
        let cq = Arc::new(CompletionQueue::new(CqId(1), qps * depth * 2));
        let nic = |n: u8| {
            Nic::new(&NicConfig {
                seed: [n; 32],
                max_packet_bytes: 4200,
                window_bytes: RECEIVE_BUFFER / 2,
            })
        };
        let mut many = Self {
            nics: [nic(0), nic(1)],
            wires,
            message,
            qpns: [Vec::new(), Vec::new()],
            cq,
            memory: [(0, 0); 2],
            started: std::time::Instant::now(),
        };
        for side in [0, 1] {
            let nic = &mut many.nics[side];
            let pd = nic.alloc_pd();
            // One buffer for all messages: the cost of the application's memory must not depend on
            // the number of QPs.
            let buffer = Buffer::new(message as usize).map_err(|e| e.to_string())?;
            let buffer = Arc::new(buffer);
            let key = nic
                .register_buffer(pd, Arc::clone(&buffer), Access::ANY_MEMORY)
                .map_err(|e| e.to_string())?;
            many.memory[side] = (key, buffer.addr());
            let queue = QueueLimits { depth, max_sge: 1 };
            many.qpns[side] = (0..qps)
                .map(|_| {
                    nic.create_qp(QpInit {
                        kind: QpKind::Rc,
                        pd,
                        send_cq: Arc::clone(&many.cq),
                        recv_cq: Arc::clone(&many.cq),
                        send: queue,
                        recv: queue,
                        max_inline: 0,
                        signal_all: true,
                    })
                    .expect("a QP")
                })
                .collect();
        }
        for side in [0, 1] {
            for index in 0..qps {
                let path = many.wires.path(side, index);
                for mut step in connect(path, many.qpns[1 - side][index]) {
                    step.timeout = step.timeout.map(|timeout| timeout.max(W::TIMEOUT));
                    many.nics[side]
                        .modify_qp(Instant::ZERO, many.qpns[side][index], &step)
                        .map_err(|e| e.to_string())?;
                }
            }
        }
        Ok(many)
    }

    /// Lets each of the first `qps` QPs WRITE, with `posted` messages outstanding in all, until
    /// `messages` are done and each QP has done one.
    ///
    /// # Errors
    /// If a message fails.
    pub fn move_data(&mut self, qps: usize, posted: usize, messages: u64) -> Result<Moved, String> {
        let (dropped, repeated) = self.losses();
        let started = std::time::Instant::now();
        let mut done_by = vec![0_u64; self.qpns[0].len()];
        let index_of = |wr_id: u64| usize::try_from(wr_id).unwrap_or(usize::MAX);
        for _ in 0..(posted / qps).max(1) {
            for index in 0..qps {
                self.post(index)?;
            }
        }
        let mut outstanding = (posted / qps).max(1) * qps;
        let mut done = 0;
        while outstanding > 0 {
            self.step()?;
            while let Some(completion) = self.cq.poll().map_err(|e| e.to_string())? {
                if completion.status != WcStatus::Success {
                    return Err(format!("{completion:?}"));
                }
                done += 1;
                outstanding -= 1;
                let index = index_of(completion.wr_id);
                if let Some(done_by) = done_by.get_mut(index) {
                    *done_by += 1;
                }
                if done + (outstanding as u64) < messages {
                    self.post(index)?;
                    outstanding += 1;
                }
            }
        }
        let took = started.elapsed();
        if done_by.iter().take(qps).any(|done| *done == 0) {
            return Err("a QP moved nothing".into());
        }
        let after = self.losses();
        Ok(Moved {
            bits_per_sec: done as f64 * f64::from(self.message) * 8.0 / took.as_secs_f64(),
            dropped: after.0 - dropped,
            repeated: after.1 - repeated,
        })
    }

    fn losses(&self) -> (u64, u64) {
        (
            self.wires.dropped(),
            self.nics[0].counters().stat(Stat::Retransmitted),
        )
    }

    fn post(&mut self, index: usize) -> Result<(), String> {
        let [(lkey, from), (rkey, to)] = self.memory;
        let sge = Sge {
            addr: from,
            length: self.message,
            lkey,
        };
        let remote = RemoteAddr { addr: to, rkey };
        let wr = SendRequest::new(index as u64, SendOp::Write(remote), sge);
        let now = self.now();
        self.nics[0]
            .post_send(now, self.qpns[0][index], &wr)
            .map_err(|e| e.to_string())
    }

    /// The wire between the NICs.
    pub fn wires(&self) -> &W {
        &self.wires
    }

    fn now(&self) -> Instant {
        let ns = self.started.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    fn step(&mut self) -> Result<(), String> {
        let now = self.now();
        for side in [0, 1] {
            if self.nics[side].wants_to_send() {
                self.nics[side].transmit(now, self.wires.port(side));
            }
            let peer = &mut self.nics[1 - side];
            let mut receive = |meta: &_, bytes: &[u8]| {
                peer.receive(now, meta, bytes);
            };
            self.wires.deliver(1 - side, &mut receive)?;
        }
        for nic in &mut self.nics {
            nic.handle_timeouts(now);
            while nic.poll_event().is_some() {}
        }
        Ok(())
    }
}
