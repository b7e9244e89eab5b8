//! Every structure and constant, compared with the C compiler's layout of the installed
//! `infiniband/verbs.h` and `rdma/rdma_cma.h`. Needs `cc`, libibverbs-dev and librdmacm-dev.

use super::{Constant, Layout, Since, cm, constants, layouts};
use roce_tests::programs::{compiles_rdmacm_or_skip, compiles_verbs_or_skip};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Fields that rdma-core 56 added at the end of a structure.
const NEW_FIELDS: [(&str, &str); 2] = [
    ("ibv_port_attr", "active_speed_ex"),
    ("ibv_qp_ex", "wr_flush"),
];

/// Items that headers older than rdma-core 65 lack.
const NEW_STRUCTURES: [&str; 5] = [
    "ibv_comp_cntr",
    "ibv_comp_cntr_caps",
    "ibv_comp_cntr_init_attr",
    "ibv_mr_init_attr",
    "ibv_qp_attach_comp_cntr_attr",
];

/// The structure that new releases extend at its front. Programs locate its fields by their
/// distance from its end.
const FROM_THE_END: &str = "verbs_context";

/// The supported headers, newest first: the releases whose items each contains.
const HEADERS: [&[Since]; 3] = [
    &[Since::V65, Since::V56, Since::V44],
    &[Since::V56, Since::V44],
    &[Since::V44],
];

/// A C program that prints `name value` for each constant, structure and field of a header. `has`
/// names the releases whose items the header has.
fn program(has: &[Since]) -> String {
    let constants: Vec<Constant> = has
        .iter()
        .copied()
        .map(constants)
        .collect::<Vec<_>>()
        .concat();
    let mut lines = String::new();
    let mut say = |name: &str, value: String| {
        writeln!(
            lines,
            "printf(\"{name} %lu\\n\", (unsigned long)({value}));"
        )
        .expect("a string");
    };
    for constant in &constants {
        say(constant.name, constant.name.to_owned());
    }
    let newest = has.contains(&Since::V56);
    for Layout { name, fields, .. } in layouts() {
        if NEW_STRUCTURES.contains(name) && !has.contains(&Since::V65) {
            continue;
        }
        let is_new = |field: &str| NEW_FIELDS.contains(&(name, field));
        let sized = *name != FROM_THE_END;
        if sized && (newest || !fields.iter().any(|(field, _)| is_new(field))) {
            say(name, format!("sizeof(struct {name})"));
        }
        for (field, _) in fields.iter().filter(|(field, _)| newest || !is_new(field)) {
            let mut place = format!("offsetof(struct {name}, {field})");
            if !sized {
                place = format!("sizeof(struct {name}) - {place}");
            }
            say(&format!("{name}.{field}"), place);
        }
    }
    printing("infiniband/verbs.h", &lines)
}

/// A C program that includes `header` and runs `lines`.
fn printing(header: &str, lines: &str) -> String {
    format!(
        "#include <{header}>\n#include <stddef.h>\n#include <stdio.h>\n\
         int main(void) {{\n{lines}return 0;\n}}\n"
    )
}

/// The output of the program; `None` if it does not compile.
fn ask_c(folder: &Path, program: &str) -> Option<BTreeMap<String, u64>> {
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, program).expect("a writable folder");
    let compiled = Command::new("cc")
        .arg(&source)
        .arg("-o")
        .arg(&binary)
        .output()
        .expect("cc runs");
    if !compiled.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&compiled.stderr));
        return None;
    }
    let said = Command::new(&binary).output().expect("it was just built");
    let said = String::from_utf8(said.stdout).expect("text");
    let parsed = said.lines().map(|line| {
        let (name, value) = line.split_once(' ').expect("two words");
        (name.to_owned(), value.parse().expect("a number"))
    });
    Some(parsed.collect())
}

fn ours() -> BTreeMap<String, u64> {
    let all = [Since::V44, Since::V56, Since::V65].map(constants).concat();
    let mut ours: BTreeMap<_, _> = all
        .iter()
        .map(|constant| (constant.name.to_owned(), constant.value))
        .collect();
    for Layout { name, size, fields } in layouts() {
        ours.insert((*name).to_owned(), *size as u64);
        for (field, offset) in *fields {
            let place = match *name {
                FROM_THE_END => size - offset,
                _ => *offset,
            };
            ours.insert(format!("{name}.{field}"), place as u64);
        }
    }
    ours
}

#[test]
fn structures_and_constants_are_those_of_c() {
    if !compiles_verbs_or_skip() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let theirs = HEADERS
        .iter()
        .find_map(|has| ask_c(folder.path(), &program(has)))
        .expect("a header of rdma-core 44 or newer");
    assert!(theirs.len() > 400, "only {} were compared", theirs.len());
    let ours = ours();
    let differ: Vec<String> = theirs
        .iter()
        .filter(|(name, value)| ours.get(*name) != Some(value))
        .map(|(name, value)| format!("{name} is {value}, not {:?}", ours.get(name)))
        .collect();
    assert!(differ.is_empty(), "{differ:#?}");
}

#[test]
fn those_of_the_connection_manager_are_too() {
    if !compiles_rdmacm_or_skip() {
        return;
    }
    let (layouts, constants) = cm();
    let mut ours = BTreeMap::new();
    for constant in constants {
        ours.insert(constant.name.to_owned(), (constant.value, None));
    }
    for Layout { name, size, fields } in layouts {
        let sizeof = format!("sizeof(struct {name})");
        ours.insert((*name).to_owned(), (*size as u64, Some(sizeof)));
        for (field, offset) in *fields {
            let offsetof = format!("offsetof(struct {name}, {field})");
            ours.insert(format!("{name}.{field}"), (*offset as u64, Some(offsetof)));
        }
    }
    let mut lines = String::new();
    for (name, (_, expression)) in &ours {
        let expression = expression.as_ref().unwrap_or(name);
        writeln!(
            lines,
            "printf(\"{name} %lu\\n\", (unsigned long)({expression}));"
        )
        .expect("text");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = printing("rdma/rdma_cma.h", &lines);
    let theirs = ask_c(folder.path(), &program).expect("a header of rdma-core 44 or newer");
    assert_eq!(theirs.len(), ours.len());
    let differ: Vec<String> = theirs
        .iter()
        .filter(|(name, value)| ours.get(*name).is_none_or(|(ours, _)| ours != *value))
        .map(|(name, value)| format!("{name} is {value}, not {:?}", ours.get(name)))
        .collect();
    assert!(differ.is_empty(), "{differ:#?}");
}
