//! A process that has no descriptors left.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use roce_verbs::device::Event;
use roce_verbs::qp::ConnectError;
use roce_verbs::settings::OpenOptions;
use roce_verbs::{Access, ConnectOptions, Device, QpOptions, SendRequest, WcStatus};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The tests use up the descriptors of the whole process, one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Takes all descriptors that are left.
fn use_up_descriptors() -> Vec<File> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, 128.min(most), most).expect("lowered");
    take_descriptors().collect()
}

fn take_descriptors() -> impl Iterator<Item = File> {
    std::iter::from_fn(|| File::open("/dev/null").ok())
}

/// What shows the states of this process's threads, opened in advance.
fn thread_states() -> Vec<File> {
    let threads = std::fs::read_dir("/proc/self/task").expect("there are threads");
    let open = |thread: std::io::Result<std::fs::DirEntry>| {
        File::open(thread.expect("listed").path().join("stat")).expect("it exists")
    };
    threads.map(open).collect()
}

/// Whether all threads but the calling one sleep.
fn others_sleep(states: &[File]) -> bool {
    let sleeps = |file: &&File| {
        let mut stat = [0; 64];
        // A thread that has ended sleeps as well.
        let Ok(len) = file.read_at(&mut stat, 0) else {
            return true;
        };
        String::from_utf8_lossy(&stat[..len]).contains(") S ")
    };
    states.iter().filter(sleeps).count() + 1 >= states.len()
}

/// A background thread that sleeps duplicates the descriptors to wait for. When it could not, it
/// slept until its next timeout, and packets waited.
#[test]
fn without_descriptors_packets_still_arrive() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = Device::with_address(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("the loopback");
    let [from, to] = [(); 2].map(|()| {
        let context = OpenOptions::new().open(&device).expect("open");
        let (pd, cq) = (context.alloc_pd(), context.create_cq(4));
        let memory = pd.allocate(64, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
        let qp = pd.create_qp(&cq, &cq, &QpOptions::default());
        (cq, memory.expect("memory"), qp.expect("a QP"), context)
    });
    for (one, other) in [(&from.2, &to.2), (&to.2, &from.2)] {
        let peer = other.endpoint(0).expect("a GID");
        let connected = one.connect(0, &peer, &ConnectOptions::default());
        connected.expect("connected");
    }
    let states = thread_states();
    let mut none_left = use_up_descriptors();
    // The target's background thread handles each, and sleeps in between. When it wakes up, it gives
    // back the duplicates that it had, and this thread takes most of them.
    for round in 0..200 {
        to.3.hand_over();
        none_left.extend(take_descriptors());
        while !others_sleep(&states) {
            none_left.extend(take_descriptors());
        }
        let data = from.1.slice(0, 8).expect("in range");
        let write = SendRequest::write(data, to.1.remote(0));
        from.2.post_send(&write).expect("posted");
        let patience = Duration::from_secs(60);
        let done = from.0.poll_for(patience).expect("no overrun");
        let done = done.map(|completion| completion.status);
        assert_eq!(done, Some(WcStatus::Success), "round {round}");
    }
    drop(none_left);
}

/// Without descriptors, the interface's addresses can't be read. The device must not take this for
/// a loss of its addresses, which would make each GID index unknown.
#[test]
fn without_descriptors_the_gids_stay_and_errors_name_the_cause() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = Device::with_address(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("the loopback");
    let context = OpenOptions::new().open(&device).expect("open");
    let events = context.async_events();
    let (domain, cq) = (context.alloc_pd(), context.create_cq(1));
    let qp = domain.create_qp(&cq, &cq, &QpOptions::default());
    let qp = qp.expect("a QP");
    qp.to_init(Access::LOCAL_WRITE).expect("INIT");
    let (gids, peer) = (context.gids(), qp.endpoint(0).expect("a GID"));
    assert!(!gids.is_empty());
    let none_left = use_up_descriptors();
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
