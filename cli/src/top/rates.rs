//! Rates, computed from counters at two moments.

use roce_verbs::observation::{DeviceSnapshot, Processes, QpSnapshot, Snapshot};
use serde::Serialize;
use std::collections::BTreeMap;

/// The activity of all processes between two moments.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Rates {
    /// Open devices, those with the most traffic first.
    pub(crate) devices: Vec<DeviceRates>,
    /// QPs, those with the most traffic first.
    pub(crate) qps: Vec<QpRates>,
    /// Packets dropped, the currently most frequent reasons first.
    pub(crate) drops: Vec<Drops>,
    /// The number of processes that answered.
    pub(crate) processes: usize,
    /// The number of processes of other users.
    pub(crate) forbidden: usize,
    /// The number of processes that did not answer.
    pub(crate) silent: usize,
    /// QPs left out of the processes' answers, because there are too many.
    pub(crate) qps_left_out: u64,
}

/// Identifies an open device of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct DeviceId {
    pub(crate) pid: u32,
    pub(crate) context: u64,
    pub(crate) device: String,
}

/// Bits of payload and packets a second, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Flow {
    pub(crate) tx_bits_per_second: f64,
    pub(crate) tx_packets_per_second: f64,
    pub(crate) rx_bits_per_second: f64,
    pub(crate) rx_packets_per_second: f64,
    pub(crate) retransmitted_per_second: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct DeviceRates {
    #[serde(flatten)]
    pub(crate) device_id: DeviceId,
    pub(crate) command: String,
    pub(crate) datapath: String,
    /// The way that most packets have taken: `lane`, or the datapath.
    pub(crate) via: String,
    pub(crate) congestion_control: String,
    pub(crate) failure: Option<String>,
    pub(crate) qps: u64,
    #[serde(flatten)]
    pub(crate) flow: Flow,
    pub(crate) dropped_per_second: f64,
    pub(crate) marked_per_second: f64,
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) port: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct QpRates {
    #[serde(flatten)]
    pub(crate) device_id: DeviceId,
    #[serde(flatten)]
    pub(crate) flow: Flow,
    pub(crate) cnps_received_per_second: f64,
    /// The QP's current state.
    pub(crate) now: QpSnapshot,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Drops {
    #[serde(flatten)]
    pub(crate) device_id: DeviceId,
    pub(crate) reason: String,
    pub(crate) per_second: f64,
    pub(crate) packets: u64,
}

impl Flow {
    fn traffic(&self) -> f64 {
        self.tx_bits_per_second + self.rx_bits_per_second
    }

    /// Orders by bytes, or by packets if there are none.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let packets = |flow: &Self| flow.tx_packets_per_second + flow.rx_packets_per_second;
        let by_packets = packets(other).total_cmp(&packets(self));
        other.traffic().total_cmp(&self.traffic()).then(by_packets)
    }
}

/// The rates from `before` to `now`; zero for what is new.
pub(crate) fn between(before: &Processes, now: &Processes) -> Rates {
    let mut rates = Rates {
        processes: now.snapshots.len(),
        forbidden: now.forbidden,
        silent: now.silent,
        ..Rates::default()
    };
    for process in &now.snapshots {
        let same = |old: &&Snapshot| old.pid == process.pid && old.command == process.command;
        let old = before.snapshots.iter().find(same);
        let seconds = old.map_or(0.0, |old| process.seconds - old.seconds);
        for device in &process.devices {
            let same = |old: &&DeviceSnapshot| old.context == device.context;
            let old = old.and_then(|old| old.devices.iter().find(same));
            rates.add(process, device, &Span { old, seconds });
        }
    }
    rates.devices.sort_by(|a, b| {
        let by_flow = a.flow.order(&b.flow);
        by_flow.then_with(|| a.device_id.cmp(&b.device_id))
    });
    rates.qps.sort_by(|a, b| {
        let by_flow = a.flow.order(&b.flow);
        by_flow.then_with(|| (&a.device_id, a.now.qpn).cmp(&(&b.device_id, b.now.qpn)))
    });
    rates.drops.sort_by(|a, b| {
        let by_rate = b.per_second.total_cmp(&a.per_second);
        by_rate
            .then(b.packets.cmp(&a.packets))
            .then_with(|| a.device_id.cmp(&b.device_id))
    });
    rates
}

/// The earlier state of the device, and its age.
struct Span<'a> {
    old: Option<&'a DeviceSnapshot>,
    seconds: f64,
}

impl Span<'_> {
    /// The rate per second. Counters only increase: a smaller one belongs to another object.
    fn rate(&self, old: Option<u64>, now: u64) -> f64 {
        match old.and_then(|old| now.checked_sub(old)) {
            Some(more) if self.seconds > 0.0 => more as f64 / self.seconds,
            _ => 0.0,
        }
    }

    fn counted(&self, now: &DeviceSnapshot, name: &str) -> f64 {
        let of = |device: &DeviceSnapshot| device.counters.get(name).copied().unwrap_or(0);
        self.rate(self.old.map(of), of(now))
    }
}

/// The way that most packets have taken in this time, or since the device was opened if there were none.
fn via<'a>(device: &'a DeviceSnapshot, span: &Span<'_>) -> &'a str {
    let count = |names: [&str; 2], of: &DeviceSnapshot| {
        let counts = names.map(|name| of.port.get(name).copied().unwrap_or(0));
        counts[0].saturating_add(counts[1])
    };
    let all = |of: &_| count(["tx_packets", "rx_packets"], of);
    let by_lane = |of: &_| count(["tx_lane_packets", "rx_lane_packets"], of);
    let since = |counted: &dyn Fn(&DeviceSnapshot) -> u64| {
        let old = span.old.map_or(0, counted);
        counted(device).saturating_sub(old)
    };
    let (all, by_lane) = match since(&all) {
        0 => (all(device), by_lane(device)),
        recent => (recent, since(&by_lane)),
    };
    match by_lane > all / 2 {
        true => "lane",
        false => &device.datapath,
    }
}

impl Rates {
    fn add(&mut self, process: &Snapshot, device: &DeviceSnapshot, span: &Span<'_>) {
        let device_id = DeviceId {
            pid: process.pid,
            context: device.context,
            device: device.device.clone(),
        };
        let before = self.drops.len();
        self.add_drops(&device_id, device, span);
        let dropped = self.drops[before..]
            .iter()
            .map(|drops| drops.per_second)
            .sum();
        // The numbers are another process's: none of them overflows.
        self.qps_left_out = self.qps_left_out.saturating_add(device.qps_left_out);
        self.add_qps(&device_id, device, span);
        let rate = |name| span.counted(device, name);
        self.devices.push(DeviceRates {
            command: process.command.clone(),
            datapath: device.datapath.clone(),
            via: via(device, span).to_owned(),
            congestion_control: device.congestion_control.clone(),
            failure: device.failure.clone(),
            qps: device.qps_left_out.saturating_add(device.qps.len() as u64),
            flow: Flow {
                tx_bits_per_second: 8.0 * rate("tx_bytes"),
                tx_packets_per_second: rate("tx_packets"),
                rx_bits_per_second: 8.0 * rate("rx_bytes"),
                rx_packets_per_second: rate("rx_packets"),
                retransmitted_per_second: rate("retransmitted"),
            },
            dropped_per_second: dropped,
            marked_per_second: rate("ecn_marked"),
            counters: device.counters.clone(),
            port: device.port.clone(),
            device_id,
        });
    }

    /// Adds the NIC's drops, and the packets that injected faults lost before they reached the NIC.
    fn add_drops(&mut self, device_id: &DeviceId, device: &DeviceSnapshot, span: &Span<'_>) {
        let faults = device.port.iter().filter(|(name, _)| *name == "fault_lost");
        for (reason, packets) in device.drops.iter().chain(faults) {
            if *packets == 0 {
                continue;
            }
            let of = |old: &DeviceSnapshot| {
                let found = old.drops.get(reason).or_else(|| old.port.get(reason));
                found.copied().unwrap_or(0)
            };
            self.drops.push(Drops {
                device_id: device_id.clone(),
                reason: reason.clone(),
                per_second: span.rate(span.old.map(of), *packets),
                packets: *packets,
            });
        }
    }

    fn add_qps(&mut self, device_id: &DeviceId, device: &DeviceSnapshot, span: &Span<'_>) {
        let old = span.old.map(|old| old.qps.as_slice()).unwrap_or_default();
        let old: BTreeMap<u32, &QpSnapshot> = old.iter().map(|qp| (qp.qpn, qp)).collect();
        self.qps.extend(device.qps.iter().map(|qp| {
            let old = old.get(&qp.qpn);
            let rate = |of: fn(&QpSnapshot) -> u64| span.rate(old.map(|old| of(old)), of(qp));
            QpRates {
                device_id: device_id.clone(),
                flow: Flow {
                    tx_bits_per_second: 8.0 * rate(|qp| qp.tx_bytes),
                    tx_packets_per_second: rate(|qp| qp.tx_packets),
                    rx_bits_per_second: 8.0 * rate(|qp| qp.rx_bytes),
                    rx_packets_per_second: rate(|qp| qp.rx_packets),
                    retransmitted_per_second: rate(|qp| qp.retransmitted),
                },
                cnps_received_per_second: rate(|qp| qp.cnps_received),
                now: qp.clone(),
            }
        }));
    }
}
