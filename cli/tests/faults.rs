//! The command's messages about `ROCE_FAULTS` and `ROCE_CC`.

use std::process::{Command, Output};

fn devices(faults: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roce"))
        .arg("devices")
        .env("ROCE_FAULTS", faults)
        .output()
        .expect("the command runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn it_says_that_faults_are_on_and_with_which_seed() {
    let output = devices("loss=1%,seed=7");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stderr(&output), "roce: faults are on: loss=1%,seed=7\n");
    let drawn = stderr(&devices("loss=1%"));
    assert!(
        drawn.starts_with("roce: faults are on: loss=1%,seed="),
        "{drawn}"
    );
}

#[test]
fn a_bad_value_is_named_with_what_would_be_right() {
    let output = devices("loss=1%,delay=soon");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output),
        "roce: ROCE_FAULTS is \"loss=1%,delay=soon\": at character 9, \"delay=soon\" should be a time, \
         or an ascending range of times, such as 50us or 50us..2ms\n"
    );
}

#[test]
fn wrong_congestion_control_is_named_with_what_would_be_right() {
    let output = Command::new(env!("CARGO_BIN_EXE_roce"))
        .arg("devices")
        .env("ROCE_CC", "dcqcn,connectx,rpg_gd=9")
        .output()
        .expect("the command runs");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output),
        "roce: ROCE_CC is \"dcqcn,connectx,rpg_gd=9\": \"rpg_gd=9\" should be 10, for all of \
         alpha, or 11, for half of it\n"
    );
}

#[test]
fn commands_without_a_network_have_no_faults() {
    let output = Command::new(env!("CARGO_BIN_EXE_roce"))
        .args(["decode", "/nonexistent.pcap"])
        .env("ROCE_FAULTS", "nonsense")
        .output()
        .expect("the command runs");
    assert!(!stderr(&output).contains("ROCE_FAULTS"), "{output:?}");
}
