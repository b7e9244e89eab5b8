//! A process that has no descriptors left.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use roce_verbs::device::Event;
use roce_verbs::qp::ConnectError;
use roce_verbs::settings::OpenOptions;
use roce_verbs::{Access, ConnectOptions, Device, QpOptions};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};

/// Without descriptors, the interface's addresses can't be read. The device must not take this for
/// a loss of its addresses, which would make each GID index unknown.
#[test]
fn without_descriptors_the_gids_stay_and_errors_name_the_cause() {
    let device = Device::with_address(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("the loopback");
    let context = OpenOptions::new().open(&device).expect("open");
    let events = context.async_events();
    let (domain, cq) = (context.alloc_pd(), context.create_cq(1));
    let qp = domain.create_qp(&cq, &cq, &QpOptions::default());
    let qp = qp.expect("a QP");
    qp.to_init(Access::LOCAL_WRITE).expect("INIT");
    let (gids, peer) = (context.gids(), qp.endpoint(0).expect("a GID"));
    assert!(!gids.is_empty());
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, 128.min(most), most).expect("lowered");
    let none_left: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let without = (context.gids(), device.is_running());
    let refused = qp.to_rtr(0, &peer, &ConnectOptions::default());
    drop(none_left);
    assert_eq!(without, (gids, true));
    match refused.expect_err("it takes a socket") {
        ConnectError::Port(error) => {
            assert_eq!(error.source.raw_os_error(), Some(libc::EMFILE), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert_ne!(events.poll(), Some(Event::GidChange));
    qp.to_rtr(0, &peer, &ConnectOptions::default())
        .expect("there are descriptors again");
}
