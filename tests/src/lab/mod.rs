//! A Linux guest, with Soft-RoCE or with AF_XDP zero-copy ([`Flavour`]), in a network
//! namespace of its own.
//!
//! ```text
//!   this process                         network namespace           guest (QEMU)
//!   Lab::guest(..)    ── virtio-serial ──────────────────────────►  agent.py
//!   Lab::host_command ── setns ──►  roce0 ──── bridge ─ tap ──────  eth0 ── rxe0
//!   Lab::enter                      10.77.0.1                       10.77.0.2
//! ```
//!
//! The guest runs Debian's unmodified kernel over this machine's own files (read
//! only, with a writable layer in memory), so programs that are installed or built here
//! ([`Lab::guest_path`]) also run there. The command channel does not use the network, so captures
//! contain only what a test caused.
//!
//! ```no_run
//! use roce_tests::lab::Lab;
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let Some(lab) = Lab::get_or_skip() else { return Ok(()) };
//! let devices = lab.guest(["ibv_devinfo"]).output(Duration::from_secs(20))?;
//! assert!(devices.stdout_text().contains("rxe0"));
//! # Ok(())
//! # }
//! ```
//!
//! # Clean-up
//! A lab has no names outside its namespace, so it leaves nothing behind. The namespace, its tap
//! device and its packet filter disappear with the last process in it. The kernel kills each
//! process when this one dies (`PR_SET_PDEATHSIG`), for whatever reason. Processes that these have
//! started are found by an environment variable and killed when the lab is dropped or, if this
//! process was killed, by the next lab on the machine.

mod again;
mod agent;
mod cache;
mod capture;
mod error;
mod faults;
mod flavour;
mod guest;
mod initramfs;
mod kernel;
mod machine;
pub(crate) mod namespace;
mod network;
mod oops;
mod owner;
mod packages;
mod qemu;
mod release;
mod second;
pub(crate) mod shared;
mod status;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub use capture::{Capture, CaptureFiles};
pub use error::LabError;
pub use faults::{Counters, Direction, Drops, LossCounters};
pub use flavour::Flavour;
pub use guest::{GuestChild, GuestCommand, GuestOutput};
pub use network::{
    GUEST_INTERFACE, GUEST_IP4, GUEST_LL6, GUEST_RDMA_DEVICE, HOST_INTERFACE, HOST_IP4, HOST_LL6,
    SECOND_IP4,
};
pub use packages::mirror as debian_mirror;
pub use release::Release;
pub use second::SecondGuest;
pub use shared::SharedLab;
pub use status::GuestStatus;

use again::boot_again;
use agent::Agent;
use namespace::Namespace;
use owner::RunDir;
use qemu::Qemu;

/// The options of a lab.
#[derive(Clone, Debug)]
pub struct LabConfig {
    /// The kernel of the guest.
    pub flavour: Flavour,
    /// MTU in bytes of both ends of the link, 1280 to 9000. 1500 gives a RoCE
    /// path MTU of 1024, 9000 one of 4096. [`Lab::set_mtu`] changes it later.
    pub mtu: u32,
    /// The guest's memory in MiB.
    pub memory_mib: u32,
    /// The guest's processors.
    pub cpus: u32,
    /// The image of a disk, which the guest has as `/dev/vda`. Only [`Flavour::PersistentMemory`] has the
    /// driver.
    pub disk: Option<PathBuf>,
    /// Timeout from power-on to the first command.
    pub boot_timeout: Duration,
}

impl Default for LabConfig {
    fn default() -> Self {
        Self {
            flavour: Flavour::default(),
            mtu: 1500,
            memory_mib: 1024,
            cpus: 2,
            disk: None,
            boot_timeout: Duration::from_secs(120),
        }
    }
}

/// A booted guest with Soft-RoCE and the network namespace around it.
///
/// All methods take `&self` and may be used from several threads. Dropping it
/// powers the guest off, kills everything that still runs in the namespace and deletes the logs. If
/// the thread is panicking, it keeps the logs and prints their path.
#[derive(Debug)]
pub struct Lab {
    // Fields are dropped in this order: the guest first, its directory last.
    agent: Arc<Agent>,
    qemu: Qemu,
    namespace: Arc<Namespace>,
    flavour: Flavour,
    mtu: AtomicU32,
    run: RunDir,
}

impl Lab {
    /// Boots a guest: about ten seconds under software emulation, and a download
    /// of some 70 MB before the first one, 140 MB for [`Flavour::ZeroCopy`]. A guest that dies or
    /// hangs while booting is booted again, a few times, with a line on stderr.
    ///
    /// # Errors
    /// If the machine lacks something ([`LabError::is_poor_machine`]), or the boot fails; then the
    /// error has the end of the guest's console.
    pub fn boot(config: &LabConfig) -> Result<Self, LabError> {
        boot_again(|| Self::boot_once(config))
    }

    fn boot_once(config: &LabConfig) -> Result<Self, LabError> {
        network::check_mtu(config.mtu)?;
        let flavour = config.flavour;
        machine::check(flavour)?;
        let cache = cache::directory()?;
        owner::sweep(&cache);
        let kernel = kernel::obtain(&cache, flavour)?;
        let initramfs = initramfs::build(&cache, &kernel, flavour)?;

        let run = RunDir::create(&cache)?;
        let namespace = Arc::new(Namespace::create(run.owner())?);
        network::create_link(&namespace, config.mtu, flavour.queue_pairs())?;
        let (qemu, channel) = Qemu::start(
            &namespace,
            config,
            &kernel,
            &initramfs,
            run.path(),
            network::FIRST,
        )?;
        let agent = Agent::connect(channel, run.path())?;
        let lab = Self {
            agent,
            qemu,
            namespace,
            flavour,
            mtu: AtomicU32::new(config.mtu),
            run,
        };
        lab.agent
            .wait_ready(config.boot_timeout)
            .and_then(|()| lab.wait_for_gids())
            .map_err(LabError::while_booting)?;
        Ok(lab)
    }

    /// A lab of this process, for one test at a time. All tests of the program share as many labs
    /// as there are processors, up to four; they are booted on demand and shut down when the
    /// process exits. Each caller gets a lab in the state of [`LabConfig::default`] (with one
    /// processor where there are few): MTU 1500, no packet loss, no command running in the guest.
    ///
    /// Returns `None`, after a line on stderr with the reason, on a machine that cannot run it. The
    /// environment variable `ROCE_LAB` changes that: with `require` such a machine is a failure,
    /// with `off` no lab is booted.
    ///
    /// # Panics
    /// If the guest does not boot although the machine meets the requirements; with
    /// `ROCE_LAB=require` also if it does not meet them.
    pub fn get_or_skip() -> Option<SharedLab> {
        shared::get_or_skip()
    }

    /// Calls `test` with a lab as [`get_or_skip`](Self::get_or_skip) returns it. If the test fails and no packets
    /// pass to the guest any more, calls it once more with a new guest, and reports that: an
    /// emulated network card has been seen to stop for good.
    ///
    /// # Panics
    /// If `test` panics, and as `get_or_skip` does.
    pub fn try_with(test: impl Fn(&SharedLab)) {
        shared::try_with(test);
    }

    /// A lab for the caller alone, or `None` under the conditions of
    /// [`get_or_skip`](Self::get_or_skip).
    ///
    /// # Panics
    /// As `get_or_skip` does.
    pub fn boot_or_skip(config: &LabConfig) -> Option<Self> {
        shared::boot_or_skip(config)
    }

    /// A command to run in the guest: program and arguments.
    pub fn guest<S: Into<String>>(&self, argv: impl IntoIterator<Item = S>) -> GuestCommand {
        GuestCommand::new(
            Arc::clone(&self.agent),
            argv.into_iter().map(Into::into).collect(),
        )
    }

    /// Starts a command in the guest, whose output can be read while it runs.
    pub fn guest_spawn<S: Into<String>>(
        &self,
        argv: impl IntoIterator<Item = S>,
    ) -> Result<GuestChild, LabError> {
        self.guest(argv).spawn()
    }

    /// Starts a Python module of the lab in the guest, in a fork of the agent.
    pub(crate) fn guest_module(&self, name: &str) -> Result<GuestChild, LabError> {
        GuestCommand::module(Arc::clone(&self.agent), name).spawn()
    }

    /// Creates or replaces a file in the guest. The guest's writes stay in its memory; files of
    /// this machine never change.
    pub fn guest_write_file(&self, path: &str, content: &[u8]) -> Result<(), LabError> {
        let script = r#"mkdir -p "$(dirname "$0")" && cat > "$0""#;
        self.guest(["sh", "-c", script, path])
            .stdin(content)
            .output(Duration::from_secs(60))?
            .success()
            .map(drop)
    }

    /// The contents of a file of the guest.
    pub fn guest_read_file(&self, path: &str) -> Result<Vec<u8>, LabError> {
        let output = self.guest(["cat", path]).output(Duration::from_secs(60))?;
        Ok(output.success()?.stdout)
    }

    /// The path, in the guest, of a file or folder of this machine with full path `path`. Most
    /// paths are the same, but the guest has its own `/tmp`. The file is read-only there.
    pub fn guest_path(&self, path: &Path) -> String {
        format!("/run/roce-lab/host{}", path.display())
    }

    /// Which kernel the guest has.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// A command to run on this machine but in the lab's namespace. The program is killed when the
    /// thread that spawns it ends (so spawn it from the test, not from a short-lived thread) and
    /// when the lab is dropped. `/sys` there shows the devices of the namespace.
    pub fn host_command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.namespace.command(program)
    }

    /// Runs `work` on a new thread inside the lab's namespace and returns its
    /// result. Sockets made there stay there, whichever thread uses them later;
    /// threads that `work` starts are inside too.
    ///
    /// # Panics
    /// If `work` panics, with its payload.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        Ok(self.namespace.enter(work))
    }

    /// Sets the MTU of both ends of the link, in bytes, 1280 to 9000.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), LabError> {
        network::check_mtu(mtu)?;
        network::set_host_mtu(&self.namespace, mtu)?;
        let mtu_text = mtu.to_string();
        self.guest(["ip", "link", "set", GUEST_INTERFACE, "mtu", &mtu_text])
            .output(Duration::from_secs(20))?
            .success()?;
        self.mtu.store(mtu, Ordering::Relaxed);
        self.wait_for_gids()
    }

    /// The MTU in bytes of both ends of the link.
    pub fn mtu(&self) -> u32 {
        self.mtu.load(Ordering::Relaxed)
    }

    /// Whether packets pass to the guest and back.
    pub fn link_is_alive(&self) -> bool {
        network::is_alive(&self.namespace)
    }

    /// Starts capturing on both sides of the link; returns when both capture.
    /// Whole frames, as on the wire: neither side offloads anything.
    pub fn capture_start(&self) -> Result<Capture<'_>, LabError> {
        Capture::start(self)
    }

    /// From now on drops RoCE packets (UDP port 4791) in `direction` according to `drops`, and
    /// resets the counters of that direction. The other direction does not change. A capture
    /// outside contains packets that are dropped on their way to the host, but not those that are
    /// dropped on their way to the guest.
    pub fn set_loss(&self, direction: Direction, drops: Drops) -> Result<(), LabError> {
        faults::set_loss(&self.namespace, direction, drops)
    }

    /// Starts or stops marking RoCE packets in `direction` as a congested switch does ("congestion
    /// experienced", RFC 3168).
    pub fn set_marks(&self, direction: Direction, marks: bool) -> Result<(), LabError> {
        faults::set_marks(&self.namespace, direction, marks)
    }

    /// RoCE packets seen and dropped since each direction's last
    /// [`set_loss`](Self::set_loss).
    pub fn loss_counters(&self) -> Result<LossCounters, LabError> {
        faults::counters(&self.namespace)
    }

    /// From now on delays, reorders, duplicates or corrupts all traffic in
    /// `direction`, in the guest, by its kernel's netem. `options` are the arguments after `netem`
    /// on the command line of tc(8), for example `"delay 2ms reorder 25% duplicate 1% corrupt
    /// 0.1%"`. If they are empty, netem is removed.
    pub fn set_netem(&self, direction: Direction, options: &str) -> Result<(), LabError> {
        faults::set_netem(self, direction, options)
    }

    /// The guest kernel's log.
    pub fn dmesg(&self) -> Result<String, LabError> {
        Ok(self
            .guest(["dmesg"])
            .output(Duration::from_secs(30))?
            .success()?
            .stdout_text())
    }

    /// Fails if the guest's kernel has crashed, or has reported a bug or a warning, since it
    /// booted.
    pub fn check_kernel(&self) -> Result<(), LabError> {
        oops::check(self)
    }

    /// The end of the guest's console; available even after the guest has died.
    pub fn console(&self) -> String {
        fs::read(self.run.path().join(qemu::CONSOLE_LOG))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The folder of this lab's logs and captures, which is deleted when the lab is dropped.
    pub fn directory(&self) -> &Path {
        self.run.path()
    }

    /// Ends the emulator at once, as a loss of power does. What the guest has in memory is lost, and its
    /// disk has what was written to it. Nothing else works from now on.
    pub fn cut_power(&self) {
        self.qemu.kill();
    }

    /// Process id of the emulator.
    pub fn qemu_pid(&self) -> u32 {
        self.qemu.pid()
    }

    /// The identity of the lab's network namespace, as readlink(2) shows it in
    /// `/proc/PID/ns/net`.
    pub fn namespace_identity(&self) -> String {
        self.namespace.identity()
    }

    /// Directory for results of `name` (a capture, say) that must outlive the lab.
    pub fn keep_directory(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = cache::directory()?.join("kept").join(name);
        fs::create_dir_all(&path).map_err(|e| LabError::io("create", &path, &e))?;
        Ok(path)
    }

    /// Reverts what tests may have left: commands in the guest, loss, another MTU.
    fn reset(&self) -> Result<(), LabError> {
        self.agent.kill_all();
        faults::clear(self)?;
        if self.mtu() != LabConfig::default().mtu {
            self.set_mtu(LabConfig::default().mtu)?;
        }
        match self.link_is_alive() {
            true => Ok(()),
            false => Err(LabError::new("no packets pass to the guest and back")),
        }
    }

    /// Waits until rxe0, if the guest has it, is active and has both of its GIDs.
    fn wait_for_gids(&self) -> Result<(), LabError> {
        if !self.flavour.has_soft_roce() {
            return Ok(());
        }
        let port = format!("/sys/class/infiniband/{GUEST_RDMA_DEVICE}/ports/1");
        let script = format!(
            "until grep -q ACTIVE {port}/state && grep -q ^fe80 {port}/gids/0 \
             && grep -q ffff:0a4d:0002 {port}/gids/1; do sleep 0.1; done"
        );
        self.guest(["sh", "-c", &script])
            .output(Duration::from_secs(30))
            .and_then(GuestOutput::success)
            .map(drop)
            .map_err(|e| e.context(format!("{GUEST_RDMA_DEVICE} did not get its two GIDs")))
    }
}
