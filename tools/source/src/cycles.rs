//! Detects modules that import each other in a cycle.

use crate::{Import, ModuleId, Tree, imports};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// Modules with one parent, each of which reaches all others by imports.
#[derive(Debug)]
pub struct Cycle {
    /// The modules, by path.
    pub modules: Vec<String>,
    /// An import for each pair of them, as a readable line: `file:line: a -> b (path)`.
    pub arrows: Vec<String>,
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cycle of {}: {}",
            self.modules.len(),
            self.modules.join(", ")
        )?;
        self.arrows
            .iter()
            .try_for_each(|arrow| write!(f, "\n    {arrow}"))
    }
}

/// The cycles of a crate. File names in messages are relative to `root`.
///
/// Each module is compared with its siblings, and includes everything below it: an import of
/// `qp::requester` by `cq::ring` is an edge from `cq` to `qp`. Items that a parent's own file
/// defines are shared by its children and make no edge: a child may use them while the parent uses
/// the child, as the files of one `impl` do.
pub fn cycles(tree: &Tree, root: &Path) -> Vec<Cycle> {
    let all = imports(tree);
    let parents = tree.modules.iter().enumerate();
    parents
        .filter(|(_, module)| !module.children.is_empty())
        .flat_map(|(parent, _)| among_children(tree, &all, parent, root))
        .collect()
}

fn among_children(tree: &Tree, all: &[Import], parent: ModuleId, root: &Path) -> Vec<Cycle> {
    // The first import for each pair of nodes.
    let mut arrows: BTreeMap<(ModuleId, ModuleId), &Import> = BTreeMap::new();
    for import in all {
        let ends = (
            node(tree, parent, import.from),
            node(tree, parent, import.to),
        );
        if let (Some(from), Some(to)) = ends
            && from != to
        {
            arrows.entry((from, to)).or_insert(import);
        }
    }
    let groups = strongly_connected(&arrows.keys().copied().collect());
    let groups = groups.into_iter().filter(|group| group.len() > 1);
    groups
        .map(|group| Cycle {
            modules: group
                .iter()
                .map(|id| tree.modules[*id].path.clone())
                .collect(),
            arrows: arrows
                .iter()
                .filter(|((from, to), _)| group.contains(from) && group.contains(to))
                .map(|((from, to), import)| {
                    let file = &tree.modules[import.from].file;
                    let file = file.strip_prefix(root).unwrap_or(file).display();
                    let [from, to] = [from, to].map(|id| &tree.modules[*id].path);
                    format!("{file}:{}: {from} -> {to} ({})", import.line, import.path)
                })
                .collect(),
        })
        .collect()
}

/// The child of `parent` that contains `module`.
fn node(tree: &Tree, parent: ModuleId, module: ModuleId) -> Option<ModuleId> {
    let mut ancestors = tree.ancestors(module);
    ancestors.find(|id| tree.modules[*id].parent == Some(parent))
}

/// The strongly connected components of a graph.
fn strongly_connected(arrows: &BTreeSet<(ModuleId, ModuleId)>) -> Vec<BTreeSet<ModuleId>> {
    let nodes: BTreeSet<ModuleId> = arrows.iter().flat_map(|(a, b)| [*a, *b]).collect();
    let reach: BTreeMap<ModuleId, BTreeSet<ModuleId>> =
        nodes.iter().map(|n| (*n, reachable(arrows, *n))).collect();
    let mut groups: Vec<BTreeSet<ModuleId>> = Vec::new();
    for node in &nodes {
        if groups.iter().any(|group| group.contains(node)) {
            continue;
        }
        let mutual = reach[node]
            .iter()
            .filter(|other| reach[other].contains(node));
        groups.push(mutual.copied().chain([*node]).collect());
    }
    groups
}

fn reachable(arrows: &BTreeSet<(ModuleId, ModuleId)>, from: ModuleId) -> BTreeSet<ModuleId> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(node) = waiting.pop() {
        for (_, to) in arrows.range((node, 0)..=(node, ModuleId::MAX)) {
            if found.insert(*to) {
                waiting.push(*to);
            }
        }
    }
    found
}
