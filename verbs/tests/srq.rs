//! Shared receive queues, events and CQ resizing, through real sockets.

use roce_verbs::completion::CqResizeError;
use roce_verbs::device::Event;
use roce_verbs::qp::{
    CreateQpError, QpError, QpState, SharedReceiveQueue, SrqAttributes, SrqError, SrqOptions,
};
use roce_verbs::{
    Access, CompletionQueue, ConnectOptions, Context, Device, MemoryRegion, ProtectionDomain,
    QpKind, QpOptions, QueuePair, RecvRequest, SendOp, SendRequest, WcStatus,
};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

struct End {
    context: Context,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    region: MemoryRegion,
    gid_index: u8,
}

/// A device on an address of the loopback network that no other test uses.
fn open() -> End {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let last = NEXT.fetch_add(1, Ordering::Relaxed);
    let address = IpAddr::V4(Ipv4Addr::new(127, 128 | (high & 63), low, last));
    let device = Device::with_address(address).expect("loopback");
    let context = device.open().expect("opened");
    let pd = context.alloc_pd();
    let cq = context.create_cq(64);
    let region = pd.allocate(1 << 16, Access::LOCAL_WRITE).expect("memory");
    let gids = context.gids();
    let entry = gids.iter().find(|entry| entry.gid.ip() == address);
    let gid_index = entry.expect("it has a GID").index;
    End {
        context,
        pd,
        cq,
        region,
        gid_index,
    }
}

impl End {
    fn qp(&self, options: &QpOptions) -> QueuePair {
        self.pd
            .create_qp(&self.cq, &self.cq, options)
            .expect("a QP")
    }

    fn qp_on(&self, srq: &SharedReceiveQueue, options: &QpOptions) -> QueuePair {
        let qp = self.pd.create_qp_with_srq(&self.cq, &self.cq, srq, options);
        qp.expect("a QP on the SRQ")
    }

    fn post(&self, srq: &SharedReceiveQueue, wr_id: u64, offset: usize, len: usize) {
        let sge = self.region.slice(offset, len).expect("in range");
        let sges = [sge];
        srq.post_recv(&RecvRequest { wr_id, sges: &sges })
            .expect("posted");
    }

    fn next(&self) -> roce_verbs::Completion {
        let done = self.cq.poll_for(TIMEOUT).expect("no overrun");
        done.expect("completed")
    }
}

fn connect(a: &End, a_qp: &QueuePair, b: &End, b_qp: &QueuePair) {
    let from_a = a_qp.endpoint(a.gid_index).expect("endpoint");
    let from_b = b_qp.endpoint(b.gid_index).expect("endpoint");
    let options = ConnectOptions::default();
    b_qp.connect(b.gid_index, &from_a, &options)
        .expect("connected");
    a_qp.connect(a.gid_index, &from_b, &options)
        .expect("connected");
}

/// Several RC QPs and a UC QP take their receives from one queue.
#[test]
fn qps_share_receives() {
    let (a, b) = (open(), open());
    let srq = b.pd.create_srq(&SrqOptions::default()).expect("an SRQ");
    let kinds = [QpKind::Rc, QpKind::Uc, QpKind::Rc];
    let options = kinds.map(|kind| QpOptions {
        kind,
        ..QpOptions::default()
    });
    let ours = options.map(|options| a.qp(&options));
    let theirs = options.map(|options| b.qp_on(&srq, &options));
    for (our, their) in ours.iter().zip(&theirs) {
        connect(&a, our, &b, their);
    }
    for wr_id in 0..12_usize {
        b.post(&srq, wr_id as u64, wr_id * 4096, 4096);
    }
    assert_eq!(srq.query().expect("it lives").posted, 12);
    for wr_id in 0..12 {
        let index = wr_id % 3;
        let text = vec![wr_id as u8 + 1; 3000];
        a.region.write(0, &text).expect("in range");
        let sges = [a.region.slice(0, 3000).expect("in range")];
        ours[index]
            .post_send(&SendRequest::new(wr_id as u64, SendOp::Send, &sges))
            .expect("posted");
        assert_eq!(a.next().status, WcStatus::Success);
        let received = b.next();
        assert_eq!(received.status, WcStatus::Success);
        assert_eq!(received.wr_id, wr_id as u64, "in the order of posting");
        assert_eq!(received.qpn, theirs[index].qpn());
        let mut found = vec![0; 3000];
        b.region.read(wr_id * 4096, &mut found).expect("in range");
        assert_eq!(found, text);
    }
    assert_eq!(srq.query().expect("it lives").posted, 0);
}

/// The queue's limit and the end of a QP raise events.
#[test]
fn an_srq_raises_its_events() {
    let (a, b) = (open(), open());
    let srq = b.pd.create_srq(&SrqOptions::default()).expect("an SRQ");
    let (ours, theirs) = (
        a.qp(&QpOptions::default()),
        b.qp_on(&srq, &QpOptions::default()),
    );
    connect(&a, &ours, &b, &theirs);
    b.post(&srq, 1, 0, 64);
    b.post(&srq, 2, 64, 64);
    let attributes = SrqAttributes {
        limit: Some(2),
        ..SrqAttributes::default()
    };
    srq.modify(&attributes).expect("armed");
    let events = b.context.async_events();
    assert_eq!(events.poll(), None);
    ours.post_send(&SendRequest::new(1, SendOp::Send, ()))
        .expect("posted");
    // The other end's background thread receives the message, and wakes this thread up.
    let limit = Some(Event::SrqLimit(srq.number()));
    assert_eq!(events.wait(TIMEOUT).expect("waited"), limit);
    theirs
        .modify(&roce_verbs::qp::QpAttributes {
            state: Some(QpState::Err),
            ..Default::default()
        })
        .expect("legal");
    let last = Some(Event::LastWqeReached(theirs.qpn()));
    assert_eq!(events.wait(TIMEOUT).expect("waited"), last);
    assert_eq!(srq.query().expect("it lives").posted, 1, "the other stays");
}

/// The SRQ lives as long as a QP uses it, in whatever order they are dropped. It belongs to its own
/// device.
#[test]
fn a_qp_keeps_its_srq_alive() {
    let (a, b) = (open(), open());
    let srq = a.pd.create_srq(&SrqOptions::default()).expect("an SRQ");
    let qp = a.qp_on(&srq, &QpOptions::default());
    let number = srq.number();
    let elsewhere =
        b.pd.create_qp_with_srq(&b.cq, &b.cq, &srq, &QpOptions::default());
    let unknown = CreateQpError::from(SrqError::Unknown(number));
    assert!(matches!(elsewhere, Err(QpError::Create(error)) if error == unknown));
    assert_eq!(srq.query().expect("it lives").qps, 1);
    drop(srq);
    drop(qp);
    let refused = a.pd.create_srq(&SrqOptions {
        depth: 0,
        max_sge: 1,
    });
    assert_eq!(refused.map(|_| ()).err(), Some(SrqError::BadDepth(0)));
}

/// A CQ grows and shrinks with completions in it.
// shows: 11.2.6-cq-resize
#[test]
fn a_cq_is_resized_in_use() {
    let (a, b) = (open(), open());
    let (ours, theirs) = (a.qp(&QpOptions::default()), b.qp(&QpOptions::default()));
    connect(&a, &ours, &b, &theirs);
    let channel = a.context.create_channel().expect("a channel");
    let cq = a.context.create_cq_with_channel(4, &channel);
    let qp =
        a.pd.create_qp(&cq, &cq, &QpOptions::default())
            .expect("a QP");
    // Requests to a QP in the error state complete at once.
    qp.to_init(Access::empty()).expect("legal");
    qp.modify(&roce_verbs::qp::QpAttributes {
        state: Some(QpState::Err),
        ..Default::default()
    })
    .expect("legal");
    let recv = |wr_id| qp.post_recv(&RecvRequest { wr_id, sges: &[] });
    for wr_id in 0..4 {
        recv(wr_id).expect("posted");
    }
    let refused = CqResizeError {
        capacity: 3,
        held: 4,
    };
    assert_eq!(cq.resize(3), Err(refused));
    cq.resize(8).expect("larger");
    assert_eq!(cq.capacity(), 8);
    for wr_id in 4..8 {
        recv(wr_id).expect("posted");
    }
    for wr_id in 0..8 {
        let done = cq.poll().expect("no overrun").expect("there");
        assert_eq!(
            (done.wr_id, done.status),
            (wr_id, WcStatus::WorkRequestFlushed)
        );
    }
    assert!(cq.poll().expect("no overrun").is_none());
}

/// A peer that can predict the first PSN can forge packets of the connection.
#[test]
fn each_qp_draws_its_first_psn() {
    const QPS: usize = 32;
    let end = open();
    let srq = end.pd.create_srq(&SrqOptions::default()).expect("an SRQ");
    let options = QpOptions::default();
    let alone: Vec<_> = (0..QPS).map(|_| end.qp(&options)).collect();
    let on_srq: Vec<_> = (0..QPS).map(|_| end.qp_on(&srq, &options)).collect();
    for qps in [alone, on_srq] {
        let psns: BTreeSet<u32> = qps
            .iter()
            .map(|qp| qp.endpoint(end.gid_index).expect("an address").psn.get())
            .collect();
        // The chance that three of them occur twice is less than one in 10^12.
        assert!(psns.len() > QPS - 3, "{psns:x?}");
    }
}
