//! Invalid environment variables: each command's messages about them.

use std::process::{Command, Output};

fn roce(args: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roce"))
        .args(args)
        .envs(variables.iter().copied())
        .output()
        .expect("the command starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_misspelt_variable_is_reported_once_with_the_right_name() {
    for command in [
        &["devices"][..],
        &[
            "perf",
            "--size",
            "8",
            "--op",
            "send",
            "--duration",
            "1",
            "-n",
            "1",
        ],
    ] {
        let output = roce(command, &[("ROCE_FAULT", "loss=1%"), ("ROCE_LAB", "")]);
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        let line = "roce: warning: ROCE_FAULT is set, but nothing reads a variable of that name: did \
                    you mean ROCE_FAULTS?";
        // `roce perf` is two processes.
        let times = said.lines().filter(|said| *said == line).count();
        let processes = if command[0] == "perf" { 2 } else { 1 };
        assert_eq!(times, processes, "{said}");
        assert_eq!(said.lines().count(), times, "{said}");
    }
}

#[test]
fn wrong_values_end_commands_before_they_begin() {
    for (variable, value, part) in [
        (
            "ROCE_DEVICES",
            "nosuch",
            "no device is named \"nosuch\"; there are: ",
        ),
        (
            "ROCE_DEVICES",
            "lo,nosuch",
            "no device is named \"nosuch\"; there are: ",
        ),
        (
            "ROCE_DEVICE_NAMES",
            "nosuch=mlx5_0",
            "no device is named \"nosuch\"; there are: ",
        ),
        (
            "ROCE_DEVICE_NAMES",
            "lo=mlx5_0,nosuch=mlx5_1",
            "no device is named \"nosuch\"; there are: ",
        ),
        (
            "ROCE_DEVICE_NAMES",
            "lo=a/b",
            "\"a/b\" is no name for a device",
        ),
        (
            "ROCE_PCAP",
            "/nonexistent/a.pcapng",
            "there is no such folder",
        ),
        ("ROCE_PCAP", "/dev/null/a.pcapng", "is not a folder"),
        ("ROCE_PCAP", "a%z", "%z stands for nothing"),
        ("ROCE_METRICS", "yes", "a port of the loopback"),
        ("ROCE_FAULTS", "nonsense", "nonsense"),
    ] {
        for command in ["devices", "perf"] {
            let output = roce(&[command], &[(variable, value)]);
            let said = stderr(&output);
            assert_eq!(
                output.status.code(),
                Some(2),
                "{command}, {variable}: {said}"
            );
            assert!(said.contains(part) && said.contains(variable), "{said}");
            assert!(output.stdout.is_empty(), "{output:?}");
        }
    }
}

#[test]
fn an_empty_value_is_as_none() {
    let all = [
        "ROCE_FAULTS",
        "ROCE_PCAP",
        "ROCE_CC",
        "ROCE_QOS",
        "ROCE_DATAPATH",
        "ROCE_METRICS",
    ];
    let output = roce(&["devices"], &all.map(|variable| (variable, "")));
    assert_eq!(stderr(&output), "");
    assert!(output.status.success());
}

#[test]
fn variables_are_a_topic_of_their_own() {
    let told = |words: &[&str]| {
        let output = roce(words, &[]);
        assert!(output.status.success(), "{words:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for words in [&["variables"][..], &["help", "variables"]] {
        let text = told(words);
        for part in [
            "ROCE_LOG=1 ",
            "ROCE_DATAPATH=auto|udp|xdp ",
            "ROCE_LIBRARY_DIR=FOLDER ",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("ROCE_LAB"), "{text}");
    }
    // The commands fit on a screen, and name the topic.
    let help = told(&["--help"]);
    assert!(help.contains("roce help variables"), "{help}");
    assert!(!help.contains("ROCE_"), "{help}");
    assert!(help.lines().count() <= 30, "{help}");
}
