//! UCX, libfabric and Open MPI, each over this stack and over TCP, with both ends on one host.

use crate::veth::Lanes;
use roce_tests::scene::Scene;
use std::path::{Path, PathBuf};

/// A program with one of its transports, and the same program over TCP.
#[derive(Clone, Copy, Debug)]
pub struct Framework {
    /// Its name in the table.
    pub name: &'static str,
    script: &'static str,
    /// The script's variable `TEST`: the test of `ucx_perftest`, or Open MPI's number of ranks.
    test: &'static str,
    ours: &'static str,
    tcp: &'static str,
}

/// The way of a program's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// This stack, in memory that both ends share.
    Lane,
    /// This stack, over UDP sockets.
    Sockets,
    /// TCP, by the program's own transport.
    Tcp,
}

/// The most bytes of connection management. The programs move 300 MB and more.
const MANAGEMENT_BYTES: u64 = 20_000_000;

/// The results of a program.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Half of the round trip of 8 bytes, in microseconds.
    pub latency: f64,
    /// Messages of 64 KiB, in bits per second.
    pub medium: f64,
    /// Messages of 1 MiB, in bits per second.
    pub large: f64,
}

const UCX_OURS: &str = "UCX_TLS=rc_v,self UCX_NET_DEVICES=roce_lo:1 OPTIONS='--mca pml ucx' DOMAIN=roce_near PROVIDER=verbs";
const UCX_TCP: &str = "UCX_TLS=tcp,self UCX_NET_DEVICES=lo OPTIONS='--mca pml ob1 --mca btl tcp,self' \
    DOMAIN= PROVIDER=tcp";
const OFI_OURS: &str =
    "OPTIONS='--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm'";
const OFI_TCP: &str =
    "OPTIONS='--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tcp;ofi_rxm'";

/// All programs that are compared.
pub const FRAMEWORKS: [Framework; 6] = [
    Framework {
        name: "UCX tag",
        script: include_str!("frameworks/ucx.sh"),
        test: "tag",
        ours: UCX_OURS,
        tcp: UCX_TCP,
    },
    Framework {
        name: "UCX put",
        script: include_str!("frameworks/ucx.sh"),
        test: "ucp_put",
        ours: UCX_OURS,
        tcp: UCX_TCP,
    },
    Framework {
        name: "libfabric msg",
        script: include_str!("frameworks/libfabric.sh"),
        test: "",
        ours: UCX_OURS,
        tcp: UCX_TCP,
    },
    Framework {
        name: "Open MPI, pml ucx (TCP: btl tcp)",
        script: include_str!("frameworks/openmpi.sh"),
        test: "2",
        ours: UCX_OURS,
        tcp: UCX_TCP,
    },
    Framework {
        name: "Open MPI, pml ucx, four ranks (TCP: btl tcp)",
        script: include_str!("frameworks/openmpi.sh"),
        test: "4",
        ours: UCX_OURS,
        tcp: UCX_TCP,
    },
    Framework {
        name: "Open MPI, mtl ofi (TCP: mtl ofi)",
        script: include_str!("frameworks/openmpi.sh"),
        test: "2",
        ours: OFI_OURS,
        tcp: OFI_TCP,
    },
];

impl Framework {
    /// Runs the program over a transport, and checks that its packets took it.
    ///
    /// # Errors
    /// If the program is not installed, prints no figures, or took another transport.
    pub fn run(&self, built: &Built, over: Transport) -> Result<Figures, String> {
        let (settings, lanes) = match over {
            Transport::Lane => (self.ours, Lanes::On),
            Transport::Sockets => (self.ours, Lanes::Off),
            Transport::Tcp => (self.tcp, Lanes::Off),
        };
        let scene = Scene::of(self.script)
            .with("SETTINGS", settings)
            .with("TEST", self.test)
            .with("PROGRAM", &built.mpi)
            .with("ROCE", &built.roce)
            .with("LIBRARY", &built.library)
            .with("ROCE_LOCAL", lanes.setting());
        let scene = match over {
            Transport::Tcp => scene.without_traffic(),
            _ => scene,
        };
        let played = scene
            .play_or_skip(&["ucx_perftest", "fi_pingpong", "mpirun.openmpi"])
            .ok_or("a program is lacking")?;
        // A connection's management takes sockets. `roce run` has seen that the program used this stack.
        if (over == Transport::Sockets) != (played.roce_bytes > MANAGEMENT_BYTES) {
            return Err(format!(
                "{}, {over:?}: {} bytes of RoCE by sockets\n{}",
                self.name, played.roce_bytes, played.output
            ));
        }
        Figures::of(self.name, &played.output)
    }
}

impl Figures {
    /// The figures that `program` has printed: `latency-us`, `medium-MB/s` and `large-MB/s`.
    ///
    /// # Errors
    /// If one is lacking. The error contains the output.
    pub fn of(program: &str, output: &str) -> Result<Self, String> {
        let figure = |name: &str| {
            let line = output.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|figure| figure.trim().parse().ok())
                .ok_or_else(|| format!("{program}: no {name} in:\n{output}"))
        };
        Ok(Self {
            latency: figure("latency-us")?,
            medium: 8e6 * figure("medium-MB/s")?,
            large: 8e6 * figure("large-MB/s")?,
        })
    }
}

/// The files built for a run.
#[derive(Clone, Debug)]
pub struct Built {
    /// The command `roce`.
    pub roce: PathBuf,
    /// The library.
    pub library: PathBuf,
    /// Open MPI's benchmark.
    pub mpi: PathBuf,
}

impl Built {
    /// Finds the library beside `roce`, and compiles the benchmark.
    ///
    /// # Errors
    /// If MPI's compiler is not installed.
    pub fn find_beside(roce: &Path) -> Result<Self, String> {
        let source = "benches/src/frameworks/mpi_speed.c";
        Ok(Self {
            roce: roce.to_owned(),
            library: roce.with_file_name("libroce_verbs_shim.so"),
            mpi: Self::compile("mpicc.openmpi", source, &[])?,
        })
    }

    /// Compiles a C program of this project. Returns its path.
    ///
    /// # Errors
    /// If the compiler or the headers of `libraries` are not installed.
    pub fn compile(compiler: &str, source: &str, libraries: &[&str]) -> Result<PathBuf, String> {
        let built = roce_tests::programs::compiled_by_or_skip(compiler, source, libraries);
        built.ok_or_else(|| format!("{source} needs {compiler} and the headers of {libraries:?}"))
    }
}
