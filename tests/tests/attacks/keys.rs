//! Whether the numbers that an attacker has to guess can be predicted from others of the same kind
//! (ReDMArk found NICs that draw keys and QPNs from counters).
//!
//! The numbers are those of real devices, whose seed comes from the system, so they differ in each
//! run. The bounds are so wide that good random numbers exceed one of them in less than one of 10^6
//! runs, and so narrow that counters, steps and repeated seeds exceed them always.

use std::collections::HashSet;

use roce_verbs::prelude::*;

/// How many numbers of each kind.
const COUNT: usize = 1000;
/// The most that a number of ones may differ from half of [`COUNT`]: more than six standard
/// deviations, which are 15.8 each. Chance exceeds it about once in 10^9 comparisons, and a run
/// makes about 200.
const TOLERANCE: usize = 100;

/// Whether about half of the numbers have this bit.
fn assert_half(what: &str, ones: usize) {
    let expected = COUNT / 2 - TOLERANCE..=COUNT / 2 + TOLERANCE;
    assert!(expected.contains(&ones), "{what}: {ones} of {COUNT}");
}

/// Checks numbers of which the lower `bits` bits are said to be random.
fn assert_unpredictable(what: &str, numbers: &[u32], bits: u32) {
    assert_eq!(numbers.len(), COUNT);
    let mask = u32::MAX >> (32 - bits);
    let count = |bit: u32, of: &dyn Fn(usize) -> u32| {
        (0..COUNT).filter(|&at| of(at) >> bit & 1 == 1).count()
    };
    let following = |at: usize| numbers[(at + 1) % COUNT];
    let step = |at: usize| following(at).wrapping_sub(numbers[at]) & mask;
    for bit in 0..bits {
        // Each bit is one in half of the numbers.
        assert_half(&format!("{what}, bit {bit}"), count(bit, &|at| numbers[at]));
        // It does not depend on the same bit of the number before.
        let changed = |at| numbers[at] ^ following(at);
        assert_half(
            &format!("{what}, changes of bit {bit}"),
            count(bit, &changed),
        );
        // Nor do the steps between the numbers have a pattern.
        assert_half(&format!("{what}, bit {bit} of steps"), count(bit, &step));
    }
    // Of 1,000 random steps of 17 bits, about four are equal to another one.
    let steps: HashSet<u32> = (0..COUNT).map(step).collect();
    assert!(steps.len() > COUNT - 50, "{what}: {} steps", steps.len());
    // Nor are many of the numbers the same.
    let distinct: HashSet<u32> = numbers.iter().map(|number| number & mask).collect();
    assert!(distinct.len() > COUNT - 50, "{what}: {}", distinct.len());
}

fn device() -> Context {
    let device = Device::with_address(std::net::Ipv4Addr::LOCALHOST.into());
    device.expect("loopback").open().expect("opened")
}

/// Attacker: a peer that has seen many keys, QPNs and PSNs of a process, and wants the next ones.
///
/// All 32 bits of keys, 24 bits of PSNs and 17 bits of QPNs are random. The other seven bits of a
/// QPN are the number of the process's share of the device, which counts up from 0.
#[test]
fn keys_and_numbers_have_no_pattern() {
    let context = device();
    let pd = context.alloc_pd();
    let cq = context.create_cq(1);
    let regions: Vec<_> = (0..COUNT)
        .map(|_| pd.allocate(1, Access::ANY_MEMORY).expect("memory"))
        .collect();
    let keys: Vec<u32> = regions.iter().map(MemoryRegion::rkey).collect();
    assert_unpredictable("keys", &keys, 32);
    let unique: HashSet<u32> = keys.into_iter().collect();
    assert_eq!(unique.len(), COUNT);

    let options = QpOptions {
        send_depth: 1,
        recv_depth: 1,
        ..QpOptions::default()
    };
    let qps: Vec<_> = (0..COUNT)
        .map(|_| pd.create_qp(&cq, &cq, &options).expect("a QP"))
        .collect();
    let qpns: Vec<u32> = qps.iter().map(|qp| qp.qpn().get()).collect();
    assert_unpredictable("QPNs", &qpns, 17);
    let shares: HashSet<u32> = qpns.iter().map(|qpn| qpn >> 17).collect();
    assert_eq!(shares.len(), 1, "one share for each process");
    let endpoints = qps.iter().map(|qp| qp.endpoint(0).expect("a GID"));
    let psns: Vec<u32> = endpoints.map(|endpoint| endpoint.psn.get()).collect();
    assert_unpredictable("PSNs", &psns, 24);
}

/// Attacker: one that runs the same program itself, and compares. Each time that a device is
/// opened, its numbers are others.
#[test]
fn each_device_has_keys_of_its_own() {
    const OPENED: usize = 50;
    let keys: HashSet<[u32; 2]> = (0..OPENED)
        .map(|_| {
            let pd = device().alloc_pd();
            [(); 2].map(|()| pd.allocate(1, Access::ANY_MEMORY).expect("memory").rkey())
        })
        .collect();
    assert_eq!(keys.len(), OPENED);
}
