//! Counts what a program and all its children do with their devices, for `roce run --summary`.
//!
//! `roce run` creates shared memory and puts its path in `ROCE_TALLY`. Each process that opens a
//! device maps the memory and counts there while it runs. So the counts are right no matter how the
//! process ends, and no process needs to be queried.

mod memory;
mod message;

use memory::{Memory, SLOTS};
use roce_stack::{Counters, Stat};
use roce_trust::environment;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The variable that has the path of the shared memory.
const VARIABLE: &str = "ROCE_TALLY";

/// The work of a program and all its children so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of processes that opened a device.
    pub processes: u64,
    /// The number of times that a device was opened.
    pub devices_opened: u64,
    /// How often a process has listed the devices and found some.
    pub lists: u64,
    /// The number of QPs that were made ready to receive.
    pub qps: u64,
    /// The number of those that have one peer (RC, UC, XRC).
    pub connections: u64,
    /// Payload bytes sent, retransmissions included.
    pub tx_bytes: u64,
    /// Payload bytes received.
    pub rx_bytes: u64,
    /// Packets sent and received by QPs. Management datagrams, which make and end connections, do
    /// not count.
    pub packets: u64,
    /// Those of them that took lanes.
    pub lane_packets: u64,
}

impl Totals {
    /// Whether the program has carried out operations. Some, such as atomics, have no payload.
    pub fn has_traffic(&self) -> bool {
        self.packets > 0
    }

    /// Whether the program has listed devices and opened none.
    pub fn only_lists(&self) -> bool {
        self.devices_opened == 0 && self.lists > 0
    }
}

/// The shared memory, in the process that created it.
#[derive(Debug)]
pub struct Tally {
    memory: Memory,
    file: OwnedFd,
}

impl Tally {
    /// Creates the memory. It lives as long as this value or a process that has mapped or inherited it.
    ///
    /// # Errors
    /// If the system has no memory or no descriptor left.
    pub fn new() -> io::Result<Self> {
        let (memory, file) = Memory::new()?;
        Ok(Self { memory, file })
    }

    /// The environment variable that gives the processes of the program the memory's path. They find the memory
    /// as long as they or this process have the descriptor open.
    pub fn variable(&self) -> (&'static str, OsString) {
        let descriptor = self.file.as_raw_fd();
        let path = format!("/proc/{}/fd/{descriptor}", std::process::id());
        (VARIABLE, path.into())
    }

    /// The totals so far.
    pub fn totals(&self) -> Totals {
        totals(&self.memory)
    }
}

fn totals(memory: &Memory) -> Totals {
    let page = memory.page();
    let mut traffic = [0_u64; 4];
    let open = page.slots.iter().map(|slot| &slot.traffic);
    // The closed devices come first: a device that closes meanwhile may be missing, but does not
    // count twice.
    for counts in [&page.traffic].into_iter().chain(open) {
        for (total, count) in traffic.iter_mut().zip(counts) {
            *total = total.wrapping_add(count.load(Relaxed));
        }
    }
    let [tx_bytes, rx_bytes, packets, lane_packets] = traffic;
    Totals {
        processes: page.processes.load(Relaxed),
        devices_opened: page.devices_opened.load(Relaxed),
        lists: page.lists.load(Relaxed),
        qps: page.qps.load(Relaxed),
        connections: page.connections.load(Relaxed),
        tx_bytes,
        rx_bytes,
        packets,
        lane_packets,
    }
}

/// The totals of this process's program and all its children, if `roce run` became this program by
/// `exec` and counts for it.
pub fn totals_of_this_program() -> Option<Totals> {
    let path = environment::variable(VARIABLE)?.into_string().ok()?;
    let own = format!("/proc/{}/fd/", std::process::id());
    if !path.starts_with(&own) {
        return None;
    }
    Some(totals(shared()?))
}

/// The memory that the environment names. It is mapped once.
fn shared() -> Option<&'static Memory> {
    static SHARED: OnceLock<Option<Memory>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| {
        let path = environment::variable(VARIABLE)?;
        Memory::open(&path).ok()
    });
    shared.as_ref()
}

/// Counts for one open device, until it is closed.
#[derive(Debug)]
pub struct DeviceCount {
    memory: &'static Memory,
    /// The slot for this device's bytes while it is open; `None` if all slots are in use.
    slot: Option<usize>,
    process: u32,
    /// The payload bytes sent and received, the number of packets, and the number of packets that took lanes.
    traffic: [u64; 4],
}

/// Counts that this process has listed devices, if the environment asks for it.
pub fn note_list() {
    if let Some(memory) = shared() {
        memory.page().lists.fetch_add(1, Relaxed);
    }
}

/// Starts to count for a device that is opened now, if the environment asks for it.
pub fn open() -> Option<Box<DeviceCount>> {
    // The process that was counted last. A forked child counts as a process of its own.
    static COUNTED: AtomicU32 = AtomicU32::new(0);
    let memory = shared()?;
    let page = memory.page();
    let process = std::process::id();
    if COUNTED.swap(process, Relaxed) != process {
        page.processes.fetch_add(1, Relaxed);
    }
    page.devices_opened.fetch_add(1, Relaxed);
    let is_free = |index: &usize| {
        let owner = &page.slots[*index].owner;
        owner.compare_exchange(0, process, Relaxed, Relaxed).is_ok()
    };
    Some(Box::new(DeviceCount {
        memory,
        slot: (0..SLOTS).find(is_free),
        process,
        traffic: [0; 4],
    }))
}

impl DeviceCount {
    /// Records what the NIC has sent and received, from its counters, and how many of the packets took
    /// lanes.
    pub fn note(&mut self, counters: &Counters, lane_packets: u64) {
        let all = counters.stat(Stat::TxPackets) + counters.stat(Stat::RxPackets);
        let mads = counters.stat(Stat::TxMads) + counters.stat(Stat::RxMads);
        let bytes = (counters.stat(Stat::TxBytes), counters.stat(Stat::RxBytes));
        self.note_traffic([all.saturating_sub(mads), lane_packets], bytes);
    }

    fn note_traffic(
        &mut self,
        [packets, lane_packets]: [u64; 2],
        (tx_bytes, rx_bytes): (u64, u64),
    ) {
        self.traffic = [tx_bytes, rx_bytes, packets, lane_packets];
        if let Some(slot) = self.slot {
            let shared = &self.memory.page().slots[slot].traffic;
            for (shared, count) in shared.iter().zip(self.traffic) {
                shared.store(count, Relaxed);
            }
        }
    }

    /// Counts a QP that is now ready to receive.
    pub fn note_qp(&self, has_one_peer: bool) {
        let page = self.memory.page();
        page.qps.fetch_add(1, Relaxed);
        page.connections.fetch_add(u64::from(has_one_peer), Relaxed);
    }
}

impl Drop for DeviceCount {
    fn drop(&mut self) {
        // A forked child has a copy of its parent's count.
        if self.process != std::process::id() {
            return;
        }
        let page = self.memory.page();
        for (total, count) in page.traffic.iter().zip(self.traffic) {
            total.fetch_add(count, Relaxed);
        }
        if let Some(slot) = self.slot {
            let slot = &page.slots[slot];
            slot.traffic
                .iter()
                .for_each(|count| count.store(0, Relaxed));
            slot.owner.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
