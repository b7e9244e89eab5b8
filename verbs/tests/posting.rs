//! Requests are posted in every form: from a region, copied from a region, and inline, to the QP's
//! peer and to an SRQ of an XRC peer. All of them must behave alike.

mod support;

use roce_verbs::qp::SrqOptions;
use roce_verbs::settings::OpenOptions;
use roce_verbs::work::SendFlags;
use roce_verbs::{
    Access, ConnectOptions, MemoryRegion, QpKind, QpOptions, QueuePair, RecvRequest, SendOp,
    SendRequest, WcStatus,
};
use std::time::Duration;
use support::End;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Where a request's bytes are.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// In a region.
    Region,
    /// In a region, copied when the request is posted.
    Copied,
    /// In the request.
    Inline,
}

const FORMS: [Form; 3] = [Form::Region, Form::Copied, Form::Inline];

fn completion(end: &End) -> u64 {
    let done = end.cq.poll_for(TIMEOUT).expect("no overrun");
    let done = done.expect("completed");
    assert_eq!(done.status, WcStatus::Success);
    done.wr_id
}

/// One batch has a request of each form.
#[test]
fn a_batch_may_mix_all_forms() {
    let a = End::open(11, &OpenOptions::default());
    let b = End::open(12, &OpenOptions::default());
    a.connect(&b);
    b.connect(&a);
    // Write whole regions first, so that the bytes checked below are the batch's.
    a.run(SendOp::Write(b.region.remote(0)));
    batch_of_each(&a.qp, &a.region, &b.region, |request| request);
    for id in 0..3 {
        assert_eq!(completion(&a), id);
    }
    check(&b.region);
}

/// Posts one WRITE of each form, `finish`ed, in one batch.
fn batch_of_each(
    qp: &QueuePair,
    from: &MemoryRegion,
    to: &MemoryRegion,
    finish: impl Fn(SendRequest<'_>) -> SendRequest<'_>,
) {
    let posted = qp.post_batch(|batch| {
        FORMS.iter().zip(0_u8..).try_for_each(|(form, n)| {
            let text = [n + 1; 8];
            from.write(8 * usize::from(n), &text).expect("in range");
            let payload = from.slice(8 * usize::from(n), 8).expect("in range");
            let write = SendRequest::write(payload, to.remote(8 * u64::from(n))).id(n.into());
            let write = match form {
                Form::Region => write,
                Form::Copied => write.with_flags(SendFlags::SIGNALED | SendFlags::INLINE),
                Form::Inline => write.inline(&text),
            };
            batch.send(&finish(write))
        })
    });
    assert_eq!(posted, Ok(()));
}

/// Checks the bytes that [`batch_of_each`] wrote.
fn check(region: &MemoryRegion) {
    let mut found = [0; 24];
    region.read(0, &mut found).expect("in range");
    let expected: Vec<u8> = (1..=3).flat_map(|n| [n; 8]).collect();
    assert_eq!(found[..], expected);
}

/// Connects the QPs of two ends.
fn connect(a: (&End, &QueuePair), b: (&End, &QueuePair)) {
    let [a_gid, b_gid] = [a.0, b.0].map(|end| {
        let gids = end.context.gids();
        let entry = gids.iter().find(|entry| entry.gid.ip() == end.at);
        entry.expect("the address has a GID").index
    });
    let [from, to] = [(a.1, a_gid), (b.1, b_gid)].map(|(qp, gid)| qp.endpoint(gid));
    let (from, to) = (from.expect("an endpoint"), to.expect("an endpoint"));
    let options = ConnectOptions::default();
    b.1.connect(b_gid, &from, &options).expect("connected");
    a.1.connect(a_gid, &to, &options).expect("connected");
}

/// The same for an SRQ of an XRC peer, and a single request with inline data.
#[test]
fn every_form_reaches_an_srq() {
    let (a, b) = (
        End::open(13, &OpenOptions::default()),
        End::open(14, &OpenOptions::default()),
    );
    let pd = a.context.alloc_pd();
    let options = QpOptions {
        kind: QpKind::XrcInitiator,
        ..QpOptions::default()
    };
    let initiator = pd.create_qp(&a.cq, &a.cq, &options).expect("a QP");
    let from = pd.allocate(64, Access::LOCAL_WRITE).expect("memory");
    let (domain, far) = (b.context.create_xrcd(), b.context.alloc_pd());
    let target = domain.create_target().expect("a target");
    let srq = domain.create_srq(&far, &b.cq, &SrqOptions::default());
    let srq = srq.expect("an SRQ");
    let to = far.allocate(64, Access::ANY_MEMORY).expect("memory");
    connect((&a, &initiator), (&b, &target));

    batch_of_each(&initiator, &from, &to, |request| request.to(srq.number()));
    for id in 0..3 {
        assert_eq!(completion(&a), id);
    }
    check(&to);

    let sges = [to.slice(32, 8).expect("in range")];
    let receive = RecvRequest {
        wr_id: 9,
        sges: &sges,
    };
    srq.post_recv(&receive).expect("posted");
    let send = SendRequest::send(()).inline(b"by value").id(4);
    initiator.post_send(&send.to(srq.number())).expect("posted");
    assert_eq!((completion(&b), completion(&a)), (9, 4));
    let mut found = [0; 8];
    to.read(32, &mut found).expect("in range");
    assert_eq!(&found, b"by value");
}
