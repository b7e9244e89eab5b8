//! A snapshot in Prometheus text format, version 0.0.4.
//!
//! Names and units follow Prometheus: counters end with `_total`, quantities are in bytes and
//! seconds. All samples of a metric follow its `HELP` and `TYPE` lines.

mod device;
mod qp;

use super::snapshot::{DeviceSnapshot, Snapshot};
use std::fmt::Write;

pub(super) fn text(snapshot: &Snapshot) -> String {
    let mut text = Text::default();
    device::write(&mut text, &snapshot.devices);
    qp::write(&mut text, &snapshot.devices);
    text.0
}

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

#[derive(Default)]
struct Text(String);

impl Text {
    /// Writes a metric, with a sample for each of `samples`: its labels and its value.
    fn metric<'a>(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        samples: impl Iterator<Item = (Labels<'a>, f64)>,
    ) {
        let mut samples = samples.peekable();
        if samples.peek().is_none() {
            return;
        }
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let text = &mut self.0;
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            text.push_str(name);
            labels.write(text);
            let _ = writeln!(text, " {value}");
        }
    }
}

struct Labels<'a> {
    device: &'a DeviceSnapshot,
    more: Vec<(&'static str, String)>,
}

impl<'a> Labels<'a> {
    fn of(device: &'a DeviceSnapshot) -> Self {
        Self {
            device,
            more: Vec::new(),
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.more.push((name, value.into()));
        self
    }

    fn write(&self, text: &mut String) {
        // The number distinguishes several contexts of one device.
        let number = self.device.context.to_string();
        let own = [("device", &self.device.device), ("context", &number)];
        let more = self.more.iter().map(|(name, value)| (*name, value));
        let mut before = '{';
        for (name, value) in own.into_iter().chain(more) {
            let _ = write!(text, "{before}{name}=\"{}\"", escaped(value));
            before = ',';
        }
        text.push('}');
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n")
}

#[cfg(test)]
mod tests;
