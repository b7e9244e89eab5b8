//! The messages when a program can't be started, or may not find what it looks for.

use super::*;

/// The exit code and the output.
fn failure(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("it starts");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_program_that_is_not_there_is_not_started() {
    let library = Library::new();
    let script = library.folder.join("script");
    fs::write(&script, "#!/nonexistent/interpreter\n").expect("written");
    let try_it =
        |program: &OsStr| failure(library.run(Who::Myself).arg("-q").arg("--").arg(program));
    for (program, code) in [
        ("no-such-program-anywhere", 127),
        ("", 127),
        ("/nonexistent", 127),
        ("/", 126),
        ("/etc/passwd", 126),
    ] {
        let (ended, told) = try_it(OsStr::new(program));
        assert_eq!(ended, Some(code), "{program:?}: {told}");
    }
    assert!(
        try_it(OsStr::new("no-such-program-anywhere"))
            .1
            .contains("in PATH")
    );
    let path = try_it(OsStr::new("/nonexistent")).1;
    assert!(
        path.contains("/nonexistent: there is no such file"),
        "{path}"
    );
    assert_eq!(try_it(script.as_os_str()).0, Some(126));
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("allowed");
    let (ended, told) = try_it(script.as_os_str());
    assert_eq!(ended, Some(126), "{told}");
    assert!(told.contains("No such file"), "{told}");
    assert!(told.contains("an interpreter or a loader"), "{told}");
}

#[test]
fn a_folder_in_which_no_capture_can_be_made_is_reported_before_the_start() {
    let library = Library::new();
    // Root may write everywhere.
    let who = Who::all().pop().expect("somebody");
    let denied = "cannot write /run.pcapng: Permission denied";
    let (code, told) = failure(library.run(who).args(["--pcap", "/run.pcapng", "true"]));
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("--pcap is \"/run.pcapng\""), "{told}");
    assert!(told.contains(denied), "{told}");
    let variable = ("ROCE_PCAP", "/run.pcapng");
    let mut run = library.run(who);
    let (code, told) = failure(run.arg("true").envs([variable]));
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("ROCE_PCAP is \"/run.pcapng\""), "{told}");
    let mut doctor = who.command(ROCE);
    let output = doctor.arg("doctor").envs([variable]).output();
    let told = text(&output.expect("it starts").stdout);
    assert!(
        told.contains("ROCE_PCAP") && told.contains(denied),
        "{told}"
    );
    // Devices and pipes are opened, not made.
    let variable = ("ROCE_PCAP", "/dev/null");
    let mut run = library.run(who);
    let (code, told) = failure(run.args(["--", "sh", "-c", "exit 0"]).envs([variable]));
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn wrong_usage_is_reported_with_the_right_usage() {
    let library = Library::new();
    for (options, part) in [
        (&["--devices", "lo,nonsense", "true"][..], "there are: "),
        (&["--devices", "", "true"], "there are: "),
        (&["--faults", "loss=lots", "true"], "0% to 100%"),
        (&["--pcap", "", "true"], "a value is required"),
        (&["--pcap", "/nonexistent/a", "true"], "no such folder"),
        (&["--datapath", "dpdk", "true"], "auto, udp, xdp"),
        (
            &["--namespace", "maybe", "true"],
            "auto, require, preload, none",
        ),
        (&["--bogus", "true"], "unexpected argument '--bogus'"),
        (
            &["--sockets=bogus", "true"],
            "\"bogus\" is none of off, only",
        ),
        (&["--sockets=wait=soon", "true"], "wait=MILLISECONDS"),
        (
            &["--hunt", "0", "true"],
            "the number of runs, 1 to 4294967295",
        ),
        (&[], "PROGRAM"),
    ] {
        let (code, told) = failure(library.run(Who::Myself).args(options));
        assert_eq!(code, Some(2), "{options:?}: {told}");
        assert!(told.contains(part), "{options:?}: {told}");
    }
    let mut run = library.run(Who::Myself);
    run.args(["--sockets", "true"]).env("ROCE_SOCKETS", "olny");
    let (code, told) = failure(&mut run);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("ROCE_SOCKETS is \"olny\""), "{told}");
    for command in ["why", "fabric"] {
        let (code, told) = failure(Who::Myself.command(ROCE).args([command, "--bogus", "true"]));
        assert_eq!(code, Some(2), "{command}: {told}");
        assert!(told.contains("unexpected argument '--bogus'"), "{told}");
    }
    for (variable, part) in [
        ("ROCE_DATAPATH", "auto, udp or xdp"),
        ("ROCE_FAULTS", "nonsense"),
        ("ROCE_CC", "dcqcn, delay or none"),
        ("ROCE_QOS", "default_roce_tos, traffic_class"),
        ("ROCE_DEVICES", "there are: "),
        ("ROCE_DEVICE_NAMES", "such as eth0=mlx5_0"),
        ("ROCE_METRICS", "a port of the loopback"),
        ("ROCE_VENDOR_PART_ID", "a number"),
        ("ROCE_XDP_QUEUES", "1 to 1024"),
    ] {
        let (code, told) = failure(
            library
                .run(Who::Myself)
                .arg("true")
                .env(variable, "nonsense"),
        );
        assert_eq!(code, Some(2), "{variable}: {told}");
        assert!(told.contains(part), "{variable}: {told}");
    }
}

/// An option replaces a variable, whose value then does not matter.
#[test]
fn a_variable_that_an_option_overrides_is_not_checked() {
    let library = Library::new();
    let pcap = library.folder.join("run.pcapng");
    let pcap = pcap.to_str().expect("text");
    for (variable, option, value) in [
        ("ROCE_FAULTS", "--faults", "loss=1%"),
        ("ROCE_PCAP", "--pcap", pcap),
    ] {
        let mut command = library.run(Who::Myself);
        command.args([option, value, "--", "sh", "-c", "exit 0"]);
        let output = command.env(variable, "/nonexistent/a").output();
        let output = output.expect("it starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{variable}: {told}");
    }
}

#[test]
fn a_missing_library_is_reported_with_the_build_command() {
    let empty = tempfile::tempdir().expect("a folder");
    let run = || Who::Myself.command(ROCE);
    let named = failure(
        run()
            .arg("run")
            .arg("--library")
            .arg(empty.path())
            .arg("true"),
    );
    let variable = failure(
        run()
            .args(["run", "true"])
            .env("ROCE_LIBRARY_DIR", empty.path()),
    );
    for (code, told) in [named, variable] {
        assert_eq!(code, Some(125), "{told}");
        let folder = empty.path().display().to_string();
        assert!(told.contains("-p roce-verbs-shim"), "{told}");
        assert!(told.contains(&folder), "{told}");
    }
    fs::write(empty.path().join("libibverbs.so.1"), "another").expect("written");
    let (code, told) = failure(
        run()
            .arg("run")
            .arg("--library")
            .arg(empty.path())
            .arg("true"),
    );
    assert_eq!(code, Some(125), "{told}");
    assert!(told.contains("is not this stack's library"), "{told}");
}

#[test]
fn a_program_that_would_not_load_the_library_is_reported() {
    let library = Library::new();
    let program = library.folder.join("static");
    // The header of a program for a 32-bit processor, whatever this one is.
    let mut header = vec![0; 64];
    header[..6].copy_from_slice(b"\x7fELF\x01\x01");
    fs::write(&program, header).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("allowed");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("libibverbs.so.1"), "ROCE_DATAPATH").expect("written");
    let try_it = |quiet: &[&str]| {
        let mut command = Who::Myself.command(ROCE);
        command.args([
            "run",
            "--namespace",
            "none",
            "--preload",
            "never",
            "--library",
        ]);
        failure(command.arg(folder.path()).args(quiet).arg(&program))
    };
    assert!(try_it(&[]).1.contains("another processor or word size"));
    assert!(!try_it(&["--quiet"]).1.contains("another processor"));
}

#[test]
fn a_setuid_program_is_reported() {
    let test = "a_setuid_program_is_reported";
    if !Who::all().contains(&Who::Nobody) {
        return skip(test, "a program that belongs to another user needs root");
    }
    let library = Library::new();
    let program = library.folder.join("owned by root");
    fs::copy("/bin/true", &program).expect("copied");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("allowed");
    let told = |options: &[&str]| {
        let mut command = library.run(Who::Nobody);
        failure(command.args(options).arg(&program)).1
    };
    let alone = told(&["--namespace", "preload"]);
    assert!(alone.contains("the loader ignores"), "{alone}");
    if Who::with_namespaces(test).contains(&Who::Nobody) {
        let inside = told(&["--namespace", "require"]);
        assert!(
            inside.contains("setuid has no effect in the user namespace"),
            "{inside}"
        );
    }
}
