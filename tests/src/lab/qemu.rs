//! The emulator: its command line and its process.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;

use super::LabConfig;
use super::LabError;
use super::flavour::Flavour;
use super::kernel::Kernel;
use super::namespace::Namespace;
use super::network::{MAX_MTU, Place};

/// The guest's console, in the lab's folder.
pub(super) const CONSOLE_LOG: &str = "console.log";
/// The emulator's own output, in the lab's folder.
pub(super) const QEMU_LOG: &str = "qemu.log";

/// A running emulator, killed when dropped.
#[derive(Debug)]
pub(super) struct Qemu {
    child: Child,
}

impl Qemu {
    /// Powers a guest on. The stream is the host's end of its command channel.
    pub(super) fn start(
        namespace: &Namespace,
        config: &LabConfig,
        kernel: &Kernel,
        initramfs: &Path,
        folder: &Path,
        place: Place,
    ) -> Result<(Self, UnixStream), LabError> {
        let failed = |e: io::Error| LabError::new(format!("cannot start qemu-system-x86_64: {e}"));
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let log = File::create(folder.join(QEMU_LOG)).map_err(failed)?;
        let mut command = namespace.command("qemu-system-x86_64");
        command
            .args(arguments(
                config,
                kernel,
                initramfs,
                folder,
                theirs.as_raw_fd(),
                place,
            ))
            .stdin(std::process::Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log);
        // SAFETY: the closure runs between fork and exec and makes one system call,
        // on a descriptor that it owns.
        unsafe {
            command.pre_exec(
                move || match libc::fcntl(theirs.as_raw_fd(), libc::F_SETFD, 0) {
                    -1 => Err(io::Error::last_os_error()),
                    _ => Ok(()),
                },
            )
        };
        let child = namespace.spawn(command).map_err(failed)?;
        Ok((Self { child }, ours))
    }

    /// Kills it, and waits until it is gone.
    pub(super) fn kill(&self) {
        let pid = i32::try_from(self.child.id()).unwrap_or_default();
        // SAFETY: the call takes numbers. The process is a child that nobody has waited for yet, so
        // the number is still its own.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            let mut info = std::mem::zeroed();
            // It stays for `Child` to be waited for.
            libc::waitid(
                libc::P_PID,
                self.child.id(),
                &raw mut info,
                libc::WEXITED | libc::WNOWAIT,
            );
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // The guest has no state that needs an orderly shutdown. Both calls fail only if it has
        // already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn arguments(
    config: &LabConfig,
    kernel: &Kernel,
    initramfs: &Path,
    folder: &Path,
    channel: i32,
    place: Place,
) -> Vec<String> {
    let Place { tap, mac, ip4 } = place;
    let (queues, device) = queue_options(config.flavour.queue_pairs());
    // Emulation is fast enough, and KVM is not reliable everywhere (that of some clouds hangs a
    // stock kernel), so KVM is opt-in.
    let accelerator = std::env::var("ROCE_LAB_ACCEL").unwrap_or_else(|_| "tcg".to_owned());
    let accelerator = if accelerator == "tcg" {
        // The newer kernel patches itself often while it boots. With a thread for each processor,
        // the emulator occasionally executes code that another thread is patching.
        let threads = match config.flavour {
            Flavour::SoftRoce => "multi",
            Flavour::ZeroCopy | Flavour::PersistentMemory => "single",
        };
        format!("tcg,thread={threads}")
    } else {
        accelerator
    };
    // no_timer_check: while it boots, the kernel checks that the timer ticks, and would panic if
    // the emulator waits too long for a processor.
    // init_on_alloc=0: Debian's kernel fills every buffer with zeros before it is used, which takes
    // a third of the time of a large message at a path MTU of 4096.
    let append = format!(
        "console=ttyS0 loglevel=5 panic=-1 mitigations=off audit=0 no_timer_check init_on_alloc=0 \
         lab.ip4={ip4}/24 lab.mtu={} lab.flavour={}{}",
        config.mtu,
        config.flavour.name(),
        config.flavour.kernel_options(),
    );
    // QEMU requires commas in values to be doubled.
    let path = |path: &Path| path.display().to_string().replace(',', ",,");
    let share = |path: &str, tag: &str| {
        format!("local,path={path},mount_tag={tag},security_model=none,readonly=on,multidevs=remap")
    };
    let modules = path(&kernel.root.join("lib/modules"));
    // With these features the kernel copies memory with "rep movsb", which is emulated byte by
    // byte: at a path MTU of 4096 a large message takes twice as long.
    let processor = match accelerator.as_str() {
        "tcg" => "max,-erms,-fsrm",
        _ => "max",
    };
    let pairs = [
        ("-accel", accelerator),
        ("-cpu", processor.to_owned()),
        ("-smp", config.cpus.to_string()),
        ("-m", memory_option(config)),
        ("-display", "none".to_owned()),
        ("-vga", "none".to_owned()),
        ("-boot", "strict=off".to_owned()),
        ("-kernel", kernel.image.display().to_string()),
        ("-initrd", initramfs.display().to_string()),
        ("-append", append),
        (
            "-serial",
            format!("file:{}", path(&folder.join(CONSOLE_LOG))),
        ),
        ("-device", "virtio-serial-pci".to_owned()),
        ("-chardev", format!("socket,id=agent,fd={channel}")),
        (
            "-device",
            "virtserialport,chardev=agent,name=roce.agent".to_owned(),
        ),
        ("-virtfs", share("/", "hostroot")),
        ("-virtfs", share(&modules, "modules")),
        // vnet_hdr=off disables all offloads, so that frames on the tap are the same as on a wire.
        (
            "-netdev",
            format!("tap,id=link,ifname={tap},script=no,downscript=no,vnet_hdr=off{queues}"),
        ),
        (
            "-device",
            format!("virtio-net-pci,netdev=link,mac={mac},host_mtu={MAX_MTU},romfile={device}"),
        ),
    ];
    ["-nodefaults", "-no-user-config", "-no-reboot"]
        .map(str::to_owned)
        .into_iter()
        .chain(persistent_memory_options(config.flavour))
        .chain(disk_options(config.disk.as_deref()))
        .chain(
            pairs
                .into_iter()
                .flat_map(|(option, value)| [option.to_owned(), value]),
        )
        .collect()
}

/// The guest's memory. Persistent memory is plugged into a slot.
fn memory_option(config: &LabConfig) -> String {
    let size = config.memory_mib;
    match config.flavour {
        Flavour::PersistentMemory => {
            let most = size + 2 * Flavour::PERSISTENT_MIB;
            format!("{size},slots=1,maxmem={most}M")
        }
        Flavour::SoftRoce | Flavour::ZeroCopy => size.to_string(),
    }
}

/// The options of persistent memory, if the guest has some.
fn persistent_memory_options(flavour: Flavour) -> Vec<String> {
    if flavour != Flavour::PersistentMemory {
        return Vec::new();
    }
    let size = Flavour::PERSISTENT_MIB;
    [
        "-machine".to_owned(),
        "pc,nvdimm=on".to_owned(),
        "-object".to_owned(),
        format!("memory-backend-ram,id=persistent,size={size}M"),
        "-device".to_owned(),
        "nvdimm,memdev=persistent".to_owned(),
    ]
    .to_vec()
}

/// The options of a disk, if the guest has one. What the guest has written to it survives the
/// emulator; what it has not, does not.
fn disk_options(image: Option<&Path>) -> Vec<String> {
    let Some(image) = image else {
        return Vec::new();
    };
    let image = image.display().to_string().replace(',', ",,");
    let drive = format!("file={image},if=virtio,format=raw,cache=writeback");
    vec!["-drive".to_owned(), drive]
}

/// The options of the tap device and of the guest's interface for several queue pairs.
fn queue_options(pairs: u32) -> (String, String) {
    if pairs == 1 {
        return Default::default();
    }
    // Two vectors for each pair, one for the configuration, and a spare one. iommu_platform: the
    // driver supports AF_XDP zero-copy only if it maps memory itself.
    let vectors = 2 * pairs + 2;
    let device = format!(",mq=on,vectors={vectors},disable-legacy=on,iommu_platform=on");
    (format!(",queues={pairs}"), device)
}
