//! What other processes offer.

use super::{HERE, SOURCE, ends, send};
use crate::Inbox;
use crate::mapping::{HEADER_BYTES, RING_BYTES};
use crate::ring::{Receiver, Sender};
use roce_port::Offers as _;
use std::fs::File;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

const FILE_BYTES: usize = HEADER_BYTES + RING_BYTES;
const SIZE: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// A file in memory, as any process can make one.
fn file(flags: libc::c_uint, bytes: usize, seals: libc::c_int) -> std::io::Result<OwnedFd> {
    let checked = |result: i32| match result {
        -1 => Err(std::io::Error::last_os_error()),
        result => Ok(result),
    };
    // SAFETY: the name is a C string.
    let fd = checked(unsafe { libc::memfd_create(c"test".as_ptr(), flags) })?;
    // SAFETY: the call has just created it.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the descriptor is a file's.
    checked(unsafe { libc::ftruncate(fd, bytes as libc::off_t) })?;
    // SAFETY: as above.
    checked(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) })?;
    Ok(file)
}

/// Makes a file look like a ring's, as far as its bytes go.
fn copy_header(to: &OwnedFd) {
    use std::os::unix::fs::FileExt as _;
    let (_, ring) = Sender::create(SOURCE).expect("a ring");
    let mut header = vec![0; HEADER_BYTES];
    File::from(ring)
        .read_exact_at(&mut header, 0)
        .expect("read");
    let to = File::from(to.try_clone().expect("a descriptor"));
    to.write_all_at(&header, 0).expect("written");
}

fn refusal(file: &OwnedFd) -> String {
    let opened = Receiver::open(file.as_fd(), false);
    opened.expect_err("it is no ring").to_string()
}

#[test]
fn a_copy_of_a_ring_is_one() {
    let copy = file(
        libc::MFD_ALLOW_SEALING,
        FILE_BYTES,
        SIZE | libc::F_SEAL_SEAL,
    );
    let copy = copy.expect("a file");
    copy_header(&copy);
    assert_eq!(
        Receiver::open(copy.as_fd(), false)
            .expect("a ring")
            .source(),
        SOURCE
    );
}

#[test]
fn files_that_can_change_their_size_are_refused() {
    for seals in [
        0,
        libc::F_SEAL_SEAL,
        SIZE,
        libc::F_SEAL_GROW | libc::F_SEAL_SEAL,
    ] {
        let unsealed = file(libc::MFD_ALLOW_SEALING, FILE_BYTES, seals).expect("a file");
        copy_header(&unsealed);
        let why = refusal(&unsealed);
        assert!(why.contains("can change its size"), "{seals:#x}: {why}");
    }
}

#[test]
fn a_ring_cannot_be_resized_and_is_emptied_without_a_signal() {
    let (mut sender, mut receiver, file) = ends();
    for bytes in [0, 4096, FILE_BYTES + 4096] {
        // SAFETY: the descriptor is open.
        let resized = unsafe { libc::ftruncate(file.as_raw_fd(), bytes as libc::off_t) };
        assert_eq!(resized, -1, "{bytes} bytes");
    }
    send(&mut sender, 1000, 1);
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the descriptor is open.
    let punched = unsafe { libc::fallocate(file.as_raw_fd(), punch, 0, FILE_BYTES as libc::off_t) };
    assert_eq!(punched, 0);
    // The counters are 0 again, so there is nothing to take.
    assert_eq!(super::take(&mut receiver), (vec![], true));
    send(&mut sender, 1000, 1);
    // In front of the new packet is none: the record's head is zero.
    assert_eq!(super::take(&mut receiver), (vec![], false));
}

#[test]
fn files_of_another_size_are_refused() {
    for bytes in [
        0,
        HEADER_BYTES,
        FILE_BYTES - 4096,
        FILE_BYTES + 4096,
        FILE_BYTES + 1,
    ] {
        let other = file(libc::MFD_ALLOW_SEALING, bytes, SIZE | libc::F_SEAL_SEAL);
        let why = refusal(&other.expect("a file"));
        assert!(why.contains("not one of a lane's size"), "{bytes}: {why}");
    }
}

/// A page of such a file may be missing, which raises SIGBUS.
#[test]
fn files_of_huge_pages_are_refused() {
    let flags = libc::MFD_ALLOW_SEALING | libc::MFD_HUGETLB;
    match file(flags, 2 << 20, SIZE | libc::F_SEAL_SEAL) {
        Ok(huge) => assert!(refusal(&huge).contains("pages of another size")),
        Err(error) => testkit::skip("files of huge pages", &error.to_string()),
    }
}

#[test]
fn files_that_cannot_be_written_are_refused() {
    let seals = SIZE | libc::F_SEAL_SEAL | libc::F_SEAL_WRITE;
    let read_only = file(libc::MFD_ALLOW_SEALING, FILE_BYTES, seals).expect("a file");
    refusal(&read_only);
    let (_, ring) = Sender::create(SOURCE).expect("a ring");
    let again = File::open(format!("/proc/self/fd/{}", ring.as_raw_fd()));
    refusal(&again.expect("a descriptor").into());
}

#[test]
fn files_of_another_format_are_refused() {
    let zero = file(
        libc::MFD_ALLOW_SEALING,
        FILE_BYTES,
        SIZE | libc::F_SEAL_SEAL,
    );
    assert!(refusal(&zero.expect("a file")).contains("another format"));
}

#[test]
fn what_is_no_file_in_memory_is_refused() {
    refusal(&File::open("/dev/null").expect("opened").into());
    refusal(&File::open("/").expect("opened").into());
    refusal(&File::open("/proc/self/stat").expect("opened").into());
    refusal(&UnixStream::pair().expect("a pair").0.into());
}

#[test]
fn a_lane_has_addresses_of_one_family() {
    let inbox = Inbox::new(false, 128).expect("an inbox");
    let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    for (source, at, is_taken) in [
        (SOURCE, HERE, true),
        (v6, v6, true),
        (SOURCE, v6, false),
        (v6, HERE, false),
    ] {
        let (_sender, file) = Sender::create(source).expect("a ring");
        let taken = inbox.take(at, file).is_some();
        assert_eq!(taken, is_taken, "from {source} to {at}");
        assert_eq!(inbox.pick_up().len(), usize::from(is_taken));
    }
}

#[test]
fn a_device_has_places_for_128_lanes() {
    let inbox = Inbox::new(false, 128).expect("an inbox");
    let offer = || inbox.take(HERE, Sender::create(SOURCE).expect("a ring").1);
    // What is refused takes no place.
    for _ in 0..200 {
        let garbage = File::open("/dev/null").expect("opened");
        assert!(inbox.take(HERE, garbage.into()).is_none());
    }
    let values: Vec<_> = (0..128).map(|_| offer().expect("a place")).collect();
    assert!(offer().is_none());
    let mut lanes = inbox.pick_up();
    assert_eq!(lanes.len(), 128);
    assert!(
        offer().is_none(),
        "lanes that were picked up keep their places"
    );
    drop(values);
    let has_ended =
        |lane: &crate::inbox::Incoming| lane.has_ended.load(std::sync::atomic::Ordering::Relaxed);
    assert!(lanes.iter().all(has_ended));
    assert!(offer().is_none(), "the lanes may still have packets");
    lanes.truncate(126);
    assert!(offer().is_some() && offer().is_some());
    assert!(offer().is_none());
}
