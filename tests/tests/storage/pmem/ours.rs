//! This end: our NIC in the lab's namespace.

use super::TIMEOUT;
use super::peer::Peer;
use roce_tests::lab::{HOST_IP4, Lab};
use roce_verbs::device::Gid;
use roce_verbs::work::{Flush, FlushPlacement, FlushSelectivity};
use roce_verbs::{
    Access, CompletionQueue, ConnectOptions, Context, Device, Endpoint, MemoryRegion,
    ProtectionDomain, Psn, QpOptions, Qpn, QueuePair, RemoteAddr, SendOp, SendRequest, Sge,
    WcStatus,
};

pub(super) struct Ours {
    _context: Context,
    pub(super) pd: ProtectionDomain,
    cq: CompletionQueue,
    qp: QueuePair,
    gid_index: u8,
    source: MemoryRegion,
}

impl Ours {
    pub(super) fn open(lab: &Lab) -> Self {
        let opened = lab.enter(|| {
            let context = Device::with_address(HOST_IP4.into())
                .expect("a device")
                .open()
                .expect("opened");
            context.start().expect("started");
            let gids = context.gids();
            let entry = gids.iter().find(|entry| entry.gid.ip() == HOST_IP4);
            let gid_index = entry.expect("the address has a GID").index;
            (context, gid_index)
        });
        let (context, gid_index) = opened.expect("entered");
        let pd = context.alloc_pd();
        let cq = context.create_cq(16);
        Self {
            qp: pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP"),
            source: pd.allocate(4096, Access::empty()).expect("memory"),
            _context: context,
            pd,
            cq,
            gid_index,
        }
    }

    /// Connects both ends. The peer may use the memory.
    pub(super) fn connect(&self, lab: &Lab, peer: &mut Peer, memory: RemoteAddr) {
        let ours = lab.enter(|| self.qp.endpoint(self.gid_index));
        let ours = ours.expect("entered").expect("an endpoint");
        let theirs = Endpoint {
            gid: Gid(peer.gid.octets()),
            qpn: Qpn::new(peer.qpn).expect("a QPN"),
            psn: Psn::new(0),
        };
        let options = ConnectOptions {
            timeout: 16,
            ..ConnectOptions::default()
        };
        let connected = lab.enter(|| self.qp.connect(self.gid_index, &theirs, &options));
        connected.expect("entered").expect("connected");
        let gid = std::net::Ipv6Addr::from(ours.gid.0);
        let answer = peer.ask(&format!(
            "connect {} {} {gid} {} {}",
            ours.qpn.get(),
            ours.psn.get(),
            memory.addr,
            memory.rkey
        ));
        assert_eq!(answer, "connected");
    }

    fn run(&self, op: SendOp, bytes: &[u8]) -> WcStatus {
        self.source.write(0, bytes).expect("in range");
        let local = self.source.slice(0, bytes.len()).expect("in range");
        let elements: &[Sge] = if bytes.is_empty() { &[] } else { &[local] };
        let request = SendRequest::new(1, op, elements);
        self.qp.post_send(&request).expect("posted");
        let done = self.cq.poll_for(TIMEOUT).expect("no overrun");
        done.expect("completed").status
    }

    pub(super) fn write(&self, remote: RemoteAddr, text: &str) -> WcStatus {
        self.run(SendOp::Write(remote), text.as_bytes())
    }

    pub(super) fn atomic_write(&self, remote: RemoteAddr, text: &str) -> WcStatus {
        self.run(SendOp::AtomicWrite(remote), text.as_bytes())
    }

    pub(super) fn flush(
        &self,
        remote: RemoteAddr,
        len: u32,
        placement: FlushPlacement,
        selectivity: FlushSelectivity,
    ) -> WcStatus {
        let flush = Flush {
            remote,
            len,
            placement,
            selectivity,
        };
        self.run(SendOp::Flush(flush), &[])
    }
}
