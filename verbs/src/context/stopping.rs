//! A panic inside the NIC stops the device, and nothing else.

use crate::device::{Device, Event};
use crate::error::StartError;
use crate::runtime::MadListener;
use crate::{Access, CompletionQueue, Context, QpOptions, QueuePair, RecvRequest, WcStatus};
use roce_stack::{MAD_BYTES, QpAttributes, QpState};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

/// An open device with a QP that has a receive, at an address of its own.
struct End {
    context: Context,
    cq: CompletionQueue,
    _qp: QueuePair,
    address: IpAddr,
    gid_index: u8,
}

fn end(host: u8) -> End {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = IpAddr::V4(Ipv4Addr::new(127, 128 | (high & 63), low, host));
    let device = Device::with_address(address).expect("loopback");
    let context = device.open().expect("opened");
    let gids = context.gids();
    let gid = gids.iter().find(|entry| entry.gid.ip() == address);
    let gid_index = gid.expect("the address has a GID").index;
    let cq = context.create_cq(16);
    let qp = context
        .alloc_pd()
        .create_qp(&cq, &cq, &QpOptions::default());
    let qp = qp.expect("a QP");
    let to_init = QpAttributes {
        state: Some(QpState::Init),
        access: Some(Access::empty()),
        ..QpAttributes::default()
    };
    qp.modify(&to_init).expect("it is in INIT");
    let receive = RecvRequest {
        wr_id: 7,
        sges: &[],
    };
    qp.post_recv(&receive).expect("posted");
    End {
        context,
        cq,
        _qp: qp,
        address,
        gid_index,
    }
}

impl End {
    /// Checks that the device has stopped, and that the program can find out.
    fn check_stopped(&self) {
        let event = self.context.async_events().wait(TIMEOUT).expect("waited");
        assert_eq!(event, Some(Event::DeviceFatal));
        let completion = self.cq.poll_for(TIMEOUT).expect("no overrun");
        let completion = completion.expect("the receive completes");
        assert_eq!(
            (completion.wr_id, completion.status),
            (7, WcStatus::WorkRequestFlushed)
        );
        let failure = self.context.failure().expect("it failed");
        assert!(failure.contains("panic"), "{failure}");
        let refused = self.context.start().map(drop);
        assert!(
            matches!(refused, Err(StartError::Stopped { .. })),
            "{refused:?}"
        );
        assert!(!self.context.drive(), "nothing happens any more");
        let refused = self.context.path(self.gid_index, self.address.into(), 0, 0);
        assert!(refused.is_err(), "{refused:?}");
    }
}

#[test]
fn a_panic_of_an_application_thread_stops_its_device() {
    let (broken, other) = (end(1), end(2));
    let shared = Arc::clone(&broken.context.inner.shared);
    let panicked = thread::spawn(move || {
        let _engine = shared.lock();
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    broken.check_stopped();
    assert_eq!(other.context.failure(), None);
    other.context.start().expect("the other device works");
}

/// The background thread, which the packets of a peer can drive.
#[test]
fn a_panic_of_the_background_thread_stops_the_device() {
    struct Panics;

    impl MadListener for Panics {
        fn on_mads_arrived(&self) {
            panic!("on purpose");
        }
    }

    let (broken, peer) = (end(3), end(4));
    // It makes the address usable.
    let path = broken
        .context
        .path(broken.gid_index, peer.address.into(), 0, 0);
    path.expect("a path");
    {
        let mut engine = broken.context.inner.shared.lock();
        if let Some(steering) = engine.port.steering() {
            steering.open_general_services().expect("opened");
        }
        engine.nic.open_general_services();
        engine.mad_listener = Some(Arc::new(Panics));
    }
    let path = peer
        .context
        .path(peer.gid_index, broken.address.into(), 0, 0);
    let path = path.expect("a path");
    {
        let mut engine = peer.context.inner.shared.lock();
        engine.nic.open_general_services();
        engine.nic.send_mad(path, &[0; MAD_BYTES]).expect("queued");
    }
    peer.context.drive();
    broken.check_stopped();
    assert_eq!(peer.context.failure(), None);
}

/// A destructor that runs while its thread unwinds may lock the engine.
#[test]
fn a_panic_of_the_program_stops_nothing() {
    let end = end(5);
    let shared = Arc::clone(&end.context.inner.shared);
    let panicked = thread::spawn(move || {
        struct Locks(Arc<crate::runtime::DeviceState>);

        impl Drop for Locks {
            fn drop(&mut self) {
                drop(self.0.lock());
            }
        }
        let _locks = Locks(shared);
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert_eq!(end.context.failure(), None);
    end.context.start().expect("it works");
}
