//! The other end, in the guest: `peer.c` on the library of a newer rdma-core.

use super::TIMEOUT;
use roce_tests::lab::{GUEST_INTERFACE, GUEST_RDMA_DEVICE, GuestChild, GuestCommand, Lab, Release};
use roce_tests::programs::{self, compiled_or_skip};
use std::path::{Path, PathBuf};

/// The library and the provider of Soft-RoCE, with what they load.
const PACKAGES: [&str; 6] = [
    "libibverbs1",
    "ibverbs-providers",
    "libc6",
    "libgcc-s1",
    "libnl-3-200",
    "libnl-route-3-200",
];

/// The index of the GID of [`GUEST_IP4`](roce_tests::lab::GUEST_IP4), on Soft-RoCE's device and on ours.
const GID_INDEX: &str = "1";

/// What a peer needs to start.
pub(super) struct Program {
    release: Release,
    file: PathBuf,
}

impl Program {
    pub(super) fn get_or_skip() -> Option<Self> {
        let file = compiled_or_skip("tests/tests/storage/pmem/peer.c")?;
        let release = Release::get_as_or_skip("forky-soft-roce", "forky", &PACKAGES)?;
        Some(Self { release, file })
    }

    /// Starts it with persistent memory, or with `length` bytes of ordinary memory.
    pub(super) fn start(&self, lab: &Lab, memory: &[&str]) -> Peer {
        let in_guest = |path: &Path| lab.guest_path(&path.canonicalize().expect("it is there"));
        let program = self.file.canonicalize().expect("it was built");
        let line = self.release.command_line(Path::new("/nowhere"), &program);
        let line = line.iter().map(|word| word.to_string_lossy().into_owned());
        // The loader, its option, the folders of libraries, the program.
        let mut line: Vec<String> = line.collect();
        line[0] = in_guest(Path::new(&line[0]));
        let (_, libraries) = line[2].split_once(':').expect("two folders");
        let libraries = in_guest(Path::new(libraries));
        line[2].clone_from(&libraries);
        line[3] = lab.guest_path(&program);
        let provider = format!("{libraries}/libibverbs/librxe");
        let arguments = [&[GUEST_RDMA_DEVICE, GID_INDEX], memory].concat();
        line.extend(arguments.iter().map(ToString::to_string));
        Peer::started(lab.guest(line).env("IBV_DRIVERS", &provider))
    }

    /// Starts it on our library instead, in a guest without Soft-RoCE.
    pub(super) fn start_on_ours(&self, lab: &Lab, memory: &[&str]) -> Peer {
        let in_guest = |path: &Path| lab.guest_path(&path.canonicalize().expect("it is there"));
        let library = in_guest(&programs::built("libroce_verbs_shim.so"));
        let folder = "/run/roce-lab/ours";
        let link = format!("mkdir -p {folder} && ln -sf {library} {folder}/libibverbs.so.1");
        let linked = lab.guest(["sh", "-c", &link]).output(TIMEOUT);
        linked.expect("it runs").success().expect("linked");
        let program = in_guest(&self.file);
        let device = format!("roce_{GUEST_INTERFACE}");
        let line = [&[program.as_str(), &device, GID_INDEX], memory].concat();
        Peer::started(lab.guest(line).env("LD_LIBRARY_PATH", folder))
    }
}

/// The running program.
pub(super) struct Peer {
    pub(super) qpn: u32,
    pub(super) gid: std::net::Ipv6Addr,
    pub(super) addr: u64,
    pub(super) rkey: u32,
    child: GuestChild,
}

impl Peer {
    fn started(command: GuestCommand) -> Self {
        let mut child = command.spawn().expect("started");
        let said = child.wait_for_line("endpoint", TIMEOUT);
        let said = said.expect("an endpoint");
        let words: Vec<&str> = said.split_whitespace().collect();
        let ["endpoint", qpn, gid, addr, rkey] = words[..] else {
            panic!("{said}");
        };
        Self {
            qpn: qpn.parse().expect("a QPN"),
            gid: gid.parse().expect("a GID"),
            addr: addr.parse().expect("an address"),
            rkey: rkey.parse().expect("a key"),
            child,
        }
    }

    /// Sends a command, and returns the answer.
    pub(super) fn ask(&mut self, command: &str) -> String {
        self.child
            .write(format!("{command}\n").as_bytes())
            .expect("it runs");
        let answer = self.child.read_line(TIMEOUT);
        answer.expect("an answer").trim_end().to_owned()
    }
}
