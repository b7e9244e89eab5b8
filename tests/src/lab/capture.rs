//! Captures of both sides of the link, by tcpdump.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::network::{GUEST_INTERFACE, GUEST_IP4, GUEST_SIDE};
use super::{GuestChild, Lab, LabError};

/// Timeout for a capture to start, and to write all packets that it has seen.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between checks of the captured files. Each sends a packet.
const INTERVAL: Duration = Duration::from_millis(5);
/// Length of a pcap file's header, and of the header of each packet, in bytes.
const FILE_HEADER: usize = 24;
const PACKET_HEADER: usize = 16;

/// A running capture on both sides. Dropping it discards it.
#[derive(Debug)]
pub struct Capture<'lab> {
    lab: &'lab Lab,
    number: u32,
    outside: Outside,
    guest: GuestChild,
}

/// The captures of both sides, as pcap files with link type Ethernet. They are deleted with the
/// lab; to keep them, copy them to [`Lab::keep_directory`].
#[derive(Clone, Debug)]
pub struct CaptureFiles {
    /// The packets that passed the tap device.
    pub outside: PathBuf,
    /// The packets that passed the guest's interface.
    pub guest: PathBuf,
}

/// The tcpdump outside of the guest, killed when dropped.
#[derive(Debug)]
struct Outside(Child);

impl Drop for Outside {
    fn drop(&mut self) {
        // Both calls fail only if it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl<'lab> Capture<'lab> {
    pub(super) fn start(lab: &'lab Lab) -> Result<Self, LabError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let outside = start_outside(lab, &outside_file(lab, number))?;
        let mut guest = lab
            .guest(["tcpdump"])
            .args(&tcpdump_arguments(GUEST_INTERFACE, &guest_file(number)))
            .spawn()?;
        guest.wait_for_line("listening on", TIMEOUT)?;
        Ok(Self {
            lab,
            number,
            outside,
            guest,
        })
    }

    /// Ends the capture. The files contain all packets that were on the link before this call.
    pub fn stop(mut self) -> Result<CaptureFiles, LabError> {
        let files = CaptureFiles {
            outside: outside_file(self.lab, self.number),
            guest: self
                .lab
                .directory()
                .join(format!("capture-{}-guest.pcap", self.number)),
        };
        let marker = format!("roce-lab: end of capture {}", self.number);
        self.wait_for_marker(&marker, &files.outside)?;

        let outside_report = interrupt(&mut self.outside.0)?;
        self.guest.signal(libc::SIGINT)?;
        let guest_report = self.guest.wait(TIMEOUT)?.success()?.stderr_text();
        assert_whole("outside", &outside_report)?;
        assert_whole("in the guest", &guest_report)?;
        let guest = self.lab.guest_read_file(&guest_file(self.number))?;
        let outside =
            fs::read(&files.outside).map_err(|e| LabError::io("read", &files.outside, &e))?;
        for (path, bytes) in [(&files.outside, &outside), (&files.guest, &guest)] {
            fs::write(path, without_marker(bytes, marker.as_bytes()))
                .map_err(|e| LabError::io("write", path, &e))?;
        }
        Ok(files)
    }

    /// Sends marker packets to the guest until both files contain one: then they also contain all
    /// packets before it.
    fn wait_for_marker(&self, marker: &str, outside: &Path) -> Result<(), LabError> {
        let socket = self
            .lab
            .enter(|| UdpSocket::bind("0.0.0.0:0"))?
            .map_err(|e| LabError::new(format!("cannot open a socket: {e}")))?;
        let found = format!("grep -q '{marker}' {}", guest_file(self.number));
        let deadline = Instant::now() + TIMEOUT;
        loop {
            // The guest answers "port unreachable", which the next send reports.
            let _ = socket.send_to(marker.as_bytes(), (GUEST_IP4, 9));
            let content = fs::read(outside).map_err(|e| LabError::io("read", outside, &e))?;
            if contains(&content, marker.as_bytes())
                && self
                    .lab
                    .guest(["sh", "-c", &found])
                    .output(TIMEOUT)?
                    .success()
                    .is_ok()
            {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(LabError::new("the captures never saw their last packet"));
            }
            std::thread::sleep(INTERVAL);
        }
    }
}

fn outside_file(lab: &Lab, number: u32) -> PathBuf {
    lab.directory()
        .join(format!("capture-{number}-outside.pcap"))
}

fn guest_file(number: u32) -> String {
    format!("/tmp/capture-{number}.pcap")
}

/// Whole packets, written as they arrive; a buffer of 64 MiB, because the traffic may be faster
/// than this process.
///
/// Not `--immediate-mode`: with it, each packet takes a slot of the maximum size, and the buffer is
/// full after 500 packets. Without it, the kernel delivers packets at least once a second.
fn tcpdump_arguments(interface: &str, file: &str) -> Vec<String> {
    [
        "-n", "-U", "-B", "65536", "-Z", "root", "-i", interface, "-w", file,
    ]
    .map(str::to_owned)
    .to_vec()
}

fn start_outside(lab: &Lab, file: &Path) -> Result<Outside, LabError> {
    let failed = |e| LabError::new(format!("cannot run tcpdump: {e}"));
    let mut command = lab.namespace.command("tcpdump");
    command
        .args(tcpdump_arguments(GUEST_SIDE, &file.display().to_string()))
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let mut outside = Outside(lab.namespace.spawn(command).map_err(failed)?);
    let mut said = String::new();
    if let Some(stderr) = outside.0.stderr.take() {
        let mut lines = BufReader::new(stderr);
        // tcpdump prints "listening on ..." after it has opened the device.
        while !said.contains("listening on") {
            if lines.read_line(&mut said).map_err(failed)? == 0 {
                return Err(LabError::new(format!("tcpdump: {}", said.trim())));
            }
        }
        // The pipe must stay open for its final report.
        outside.0.stderr = Some(lines.into_inner());
    }
    Ok(outside)
}

/// Ends tcpdump. Returns its report.
fn interrupt(child: &mut Child) -> Result<String, LabError> {
    let pid = libc::pid_t::try_from(child.id()).unwrap_or_default();
    // SAFETY: kill takes plain numbers; the child has not been waited for, so that
    // the number is still its own.
    unsafe { libc::kill(pid, libc::SIGINT) };
    let failed = |e| LabError::new(format!("tcpdump: {e}"));
    let mut report = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut report).map_err(failed)?;
    }
    let status = child.wait().map_err(failed)?;
    if status.success() {
        return Ok(report);
    }
    Err(LabError::new(format!("tcpdump ended with {status}")))
}

/// An error if tcpdump reports that the kernel dropped packets because the buffer was full: such a
/// capture would lack packets that were on the link.
fn assert_whole(place: &str, report: &str) -> Result<(), LabError> {
    let dropped = report
        .lines()
        .find_map(|line| line.split_once(" packets dropped by kernel"))
        .map(|(count, _)| count.trim());
    match dropped {
        Some("0") => Ok(()),
        Some(count) => Err(LabError::new(format!(
            "the capture {place} lost {count} packets: its buffer was full"
        ))),
        None => Err(LabError::new(format!(
            "the capture {place} does not say what it lost: {report:?}"
        ))),
    }
}

/// The capture without the packets that contain `marker`: the lab's own, and the
/// guest's answers, which quote them.
fn without_marker(pcap: &[u8], marker: &[u8]) -> Vec<u8> {
    let (header, mut rest) = pcap.split_at(pcap.len().min(FILE_HEADER));
    let mut kept = header.to_vec();
    while let Some(&[a, b, c, d]) = rest.get(8..12) {
        let captured = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        let end = PACKET_HEADER.saturating_add(captured).min(rest.len());
        let (packet, after) = rest.split_at(end);
        if !contains(packet, marker) {
            kept.extend_from_slice(packet);
        }
        rest = after;
    }
    kept
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}
