//! One NIC with a QP in each state, which gets packets and calls in any order.
//!
//! Invariants: nothing panics, every packet sent is well-formed, requests complete once and in
//! order, and memory without write access does not change.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use roce_fuzz::{DEPTH, Frame, Host, Mem, Peer, QKEY, address, meta, seal, to_state};
use roce_stack::{
    Access, Destination, Duration, Flush, Instant, MwBind, MwId, MwType, QpKind, QpState,
    QueueLimits, RecvRequest, SendFlags, SendOp, SendRequest, SrqAttributes, SrqInit, Srqn, Target,
    TxMeta, largest_path_mtu,
};
use roce_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, ExtHeaders, Feth, FlushPlacement, FlushSelectivity,
    Ieth, ImmDt, Opcode, Packet, PacketRepr, Psn, QKey, Qpn, Reth, Syndrome, Transport, XrcEth,
};
use std::collections::{BTreeSet, VecDeque};

#[derive(Arbitrary, Debug)]
enum Step {
    Packet {
        qp: u8,
        opcode: u8,
        psn: RelativePsn,
        ack_req: bool,
        memory: u8,
        offset: u16,
        len: u16,
        payload: u16,
        syndrome: u8,
    },
    Raw {
        bytes: Vec<u8>,
        qp: u8,
        sealed: bool,
    },
    Send {
        qp: u8,
        op: u8,
        memory: u8,
        offset: u16,
        len: u16,
        flags: u8,
    },
    Receive {
        qp: u8,
        memory: u8,
        offset: u16,
        len: u16,
    },
    Modify {
        qp: u8,
        state: u8,
    },
    Shared {
        srq: bool,
        depth: Option<u8>,
        limit: Option<u8>,
    },
    Wait {
        micros: u16,
    },
    Deregister {
        memory: u8,
    },
    Destroy {
        qp: u8,
    },
}

/// A PSN relative to the expected one.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum RelativePsn {
    Next,
    Ahead(u8),
    Behind(u8),
    Any(u32),
}

/// A QP, and the test's model of its state.
struct QpModel {
    qpn: Qpn,
    kind: QpKind,
    srq: Option<Srqn>,
    /// The PSN of the request that it may expect next.
    expected: Psn,
    /// The PSN that it sent last.
    sent: Psn,
    sends: VecDeque<u64>,
    receives: VecDeque<u64>,
}

const PEER: u8 = 2;
const PEER_QPN: Qpn = Qpn::from_bits(0x77);
const LEN: usize = 4096;

struct World {
    host: Host,
    now: Instant,
    qps: Vec<QpModel>,
    memories: Vec<Mem>,
    /// The SRQs: one for RC and UC QPs, one for XRC targets.
    srqs: [Srqn; 2],
    shared: BTreeSet<u64>,
    windows: [MwId; 2],
    to: Destination,
    next_id: u64,
}

fuzz_target!(|steps: Vec<Step>| {
    let mut world = World::new();
    for step in &steps {
        world.step(step);
        world.settle();
    }
});

impl World {
    fn new() -> Self {
        let mut host = Host::new(1);
        let now = Instant::from_nanos(1);
        let foreign = host.nic.alloc_pd();
        let pd = host.pd;
        let read_only = Access::REMOTE_READ;
        let memories = vec![
            host.mem(pd, LEN, Access::ANY_MEMORY),
            host.mem(pd, LEN, Access::LOCAL_WRITE),
            host.mem(pd, LEN, read_only),
            host.mem(foreign, LEN, Access::ANY_MEMORY),
        ];
        let size = SrqInit {
            pd,
            size: QueueLimits {
                depth: DEPTH,
                max_sge: 1,
            },
        };
        let srq = host.nic.create_srq(&size).expect("an SRQ");
        let domain = host.nic.create_xrcd();
        let cq = host.recv_cq.clone();
        let of_xrc = host.nic.create_xrc_srq(&size, domain, cq);
        let of_xrc = of_xrc.expect("an SRQ of XRC");
        let windows = [MwType::Type1, MwType::Type2]
            .map(|kind| host.nic.alloc_mw(pd, kind).expect("a window"));
        let path = TxMeta {
            src: address(1),
            dst: address(PEER),
            traffic_class: 0,
            hop_limit: 64,
            version: roce_stack::RoceVersion::V2,
        };
        let ah = host.nic.create_ah(pd, path).expect("a handle");
        let to = ah.to(PEER_QPN, QKEY);
        let kinds = [
            (QpKind::Rc, QpState::Rts, None),
            (QpKind::Rc, QpState::Rts, Some(srq)),
            (QpKind::Uc, QpState::Rts, None),
            (QpKind::Uc, QpState::Rtr, Some(srq)),
            (QpKind::Ud, QpState::Rts, None),
            (QpKind::XrcInitiator, QpState::Rts, None),
            (QpKind::XrcTarget, QpState::Rts, Some(of_xrc)),
            (QpKind::Rc, QpState::Reset, None),
            (QpKind::Rc, QpState::Init, None),
            (QpKind::Rc, QpState::Rtr, None),
            (QpKind::Rc, QpState::Sqd, None),
            (QpKind::Rc, QpState::Err, None),
        ];
        let qps = kinds
            .into_iter()
            .map(|(kind, state, srq)| {
                let init = host.qp_init(kind);
                let qpn = match (kind, srq) {
                    (QpKind::XrcTarget, _) => host.nic.create_xrc_target(domain).expect("a QP"),
                    (_, Some(srq)) => host.nic.create_qp_with_srq(init, srq).expect("a QP"),
                    (_, None) => host.nic.create_qp(init).expect("a QP"),
                };
                host.bring_to(now, qpn, kind, peer(), state);
                QpModel {
                    qpn,
                    kind,
                    srq,
                    expected: peer().psn,
                    sent: peer().own_psn,
                    sends: VecDeque::new(),
                    receives: VecDeque::new(),
                }
            })
            .collect();
        Self {
            host,
            now,
            qps,
            memories,
            srqs: [srq, of_xrc],
            shared: BTreeSet::new(),
            windows,
            to,
            next_id: 0,
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Packet { .. } => self.packet(step),
            Step::Raw {
                ref bytes,
                qp,
                sealed,
            } => self.raw(bytes, qp, sealed),
            Step::Send { .. } => self.send(step),
            Step::Receive { .. } => self.receive(step),
            Step::Modify { qp, state } => self.modify(qp, state),
            Step::Shared { srq, depth, limit } => {
                let attributes = SrqAttributes {
                    depth: depth.map(usize::from),
                    limit: limit.map(usize::from),
                };
                let srqn = self.srqs[usize::from(srq)];
                let _refused = self.host.nic.modify_srq(srqn, &attributes);
            }
            Step::Wait { micros } => {
                self.now = self.now + Duration::from_micros(micros.into());
                self.host.nic.handle_timeouts(self.now);
            }
            Step::Deregister { memory } => {
                let index = usize::from(memory) % self.memories.len();
                let key = self.memories[index].key;
                self.host.nic.deregister(key);
            }
            Step::Destroy { qp } => {
                let index = usize::from(qp) % self.qps.len();
                self.host.nic.destroy_qp(self.qps[index].qpn);
                self.forget(index);
            }
        }
    }

    /// Delivers a well-formed packet with an arbitrary request.
    fn packet(&mut self, step: &Step) {
        let Step::Packet {
            qp,
            opcode,
            psn,
            ack_req,
            memory,
            offset,
            len,
            payload,
            syndrome,
        } = *step
        else {
            return;
        };
        let Some(opcode) = Opcode::all().nth(usize::from(opcode) % Opcode::all().len()) else {
            return;
        };
        let index = usize::from(qp) % self.qps.len();
        let key = self.key(memory);
        let memory = &self.memories[usize::from(memory) % self.memories.len()];
        let known = &mut self.qps[index];
        let base = if opcode.is_response() {
            known.sent
        } else {
            known.expected
        };
        let psn = match psn {
            RelativePsn::Next => base,
            RelativePsn::Ahead(n) => base.add(n.into()),
            RelativePsn::Behind(n) => base.back(n.into()),
            RelativePsn::Any(any) => Psn::new(any),
        };
        if opcode.is_request() {
            known.expected = psn.next();
        }
        let mut bth = Bth::new(opcode, known.qpn, psn);
        bth.ack_req = ack_req;
        let va = memory.buffer.addr() + u64::from(offset);
        let ext = ExtHeaders {
            xrceth: Some(XrcEth {
                srqn: Qpn::from_bits(self.srqs[usize::from(syndrome % 8 != 0)].get()),
            }),
            deth: Some(Deth {
                qkey: if syndrome % 8 == 1 { QKey(0) } else { QKEY },
                src_qpn: PEER_QPN,
            }),
            flush: Some(Feth {
                placement: FlushPlacement::from_bits(syndrome),
                selectivity: FlushSelectivity::from_bits(syndrome >> 4),
            }),
            reth: Some(Reth {
                va,
                rkey: key,
                dma_len: len.into(),
            }),
            atomic: Some(AtomicEth {
                va,
                rkey: key,
                swap_or_add: 1,
                compare: 0,
            }),
            aeth: Some(Aeth {
                syndrome: Syndrome::from_byte(syndrome),
                msn: 0,
            }),
            atomic_ack: Some(AtomicAckEth { original: 1 }),
            imm: Some(ImmDt(7)),
            ieth: Some(Ieth(key)),
            ..ExtHeaders::NONE
        };
        let rule = opcode.info().payload;
        let payload = usize::from(payload) % 300;
        let payload = [payload, 256, 8, 0]
            .into_iter()
            .find(|len| rule.admits(*len))
            .unwrap_or(0);
        let repr = PacketRepr { bth, ext };
        let mut bytes = vec![0x5a; repr.buffer_len(payload)];
        repr.emit_headers(&mut bytes, payload);
        let meta = meta(PEER, 1);
        seal(&meta, &mut bytes);
        self.host.nic.receive(self.now, &meta, &bytes);
    }

    /// The key of a region, or of a window bound to it.
    fn key(&self, memory: u8) -> u32 {
        let memory = usize::from(memory);
        match memory / self.memories.len() % 3 {
            0 => self.memories[memory % self.memories.len()].key,
            window => self.windows[window - 1].rkey(0),
        }
    }

    /// Delivers arbitrary bytes, with the QPN of one of the QPs if they are long enough for it.
    fn raw(&mut self, bytes: &[u8], qp: u8, sealed: bool) {
        let mut bytes = bytes.to_vec();
        let meta = meta(PEER, 1);
        if let Some(place) = bytes.get_mut(5..8) {
            let index = usize::from(qp) % self.qps.len();
            let qpn = self.qps[index].qpn.get().to_be_bytes();
            place.copy_from_slice(&qpn[1..]);
        }
        if sealed {
            seal(&meta, &mut bytes);
        }
        self.host.nic.receive(self.now, &meta, &bytes);
    }

    fn send(&mut self, step: &Step) {
        let Step::Send {
            qp,
            op,
            memory,
            offset,
            len,
            flags,
        } = *step
        else {
            return;
        };
        let index = usize::from(qp) % self.qps.len();
        let key = self.key(memory);
        let window = self.windows[usize::from(flags >> 7)];
        let memory = &self.memories[usize::from(memory) % self.memories.len()];
        let mut remote = memory.remote(offset.into());
        remote.rkey = key;
        let compare = SendOp::CompareSwap {
            remote,
            compare: 0,
            swap: 1,
        };
        let add = SendOp::FetchAdd { remote, add: 1 };
        let bind = MwBind {
            window,
            key: 0,
            lkey: memory.key,
            addr: remote.addr,
            len: len.into(),
            access: Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC,
            zero_based: offset % 2 == 1,
        };
        let flush = Flush {
            remote,
            len: len.into(),
            placement: FlushPlacement::from_bits(flags),
            selectivity: FlushSelectivity::from_bits(flags >> 4),
        };
        let datagram = op % 14 > 11;
        let (op, len) = match op % 14 {
            0 => (SendOp::Send, len),
            1 => (SendOp::SendImm(1), len),
            2 => (SendOp::SendInvalidate(key), len),
            3 => (SendOp::Write(remote), len),
            4 => (SendOp::WriteImm(remote, 2), len),
            5 => (SendOp::Read(remote), len),
            6 => (compare, 8),
            7 => (add, 8),
            8 => (SendOp::LocalInv(key), 0),
            9 => (SendOp::BindMw(bind), 0),
            10 => (SendOp::Flush(flush), 0),
            11 => (SendOp::AtomicWrite(remote), 8),
            12 => (SendOp::Send, len),
            _ => (SendOp::SendImm(3), len),
        };
        let sges = [memory.sge(offset.into(), len.into())];
        let elements = match op {
            SendOp::LocalInv(_) | SendOp::BindMw(_) | SendOp::Flush(_) => &[][..],
            _ => &sges,
        };
        let known = &mut self.qps[index];
        let target = match known.kind {
            _ if datagram => self.to.into(),
            QpKind::XrcInitiator => self.srqs[1].into(),
            _ => Target::Peer,
        };
        let request = SendRequest::new(self.next_id, op, elements)
            .with_flags(SendFlags::from_bits_truncate(flags.into()))
            .to(target);
        let posted = self.host.nic.post_send(self.now, known.qpn, &request);
        if posted.is_ok() {
            known.sends.push_back(self.next_id);
        }
        self.next_id += 1;
    }

    fn receive(&mut self, step: &Step) {
        let Step::Receive {
            qp,
            memory,
            offset,
            len,
        } = *step
        else {
            return;
        };
        let index = usize::from(qp) % self.qps.len();
        let memory = &self.memories[usize::from(memory) % self.memories.len()];
        let sges = [memory.sge(offset.into(), len.into())];
        let wr = RecvRequest {
            wr_id: self.next_id,
            sges: &sges,
        };
        let known = &mut self.qps[index];
        let nic = &mut self.host.nic;
        match known.srq {
            Some(srq) => {
                assert!(nic.post_recv(self.now, known.qpn, &wr).is_err());
                if nic.post_srq_recv(srq, &wr).is_ok() {
                    self.shared.insert(self.next_id);
                }
            }
            None => {
                if nic.post_recv(self.now, known.qpn, &wr).is_ok() {
                    known.receives.push_back(self.next_id);
                }
            }
        }
        self.next_id += 1;
    }

    fn modify(&mut self, qp: u8, state: u8) {
        let index = usize::from(qp) % self.qps.len();
        let (qpn, kind) = (self.qps[index].qpn, self.qps[index].kind);
        let states = [
            QpState::Reset,
            QpState::Init,
            QpState::Rtr,
            QpState::Rts,
            QpState::Sqd,
            QpState::Sqe,
            QpState::Err,
        ];
        let state = states[usize::from(state) % states.len()];
        let Some((from, _)) = self.host.nic.query_qp(qpn) else {
            return;
        };
        match (from, state) {
            (QpState::Reset, QpState::Rts) => {
                self.host.bring_to(self.now, qpn, kind, peer(), state);
                self.qps[index].expected = peer().psn;
            }
            (_, QpState::Reset) => {
                let reset = self.host.nic.modify_qp(self.now, qpn, &to_state(state));
                assert_eq!(reset, Ok(()));
                self.forget(index);
            }
            _ => drop(self.host.nic.modify_qp(self.now, qpn, &to_state(state))),
        }
    }

    /// Requests that are still posted to a QP no longer complete.
    fn forget(&mut self, index: usize) {
        self.check_completions();
        self.qps[index].sends.clear();
        self.qps[index].receives.clear();
    }

    /// Lets the NIC send, and checks packets, completions and memory.
    fn settle(&mut self) {
        for frame in self.host.transmit(self.now) {
            self.check_frame(&frame);
        }
        while self.host.nic.poll_event().is_some() {}
        self.check_completions();
        for known in &self.qps {
            let Some((sends, receives)) = self.host.nic.queued(known.qpn) else {
                continue;
            };
            assert_eq!(sends, known.sends.len());
            if known.srq.is_none() {
                assert_eq!(receives, known.receives.len());
            }
        }
        // One region has no write access, and another belongs to a protection domain without QPs.
        for memory in &self.memories[2..] {
            assert!(memory.read(0, LEN).iter().all(|byte| *byte == 0));
        }
        if let Some(at) = self.host.nic.next_timeout() {
            assert!(at >= Instant::ZERO);
        }
    }

    fn check_frame(&mut self, frame: &Frame) {
        let packet = Packet::parse(&frame.bytes).expect("what is sent is well-formed");
        assert_eq!(packet.bth.dest_qpn, PEER_QPN);
        // The port bounds the length of a datagram; there is no path MTU.
        let longest = match packet.bth.opcode.transport() {
            Transport::Ud => largest_path_mtu(roce_fuzz::MAX_PACKET),
            _ => roce_fuzz::MTU,
        };
        assert!(packet.payload.len() <= longest.bytes());
        // The packet does not say which QP sent it: any of them may have.
        if packet.bth.opcode.is_request() {
            for known in &mut self.qps {
                known.sent = packet.bth.psn;
            }
        }
    }

    /// Requests complete in the order of posting, each once.
    fn check_completions(&mut self) {
        for completion in self.host.completions(true) {
            let known = self.qps.iter_mut().find(|k| k.qpn == completion.qpn);
            let next = known.and_then(|known| known.sends.pop_front());
            assert_eq!(next, Some(completion.wr_id), "{completion:?}");
        }
        for completion in self.host.completions(false) {
            let known = self.qps.iter_mut().find(|k| k.qpn == completion.qpn);
            let known = known.expect("a QP of ours");
            if known.srq.is_some() {
                assert!(self.shared.remove(&completion.wr_id), "{completion:?}");
            } else {
                let next = known.receives.pop_front();
                assert_eq!(next, Some(completion.wr_id), "{completion:?}");
            }
        }
    }
}

fn peer() -> Peer {
    Peer {
        host: PEER,
        qpn: PEER_QPN,
        psn: Psn::new(0xff_fff0),
        own_psn: Psn::new(0xff_fffa),
    }
}
