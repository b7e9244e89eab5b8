//! `roce why`, and everything that users do wrong: each mistake is a row of a table, and is made in a test
//! that checks that the reports name it.
//!
//! Mistakes of one call are rows of [`calls`], all made by one C program. A [`Scene`] is a mistake of
//! unchanged programs or their networks; docs/wrong.md shows the most common ones with their reports.

mod calls;
mod misleading;
mod networks;
mod page;
mod programs;
mod scene;

use super::programs::{installed, library};
use super::*;
use scene::{Scene, Told};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of scenes that run at once. They mostly wait for timeouts.
const AT_ONCE: usize = 8;

/// The programs of the scenes, and what the scenes are built with.
const PROGRAMS: &[&str] = &[
    "fi_pingpong",
    "fio",
    "gcc",
    "ib_read_bw",
    "ib_send_bw",
    "ib_write_bw",
    "ibv_rc_pingpong",
    "ibv_srq_pingpong",
    "ibv_uc_pingpong",
    "ibv_ud_pingpong",
    "ip",
    "mckey",
    "nft",
    "nsenter",
    "pgrep",
    "rping",
    "setpriv",
    "timeout",
    "ucmatose",
    "ucx_perftest",
    "unshare",
];

/// An ordinary user where there is one, since nothing needs privileges; `None` without the programs.
fn user(test: &str) -> Option<Who> {
    if !installed(test, PROGRAMS) || !testkit::compiles_rdmacm_or_skip() {
        return None;
    }
    Who::with_namespaces(test).last().copied()
}

/// Runs scenes, several at once. Returns what they told, in their order.
fn run_all(who: Who, scenes: &[&Scene]) -> Vec<Told> {
    let next = AtomicUsize::new(0);
    let told: Vec<Mutex<Option<Told>>> = scenes.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(scene) = scenes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let at = scenes.iter().position(|other| std::ptr::eq(*other, *scene));
                    let told_here = scene.run(who, "");
                    *told[at.expect("it is one of them")].lock().expect("whole") = Some(told_here);
                }
            });
        }
    });
    let each = told.into_iter();
    each.map(|told| told.into_inner().expect("whole").expect("it ran"))
        .collect()
}

/// All scenes, in the order of the page.
fn scenes() -> Vec<&'static Scene> {
    [programs::SCENES, networks::SCENES, misleading::SCENES]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn reports_name_the_cause_of_each_wrong_call_first() {
    let test = "reports_name_the_cause_of_each_wrong_call_first";
    if !installed(test, &["gcc", "ip", "timeout", "unshare"]) || !testkit::compiles_rdmacm_or_skip()
    {
        return;
    }
    // At the same time, since a host that is not there takes half a minute.
    std::thread::scope(|scope| {
        for who in Who::with_namespaces(test) {
            scope.spawn(move || calls::check_all(who));
        }
    });
}

#[test]
fn reports_name_what_was_set_up_wrong_and_the_page_has_them() {
    let test = "reports_name_what_was_set_up_wrong_and_the_page_has_them";
    let Some(who) = user(test) else {
        return;
    };
    let scenes = scenes();
    let mut told = run_all(who, &scenes);
    // Beside others, a program may be too late to see what its peer did. Alone it is not.
    for (scene, told) in scenes.iter().zip(&mut told) {
        if scene.check(told).is_err() {
            *told = scene.run(who, "");
        }
    }
    let each = scenes.iter().zip(&told);
    let wrong: Vec<String> = each
        .filter_map(|(scene, told)| scene.check(told).err())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    page::check(&scenes, &told);
}

/// Failures and refused calls, each in a line.
#[test]
fn reports_can_be_json() {
    let Some(who) = user("reports_can_be_json") else {
        return;
    };
    for (title, key, value) in [
        (
            "A route forbids the packets",
            "likely",
            "this host's own firewall or routes forbid the packets",
        ),
        (
            "The link has a smaller MTU than the program asks for",
            "call",
            "ibv_modify_qp",
        ),
        (
            "Datagrams longer than the receives",
            "dropped",
            "receive_too_small",
        ),
    ] {
        let scenes = scenes();
        let scene = scenes.iter().find(|scene| scene.title == title);
        let told = scene.expect("a scene").run(who, "--json");
        let end = if key == "dropped" {
            &told.all.server
        } else {
            &told.all.client
        };
        let mut objects = end.lines().filter(|line| line.starts_with('{'));
        let object = objects.next().unwrap_or_else(|| panic!("{told}"));
        let object: serde_json::Value = serde_json::from_str(object).expect("JSON");
        assert_eq!(object[key], value, "{told}");
        assert_eq!(objects.next(), None, "{told}");
    }
}
