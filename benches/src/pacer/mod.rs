//! Many QPs with individual rates: the precision and the cost of pacing.

pub mod figures;
pub mod port;

use nix::time::{ClockId, clock_gettime};
use port::{CountingPort, FIRST_PEER};
use roce_stack::{
    Access, Buffer, CompletionQueue, CongestionControl, CqId, DcqcnParameters, Duration, Instant,
    IpCovered, Nic, NicConfig, QpAttributes, QpInit, QpKind, QpState, QueueLimits, RoceVersion,
    RxMeta, SendOp, SendRequest, Sge, TxMeta, WcStatus,
};
use roce_wire::icrc::{self, IpHeader};
use roce_wire::{Bth, ExtHeaders, Opcode, PacketRepr, PathMtu, Psn, Qpn, UDP_PORT};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The interval at which the driver of the NIC reads the clock, if no timer expires earlier.
const LOOK: Duration = Duration::from_micros(1);

/// The messages of the QPs.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Length of a message in bytes.
    pub message: u32,
    /// Number of messages that each QP keeps posted.
    pub posted: usize,
}

/// Messages of one packet, one at a time: paced or not, a QP sends one packet in a turn.
pub const SINGLE: Load = Load {
    message: 4096,
    posted: 1,
};

/// Messages of many packets: without pacing, a QP sends 32 packets in a turn.
pub const BULK: Load = Load {
    message: 64 << 10,
    posted: 2,
};

/// The bits of a packet on the link: 4096 bytes and the overhead.
pub const PACKET_BITS: f64 = (4096.0 + 62.0) * 8.0;

/// The lowest and highest rate, in Mbit/s.
pub const RATES: (u32, u32) = (5, 45);

const HERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SRC_PORT: u16 = 0xc000;

/// One NIC with UC QPs that always have data to send.
#[derive(Debug)]
pub struct Pacing {
    nic: Nic,
    port: CountingPort,
    qpns: Vec<Qpn>,
    cq: Arc<CompletionQueue>,
    memory: (u32, u64),
    message: u32,
    now: Instant,
    paced: bool,
}

/// The rate of a QP, in Mbit/s.
pub fn rate(index: usize) -> u32 {
    let span = RATES.1 - RATES.0 + 1;
    RATES.0 + u32::try_from(index * 7919 % span as usize).unwrap_or(0)
}

/// Parameters with which rates do not change after the first CNP has set them.
fn fix_rate(mbps: u32) -> CongestionControl {
    CongestionControl::Dcqcn(DcqcnParameters {
        rate_to_set_on_first_cnp: mbps,
        rpg_min_rate: 1,
        rpg_byte_reset: 0,
        rpg_time_reset: Duration::from_secs(3600),
        dce_tcp_rtt: Duration::from_secs(3600),
        ..DcqcnParameters::PAPER
    })
}

impl Pacing {
    /// Makes `qps` QPs, paced or not.
    ///
    /// # Errors
    /// If a step fails; the text says which.
    pub fn new(qps: usize, load: Load, paced: bool) -> Result<Self, String> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let mut nic = Nic::new(&NicConfig {
            seed: [1; 32],
            max_packet_bytes: 4200,
            window_bytes: 1 << 20,
        });
        let pd = nic.alloc_pd();
        let buffer = Arc::new(Buffer::new(load.message as usize).map_err(|e| words(&e))?);
        let key = nic
            .register_buffer(pd, Arc::clone(&buffer), Access::empty())
            .map_err(|e| words(&e))?;
        let cq = Arc::new(CompletionQueue::new(CqId(1), qps * 2 + 1));
        let queue = QueueLimits {
            depth: 2,
            max_sge: 1,
        };
        let mut new = Self {
            nic,
            port: CountingPort::new(qps),
            qpns: Vec::new(),
            memory: (key, buffer.addr()),
            message: load.message,
            now: Instant::from_nanos(1),
            paced,
            cq,
        };
        for index in 0..qps {
            let qpn = new.nic.create_qp(QpInit {
                kind: QpKind::Uc,
                pd,
                send_cq: Arc::clone(&new.cq),
                recv_cq: Arc::clone(&new.cq),
                send: queue,
                recv: queue,
                max_inline: 0,
                signal_all: true,
            });
            let qpn = qpn.map_err(|e| words(&e))?;
            for step in steps(index) {
                new.nic
                    .modify_qp(new.now, qpn, &step)
                    .map_err(|e| words(&e))?;
            }
            new.qpns.push(qpn);
            if paced {
                new.nic.set_congestion_control(fix_rate(rate(index)));
                new.slow_down(qpn);
            }
            for _ in 0..load.posted {
                new.post(index)?;
            }
        }
        Ok(new)
    }

    /// Delivers a CNP for the QP.
    fn slow_down(&mut self, qpn: Qpn) {
        let ip = IpCovered::V4 {
            id: 0,
            flags_fragment: 0x4000,
        };
        let meta = RxMeta {
            src: THERE.into(),
            dst: HERE.into(),
            src_port: SRC_PORT,
            traffic_class: 0,
            ip,
        };
        let mut bth = Bth::new(Opcode::CNP, qpn, Psn::new(0));
        bth.becn = true;
        let ext = ExtHeaders::NONE;
        let repr = PacketRepr { bth, ext };
        let mut bytes = vec![0; repr.buffer_len(0)];
        repr.emit_headers(&mut bytes, 0);
        let header = IpHeader::V4 {
            src: THERE.octets(),
            dst: HERE.octets(),
            id: 0,
            flags_fragment: 0x4000,
        };
        icrc::seal(&header, SRC_PORT, UDP_PORT, &mut bytes);
        self.nic.receive(self.now, &meta, &bytes);
    }

    fn post(&mut self, index: usize) -> Result<(), String> {
        let (lkey, addr) = self.memory;
        let sge = Sge {
            addr,
            length: self.message,
            lkey,
        };
        let wr = SendRequest::new(index as u64, SendOp::Send, sge);
        self.nic
            .post_send(self.now, self.qpns[index], &wr)
            .map_err(|e| e.to_string())
    }

    /// Sends once what may be sent now, and posts new messages for completed ones.
    fn turn(&mut self) -> Result<(), String> {
        if self.nic.wants_to_send() {
            self.nic.transmit(self.now, &mut self.port);
        }
        while let Some(completion) = self.cq.poll().map_err(|e| e.to_string())? {
            if completion.status != WcStatus::Success {
                return Err(format!("{completion:?}"));
            }
            self.post(usize::try_from(completion.wr_id).unwrap_or(usize::MAX))?;
        }
        Ok(())
    }

    /// Sends about `packets` packets. Returns the processor time per packet, in nanoseconds.
    ///
    /// # Errors
    /// If a message fails.
    pub fn send(&mut self, packets: u64) -> Result<f64, String> {
        let before = self.port.total;
        let begun = processor_time()?;
        while self.port.total - before < packets {
            self.wait();
            self.turn()?;
        }
        let took = processor_time()? - begun;
        Ok(took / (self.port.total - before) as f64)
    }

    /// Advances the clock to the next timer, or by a minimum if there is nothing to send.
    fn wait(&mut self) {
        if self.paced
            && !self.nic.wants_to_send()
            && let Some(at) = self.nic.next_timeout()
        {
            self.now = at.max(self.now + LOOK);
            self.nic.handle_timeouts(self.now);
        }
    }

    /// Advances the virtual time by a second. Returns each QP's deviation from its rate, as a
    /// fraction.
    ///
    /// # Errors
    /// If a message fails.
    pub fn run_second(&mut self) -> Result<Vec<f64>, String> {
        let before = self.port.sent.clone();
        let end = self.now + Duration::from_secs(1);
        while self.nic.wants_to_send() || self.nic.next_timeout().is_some_and(|at| at <= end) {
            self.wait();
            self.turn()?;
        }
        self.now = end;
        let off = |(index, (sent, before)): (usize, (&u64, &u64))| {
            let expected = f64::from(rate(index)) * 1e6;
            (sent - before) as f64 * PACKET_BITS / expected - 1.0
        };
        Ok(self
            .port
            .sent
            .iter()
            .zip(&before)
            .enumerate()
            .map(off)
            .collect())
    }
}

/// The transitions that make a QP ready to send.
fn steps(index: usize) -> [QpAttributes; 3] {
    let path = TxMeta {
        src: IpAddr::from(HERE),
        dst: IpAddr::from(THERE),
        traffic_class: 0,
        hop_limit: 64,
        version: RoceVersion::V2,
    };
    let peer = FIRST_PEER + u32::try_from(index).unwrap_or(0);
    let to = |state| QpAttributes {
        state: Some(state),
        ..QpAttributes::default()
    };
    [
        QpAttributes {
            access: Some(Access::empty()),
            ..to(QpState::Init)
        },
        QpAttributes {
            dest_qpn: Some(Qpn::from_bits(peer)),
            path: Some(path),
            path_mtu: Some(PathMtu::Mtu4096),
            rq_psn: Some(Psn::new(0)),
            ..to(QpState::Rtr)
        },
        QpAttributes {
            sq_psn: Some(Psn::new(0)),
            ..to(QpState::Rts)
        },
    ]
}

/// The processor time of this thread in nanoseconds, which excludes the time of other threads.
fn processor_time() -> Result<f64, String> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_err(|e| e.to_string())?;
    Ok(time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
}
