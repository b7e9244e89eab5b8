//! One end: a NIC with its port, a protection domain, CQs and memory.

use super::port::{Ip, SimPort};
use roce_stack::{
    Access, Buffer, Completion, CompletionQueue, CqId, Event, Nic, NicConfig, PdId, QpInit, QpKind,
    QueueLimits, RemoteAddr, Sge,
};
use roce_wire::{AtomicEth, ExtHeaders, Qpn, Reth};
use std::net::IpAddr;
use std::sync::Arc;

/// A registered buffer.
#[derive(Clone, Debug)]
pub(crate) struct Mem {
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) key: u32,
}

impl Mem {
    pub(crate) fn addr(&self) -> u64 {
        self.buffer.addr()
    }

    pub(crate) fn sge(&self, offset: usize, length: usize) -> Sge {
        Sge {
            addr: self.addr() + offset as u64,
            length: u32::try_from(length).expect("a length of 32 bits"),
            lkey: self.key,
        }
    }

    pub(crate) fn remote(&self, offset: usize) -> RemoteAddr {
        RemoteAddr {
            addr: self.addr() + offset as u64,
            rkey: self.key,
        }
    }

    /// The header of a WRITE to it or a READ of it.
    pub(crate) fn reth(&self, offset: usize, len: u32) -> ExtHeaders {
        ExtHeaders {
            reth: Some(Reth {
                va: self.addr() + offset as u64,
                rkey: self.key,
                dma_len: len,
            }),
            ..ExtHeaders::NONE
        }
    }

    /// The header of an atomic on its first word.
    pub(crate) fn atomic(&self, compare: u64, swap_or_add: u64) -> ExtHeaders {
        ExtHeaders {
            atomic: Some(AtomicEth {
                va: self.addr(),
                rkey: self.key,
                swap_or_add,
                compare,
            }),
            ..ExtHeaders::NONE
        }
    }

    pub(crate) fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.buffer.read(offset, &mut out).expect("in the buffer");
        out
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        self.buffer.write(offset, bytes).expect("in the buffer");
    }

    pub(crate) fn word(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.read(offset, 8).try_into().expect("8 bytes"))
    }

    pub(crate) fn set_word(&self, offset: usize, word: u64) {
        self.write(offset, &word.to_ne_bytes());
    }
}

/// `len` bytes that depend on `salt`.
pub(crate) fn pattern(salt: u64, len: usize) -> Vec<u8> {
    let mut state = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}

/// All rights that a region of any memory can have.
pub(crate) fn all_rights() -> Access {
    Access::ANY_MEMORY
}

pub(crate) struct Node {
    pub(crate) nic: Nic,
    pub(crate) port: SimPort,
    pub(crate) address: IpAddr,
    pub(crate) pd: PdId,
    pub(crate) send_cq: Arc<CompletionQueue>,
    pub(crate) recv_cq: Arc<CompletionQueue>,
    /// The QP that most tests use.
    pub(crate) qpn: Qpn,
    /// The events from [`Nic::poll_event`].
    pub(crate) events: Vec<Event>,
}

/// The parameters of a [`Node`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeSetup {
    pub(crate) kind: QpKind,
    pub(crate) seed: u64,
    pub(crate) ip: Ip,
    pub(crate) host: u8,
    pub(crate) max_packet_bytes: usize,
    pub(crate) window_bytes: usize,
    pub(crate) queue: QueueLimits,
    pub(crate) cq_entries: usize,
    pub(crate) max_inline: usize,
    pub(crate) signal_all: bool,
    pub(crate) records: bool,
}

impl Node {
    /// The parameters of another QP of this node: no inline data, each request signaled.
    pub(crate) fn init(&self, kind: QpKind, queue: QueueLimits) -> QpInit {
        QpInit {
            kind,
            pd: self.pd,
            send_cq: Arc::clone(&self.send_cq),
            recv_cq: Arc::clone(&self.recv_cq),
            send: queue,
            recv: queue,
            max_inline: 0,
            signal_all: true,
        }
    }

    /// Another QP of this node, in state RESET.
    pub(crate) fn another_qp(&mut self, kind: QpKind, queue: QueueLimits) -> Qpn {
        let init = self.init(kind, queue);
        self.nic.create_qp(init).expect("a QP")
    }

    /// A NIC with one QP, in state RESET.
    pub(crate) fn new(setup: &NodeSetup) -> Self {
        let mut seed = [setup.host; 32];
        seed[..8].copy_from_slice(&setup.seed.to_le_bytes());
        let mut nic = Nic::new(&NicConfig {
            seed,
            max_packet_bytes: setup.max_packet_bytes,
            window_bytes: setup.window_bytes,
        });
        nic.record_events(setup.records);
        let pd = nic.alloc_pd();
        let send_cq = Arc::new(CompletionQueue::new(CqId(1), setup.cq_entries));
        let recv_cq = Arc::new(CompletionQueue::new(CqId(2), setup.cq_entries));
        let qpn = nic
            .create_qp(QpInit {
                kind: setup.kind,
                pd,
                send_cq: Arc::clone(&send_cq),
                recv_cq: Arc::clone(&recv_cq),
                send: setup.queue,
                recv: setup.queue,
                max_inline: setup.max_inline,
                signal_all: setup.signal_all,
            })
            .expect("a QP");
        Self {
            nic,
            port: SimPort::new(setup.ip, setup.max_packet_bytes),
            address: setup.ip.address(setup.host),
            pd,
            send_cq,
            recv_cq,
            qpn,
            events: Vec::new(),
        }
    }

    /// A registered buffer with all rights.
    pub(crate) fn mem(&mut self, len: usize) -> Mem {
        self.mem_with(len, all_rights())
    }

    pub(crate) fn mem_with(&mut self, len: usize, access: Access) -> Mem {
        let buffer = Arc::new(Buffer::new(len).expect("a buffer"));
        let key = self
            .nic
            .register_buffer(self.pd, Arc::clone(&buffer), access)
            .expect("registered");
        Mem { buffer, key }
    }

    /// The completions of sends since the last call.
    pub(crate) fn sent(&self) -> Vec<Completion> {
        drain(&self.send_cq)
    }

    /// The completions of receives since the last call.
    pub(crate) fn received(&self) -> Vec<Completion> {
        drain(&self.recv_cq)
    }

    pub(crate) fn take_events(&mut self) {
        while let Some(event) = self.nic.poll_event() {
            self.events.push(event);
        }
    }
}

fn drain(cq: &CompletionQueue) -> Vec<Completion> {
    core::iter::from_fn(|| cq.poll().expect("no overrun")).collect()
}
