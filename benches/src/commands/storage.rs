//! Measures NVMe over RDMA beside disks over TCP.

use clap::{Parser, ValueEnum};
use roce_benches::command::{Comparing, progress, step};
use roce_benches::output::output;
use roce_benches::peers::serve;
use roce_benches::report::{Comparison, Goal};
use roce_benches::veth::{ADDRESSES, VethPair};
use roce_benches::{nvme, roce};
use roce_tests::lab::{GUEST_IP4, GuestCommand, HOST_IP4, Lab, LabConfig, SECOND_IP4, SecondGuest};
use std::path::Path;
use std::time::Duration;

/// NVMe over RDMA beside disks over TCP
///
/// `veth`: our host and our target, each in a network namespace, beside fio and nbdkit, which speak
/// NBD over TCP. Needs root, iproute2, fio and nbdkit.
/// `guest`: our host and the kernel's target in the lab's guest, and the reverse, beside the
/// kernel's nvme-tcp between that guest and a second one. Needs the requirements of the lab,
/// nvme-cli and fio. The guests' processors are emulated, so figures are comparable only with each
/// other, in one run.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[arg(value_enum)]
    place: Place,

    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 3)]
    seconds: u32,

    #[command(flatten)]
    comparing: Comparing,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Place {
    Veth,
    Guest,
}

/// Timeout of each step in a guest.
const TIMEOUT: Duration = Duration::from_secs(300);
const NQN: &str = "nqn.2014-08.org.nvmexpress:bench";

pub(crate) fn run(args: &Args) -> Result<(), String> {
    match args.place {
        Place::Veth => args
            .comparing
            .publish("figures veth", &compare_over_veth(args)?),
        Place::Guest => args
            .comparing
            .publish("figures guest", &compare_with_guest(args)?),
    }
}

/// A load: a name, a mode of fio and of `nvme-rdma bench`, bytes and depth.
#[derive(Clone, Copy, Debug)]
struct Load {
    what: &'static str,
    mode: &'static str,
    block: &'static str,
    depth: &'static str,
    unit: Unit,
}

#[derive(Clone, Copy, Debug)]
enum Unit {
    /// Operations per second, in thousands.
    Rate,
    /// Microseconds for each operation.
    Latency,
    /// Mebibytes per second.
    Bandwidth,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Rate => "kIOPS",
            Self::Latency => "us",
            Self::Bandwidth => "MiB/s",
        }
    }

    fn of(self, figures: &nvme::Figures) -> f64 {
        match self {
            Self::Rate => figures.operations_per_second / 1e3,
            Self::Latency => 1e6 / figures.operations_per_second,
            Self::Bandwidth => figures.bytes_per_second / f64::from(1 << 20),
        }
    }
}

const LOADS: [Load; 5] = [
    Load {
        what: "4 KiB random reads, one at a time",
        mode: "randread",
        block: "4K",
        depth: "1",
        unit: Unit::Latency,
    },
    Load {
        what: "4 KiB random reads, 32 at a time",
        mode: "randread",
        block: "4K",
        depth: "32",
        unit: Unit::Rate,
    },
    Load {
        what: "4 KiB random writes, 32 at a time",
        mode: "randwrite",
        block: "4K",
        depth: "32",
        unit: Unit::Rate,
    },
    Load {
        what: "128 KiB reads, 8 at a time",
        mode: "read",
        block: "128K",
        depth: "8",
        unit: Unit::Bandwidth,
    },
    Load {
        what: "128 KiB writes, 8 at a time",
        mode: "write",
        block: "128K",
        depth: "8",
        unit: Unit::Bandwidth,
    },
];

/// Measures each load with ours and theirs by turns.
fn compare(
    args: &Args,
    with: &'static str,
    ours: impl Fn(&Load) -> Result<nvme::Figures, String>,
    theirs: impl Fn(&Load) -> Result<nvme::Figures, String>,
) -> Result<Vec<Comparison>, String> {
    let bar = progress(args.comparing.runs * LOADS.len() as u32 * 2);
    let mut rows = LOADS.map(|load| Comparison {
        what: load.what.into(),
        with,
        unit: load.unit.name(),
        runs: Vec::new(),
        goal: Goal::None,
    });
    for _ in 0..args.comparing.runs {
        for (load, row) in LOADS.iter().zip(&mut rows) {
            step(&bar, "ours");
            let a = ours(load)?;
            step(&bar, with);
            let b = theirs(load)?;
            row.runs.push((load.unit.of(&a), load.unit.of(&b)));
        }
    }
    bar.finish_and_clear();
    Ok(rows.into())
}

/// Our host against our target, beside fio against nbdkit.
fn compare_over_veth(args: &Args) -> Result<Vec<Comparison>, String> {
    let program = roce::build_binary("roce-nvme", "nvme-rdma")?;
    let pair = VethPair::new(9000)?;
    let mut target = pair.command(0, &program.to_string_lossy());
    target.args(["serve", "--listen", ADDRESSES[0], "--name", NQN]);
    target.args(["--namespace", "memory,256M"]);
    let _target = serve(target, "listening at")?;
    let mut nbd = pair.command(0, "bash");
    nbd.args(["-c", &nbdkit(ADDRESSES[0])]);
    let _nbd = serve(nbd, "listening")?;

    let url = format!("nvme://{}/{NQN}", ADDRESSES[0]);
    let ours = |load: &Load| {
        let mut bench = pair.command(1, &program.to_string_lossy());
        bench.args(bench_arguments(&url, load, args.seconds));
        nvme::Figures::of_bench(&output(bench)?)
    };
    let theirs = |load: &Load| {
        let mut fio = pair.command(1, "fio");
        let uri = format!("--uri=nbd://{}", ADDRESSES[0]);
        fio.args(fio_arguments(load, args.seconds));
        fio.args(["--ioengine=nbd", &uri]);
        nvme::Figures::of_fio(&output(fio)?)
    };
    compare(args, "NBD over TCP", ours, theirs)
}

/// A shell command that runs nbdkit, which dies with the shell, and says when it listens.
fn nbdkit(address: &str) -> String {
    format!(
        "setpriv --pdeathsig KILL nbdkit --foreground --ipaddr {address} memory 256M & \
         until : 2> /dev/null < /dev/tcp/{address}/10809; do :; done; echo listening; wait"
    )
}

fn bench_arguments(url: &str, load: &Load, seconds: u32) -> Vec<String> {
    let seconds = seconds.to_string();
    let words = [
        "bench",
        url,
        "--json",
        "--mode",
        load.mode,
        "--overwrite",
        "--block",
        load.block,
        "--depth",
        load.depth,
        "--duration",
        &seconds,
    ];
    words.map(str::to_owned).to_vec()
}

fn fio_arguments(load: &Load, seconds: u32) -> Vec<String> {
    let Load {
        mode, block, depth, ..
    } = load;
    vec![
        "--name=bench".to_owned(),
        "--output-format=json".to_owned(),
        "--time_based".to_owned(),
        format!("--runtime={seconds}"),
        format!("--rw={mode}"),
        format!("--bs={block}"),
        format!("--iodepth={depth}"),
        "--size=64M".to_owned(),
    ]
}

/// Our host against the kernel's target, and the kernel's host against our target, beside the
/// kernel's nvme-tcp between two guests.
fn compare_with_guest(args: &Args) -> Result<Vec<Comparison>, String> {
    let program = roce::build_binary("roce-nvme", "nvme-rdma")?;
    let lab = Lab::boot(&LabConfig::default()).map_err(|e| e.to_string())?;
    let second = lab
        .boot_second(&LabConfig::default())
        .map_err(|e| e.to_string())?;
    let mut rows = compare_with_kernel_target(args, &program, &lab, &second)?;
    rows.extend(compare_with_kernel_host(args, &program, &lab, &second)?);
    Ok(rows)
}

/// The guest has a disk in memory that it offers over RDMA and over TCP.
fn compare_with_kernel_target(
    args: &Args,
    program: &Path,
    lab: &Lab,
    second: &SecondGuest<'_>,
) -> Result<Vec<Comparison>, String> {
    let address = GUEST_IP4.to_string();
    start_nvmet(lab.guest(["sh"]), lab, &["rdma", &address, "4420"])?;
    start_nvmet(lab.guest(["sh"]), lab, &["tcp", &address, "4421"])?;
    let disk = connect(|words| second.command(words), "tcp", &address, "4421")?;
    let url = format!("nvme://{address}/{NQN}");
    let ours = |load: &Load| {
        let mut bench = lab.host_command(program);
        bench.args(bench_arguments(&url, load, args.seconds));
        nvme::Figures::of_bench(&output(bench)?)
    };
    let theirs = |load: &Load| fio(|words| second.command(words), &disk, load, args.seconds);
    let rows = compare(args, "nvme-tcp, guest to guest", ours, theirs);
    disconnect(second.command(["sh"]))?;
    stop_nvmet(lab.guest(["sh"]), lab)?;
    Ok(prefix_names(rows?, "our host, the kernel's target: "))
}

/// Our target is outside. The second guest has the same over TCP.
fn compare_with_kernel_host(
    args: &Args,
    program: &Path,
    lab: &Lab,
    second: &SecondGuest<'_>,
) -> Result<Vec<Comparison>, String> {
    let address = HOST_IP4.to_string();
    let mut target = lab.host_command(program);
    target.args([
        "serve",
        "--listen",
        &address,
        "--name",
        NQN,
        "--namespace",
        "memory,64M",
    ]);
    let _target = serve(target, "listening at")?;
    let over_tcp = SECOND_IP4.to_string();
    start_nvmet(second.command(["sh"]), lab, &["tcp", &over_tcp, "4421"])?;
    let guest = |words: Vec<String>| lab.guest(words);
    let ours = |load: &Load| {
        let disk = connect(guest, "rdma", &address, "4420")?;
        let figures = fio(guest, &disk, load, args.seconds);
        disconnect(lab.guest(["sh"]))?;
        figures
    };
    let theirs = |load: &Load| {
        let disk = connect(guest, "tcp", &over_tcp, "4421")?;
        let figures = fio(guest, &disk, load, args.seconds);
        disconnect(lab.guest(["sh"]))?;
        figures
    };
    let rows = compare(args, "nvme-tcp, guest to guest", ours, theirs)?;
    Ok(prefix_names(rows, "the kernel's host, our target: "))
}

/// The same rows, with a prefix of their names.
fn prefix_names(rows: Vec<Comparison>, prefix: &str) -> Vec<Comparison> {
    let name = |row: Comparison| Comparison {
        what: format!("{prefix}{}", row.what).into(),
        ..row
    };
    rows.into_iter().map(name).collect()
}

/// Runs a shell command in a guest. Returns its output.
fn shell(command: GuestCommand, script: &str) -> Result<String, String> {
    let output = command.arg("-c").arg(script).output(TIMEOUT);
    let output = output
        .and_then(|o| o.success())
        .map_err(|e| e.to_string())?;
    Ok(output.stdout_text())
}

fn script(lab: &Lab) -> String {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tests/storage/nvme/nvmet.sh");
    lab.guest_path(&tests)
}

/// The kernel's target, with a disk in memory: transport, address and port.
fn start_nvmet(sh: GuestCommand, lab: &Lab, place: &[&str]) -> Result<(), String> {
    let script = script(lab);
    shell(
        sh,
        &format!("sh {script} start {} {NQN} 64", place.join(" ")),
    )
    .map(drop)
}

fn stop_nvmet(sh: GuestCommand, lab: &Lab) -> Result<(), String> {
    shell(sh, &format!("sh {} stop", script(lab))).map(drop)
}

/// Connects the kernel's host. Returns its disk.
fn connect(
    guest: impl Fn(Vec<String>) -> GuestCommand,
    transport: &str,
    address: &str,
    port: &str,
) -> Result<String, String> {
    let script = format!(
        "modprobe nvme-{transport} && nvme connect -t {transport} -a {address} -s {port} -n {NQN} -i 1 \
         && until ls /dev/nvme*n1 2> /dev/null; do :; done"
    );
    let text = shell(guest(vec!["sh".to_owned()]), &script)?;
    let disk = text.lines().find(|line| line.starts_with("/dev/nvme"));
    disk.map(str::to_owned)
        .ok_or_else(|| format!("no disk: {text}"))
}

fn disconnect(sh: GuestCommand) -> Result<(), String> {
    shell(sh, &format!("nvme disconnect -n {NQN}")).map(drop)
}

fn fio(
    guest: impl Fn(Vec<String>) -> GuestCommand,
    disk: &str,
    load: &Load,
    seconds: u32,
) -> Result<nvme::Figures, String> {
    let mut words = vec!["fio".to_owned()];
    words.extend(fio_arguments(load, seconds));
    words.extend(["--ioengine=libaio", "--direct=1"].map(str::to_owned));
    words.push(format!("--filename={disk}"));
    let output = guest(words).output(TIMEOUT).and_then(|o| o.success());
    nvme::Figures::of_fio(&output.map_err(|e| e.to_string())?.stdout_text())
}
