//! What the protocol code of the stack knows of those who observe it.

use roce_source::{Tree, imports, project_root};
use syn::{Fields, Item};

/// The modules of the stack that implement the protocol.
const PROTOCOL: &[&str] = &["qp", "nic", "cq", "srq", "memory"];

/// The observation seam: what QPs report to, the verdict on a packet, and intercepted completions.
const SEAM: &[&str] = &["Observer", "Verdict", "Delivery", "Intercepted"];

/// What the NIC has besides: what it keeps of its QPs, for those who ask the NIC.
const KEPT: &[&str] = &["Observed", "Trace", "Recorded", "Interceptor"];

fn stack() -> Tree {
    let root = project_root().join("stack/src/lib.rs");
    Tree::read(&root).unwrap_or_else(|error| panic!("{error}"))
}

fn part_of(path: &str) -> &str {
    path.split("::").next().unwrap_or(path)
}

#[test]
fn protocol_code_names_only_the_seam() {
    let tree = stack();
    let (mut named, mut beyond) = (0, Vec::new());
    for import in imports(&tree) {
        let (from, to) = (&tree.modules[import.from], &tree.modules[import.to]);
        if part_of(&to.path) != "observe" || !PROTOCOL.contains(&part_of(&from.path)) {
            continue;
        }
        named += 1;
        let names = |list: &[&str]| import.path.split("::").any(|name| list.contains(&name));
        let is_known = names(SEAM) || part_of(&from.path) == "nic" && names(KEPT);
        if !is_known {
            let (file, line) = (from.file.display(), import.line);
            beyond.push(format!("{file}:{line}: {}", import.path));
        }
    }
    assert!(named >= 5, "only {named} uses of the seam were found");
    assert!(beyond.is_empty(), "\n{}", beyond.join("\n"));
}

/// What watches does not decide: the seam uses nothing of the code that reports to it.
#[test]
fn the_seam_uses_no_protocol_code_but_the_queue_of_completions() {
    let tree = stack();
    let uses = imports(&tree).into_iter().filter(|import| {
        let to = part_of(&tree.modules[import.to].path);
        part_of(&tree.modules[import.from].path) == "observe" && ["qp", "nic", "srq"].contains(&to)
    });
    let paths: Vec<_> = uses.map(|import| import.path).collect();
    assert!(paths.is_empty(), "{paths:?}");
}

#[test]
fn a_qp_gets_at_most_twelve_fields_with_a_call() {
    let tree = stack();
    let items = tree.modules.iter().flat_map(|module| &module.items);
    let structs = items.filter_map(|item| match item {
        Item::Struct(found) if found.ident == "Cx" => Some(&found.fields),
        _ => None,
    });
    let [Fields::Named(fields)] = structs.collect::<Vec<_>>()[..] else {
        panic!("one struct Cx with named fields");
    };
    assert!(fields.named.len() <= 12, "Cx has {}", fields.named.len());
}
