//! Unmodified programs of rdma-core, perftest and libfabric, as Debian builds them.

mod asyncwatch;
mod cm;
mod gone;
mod perftest;
mod pingpongs;
mod place;
mod process;
mod releases;

use std::fs;
use std::process::Command;

use roce_tests::programs::{compiled_or_skip, is_installed_or_skip};
use roce_tests::veth::Pair;

use self::place::Place;
use crate::library;

/// The output of a program, which must succeed.
fn output_of(mut command: Command) -> String {
    let output = command.output().expect("it is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    text
}

#[test]
fn ibv_devices_lists_each_interface() {
    if !is_installed_or_skip("ibv_devices") {
        return;
    }
    let library = library::folder();
    let mut command = Command::new("ibv_devices");
    command.env("LD_LIBRARY_PATH", library.path());
    let listed = output_of(command);
    assert!(listed.contains("roce_lo"), "{listed}");
}

#[test]
fn ibv_devinfo_tells_all_about_a_device() {
    if !is_installed_or_skip("ibv_devinfo") {
        return;
    }
    let library = library::folder();
    let mut command = Command::new("ibv_devinfo");
    command.args(["-v", "-d", "roce_lo"]);
    command.env("LD_LIBRARY_PATH", library.path());
    let output = output_of(command);
    let expected = [
        "PORT_ACTIVE (4)",
        "Ethernet",
        "4096 (5)",
        "::ffff:127.0.0.1, RoCE v2",
        "MEM_WINDOW_TYPE_2B",
        "ODP_SUPPORT_IMPLICIT",
    ];
    for words in expected {
        assert!(output.contains(words), "no {words:?} in {output}");
    }
}

fn pair_for(program: &str) -> Option<Pair> {
    match is_installed_or_skip(program) {
        true => Pair::new_or_skip(1500, 1),
        false => None,
    }
}

/// The textbook program in C, on both datapaths.
#[test]
fn the_textbook_program() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let Some(program) = compiled_or_skip("verbs-shim/examples/textbook.c") else {
        return;
    };
    for datapath in ["udp", "xdp"] {
        let words = format!("{} DEVICE GID", program.display());
        let output = Place::cable(&pair, datapath).run(&words, 18516);
        assert_eq!(output, "ok\n");
    }
    // A leftover file does no harm: a later run overwrites it.
    let _ = fs::remove_file(&program);
}
