//! Options for what watches a device.

use super::OpenOptions;
use roce_observe::capture::Capture;
use roce_observe::why::WhyOutput;
use std::net::SocketAddr;
use std::path::PathBuf;

impl OpenOptions {
    /// Captures what the device sends and receives, with comments on what became of each packet.
    /// Several devices may share a capture.
    pub fn capture(mut self, capture: Capture) -> Self {
        self.observing.capture = Some(capture);
        self
    }

    /// Serves metrics of all the process's devices at `at`, in Prometheus text format over HTTP,
    /// until the last device is closed. If the address is in use, the library reports that on
    /// stderr, and the device works without metrics.
    pub fn metrics(mut self, at: SocketAddr) -> Self {
        self.observing.metrics = Some(at);
        self
    }

    /// Writes why QPs fail, as they fail.
    pub fn why(mut self, output: WhyOutput) -> Self {
        self.observing.why = Some(output);
        self
    }

    /// Writes the last packets of each QP that fails to the end of this pcapng file, which other
    /// devices and processes may share. The last packet has the explanation as a comment. The device
    /// keeps its last 1024 packets in memory for that, and takes the slower path of a capture.
    pub fn why_packets(mut self, file: impl Into<PathBuf>) -> Self {
        self.observing.why_packets = Some(file.into());
        self
    }
}
