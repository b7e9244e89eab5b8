//! The layout of the screen, for 80 columns and more; designed for 80x24.
//!
//! ```text
//! title
//! devices, at most six if there are many QPs
//! why some of them use no lane
//!
//! QPs: what room there is
//!
//! drops by reason, at most five
//! ```

use super::format::{plain, short, time};
use super::rates::{DeviceId, DeviceRates, Drops, QpRates, Rates};
use super::screen::{Line, Screen, Style};
use crate::lanes::refusals;
use crate::words::counted;
use roce_verbs::why::Cause;
use std::collections::BTreeMap;

/// The smallest supported width, in columns.
pub(crate) const COLUMNS: usize = 80;
pub(crate) const ROWS: usize = 24;

/// The rows that devices and drops may have, without their headings, even if QPs need the room.
const DEVICES: usize = 6;
const DROPS: usize = 5;

/// The most rows for notes about devices.
const NOTES: usize = 2;

/// The parameters of the view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) columns: usize,
    /// The number of rows; `None` for as many as there are lines.
    pub(crate) rows: Option<usize>,
    /// The number of QPs to skip when scrolled.
    pub(crate) skip: usize,
    /// The interval in seconds.
    pub(crate) interval: f64,
    /// Whether a user watches interactively.
    pub(crate) live: bool,
}

pub(crate) fn draw(rates: &Rates, view: &View) -> Screen {
    let mut screen = Screen::new(view.columns);
    screen.push(title(rates, view));
    if rates.devices.is_empty() {
        draw_no_devices(&mut screen, rates);
        return screen;
    }
    let numbers = number_devices(rates);
    let (devices, qps, drops) = row_budgets(rates, view.rows);
    draw_devices(&mut screen, rates, &numbers, devices);
    for note in notes(rates).into_iter().take(note_rows(rates, view.rows)) {
        screen.push(Line::new(Style::Plain, note));
    }
    screen.push(Line::default());
    draw_qps(&mut screen, rates, &numbers, view.skip, qps);
    if drops > 0 {
        screen.push(Line::default());
        draw_drops(&mut screen, rates, &numbers, drops);
    }
    screen
}

fn title(rates: &Rates, view: &View) -> Line {
    let devices = rates.devices.iter();
    let qps = devices.fold(0_u64, |sum, device| sum.saturating_add(device.qps));
    let mut text = format!(
        "roce top  {} processes  {} devices  {qps} QPs  every {} s",
        rates.processes,
        rates.devices.len(),
        view.interval
    );
    if rates.forbidden > 0 {
        text += &format!("  {} of others", rates.forbidden);
    }
    if rates.silent > 0 {
        text += &format!("  {} silent", rates.silent);
    }
    if view.live {
        text += "  q: quit";
    }
    Line::new(Style::Title, text)
}

fn draw_no_devices(screen: &mut Screen, rates: &Rates) {
    screen.push(Line::default());
    let text = "No process of yours has a device open in this network namespace.";
    screen.push(Line::new(Style::Plain, text));
    if rates.forbidden > 0 {
        let text = format!(
            "{} of other users have: root can see them.",
            rates.forbidden
        );
        screen.push(Line::new(Style::Plain, text));
    }
}

/// Numbers the devices; QPs and drops refer to these numbers. They do not depend on the order by
/// traffic.
fn number_devices(rates: &Rates) -> BTreeMap<&DeviceId, usize> {
    let mut places: Vec<_> = rates
        .devices
        .iter()
        .map(|device| &device.device_id)
        .collect();
    places.sort();
    places.into_iter().zip(1..).collect()
}

/// The numbers of rows for devices, QPs and drops, without their headings.
fn row_budgets(rates: &Rates, rows: Option<usize>) -> (usize, usize, usize) {
    let (devices, qps, drops) = (rates.devices.len(), rates.qps.len(), rates.drops.len());
    let Some(rows) = rows else {
        return (devices, qps, drops);
    };
    // The title, two headings, and an empty line.
    let left = rows.saturating_sub(4 + note_rows(rates, Some(rows)));
    // At least four rows are for devices and QPs.
    let drops = drops.min(DROPS.max(left / 5));
    let drops = drops.min(left.saturating_sub(2 + 4));
    let left = left.saturating_sub(if drops > 0 { drops + 2 } else { 0 });
    // Devices get the room that QPs do not need.
    let most = DEVICES.max(left / 3).max(left.saturating_sub(qps));
    let devices = devices.min(most).min(left);
    (devices, left - devices, drops)
}

/// The number of rows for notes.
fn note_rows(rates: &Rates, rows: Option<usize>) -> usize {
    let most = match rows {
        None => usize::MAX,
        Some(ROWS..) => NOTES,
        Some(_) => 0,
    };
    notes(rates).len().min(most)
}

/// Why packets on this host go through sockets, where they could take a lane.
fn notes(rates: &Rates) -> Vec<String> {
    let numbers = number_devices(rates);
    let of_each = rates.devices.iter().flat_map(|device| {
        let number = numbers.get(&device.device_id).copied().unwrap_or(0);
        let refusals = refusals(|name| device.port.get(name).copied());
        refusals.into_iter().map(move |(why, devices)| {
            let devices = counted(devices, "device");
            let why = why.explain();
            format!("{number:>2} no lane to {devices} here: {why}")
        })
    });
    of_each.collect()
}

/// The most QPs that can be skipped on a terminal with `rows` rows.
pub(crate) fn max_skip(rates: &Rates, rows: usize) -> usize {
    let (_, room, _) = row_budgets(rates, Some(rows));
    rates.qps.len().saturating_sub(room.max(1))
}

fn draw_devices(
    screen: &mut Screen,
    rates: &Rates,
    numbers: &BTreeMap<&DeviceId, usize>,
    room: usize,
) {
    let wide = 9 + spare(screen.columns);
    screen.push(Line::new(
        Style::Head,
        format!(
            " #     PID COMMAND  {:<wide$} VIA    QPS TX b/s TX p/s RX b/s RX p/s  RETX  DROP",
            "DEVICE"
        ),
    ));
    for device in visible(&rates.devices, 0, room) {
        screen.push(device_line(device, numbers, wide));
    }
}

/// The elements that fit. The title has the total.
fn visible<T>(all: &[T], skip: usize, room: usize) -> &[T] {
    let skip = skip.min(all.len().saturating_sub(room.max(1)));
    let end = all.len().min(skip + room);
    &all[skip..end]
}

fn device_line(device: &DeviceRates, numbers: &BTreeMap<&DeviceId, usize>, wide: usize) -> Line {
    let flow = &device.flow;
    let mut line = Line::new(
        Style::Plain,
        format!(
            "{:>2} {:>7} {:<8} {:<wide$} {:<4} {:>5} {:>6} {:>6} {:>6} {:>6} ",
            numbers.get(&device.device_id).copied().unwrap_or(0),
            device.device_id.pid,
            plain(&device.command, 8),
            plain(&device.device_id.device, wide),
            plain(&device.via, 4),
            short(device.qps as f64),
            short(flow.tx_bits_per_second),
            short(flow.tx_packets_per_second),
            short(flow.rx_bits_per_second),
            short(flow.rx_packets_per_second),
        ),
    );
    push_highlighted(&mut line, flow.retransmitted_per_second, 5);
    line.push(Style::Plain, " ");
    push_highlighted(&mut line, device.dropped_per_second, 5);
    if let Some(failure) = &device.failure {
        line.push(Style::Bad, format!(" {}", plain(failure, 200)));
    }
    line
}

/// Adds a number that is highlighted unless it is 0.
fn push_highlighted(line: &mut Line, value: f64, columns: usize) {
    let text = short(value);
    let style = if text == "0" { Style::Dim } else { Style::Bad };
    line.push(style, format!("{text:>columns$}"));
}

fn draw_qps(
    screen: &mut Screen,
    rates: &Rates,
    numbers: &BTreeMap<&DeviceId, usize>,
    skip: usize,
    room: usize,
) {
    let columns = screen.columns;
    let peer = 15 + spare(columns);
    screen.push(Line::new(
        Style::Head,
        format!(
            " #    QPN SV STATE {:<peer$} TX b/s RX b/s LIMIT ALPHA    RTT  RETX  CNPS",
            "PEER"
        ),
    ));
    for qp in visible(&rates.qps, skip, room) {
        screen.push(qp_line(qp, numbers, peer, columns));
    }
}

/// The width beyond [`COLUMNS`], which the columns of names and addresses share.
fn spare(columns: usize) -> usize {
    columns.saturating_sub(COLUMNS).min(24)
}

fn qp_line(
    qp: &QpRates,
    numbers: &BTreeMap<&DeviceId, usize>,
    peer: usize,
    columns: usize,
) -> Line {
    let now = &qp.now;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let mut line = Line::new(
        Style::Plain,
        format!(
            "{:>2} {:06x} {:<2} {:<5} {:<peer$} ",
            numbers.get(&qp.device_id).copied().unwrap_or(0),
            now.qpn,
            service(&now.service),
            plain(&now.state, 5),
            plain(now.peer.as_deref().unwrap_or("-"), peer),
        ),
    );
    // In the error state, there are no rates. `roce why` explains the code. An application that moved
    // the QP there knows why.
    let code = now.why_code.unwrap_or(0);
    if let Some(why) = &now.why
        && now.state == "ERR"
        && code != Cause::Application.code()
    {
        let room = columns.saturating_sub(line.len());
        line.push(Style::Bad, plain(&format!("{code:#x} {why}"), room));
        return line;
    }
    line.push(
        Style::Plain,
        format!(
            "{:>6} {:>6} {:>5} {:>5} {:>6} ",
            short(qp.flow.tx_bits_per_second),
            short(qp.flow.rx_bits_per_second),
            or_dash(now.rate_bits_per_second.map(short)),
            or_dash(now.alpha.map(|alpha| format!("{alpha:.3}"))),
            or_dash(now.rtt_seconds.map(time)),
        ),
    );
    push_highlighted(&mut line, qp.flow.retransmitted_per_second, 5);
    line.push(Style::Plain, " ");
    push_highlighted(&mut line, qp.cnps_received_per_second, 5);
    line
}

fn service(name: &str) -> &'static str {
    match name {
        "RC" => "RC",
        "UC" => "UC",
        "UD" => "UD",
        "XRC initiator" => "XI",
        "XRC target" => "XT",
        _ => "?",
    }
}

fn draw_drops(
    screen: &mut Screen,
    rates: &Rates,
    numbers: &BTreeMap<&DeviceId, usize>,
    room: usize,
) {
    screen.push(Line::new(
        Style::Head,
        format!(
            " # {:<24} {:>7} {:>8}",
            "DROPPED BECAUSE", "DROP/s", "IN ALL"
        ),
    ));
    for drops in visible(&rates.drops, 0, room) {
        screen.push(drops_line(drops, numbers));
    }
}

fn drops_line(drops: &Drops, numbers: &BTreeMap<&DeviceId, usize>) -> Line {
    let number = numbers.get(&drops.device_id).copied().unwrap_or(0);
    let reason = plain(&drops.reason, 24);
    let mut line = Line::new(Style::Plain, format!("{number:>2} {reason:<24} "));
    push_highlighted(&mut line, drops.per_second, 7);
    line.push(Style::Plain, format!(" {:>8}", short(drops.packets as f64)));
    line
}

#[cfg(test)]
mod tests;
