//! The view of the network while programs run: for `roce fabric top`, for a report, and for a
//! capture.

use super::arguments::WatchArgs;
use super::capture::FrameCapture;
use super::names::Names;
use super::report;
use super::top::{Snapshot, draw};
use crate::error::Error;
use roce_capture::Capture;
use roce_fabric::Observer;
use roce_sim::fabric::{Fabric, Port, SeenPackets};
use roce_sim::network::Network;
use roce_sim::record::{Limits, Recorder};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(100);

/// The looks that `top` compares: the first and the last of a second.
const SNAPSHOTS: usize = 11;

/// The width of the table of `top`.
const COLUMNS: usize = 120;

/// The events that `top` shows.
const EVENTS: usize = 5;

/// Watches the ports.
pub(super) struct Watching {
    names: Names,
    recorder: Option<Recorder>,
    capture: Option<FrameCapture>,
    seen: SeenPackets,
    snapshots: VecDeque<Snapshot>,
    events: Vec<(Duration, String)>,
}

impl Watching {
    /// Begins to watch.
    pub(super) fn new(
        args: &WatchArgs,
        network: &Network,
        fabric: &mut Fabric,
    ) -> Result<Self, String> {
        let names = Names::of(network);
        let recorder = args.report.is_some();
        let recorder = recorder.then(|| Recorder::new(fabric, Limits::default()));
        let capture = match &args.capture {
            None => None,
            Some(setting) => Some(
                Capture::from_setting(setting)
                    .map_err(|error| format!("--capture is {setting:?}: {error}"))?,
            ),
        };
        let capture = capture.map(|capture| {
            let ports = chosen(args, network, fabric, &names)?;
            let now = SystemTime::now();
            Ok::<_, String>(FrameCapture::new(capture, fabric, &ports, &names, now))
        });
        Ok(Self {
            recorder,
            capture: capture.transpose()?,
            seen: SeenPackets::default(),
            snapshots: VecDeque::from([Snapshot::of(fabric)]),
            events: Vec::new(),
            names,
        })
    }

    /// Writes the report, if there is to be one.
    pub(super) fn report(&self, folder: Option<&Path>, title: &str) -> Result<(), Error> {
        match (folder, &self.recorder) {
            (Some(folder), Some(recorder)) => {
                report::write(folder, title, recorder, &self.names, &self.events)
            }
            _ => Ok(()),
        }
    }
}

/// The ports whose frames are captured: those of the links that are named, or all.
fn chosen(
    args: &WatchArgs,
    network: &Network,
    fabric: &Fabric,
    names: &Names,
) -> Result<Vec<Port>, String> {
    if args.capture_link.is_empty() {
        return Ok(fabric.ports().collect());
    }
    let mut ports = Vec::new();
    for wanted in &args.capture_link {
        let is_meant = |port: &Port| {
            let [from, to] = [port.from, port.to].map(|node| names.node(node));
            *wanted == format!("{from}->{to}")
                || *wanted == format!("{from}-{to}")
                || *wanted == format!("{to}-{from}")
        };
        let before = ports.len();
        ports.extend(fabric.ports().filter(is_meant));
        if ports.len() == before {
            let example = network.link_name(roce_sim::fabric::CableId(0));
            return Err(format!(
                "--capture-link is {wanted:?}, but should be a link such as {example}, or one \
                 direction of it with ->"
            ));
        }
    }
    Ok(ports)
}

impl Observer for Watching {
    fn every(&self) -> Duration {
        EVERY
    }

    fn step(&mut self, fabric: &mut Fabric) {
        if self.recorder.is_some() || self.capture.is_some() {
            fabric.take_seen(&mut self.seen);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.add(&self.seen);
            recorder.step(fabric);
        }
        if let Some(capture) = &self.capture {
            capture.add(&self.seen);
        }
        if self.snapshots.len() == SNAPSHOTS {
            self.snapshots.pop_front();
        }
        self.snapshots.push_back(Snapshot::of(fabric));
    }

    fn changed(&mut self, fabric: &Fabric, what: &str) {
        let at = Duration::from_nanos(fabric.now().as_nanos());
        super::report(format_args!("{:.3} s: {what}", at.as_secs_f64()));
        self.events.push((at, what.to_owned()));
    }

    fn state(&mut self, fabric: &mut Fabric) -> String {
        let now = Snapshot::of(fabric);
        let before = self.snapshots.front().unwrap_or(&now);
        let mut text = draw(before, &now, &self.names, COLUMNS, None).text();
        if !self.events.is_empty() {
            text.push('\n');
        }
        let skipped = self.events.len().saturating_sub(EVENTS);
        for (at, what) in &self.events[skipped..] {
            let _ = writeln!(text, "{:.3} s: {what}", at.as_secs_f64());
        }
        text
    }
}
