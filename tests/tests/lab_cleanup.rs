//! No part of a lab outlives the process that created it, however that ends. A guest that dies is
//! reported at once, without a timeout.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use roce_tests::lab::{Lab, LabConfig};
use testkit::heed_signals;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Set in the process that will be killed.
const VICTIM: &str = "ROCE_LAB_VICTIM";

/// The traces of a lab that are visible from outside.
#[derive(Debug)]
struct Traces {
    namespace: String,
    directory: PathBuf,
    marker: String,
}

impl Traces {
    fn of(lab: &Lab) -> Self {
        let directory = lab.directory().to_owned();
        let name = directory
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        Self {
            namespace: lab.namespace_identity(),
            directory,
            marker: name,
        }
    }

    /// Processes and threads that are in the lab's namespace, or that the lab started.
    fn alive(&self) -> Vec<PathBuf> {
        let marker = format!("ROCE_LAB_RUN={}\0", self.marker);
        let mut found = Vec::new();
        for task in tasks() {
            let namespace = fs::read_link(task.join("ns/net")).unwrap_or_default();
            let environment = fs::read(task.join("environ")).unwrap_or_default();
            if namespace == Path::new(&self.namespace)
                || String::from_utf8_lossy(&environment).contains(&marker)
            {
                found.push(task);
            }
        }
        found
    }

    /// Waits until one of them runs this command.
    fn assert_runs(&self, command: &str) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let lines: Vec<_> = self.alive().iter().map(|task| command_line(task)).collect();
            if lines.iter().any(|line| line.contains(command)) {
                return;
            }
            assert!(Instant::now() < deadline, "no {command} in {lines:?}");
            thread::yield_now();
        }
    }

    /// Waits until the kernel has killed all of them.
    fn assert_gone(&self) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.alive().is_empty() {
            assert!(Instant::now() < deadline, "still there: {:?}", self.alive());
            thread::yield_now();
        }
    }
}

#[test]
fn a_dropped_lab_leaves_nothing() {
    let Some(lab) = Lab::boot_or_skip(&LabConfig::default()) else {
        return;
    };
    let traces = Traces::of(&lab);
    // A child of a process that the lab starts: only the lab kills it.
    let status = lab
        .host_command("sh")
        .args(["-c", "sleep 4321 > /dev/null 2>&1 &"])
        .status();
    assert!(status.unwrap().success());
    // The shell's child may not be `sleep` yet when the shell has ended.
    traces.assert_runs("qemu-system");
    traces.assert_runs("sleep 4321");
    assert!(traces.directory.is_dir());

    drop(lab);
    traces.assert_gone();
    assert!(!traces.directory.exists());
}

#[test]
fn a_guest_that_crashes_is_reported_with_its_console() {
    let Some(lab) = Lab::boot_or_skip(&LabConfig::default()) else {
        return;
    };
    let waiting = lab.guest_spawn(["sleep", "1000"]).unwrap();
    lab.check_kernel().unwrap();
    let crash = "echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger";
    let error = lab
        .guest(["sh", "-c", crash])
        .output(TIMEOUT)
        .unwrap_err()
        .to_string();
    assert!(error.contains("the guest is gone"), "{error}");
    assert!(error.contains("sysrq triggered crash"), "{error}");
    waiting.wait(TIMEOUT).unwrap_err();
    lab.guest(["true"]).output(TIMEOUT).unwrap_err();
    assert!(lab.console().contains("sysrq triggered crash"));
}

#[test]
fn a_kernel_that_reports_a_bug_is_detected() {
    let Some(lab) = Lab::boot_or_skip(&LabConfig::default()) else {
        return;
    };
    lab.check_kernel().unwrap();
    let report = "echo '<1>BUG: made up by a test' > /dev/kmsg";
    lab.guest(["sh", "-c", report])
        .output(TIMEOUT)
        .unwrap()
        .success()
        .unwrap();
    let error = lab.check_kernel().unwrap_err().to_string();
    assert!(error.contains("BUG: made up by a test"), "{error}");
}

#[test]
fn a_killed_process_leaves_nothing_running() {
    heed_signals();
    for signal in [libc::SIGKILL, libc::SIGINT] {
        let mut victim = Command::new(env::current_exe().unwrap())
            .args(["--exact", "victim", "--nocapture"])
            .env(VICTIM, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        let traces = lines.map(|line| line.unwrap()).find_map(|line| {
            // The test harness may have written something before it.
            let (_, line) = line.split_once("booted ")?;
            let (namespace, directory) = line.split_once(' ')?;
            let directory = PathBuf::from(directory);
            let marker = directory.file_name()?.to_string_lossy().into_owned();
            Some(Traces {
                namespace: namespace.to_owned(),
                directory,
                marker,
            })
        });
        let Some(traces) = traces else {
            // It has printed the reason.
            assert!(
                victim.wait().unwrap().success(),
                "the victim's lab did not boot"
            );
            return;
        };
        assert!(!traces.alive().is_empty());
        let pid = libc::pid_t::try_from(victim.id()).unwrap();
        // SAFETY: kill takes plain numbers; the child has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        assert!(!victim.wait().unwrap().success());
        traces.assert_gone();
    }
}

/// Not a test: the process that [`a_killed_process_leaves_nothing_running`] kills.
#[test]
fn victim() {
    if env::var_os(VICTIM).is_none() {
        return;
    }
    let Some(lab) = Lab::boot_or_skip(&LabConfig::default()) else {
        return;
    };
    let _sleeper = lab.host_command("sleep").arg("4322").spawn().unwrap();
    let directory = lab.directory().display();
    println!("booted {} {directory}", lab.namespace_identity());
    thread::park();
    process::abort();
}

/// All threads of this machine, as folders of /proc.
fn tasks() -> Vec<PathBuf> {
    let folders = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    folders(PathBuf::from("/proc"))
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .flat_map(|process| folders(process.path().join("task")).map(|task| task.path()))
        .collect()
}

fn command_line(task: &Path) -> String {
    let bytes = fs::read(task.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}
