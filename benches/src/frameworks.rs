//! Programs that can use this stack or TCP, with both ends on one host: UCX, libfabric, Open MPI and others.

use crate::veth::Lanes;
use roce_tests::scene::Scene;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A program with one of its transports, and the same program over TCP.
#[derive(Clone, Copy, Debug)]
pub struct Framework {
    /// Its name in the table.
    pub name: &'static str,
    script: &'static str,
    /// The commands that the script needs.
    needs: &'static [&'static str],
    /// The script's variable `PLACED`: a file in the folder of programs that no package installs. Empty if it
    /// needs none.
    placed: &'static str,
    /// The compiler of the script's `PROGRAM`, the source, and what follows it. Empty if it has none.
    compile: &'static [&'static str],
    /// The script's variable `TEST`: the test of `ucx_perftest`, Open MPI's number of ranks, or a script of Python.
    test: &'static str,
    ours: &'static str,
    tcp: &'static str,
    /// The name of its latency in the table.
    pub latency: &'static str,
}

/// The source of the benchmark of MPI.
pub const MPI_SPEED: &str = "benches/src/frameworks/mpi_speed.c";

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

/// The results of a program, as far as it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// The time for 8 bytes, in microseconds.
    pub latency: Option<f64>,
    /// Messages of 64 KiB, in bits per second.
    pub medium: Option<f64>,
    /// Messages of 1 MiB, in bits per second.
    pub large: Option<f64>,
    /// A guest's memory, in bits per second.
    pub memory: Option<f64>,
    /// Requests of one client, and of 20, per second.
    pub requests: [Option<f64>; 2],
}

const HALF: &str = "half a round trip of 8 bytes";

const UCX_OURS: &str = "UCX_TLS=rc_v,self UCX_NET_DEVICES=roce_lo:1 OPTIONS='--mca pml ucx' DOMAIN=roce_near PROVIDER=verbs";
const UCX_TCP: &str = "UCX_TLS=tcp,self UCX_NET_DEVICES=lo OPTIONS='--mca pml ob1 --mca btl tcp,self' \
    DOMAIN= PROVIDER=tcp";
const OFI_OURS: &str =
    "OPTIONS='--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm'";
const OFI_TCP: &str =
    "OPTIONS='--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tcp;ofi_rxm'";

/// The fields that most programs leave out.
const NOTHING: Framework = Framework {
    name: "",
    script: "",
    needs: &[],
    placed: "",
    compile: &[],
    test: "",
    ours: "",
    tcp: "",
    latency: HALF,
};

/// All programs that are compared.
pub const FRAMEWORKS: [Framework; 6] = [
    Framework {
        name: "UCX tag",
        script: include_str!("frameworks/ucx.sh"),
        needs: &["ucx_perftest"],
        test: "tag",
        ours: UCX_OURS,
        tcp: UCX_TCP,
        ..NOTHING
    },
    Framework {
        name: "UCX put",
        script: include_str!("frameworks/ucx.sh"),
        needs: &["ucx_perftest"],
        test: "ucp_put",
        ours: UCX_OURS,
        tcp: UCX_TCP,
        ..NOTHING
    },
    Framework {
        name: "libfabric msg",
        script: include_str!("frameworks/libfabric.sh"),
        needs: &["fi_pingpong"],
        ours: UCX_OURS,
        tcp: UCX_TCP,
        ..NOTHING
    },
    Framework {
        name: "Open MPI, pml ucx (TCP: btl tcp)",
        script: include_str!("frameworks/openmpi.sh"),
        needs: &["mpirun.openmpi"],
        compile: &["mpicc.openmpi", MPI_SPEED],
        test: "2",
        ours: UCX_OURS,
        tcp: UCX_TCP,
        ..NOTHING
    },
    Framework {
        name: "Open MPI, pml ucx, four ranks (TCP: btl tcp)",
        script: include_str!("frameworks/openmpi.sh"),
        needs: &["mpirun.openmpi"],
        compile: &["mpicc.openmpi", MPI_SPEED],
        test: "4",
        ours: UCX_OURS,
        tcp: UCX_TCP,
        ..NOTHING
    },
    Framework {
        name: "Open MPI, mtl ofi (TCP: mtl ofi)",
        script: include_str!("frameworks/openmpi.sh"),
        needs: &["mpirun.openmpi"],
        compile: &["mpicc.openmpi", MPI_SPEED],
        test: "2",
        ours: OFI_OURS,
        tcp: OFI_TCP,
        ..NOTHING
    },
];

/// Others that can use TCP.
pub const OTHERS: [Framework; 10] = [
    Framework {
        name: "MPICH",
        script: include_str!("frameworks/mpich.sh"),
        needs: &["mpiexec.mpich"],
        compile: &["mpicc.mpich", MPI_SPEED],
        ours: "UCX_TLS=rc_v,ud_v,self UCX_NET_DEVICES=roce_lo:1",
        tcp: "UCX_TLS=tcp,self UCX_NET_DEVICES=lo",
        ..NOTHING
    },
    Framework {
        name: "qperf",
        script: include_str!("frameworks/qperf.sh"),
        needs: &["qperf"],
        ours: "PROTOCOL=rc",
        tcp: "PROTOCOL=tcp",
        ..NOTHING
    },
    Framework {
        name: "libiscsi, reads of tgt's disk, 16 at a time",
        script: include_str!("frameworks/iscsi.sh"),
        needs: &["tgtd", "iscsi-perf"],
        ours: "LLD=iser",
        tcp: "LLD=iscsi",
        latency: "",
        ..NOTHING
    },
    Framework {
        name: "Mooncake, WRITEs one after the other",
        script: include_str!("frameworks/two_ends.sh"),
        needs: &["python3"],
        placed: "wheels/mooncake",
        test: concat!(
            include_str!("../../tests/tests/programs/scripts/meet.py"),
            include_str!("frameworks/mooncake.py")
        ),
        ours: "PROTOCOL=rdma DEVICE=roce_lo",
        tcp: "PROTOCOL=tcp DEVICE= MC_FORCE_TCP=1",
        latency: "8 bytes",
        ..NOTHING
    },
    Framework {
        name: "NIXL, WRITEs one after the other",
        script: include_str!("frameworks/two_ends.sh"),
        needs: &["python3"],
        placed: "wheels/nixl_cu12",
        test: concat!(
            include_str!("../../tests/tests/programs/scripts/meet.py"),
            include_str!("frameworks/nixl.py")
        ),
        ours: "UCX_TLS=rc_v,ud_v UCX_NET_DEVICES=roce_lo:1",
        tcp: "UCX_TLS=tcp UCX_NET_DEVICES=lo",
        latency: "8 bytes",
        ..NOTHING
    },
    Framework {
        name: "gloo, allreduce_ring of two ranks that sleep",
        script: include_str!("frameworks/gloo.sh"),
        placed: "gloo/benchmark",
        ours: "OPTIONS='--transport ibverbs --ib-device roce_lo'",
        tcp: "OPTIONS='--transport tcp --tcp-device lo'",
        latency: "8 bytes",
        ..NOTHING
    },
    Framework {
        name: "gloo, allreduce_ring of two ranks that poll",
        script: include_str!("frameworks/gloo.sh"),
        placed: "gloo/benchmark",
        ours: "OPTIONS='--transport ibverbs --ib-device roce_lo --sync=true --busy-poll=true'",
        tcp: "OPTIONS='--transport tcp --tcp-device lo --sync=true --busy-poll=true'",
        latency: "8 bytes",
        ..NOTHING
    },
    Framework {
        name: "NCCL, messages one after the other",
        script: include_str!("frameworks/nccl.sh"),
        placed: "wheels/nvidia/nccl/lib/libnccl.so.2",
        compile: &["cc", "tests/tests/programs/scripts/nccl.c", "-ldl"],
        ours: "NCCL_IB_HCA=roce_lo DEVICE=roce_lo TRANSPORT=ncclNetIb",
        tcp: "NCCL_SOCKET_IFNAME=lo DEVICE=lo TRANSPORT=ncclNetSocket",
        latency: "8 bytes",
        ..NOTHING
    },
    Framework {
        name: "Valkey",
        script: include_str!("frameworks/valkey.sh"),
        placed: "valkey/src/valkey-rdma.so",
        ours: "OPTIONS=--rdma",
        tcp: "OPTIONS=",
        ..NOTHING
    },
    Framework {
        name: "QEMU, migration of a guest that stands still",
        script: include_str!("frameworks/qemu.sh"),
        needs: &["qemu-system-x86_64", "python3"],
        test: concat!(
            include_str!("../../tests/tests/programs/scripts/machine.py"),
            include_str!("frameworks/qemu.py")
        ),
        ours: "WHERE=rdma:10.9.9.1:4444",
        tcp: "WHERE=tcp:10.9.9.1:4444",
        ..NOTHING
    },
];

impl Framework {
    /// The file that the folder of programs lacks.
    pub fn lacks(&self) -> Option<&'static str> {
        let lacks = !programs_folder().join(self.placed).exists();
        (lacks && !self.placed.is_empty()).then_some(self.placed)
    }

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
        let folder = programs_folder();
        let wheels = folder.join("wheels");
        let scene = Scene::of(self.script)
            .with("SETTINGS", settings)
            .with("TEST", self.test)
            .with("PLACED", folder.join(self.placed))
            .with("ROCE", &built.roce)
            .with("LIBRARY", &built.library)
            .with("ROCE_LOCAL", lanes.setting())
            .with("PYTHONPATH", &wheels)
            .with("LD_LIBRARY_PATH", wheels.join("mooncake"));
        let scene = match built.programs.get(self.compile) {
            Some(program) => scene.with("PROGRAM", program),
            None => scene,
        };
        let scene = match over {
            Transport::Tcp => scene.without_traffic(),
            _ => scene,
        };
        let played = scene
            .play_or_skip(self.needs)
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
    /// The figures that `program` has printed: `latency-us`, `medium-MB/s`, `large-MB/s`, `memory-MB/s`,
    /// `one-client` and `twenty-clients`.
    ///
    /// # Errors
    /// If there is none, or one is no number. The error contains the output.
    pub fn of(program: &str, output: &str) -> Result<Self, String> {
        let figure = |name: &str| {
            let line = output.lines().find_map(|line| line.strip_prefix(name));
            let figure = line.map(|figure| figure.trim().parse::<f64>());
            let figure = figure.transpose();
            figure.map_err(|_| format!("{program}: {name} is no number in:\n{output}"))
        };
        let bits = |megabytes: Option<f64>| megabytes.map(|megabytes| 8e6 * megabytes);
        let figures = Self {
            latency: figure("latency-us")?,
            medium: bits(figure("medium-MB/s")?),
            large: bits(figure("large-MB/s")?),
            memory: bits(figure("memory-MB/s")?),
            requests: [figure("one-client")?, figure("twenty-clients")?],
        };
        match figures == Self::default() {
            false => Ok(figures),
            true => Err(format!("{program}: no figures in:\n{output}")),
        }
    }
}

/// The files built for a run.
#[derive(Clone, Debug)]
pub struct Built {
    /// The command `roce`.
    pub roce: PathBuf,
    /// The library.
    pub library: PathBuf,
    /// The compiled programs, by the commands that compile them.
    programs: BTreeMap<&'static [&'static str], PathBuf>,
}

/// The folder of tests/lab/install-programs.sh, and of what docs/programs.md says.
fn programs_folder() -> PathBuf {
    let folder = std::env::var_os("ROCE_PROGRAMS_DIR");
    let folder = folder.map_or_else(|| "target/programs".into(), PathBuf::from);
    // Scripts run in folders of their own.
    std::path::absolute(&folder).unwrap_or(folder)
}

impl Built {
    /// Finds the library beside `roce`, and compiles the programs that `frameworks` need.
    ///
    /// # Errors
    /// If a compiler is not installed.
    pub fn find_beside(
        roce: &Path,
        frameworks: impl Iterator<Item = &'static Framework>,
    ) -> Result<Self, String> {
        let mut built = Self {
            roce: roce.to_owned(),
            library: roce.with_file_name("libroce_verbs_shim.so"),
            programs: BTreeMap::new(),
        };
        for command in frameworks.map(|framework| framework.compile) {
            if let [compiler, source, options @ ..] = command
                && !built.programs.contains_key(command)
            {
                let program = Self::compile(compiler, source, options)?;
                built.programs.insert(command, program);
            }
        }
        Ok(built)
    }

    /// Compiles a C program of this project. Returns its path.
    ///
    /// # Errors
    /// If the compiler or the headers of `libraries` are not installed.
    pub fn compile(compiler: &str, source: &str, libraries: &[&str]) -> Result<PathBuf, String> {
        let built = roce_tests::programs::compiled_by_or_skip(compiler, source, libraries);
        built.ok_or_else(|| format!("{source} needs {compiler} and the headers of {libraries:?}"))
    }

    /// The compiled programs. If one can't be removed after a run, a later run overwrites it.
    pub fn programs(&self) -> impl Iterator<Item = &PathBuf> {
        self.programs.values()
    }
}
