//! Tests two complete NICs over AF_XDP with messages of many packets, at every path MTU. These
//! tests need root.

mod support;

use std::net::IpAddr;
use std::sync::Arc;

use roce_port::Port;
use roce_stack::{
    Access, Buffer, CompletionQueue, CqId, Instant, Nic, NicConfig, QpAttributes, QpInit, QpKind,
    QpState, QueueLimits, RemoteAddr, RxMeta, SendOp, SendRequest, Sge, TxMeta, WcStatus,
};
use roce_wire::{PathMtu, Psn, Qpn, RnrTimer};
use roce_xdp::XdpPort;
use roce_xdp::program::AttachMode;
use support::ports::{assert_no_chunk_is_lost, open};
use support::{bytes, wait_for};
use testkit::veth::{End, Pair};

const MESSAGE: usize = 1 << 20;
const PSN: Psn = Psn::new(0xff_fff0);

/// A NIC on its port, with one QP and a buffer that its peer may use.
struct Host {
    nic: Nic,
    port: XdpPort,
    qpn: Qpn,
    cq: Arc<CompletionQueue>,
    buffer: Arc<Buffer>,
    key: u32,
}

impl Host {
    fn new(port: XdpPort, seed: u8) -> Self {
        let capabilities = port.capabilities();
        let mut nic = Nic::new(&NicConfig {
            seed: [seed; 32],
            max_packet_bytes: capabilities.max_packet_bytes,
            window_bytes: capabilities.receive_buffer_bytes / 4,
        });
        let pd = nic.alloc_pd();
        let buffer = Arc::new(Buffer::new(MESSAGE).expect("memory"));
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let key = nic
            .register_buffer(pd, Arc::clone(&buffer), access)
            .expect("registered");
        let cq = Arc::new(CompletionQueue::new(CqId(1), 64));
        let limits = QueueLimits {
            depth: 16,
            max_sge: 1,
        };
        let qpn = nic
            .create_qp(QpInit {
                kind: QpKind::Rc,
                pd,
                send_cq: Arc::clone(&cq),
                recv_cq: Arc::clone(&cq),
                send: limits,
                recv: limits,
                signal_all: true,
                max_inline: 0,
            })
            .expect("a QP");
        Self {
            nic,
            port,
            qpn,
            cq,
            buffer,
            key,
        }
    }

    fn connect(&mut self, path: TxMeta, path_mtu: PathMtu, peer: Qpn) {
        let to = |state| QpAttributes {
            state: Some(state),
            ..QpAttributes::default()
        };
        let init = QpAttributes {
            access: Some(Access::REMOTE_WRITE | Access::REMOTE_READ),
            ..to(QpState::Init)
        };
        let rtr = QpAttributes {
            dest_qpn: Some(peer),
            path: Some(path),
            path_mtu: Some(path_mtu),
            rq_psn: Some(PSN),
            max_dest_rd_atomic: Some(4),
            min_rnr_timer: RnrTimer::from_code(1),
            ..to(QpState::Rtr)
        };
        let rts = QpAttributes {
            sq_psn: Some(PSN),
            timeout: Some(14),
            retry_cnt: Some(7),
            rnr_retry: Some(7),
            max_rd_atomic: Some(4),
            ..to(QpState::Rts)
        };
        for step in [to(QpState::Reset), init, rtr, rts] {
            self.nic
                .modify_qp(Instant::ZERO, self.qpn, &step)
                .expect("legal");
        }
    }

    /// The work of one iteration of a driver.
    fn drive(&mut self, now: Instant) {
        if self.nic.wants_to_send() {
            self.nic.transmit(now, &mut self.port);
        }
        self.port.flush().expect("a port that works");
        let nic = &mut self.nic;
        let mut sink = |meta: &RxMeta, packet: &[u8]| nic.receive(now, meta, packet);
        self.port.receive(64, &mut sink).expect("a port that works");
        if self.nic.next_timeout().is_some_and(|at| at <= now) {
            self.nic.handle_timeouts(now);
        }
    }

    fn contents(&self) -> Vec<u8> {
        let mut contents = vec![0; MESSAGE];
        self.buffer.read(0, &mut contents).expect("within");
        contents
    }
}

/// Posts a request at `near` that covers both buffers completely, and waits for its completion.
fn request(near: &mut Host, far: &mut Host, start: std::time::Instant, op: SendOp) {
    let now = || Instant::ZERO + start.elapsed();
    let sge = Sge {
        addr: near.buffer.addr(),
        length: MESSAGE as u32,
        lkey: near.key,
    };
    let wr = SendRequest::new(1, op, sge);
    near.nic.post_send(now(), near.qpn, &wr).expect("posted");
    let completion = wait_for("the completion", || {
        near.drive(now());
        far.drive(now());
        near.cq.poll().expect("no overrun")
    });
    assert_eq!(completion.status, WcStatus::Success);
}

fn messages_cross(attach: AttachMode, queues: u32) {
    let Some(pair) = Pair::new_or_skip(4300, queues) else {
        return;
    };
    let mut near = Host::new(open(&pair.near, 4300, queues, attach), 1);
    let mut far = Host::new(open(&pair.far, 4300, queues, attach), 2);
    let start = std::time::Instant::now();
    let mtus = [
        PathMtu::Mtu256,
        PathMtu::Mtu512,
        PathMtu::Mtu1024,
        PathMtu::Mtu2048,
        PathMtu::Mtu4096,
    ];
    for (number, path_mtu) in mtus.into_iter().cycle().take(10).enumerate() {
        let address = |end: &End| {
            if number < 5 {
                IpAddr::from(end.ip4)
            } else {
                IpAddr::from(end.ip6)
            }
        };
        let path = |from, to| TxMeta {
            src: address(from),
            dst: address(to),
            traffic_class: 2,
            hop_limit: 0,
            version: roce_stack::RoceVersion::V2,
        };
        near.connect(path(&pair.near, &pair.far), path_mtu, far.qpn);
        far.connect(path(&pair.far, &pair.near), path_mtu, near.qpn);
        let remote = RemoteAddr {
            addr: far.buffer.addr(),
            rkey: far.key,
        };
        let written = bytes(number, MESSAGE);
        near.buffer.write(0, &written).expect("within");
        request(&mut near, &mut far, start, SendOp::Write(remote));
        assert!(far.contents() == written, "WRITE at {path_mtu:?}");
        let other = bytes(number + 100, MESSAGE);
        far.buffer.write(0, &other).expect("within");
        request(&mut near, &mut far, start, SendOp::Read(remote));
        assert!(near.contents() == other, "READ at {path_mtu:?}");
    }
    for host in [&mut near, &mut far] {
        assert_no_chunk_is_lost(&mut host.port);
    }
}

#[test]
fn messages_cross_in_native_mode() {
    messages_cross(AttachMode::Native, 1);
}

#[test]
fn messages_cross_in_generic_mode() {
    messages_cross(AttachMode::Generic, 1);
}

#[test]
fn messages_cross_with_two_queues() {
    messages_cross(AttachMode::Auto, 2);
}
