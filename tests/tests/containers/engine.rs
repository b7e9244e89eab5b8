//! Podman in namespaces of its own: its storage, networks and containers vanish with them.

use crate::image::{self, Image};
use crate::success;
use crate::text;
use roce_tests::programs;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// The ID of an ordinary user, who gets a name and subordinate IDs in the namespaces.
const USER: u32 = 12_345;

/// Prepares the namespaces. Their files outside of `$1` lie in memory.
const PREPARE: &str = "
    mount --make-rprivate /
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    ip link set lo up
    mount -t tmpfs tmpfs /run
    for folder in /var/lib/containers /var/cache/containers /etc/cdi; do
        [ ! -d $folder ] || mount -t tmpfs tmpfs $folder
    done
    for file in passwd group subuid subgid; do
        cp /etc/$file /run/$file
    done
    echo 'ordinary:x:12345:12345::/run/ordinary:/bin/sh' >>/run/passwd
    echo 'ordinary:x:12345:' >>/run/group
    echo 'ordinary:1000000:65536' | tee -a /run/subuid >>/run/subgid
    for file in passwd group subuid subgid; do
        mount --bind /run/$file /etc/$file
    done
    mkdir /run/ordinary
    chown 12345:12345 /run/ordinary
    \"$1/stack/bin/roce\" cdi generate --output /run/cdi/roce.json
    echo ready
    exec cat";

/// The user who starts containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    Ordinary,
}

/// Podman with one image and a network.
pub(crate) struct Engine {
    user: User,
    folder: TempDir,
    /// The first process of the namespaces. All others end with it.
    holder: Child,
}

/// A container that runs in the background.
pub(crate) struct Container<'a> {
    engine: &'a Engine,
    name: &'static str,
    /// Its IPv4 address.
    pub(crate) address: String,
}

impl Engine {
    /// Starts it, and describes this stack to it. Skips the test if containers don't run here.
    pub(crate) fn start_or_skip(user: User, image: &Image) -> Option<Self> {
        let rootless: &[&str] = match user {
            User::Root => &[],
            User::Ordinary => &["newuidmap", "slirp4netns"],
        };
        let mut needed = ["podman", "nsenter"].iter().chain(rootless);
        if !needed.all(|name| testkit::is_installed_or_skip(name)) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        open(folder.path(), 0o755);
        install(&folder.path().join("stack"));
        let storage = folder.path().join("storage");
        fs::create_dir(&storage).expect("made");
        if user == User::Ordinary {
            chown(&storage, Some(USER), Some(USER)).expect("root may");
        }
        let holder = hold_namespaces(folder.path());
        let engine = Self {
            user,
            folder,
            holder,
        };
        let file = image.file.to_str().expect("text");
        success(&engine.podman(&["import", file, "image"]));
        success(&engine.podman(&["network", "create", "--disable-dns", "lan"]));
        let tried = engine.run(&[], &["true"]);
        if !tried.status.success() {
            testkit::skip("containers of Podman", text(&tried).trim());
            return None;
        }
        Some(engine)
    }

    /// Runs a program in a container to its end. Without another network in its options, it is in the network
    /// `lan`.
    pub(crate) fn run(&self, options: &[&str], program: &[&str]) -> Output {
        let lan: &[&str] = match options.contains(&"--network") {
            true => &[],
            false => &["--network", "lan"],
        };
        self.podman(&[&["run", "--rm"], LIMITS, lan, options, &["image"], program].concat())
    }

    /// Starts a program in a container of the network `lan`.
    pub(crate) fn start(
        &self,
        name: &'static str,
        options: &[&str],
        program: &[&str],
    ) -> Container<'_> {
        let named = ["run", "--detach", "--network", "lan", "--name", name];
        success(&self.podman(&[&named, LIMITS, options, &["image"], program].concat()));
        let format = "{{.NetworkSettings.Networks.lan.IPAddress}}";
        let address = success(&self.podman(&["inspect", "--format", format, name]));
        Container {
            engine: self,
            name,
            address: address.trim().to_owned(),
        }
    }

    fn podman(&self, arguments: &[&str]) -> Output {
        let of = |kind: &str| format!("/proc/{}/ns/{kind}", self.holder.id());
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", of("net")));
        command.arg(format!("--mount={}", of("mnt")));
        command.arg(format!("--pid={}", of("pid_for_children")));
        if self.user == User::Ordinary {
            let id = USER.to_string();
            command.args(["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"]);
            command.env("HOME", "/run/ordinary");
            command.env("XDG_RUNTIME_DIR", "/run/ordinary");
        }
        // Root's networks would be in /etc.
        let storage = self.folder.path().join("storage");
        command
            .args(["podman", "--network-config-dir"])
            .arg(storage.join("networks"));
        command.arg("--root").arg(storage);
        command
            .args(ENGINE)
            .args(arguments)
            .env("PATH", testkit::search_path());
        // Podman refuses a current folder that the user can't read.
        command.current_dir("/").stdin(Stdio::null());
        command.output().expect("it starts")
    }
}

/// The options of Podman that need nothing of the machine: no systemd, no cgroups, no journal.
const ENGINE: [&str; 5] = [
    "--cgroup-manager=cgroupfs",
    "--events-backend=none",
    "--runtime=crun",
    "--storage-driver=overlay",
    "--log-level=error",
];

/// The options of a container. Without limits of its own, root's container gets more than this machine may
/// allow.
const LIMITS: &[&str] = &[
    "--cgroups=disabled",
    "--ulimit=nofile=1024:1024",
    "--ulimit=nproc=4096:4096",
    "--pull=never",
];

impl Drop for Engine {
    fn drop(&mut self) {
        // The namespace's first process is a child of this one, which takes it along.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

impl Container<'_> {
    /// Runs a program in the container, which gets no variable of its device.
    pub(crate) fn exec(&self, program: &[&str]) -> Output {
        self.engine
            .podman(&[&["exec", self.name], program].concat())
    }

    /// Waits for the program to end, and returns its output.
    pub(crate) fn end(self) -> String {
        let code = success(&self.engine.podman(&["wait", self.name]));
        let said = text(&self.engine.podman(&["logs", self.name]));
        assert_eq!(code.trim(), "0", "{said}");
        self.remove();
        said
    }

    pub(crate) fn remove(self) {
        success(
            &self
                .engine
                .podman(&["rm", "--force", "--time=0", self.name]),
        );
    }
}

/// Starts the first process of new namespaces.
fn hold_namespaces(folder: &Path) -> Child {
    let mut holder = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child"])
        .args(["--", "sh", "-euc", PREPARE, "sh"])
        .arg(folder)
        .env("PATH", testkit::search_path())
        // It ends with the test's end of this pipe.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("unshare starts");
    let mut said = BufReader::new(holder.stdout.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert_eq!(line, "ready\n", "the namespaces can't be prepared");
    holder
}

/// Installs the package of [`image::package`], or what cargo built with this test, as the package does.
fn install(to: &Path) {
    if let Some(package) = image::package() {
        fs::create_dir(to).expect("made");
        open(to, 0o755);
        let mut tar = Command::new("tar");
        tar.args([
            "--extract",
            "--no-same-owner",
            "--strip-components=1",
            "--file",
        ]);
        let unpacked = tar.arg(&package).arg("--directory").arg(to).status();
        assert!(
            unpacked.expect("it starts").success(),
            "{}",
            package.display()
        );
        return;
    }
    let (bin, lib) = (to.join("bin"), to.join("lib/roce"));
    for folder in [&bin, &lib] {
        fs::create_dir_all(folder).expect("made");
    }
    for (from, to) in [
        (programs::roce().to_owned(), bin.join("roce")),
        (
            programs::built("libroce_verbs_shim.so"),
            lib.join("libibverbs.so.1"),
        ),
        (
            programs::built("libroce_preload.so"),
            lib.join("libroce_preload.so"),
        ),
    ] {
        fs::copy(from, &to).expect("copied");
        open(&to, 0o755);
    }
}

fn open(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("allowed");
}
