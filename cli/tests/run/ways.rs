//! The three ways in which a program sees its devices: a mount namespace, a user namespace,
//! and a preloaded library under a filter of system calls like that of a default container.

use super::programs::{installed, library};
use super::*;
use std::sync::OnceLock;

/// C programs, built once.
struct Programs {
    _folder: TempDir,
    calls: PathBuf,
    default_profile: PathBuf,
}

/// The programs. Reports it if they can't be built.
fn programs(test: &str) -> Option<&'static Programs> {
    static BUILT: OnceLock<Programs> = OnceLock::new();
    if !installed(test, &["gcc"]) {
        return None;
    }
    Some(BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("allowed");
        Programs {
            calls: build(folder.path(), "calls", &[]),
            default_profile: build(folder.path(), "default_profile", &[]),
            _folder: folder,
        }
    }))
}

/// Builds a program of the folder `c`.
pub(crate) fn build(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    built(folder, name, name, options)
}

/// Builds the file `to` of the source `name` of the folder `c`.
pub(crate) fn built(folder: &Path, name: &str, to: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/c");
    let to = folder.join(to);
    testkit::compile("gcc", source.join(format!("{name}.c")), &to, options);
    to
}

/// A way in which `roce run` shows the device files, and the situation in which it uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Root makes mounts.
    Mounts,
    /// An ordinary user in a user namespace.
    UserNamespace,
    /// Root in a container with the default profile.
    ContainerOfRoot,
    /// An ordinary user in such a container.
    ContainerOfNobody,
}

impl Way {
    /// All that can be tried here.
    fn all(test: &str) -> Vec<Self> {
        let who = Who::with_namespaces(test);
        let root = nix::unistd::geteuid().is_root();
        let mut ways = Vec::new();
        if root && who.contains(&Who::Myself) {
            ways.push(Self::Mounts);
        }
        if who.contains(&Who::Nobody) || (!root && who.contains(&Who::Myself)) {
            ways.push(Self::UserNamespace);
        }
        if root {
            ways.push(Self::ContainerOfRoot);
        }
        ways.push(Self::ContainerOfNobody);
        ways
    }

    /// What `roce run -v` calls it.
    fn said(self) -> &'static str {
        match self {
            Self::Mounts => "way 1 of 3",
            Self::UserNamespace => "way 2 of 3",
            Self::ContainerOfRoot | Self::ContainerOfNobody => "way 3 of 3",
        }
    }

    /// A command that runs in this way.
    fn command(self, programs: &Programs, program: impl AsRef<OsStr>) -> Command {
        let root = nix::unistd::geteuid().is_root();
        let who = match self {
            Self::Mounts | Self::ContainerOfRoot => Who::Myself,
            _ if root => Who::Nobody,
            _ => Who::Myself,
        };
        match self {
            Self::Mounts | Self::UserNamespace => who.command(program),
            Self::ContainerOfRoot => {
                // The capability that Docker takes from root.
                let mut command = who.command("setpriv");
                command.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]);
                command.arg(&programs.default_profile).arg(program);
                command
            }
            Self::ContainerOfNobody => {
                let mut command = who.command(&programs.default_profile);
                command.arg(program);
                command
            }
        }
    }

    /// `roce run -v` with the library that cargo built, of `words`.
    fn run(self, programs: &Programs, words: &[&str]) -> Output {
        self.run_with_names(programs, "", words)
    }

    /// As [`Self::run`], with names for devices.
    fn run_with_names(self, programs: &Programs, names: &str, words: &[&str]) -> Output {
        let mut command = self.command(programs, ROCE);
        command.args(["run", "-v", "--library"]).arg(library());
        command.env("ROCE_DEVICE_NAMES", names);
        let output = command.arg("--").args(words).output().expect("it starts");
        let told = text(&output.stderr);
        assert!(told.contains(self.said()), "{self:?}: {told}");
        output
    }
}

#[test]
fn every_call_sees_made_up_files_by_every_path_and_no_others() {
    let test = "every_call_sees_made_up_files_by_every_path_and_no_others";
    let Some(programs) = programs(test) else {
        return;
    };
    let index = fs::read_to_string("/sys/class/net/lo/ifindex").expect("there");
    let calls = programs.calls.to_str().expect("text");
    for way in Way::all(test) {
        let output = way.run(programs, &[calls, "roce_lo", index.trim(), "lo"]);
        assert_eq!(said(&output), "all right\n", "{way:?}");
    }
    // Without any of them, the program reports what is missing.
    let mut command = Who::Myself.command(ROCE);
    command.args(["run", "--namespace", "none", "--library"]);
    command.arg(library()).arg("--").arg(calls);
    let output = command.args(["roce_lo", index.trim(), "lo"]).output();
    assert!(!output.expect("it starts").status.success());
}

/// Installs the command and the libraries as the package does.
fn installed_stack() -> TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let (bin, lib) = (root.path().join("bin"), root.path().join("lib/roce"));
    for folder in [root.path(), &bin, &root.path().join("lib"), &lib] {
        fs::create_dir_all(folder).expect("made");
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("allowed");
    }
    let preload = library().with_file_name("libroce_preload.so");
    for (from, to) in [
        (PathBuf::from(ROCE), bin.join("roce")),
        (library(), lib.join("libibverbs.so.1")),
        (preload, lib.join("libroce_preload.so")),
    ] {
        fs::copy(from, to).expect("copied");
    }
    root
}

/// As in a container: the library is preloaded, and nothing says where the files are.
#[test]
fn files_are_made_when_a_program_asks_for_them_without_roce_run() {
    let test = "files_are_made_when_a_program_asks_for_them_without_roce_run";
    let Some(programs) = programs(test) else {
        return;
    };
    let stack = installed_stack();
    let preload = stack.path().join("lib/roce/libroce_preload.so");
    let index = fs::read_to_string("/sys/class/net/lo/ifindex").expect("there");
    let file = "/sys/class/infiniband/roce_lo/node_type";
    let unnoticed = built(stack.path(), "unnoticed", "unnoticed", &["-pthread"]);
    for way in [Way::ContainerOfRoot, Way::ContainerOfNobody] {
        if way == Way::ContainerOfRoot && !nix::unistd::geteuid().is_root() {
            continue;
        }
        let mut calls = way.command(programs, &programs.calls);
        calls
            .args(["roce_lo", index.trim(), "lo"])
            .env("LD_PRELOAD", &preload);
        assert_eq!(
            said(&calls.output().expect("it starts")),
            "all right\n",
            "{way:?}"
        );
        let mut threads = way.command(programs, &unnoticed);
        threads.arg(file).env("LD_PRELOAD", &preload);
        let output = threads.output().expect("it starts");
        assert_eq!(said(&output), "all right\n", "{way:?}");
        assert_eq!(text(&output.stderr), "", "{way:?}");
        // A user who says where the files are is right.
        threads.env("ROCE_FILES", "/nonexistent");
        assert!(!threads.output().expect("it starts").status.success());
    }
    // Without the command, there are no files.
    fs::remove_file(stack.path().join("bin/roce")).expect("removed");
    let mut threads = Who::Myself.command(&unnoticed);
    let output = threads.arg(file).env("LD_PRELOAD", &preload).output();
    assert!(!output.expect("it starts").status.success());
}

#[test]
fn programs_find_their_devices_in_every_way() {
    let test = "programs_find_their_devices_in_every_way";
    let Some(programs) = programs(test) else {
        return;
    };
    let expected: [(&[&str], &[&str]); 4] = [
        (
            &["ibv_devinfo", "-v", "-d", "roce_lo"],
            &["PORT_ACTIVE", "board_id:\t\t\troce", "RoCE v2"],
        ),
        (
            &["ucx_info", "-d"],
            &[
                "Transport: rc_verbs\n#         Device: roce_lo:1",
                "Transport: ud_verbs\n#         Device: roce_lo:1",
            ],
        ),
        (
            &["fi_info", "-p", "verbs"],
            &["provider: verbs", "domain: roce_lo"],
        ),
        (&["ls", "/dev/infiniband/rdma_cm"], &["rdma_cm"]),
    ];
    for (words, parts) in expected {
        if !installed(test, &words[..1]) {
            continue;
        }
        for way in Way::all(test) {
            let told = said(&way.run(programs, words));
            for part in parts {
                assert!(told.contains(part), "{way:?} {words:?}: {told}");
            }
        }
    }
}

/// The name is nothing but a name: the vendor, the driver and the description stay.
#[test]
fn programs_find_a_device_by_the_name_that_it_is_given() {
    let test = "programs_find_a_device_by_the_name_that_it_is_given";
    let Some(programs) = programs(test) else {
        return;
    };
    let index = fs::read_to_string("/sys/class/net/lo/ifindex").expect("there");
    let uverbs = format!("/sys/class/infiniband_verbs/uverbs{}", index.trim());
    let ibdev = format!("{uverbs}/ibdev");
    let expected: [(&[&str], &[&str]); 6] = [
        (
            &["ibv_devinfo", "-v", "-d", "mlx5_0"],
            &[
                "hca_id:\tmlx5_0",
                "PORT_ACTIVE",
                "board_id:\t\t\troce",
                "vendor_id:\t\t\t0xffffff",
            ],
        ),
        (
            &["ucx_info", "-d"],
            &[
                "Transport: rc_verbs\n#         Device: mlx5_0:1",
                "Transport: ud_verbs\n#         Device: mlx5_0:1",
            ],
        ),
        (
            &["fi_info", "-p", "verbs"],
            &["provider: verbs", "domain: mlx5_0"],
        ),
        (&["cat", &ibdev], &["mlx5_0\n"]),
        (
            &["cat", "/sys/class/infiniband/mlx5_0/node_desc"],
            &["roce_lo\n"],
        ),
        (&["ls", "/sys/class/infiniband"], &["mlx5_0\n"]),
    ];
    for (words, parts) in expected {
        if !installed(test, &words[..1]) {
            continue;
        }
        for way in Way::all(test) {
            let told = said(&way.run_with_names(programs, "lo=mlx5_0", words));
            for part in parts {
                assert!(told.contains(part), "{way:?} {words:?}: {told}");
            }
            // Nothing takes it for a device of mlx5's driver.
            for wrong in ["rc_mlx5", "dc_mlx5", "_devx", "infiniband/roce_lo"] {
                assert!(!told.contains(wrong), "{way:?} {words:?}: {told}");
            }
        }
    }
}

/// One end is a server, the other a client, at the loopback of a network of their own.
const WRITE_BW: &str = "
    set -e
    ip link set lo up
    run() { \"$@\" run -v --library \"$LIBRARY\" -- \\
        timeout 60 ib_write_bw -d \"$DEVICE\" -x 1 -F -n 100 -s 65536 $SERVER; }
    SERVER= run \"$@\" & server=$!
    # Until it listens, at port 18515.
    until grep -q ':4853 ' /proc/net/tcp /proc/net/tcp6; do kill -0 $server; done
    SERVER=127.0.0.1 run \"$@\"
    wait $server";

#[test]
fn perftest_moves_data_in_every_way() {
    let test = "perftest_moves_data_in_every_way";
    let Some(programs) = programs(test) else {
        return;
    };
    if !installed(test, &["ib_write_bw", "ip", "unshare", "timeout"]) {
        return;
    }
    let given = [("roce_lo", ""), ("mlx5_0", "lo=mlx5_0")];
    let all = Way::all(test).into_iter();
    for (way, (device, names)) in all.flat_map(|way| given.map(|given| (way, given))) {
        // The network is made outside of the container, as a container's is.
        let who = match way {
            Way::Mounts | Way::ContainerOfRoot => Who::Myself,
            _ if nix::unistd::geteuid().is_root() => Who::Nobody,
            _ => Who::Myself,
        };
        let mut command = who.command("unshare");
        let users: &[&str] = match way {
            Way::Mounts | Way::ContainerOfRoot => &["--net"],
            _ => &["--user", "--map-current-user", "--keep-caps", "--net"],
        };
        command.args(users).args(["sh", "-c", WRITE_BW, "sh"]);
        if way.said() == "way 3 of 3" {
            command.arg(&programs.default_profile);
        }
        command.arg(ROCE).env("LIBRARY", library());
        command.envs([("DEVICE", device), ("ROCE_DEVICE_NAMES", names)]);
        let told = said(&command.output().expect("it starts"));
        let lines = told.matches("65536      100 ").count();
        assert_eq!(lines, 2, "{way:?} {device}: {told}");
    }
}
