//! Carries out docs/run.md: the steps of the action, the Python wheel in an environment of its own, and the Debian package
//! in a root with only Debian's base system. All run as an ordinary user.

use roce_tests::programs;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// An unprivileged user.
const NOBODY: u32 = 65534;

/// The repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder that any user can read.
fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("allowed");
    folder
}

fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A command that runs as an ordinary user: as `nobody` if root runs the tests.
fn as_ordinary_user(program: impl AsRef<OsStr>) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .arg(format!("--reuid={NOBODY}"))
        .arg(format!("--regid={NOBODY}"))
        .arg("--clear-groups")
        .arg(program);
    command
}

/// Packs the command and the library that were built with this test, with the real `cargo xtask
/// dist`, and returns the file with this ending.
fn packed(folder: &Path, ending: &str) -> PathBuf {
    let built = folder.join("built");
    fs::create_dir(&built).expect("made");
    symlink(programs::roce(), built.join("roce")).expect("a link");
    let storage = programs::built("nvme-rdma-under-test");
    symlink(storage, built.join("nvme-rdma")).expect("a link");
    for name in [
        "libroce_verbs_shim.so",
        "libroce_preload.so",
        "libroce_rspreload.so",
    ] {
        symlink(programs::built(name), built.join(name)).expect("a link");
    }
    let dist = folder.join("dist");
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("dist")
        .arg("--from")
        .arg(&built)
        .arg("--out")
        .arg(&dist)
        .output()
        .expect("it starts");
    let said = success(&output);
    let made = said.lines().find(|line| line.ends_with(ending));
    PathBuf::from(made.unwrap_or_else(|| panic!("no {ending} in {said}")))
}

/// The output of a command, which must have succeeded.
fn success(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}{errors}", output.status);
    text
}

/// A job of a hosted runner, as far as the action uses one.
struct Job {
    folder: TempDir,
    package: PathBuf,
}

impl Job {
    fn new() -> Self {
        Self::of(".tar.gz")
    }

    /// A job that has the package with this ending.
    fn of(ending: &str) -> Self {
        let folder = open_folder();
        let package = packed(folder.path(), ending);
        let temp = folder.path().join("temp");
        fs::create_dir(&temp).expect("made");
        if is_root() {
            chown(&temp, Some(NOBODY), Some(NOBODY)).expect("given away");
        }
        Self { folder, package }
    }

    fn temp(&self) -> PathBuf {
        self.folder.path().join("temp")
    }

    /// The `run:` lines of the action: of the steps that name the sources, install and check.
    fn steps() -> [String; 3] {
        let action = fs::read_to_string(repository().join("action.yml")).expect("read");
        let runs = action.lines().filter_map(|line| {
            let command = line.trim().strip_prefix("run: ")?;
            Some(command.trim_matches('\'').to_owned())
        });
        runs.collect::<Vec<_>>().try_into().expect("three steps")
    }

    /// Runs a step with these inputs, in the environment that earlier steps have set.
    fn step(&self, command: &str, inputs: &[(&str, &str)]) -> Output {
        let temp = self.temp();
        let read = |name: &str| fs::read_to_string(temp.join(name)).unwrap_or_default();
        let mut path: Vec<String> = read("path").lines().map(str::to_owned).collect();
        path.push("/usr/bin:/bin".to_owned());
        let mut step = as_ordinary_user("bash");
        step.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", command])
            .env_clear()
            .current_dir(&temp)
            .env("HOME", &temp)
            .env("PATH", path.join(":"))
            .env("RUNNER_TEMP", &temp)
            .env("GITHUB_ACTION_PATH", repository())
            .env("GITHUB_PATH", temp.join("path"))
            .env("GITHUB_ENV", temp.join("env"))
            .env("GITHUB_OUTPUT", temp.join("output"))
            .envs(inputs.iter().copied());
        for line in read("env").lines() {
            let (name, value) = line.split_once('=').expect("NAME=VALUE");
            step.env(name, value);
        }
        step.output().expect("it starts")
    }

    /// Runs the steps of the action that install and check a package.
    fn act(&self, inputs: &[(&str, &str)]) -> String {
        let package = self.package.to_str().expect("text");
        let inputs = [&[("INPUT_PACKAGE", package)], inputs].concat();
        let [_, install, check] = Self::steps();
        let run = |step: String| success(&self.step(&step, &inputs));
        [install, check].map(run).concat()
    }
}

#[test]
fn the_action_puts_roce_in_the_path_of_later_steps() {
    let job = Job::new();
    let said = job.act(&[("INPUT_DOCTOR", "report"), ("INPUT_DEVICES", "lo")]);
    assert!(said.contains("roce 0."), "{said}");
    assert!(
        said.contains("uses rc_verbs"),
        "roce doctor reports: {said}"
    );
    let output = fs::read_to_string(job.temp().join("output")).expect("an output");
    assert_eq!(
        output,
        format!("prefix={}\n", job.temp().join("roce").display())
    );
    let devices = success(&job.step("roce devices", &[]));
    assert!(devices.contains("roce_lo"), "{devices}");
    let perf = "roce perf --op write --size 64 --duration 20 --iterations 20";
    success(&job.step(perf, &[]));
}

#[test]
fn the_action_can_put_every_later_step_on_rdma() {
    if !testkit::is_installed_or_skip("ibv_devinfo") {
        return;
    }
    let job = Job::new();
    job.act(&[
        ("INPUT_DOCTOR", "report"),
        ("INPUT_ENVIRONMENT", "true"),
        ("INPUT_DEVICES", "lo"),
    ]);
    let said = success(&job.step("ibv_devinfo", &[]));
    assert!(said.contains("roce_lo"), "{said}");
}

#[test]
fn the_action_builds_nothing_that_its_cache_has() {
    let job = Job::new();
    let [name, install, _] = Job::steps();
    let key = || {
        success(&job.step(&name, &[]));
        let output = job.temp().join("output");
        let said = fs::read_to_string(&output).expect("an output");
        fs::remove_file(output).expect("removed");
        said
    };
    let said = key();
    assert_eq!(said, key(), "the same sources have the same key");
    let folder = said.lines().find_map(|line| line.strip_prefix("folder="));
    let folder = Path::new(folder.expect("a folder"));
    // There is no cargo among the programs of a step.
    let built = job.step(&install, &[]);
    assert!(!built.status.success());
    let said = String::from_utf8_lossy(&built.stdout).into_owned();
    assert!(said.contains("no cargo"), "{said}");
    fs::create_dir(folder).expect("made");
    let name = job.package.file_name().expect("a name");
    fs::copy(&job.package, folder.join(name)).expect("copied");
    let said = success(&job.step(&install, &[]));
    assert!(said.contains("roce 0."), "{said}");
}

#[test]
fn the_action_names_an_input_that_is_wrong() {
    let job = Job::new();
    let [_, install, check] = Job::steps();
    let refused = |step: &str, inputs: &[(&str, &str)], names: &str| {
        let output = job.step(step, inputs);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.starts_with("::error ") && said.contains(names),
            "{said}"
        );
    };
    refused(
        &install,
        &[("INPUT_PACKAGE", "/nonexistent.tar.gz")],
        "/nonexistent.tar.gz",
    );
    refused(&install, &[("INPUT_PACKAGE", "/bin/sh")], "/bin/sh");
    job.act(&[("INPUT_DOCTOR", "report")]);
    refused(&check, &[("INPUT_DOCTOR", "maybe")], "'maybe'");
    let inputs = [("INPUT_DOCTOR", "report"), ("INPUT_ENVIRONMENT", "yes")];
    let output = job.step(&check, &inputs);
    assert!(String::from_utf8_lossy(&output.stdout).contains("'yes'"));
    assert!(!output.status.success());
}

/// The script that a pod's init container runs.
fn script_of_pod() -> String {
    let path = repository().join("packaging/kubernetes/pod.yaml");
    let text = fs::read_to_string(path).expect("text");
    let pod: serde_json::Value = serde_yaml_ng::from_str(&text).expect("YAML");
    let script = pod["spec"]["initContainers"][0]["command"][2].as_str();
    script.expect("a script").to_owned()
}

#[test]
fn the_wheel_works_in_a_python_environment() {
    let job = Job::of(".whl");
    let venv = Command::new("/usr/bin/python3")
        .args(["-c", "import venv, ensurepip"])
        .output();
    if !venv.is_ok_and(|output| output.status.success()) {
        testkit::skip("python3-venv", "");
        return;
    }
    let package = job.package.to_str().expect("text");
    let install = "/usr/bin/python3 -m venv env && env/bin/pip install --no-index \"$INPUT_PACKAGE\" \
                   && env/bin/pip check && echo \"$PWD/env/bin\" >>\"$GITHUB_PATH\"";
    success(&job.step(install, &[("INPUT_PACKAGE", package)]));
    let devices = success(&job.step("roce devices", &[]));
    assert!(devices.contains("roce_lo"), "{devices}");
    // It finds librdmacm, too, which a wheel can't hold as a link.
    let load = "roce run python3 -c 'import ctypes
for name in \"libibverbs.so.1\", \"librdmacm.so.1\":
    ctypes.CDLL(name).rdma_create_event_channel
print(open(\"/proc/self/maps\").read())'";
    let maps = success(&job.step(load, &[]));
    assert!(
        maps.contains("env/lib/roce/libroce_verbs_shim.so"),
        "{maps}"
    );
    success(&job.step("eval \"$(roce env)\"; python3 -c 'import ctypes; ctypes.CDLL(\"librdmacm.so.1\").rdma_join_multicast'", &[]));
    success(&job.step(
        "nvme-rdma --version; env/bin/pip uninstall --yes roce; test ! -e env/bin/roce",
        &[],
    ));
}

/// The name of this machine's release of Debian.
fn suite() -> Option<String> {
    let release = fs::read_to_string("/etc/os-release").ok()?;
    let mut lines = release.lines();
    let name = lines.find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
    Some(name.to_owned())
}

#[test]
fn the_debian_package_works_in_a_fresh_root() {
    if !is_root() {
        testkit::skip("root", "");
        return;
    }
    if !testkit::is_installed_or_skip("debootstrap") {
        return;
    }
    let (Ok(mirror), Some(suite)) = (roce_tests::lab::debian_mirror(), suite()) else {
        testkit::skip("a mirror of Debian among the sources of apt", "");
        return;
    };
    let folder = open_folder();
    let package = packed(folder.path(), ".deb");
    let root = folder.path().join("root");
    let bootstrap = Command::new("debootstrap")
        .args(["--variant=minbase", "--include=ibverbs-utils", &suite])
        .arg(&root)
        .arg(&mirror)
        .output()
        .expect("it starts");
    if !bootstrap.status.success() {
        let said = String::from_utf8_lossy(&bootstrap.stdout).into_owned();
        let why = said.lines().find(|line| line.starts_with("E: "));
        testkit::skip("a mirror of Debian that answers", why.unwrap_or(&said));
        return;
    }
    fs::copy(&package, root.join("roce.deb")).expect("copied");
    // In namespaces of its own, which remove its mounts and processes at the end.
    let inside = |script: &str| {
        let output = Command::new("unshare")
            .args(["--net", "--mount", "--pid", "--fork", "--kill-child"])
            .args(["--", "sh", "-ec"])
            .arg(
                "ip link set lo up
                 mount -t proc proc \"$1/proc\"
                 mount --rbind /sys \"$1/sys\"
                 mount --rbind /dev \"$1/dev\"
                 exec chroot \"$1\" sh -ec \"$2\"",
            )
            .arg("sh")
            .arg(&root)
            .arg(script)
            .output();
        success(&output.expect("it starts"))
    };
    inside("dpkg -i /roce.deb");
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    let devices = inside(&format!("{nobody} roce devices"));
    assert!(devices.contains("roce_lo"), "{devices}");
    let devinfo = inside(&format!("{nobody} roce run ibv_devinfo"));
    assert!(devinfo.contains("roce_lo"), "{devinfo}");
    // The package has all that containers get: this user can't add to it.
    let device = inside(&format!("{nobody} roce cdi generate"));
    assert!(
        device.contains("\"/usr/lib/roce/libibverbs.so.1\""),
        "{device}"
    );
    let perf = "roce perf --op write --size 4096 --duration 20 --iterations 20";
    let perf = inside(&format!("{nobody} {perf}"));
    assert!(perf.contains("every byte compared was right"), "{perf}");
    let disk = inside(&format!("{nobody} nvme-rdma --version"));
    assert!(disk.starts_with("nvme-rdma "), "{disk}");
    // A pod copies roce from such a root.
    inside(&format!(
        "mkdir -m 777 /roce; {nobody} sh -ec '{}'",
        script_of_pod()
    ));
    inside("dpkg --purge roce; test ! -e /usr/bin/roce; test ! -e /usr/lib/roce");
    let devinfo = inside(&format!("{nobody} /roce/bin/roce run ibv_devinfo"));
    assert!(devinfo.contains("roce_lo"), "{devinfo}");
}
