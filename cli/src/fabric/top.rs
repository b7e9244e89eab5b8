//! A table of a network's hosts and ports, for a terminal of 80 columns and more.
//!
//! ```text
//! title
//! hosts: rates in both directions
//!
//! ports: those that drop first, then those that are used most
//! ```

use super::names::Names;
use crate::top::format::{per_second, plain, short, time};
use crate::top::screen::{Line, Screen, Style};
use roce_sim::fabric::{DropReason, Fabric, NodeId, Port};
use roce_sim::record::PortTotals;
use std::collections::BTreeMap;
use std::time::Duration;

/// The rows that hosts may have, without their heading, even if ports need the room.
const HOSTS: usize = 8;

/// The columns of a name.
const NAME: usize = 18;

/// All ports at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The fabric's time.
    time: Duration,
    ports: Vec<(Port, PortTotals)>,
}

impl Snapshot {
    /// The ports of a fabric now.
    pub(crate) fn of(fabric: &mut Fabric) -> Self {
        let now = fabric.now();
        let ports: Vec<Port> = fabric.ports().collect();
        let totals = |port: Port| {
            let meter = fabric.meter(port.cable, port.from)?;
            Some((port, PortTotals::of(meter, now)))
        };
        Self {
            time: Duration::from_nanos(now.as_nanos()),
            ports: ports.into_iter().filter_map(totals).collect(),
        }
    }
}

/// A port's activity between two snapshots. The longest queue is the current one.
struct Activity {
    port: Port,
    totals: PortTotals,
}

impl Activity {
    /// The share of the link's rate that was used, in percent.
    fn used(&self) -> f64 {
        self.totals.bits_per_sec() * 100.0 / self.port.link.bits_per_sec.max(1) as f64
    }

    fn per_second(&self, count: u64) -> f64 {
        per_second(count as f64, self.totals.time.as_secs_f64())
    }

    /// The most frequent reason for drops.
    fn reason(&self) -> Option<DropReason> {
        let reasons = self.totals.drops.reasons();
        reasons
            .max_by_key(|(_, packets)| *packets)
            .map(|(reason, _)| reason)
    }
}

/// Draws what happened between two snapshots of one fabric. `rows` is the number of rows; `None`
/// for as many as there are lines.
pub(crate) fn draw(
    before: &Snapshot,
    now: &Snapshot,
    names: &Names,
    columns: usize,
    rows: Option<usize>,
) -> Screen {
    let activity =
        |((port, totals), (_, earlier)): (&(Port, PortTotals), &(Port, PortTotals))| Activity {
            port: *port,
            totals: totals.since(earlier),
        };
    let mut ports: Vec<Activity> = now.ports.iter().zip(&before.ports).map(activity).collect();
    let hosts = hosts(&ports);
    let mut screen = Screen::new(columns);
    screen.push(title(before, now, hosts.len(), &ports));
    let left = rows.map(|rows| rows.saturating_sub(4));
    let host_rows = left.map_or(hosts.len(), |left| {
        let room = HOSTS.max(left.saturating_sub(ports.len()));
        hosts.len().min(room).min(left)
    });
    let port_rows = left.map_or(ports.len(), |left| left - host_rows);
    draw_hosts(&mut screen, &hosts, names, host_rows);
    screen.push(Line::default());
    ports.sort_by(|a, b| {
        let by_drops = b.totals.drops.total().cmp(&a.totals.drops.total());
        by_drops.then(b.used().total_cmp(&a.used()))
    });
    draw_ports(&mut screen, &ports, names, port_rows);
    screen
}

fn title(before: &Snapshot, now: &Snapshot, hosts: usize, ports: &[Activity]) -> Line {
    let elapsed = now.time.saturating_sub(before.time);
    let text = format!(
        "roce fabric  {hosts} hosts  {} ports  up {}  last {}",
        ports.len(),
        time(now.time.as_secs_f64()),
        time(elapsed.as_secs_f64()),
    );
    Line::new(Style::Title, text)
}

#[derive(Clone, Copy, Default)]
struct HostRates {
    out_bits_per_sec: f64,
    in_bits_per_sec: f64,
    /// Packets lost on the way in: at the port to the host, on its link, or in its ring.
    dropped_per_sec: f64,
    /// The part of the time in which its port was paused.
    paused: f64,
}

fn hosts(ports: &[Activity]) -> BTreeMap<NodeId, HostRates> {
    let mut hosts: BTreeMap<NodeId, HostRates> = BTreeMap::new();
    for activity in ports {
        let Port { from, to, .. } = activity.port;
        if matches!(from, NodeId::Host(_)) {
            let host = hosts.entry(from).or_default();
            host.out_bits_per_sec += activity.totals.bits_per_sec();
            host.paused = host.paused.max(paused(activity));
        }
        if matches!(to, NodeId::Host(_)) {
            let host = hosts.entry(to).or_default();
            host.in_bits_per_sec += activity.totals.bits_per_sec();
            host.dropped_per_sec += activity.per_second(activity.totals.drops.total());
        }
    }
    hosts
}

fn paused(activity: &Activity) -> f64 {
    let PortTotals { paused, time, .. } = activity.totals;
    per_second(paused.as_secs_f64(), time.as_secs_f64())
}

/// A number that needs attention unless it is 0.
fn push_bad(line: &mut Line, value: f64, text: &str) {
    let style = if value > 0.0 {
        Style::Bad
    } else {
        Style::Plain
    };
    line.push(style, text);
}

fn draw_hosts(
    screen: &mut Screen,
    hosts: &BTreeMap<NodeId, HostRates>,
    names: &Names,
    rows: usize,
) {
    let head = format!(
        "{:<NAME$} {:>9} {:>9} {:>8} {:>9}",
        "HOST", "OUT b/s", "IN b/s", "PAUSED %", "DROPS/s"
    );
    screen.push(Line::new(Style::Head, head));
    let mut busiest: Vec<_> = hosts.iter().collect();
    if hosts.len() > rows {
        let sum = |rates: &HostRates| rates.out_bits_per_sec + rates.in_bits_per_sec;
        busiest.sort_by(|(_, a), (_, b)| sum(b).total_cmp(&sum(a)));
    }
    for (host, rates) in busiest.into_iter().take(rows) {
        let text = format!(
            "{:<NAME$} {:>9} {:>9} {:>8.1} ",
            plain(&names.node(*host), NAME),
            short(rates.out_bits_per_sec),
            short(rates.in_bits_per_sec),
            rates.paused * 100.0,
        );
        let mut line = Line::new(Style::Plain, text);
        let dropped = rates.dropped_per_sec;
        push_bad(&mut line, dropped, &format!("{:>9}", short(dropped)));
        screen.push(line);
    }
}

fn draw_ports(screen: &mut Screen, ports: &[Activity], names: &Names, rows: usize) {
    let head = format!(
        "{:<NAME$} {:>6} {:>6} {:>7} {:>7} {:>8} {:>7} REASON",
        "PORT", "b/s", "USED %", "QUEUE B", "MARKS/s", "PAUSES/s", "DROPS/s"
    );
    screen.push(Line::new(Style::Head, head));
    for activity in ports.iter().take(rows) {
        let totals = &activity.totals;
        let text = format!(
            "{:<NAME$} {:>6} {:>6.1} {:>7} {:>7} {:>8} ",
            plain(&names.port(&activity.port), NAME),
            short(totals.bits_per_sec()),
            activity.used(),
            short(totals.mean_queue()),
            short(activity.per_second(totals.marked)),
            short(activity.per_second(totals.pauses)),
        );
        let mut line = Line::new(Style::Plain, text);
        let dropped = activity.per_second(totals.drops.total());
        push_bad(&mut line, dropped, &format!("{:>7}", short(dropped)));
        if let Some(reason) = activity.reason() {
            line.push(Style::Bad, format!(" {reason}"));
        }
        screen.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Incast, names};
    use super::*;

    #[test]
    fn ports_that_drop_come_first() {
        let mut incast = Incast::new(4);
        let names = names(4);
        let before = Snapshot::of(&mut incast.fabric);
        let mut shots = Vec::new();
        incast.run(|fabric| shots.push(Snapshot::of(fabric)));
        let last = shots.last().expect("snapshots");
        let screen = draw(&before, last, &names, 80, Some(24));
        let text = screen.text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("roce fabric  5 hosts  10 ports  up "),
            "{text}"
        );
        assert!(lines[1].starts_with("HOST "), "{text}");
        assert!(
            lines[2].starts_with("h1 ") && lines[6].starts_with("h5 "),
            "{text}"
        );
        assert_eq!(lines[7], "");
        assert!(lines[8].starts_with("PORT "), "{text}");
        assert!(lines[9].starts_with("s1 to h5 "), "{text}");
        assert!(lines[9].ends_with(" queue full"), "{text}");
        assert_eq!(lines.len(), 9 + 10);

        // The receiver gets as much as its port sends.
        let column =
            |line: &str, number: usize| line.split_whitespace().nth(number).map(str::to_owned);
        assert_eq!(column(lines[6], 2), column(lines[9], 3));

        // Nothing happens between a snapshot and itself.
        let idle = draw(last, last, &names, 80, None).text();
        assert!(!idle.contains("queue full"), "{idle}");
        assert!(!idle.contains("NaN"), "{idle}");
    }

    #[test]
    fn the_table_fits_in_the_terminal() {
        let mut incast = Incast::new(16);
        let before = Snapshot::of(&mut incast.fabric);
        incast.run(|_| {});
        let now = Snapshot::of(&mut incast.fabric);
        for rows in [1, 4, 5, 12, 24, 60] {
            for columns in [20, 80, 120] {
                let screen = draw(&before, &now, &names(16), columns, Some(rows));
                assert!(screen.lines.len() <= rows.max(4), "{rows}");
                assert!(screen.lines.iter().all(|line| line.len() <= columns));
            }
        }
        let screen = draw(&before, &now, &names(16), 80, Some(24));
        assert_eq!(screen.lines.len(), 24);
        assert!(screen.text().contains("\nh17 "), "{}", screen.text());
    }
}
