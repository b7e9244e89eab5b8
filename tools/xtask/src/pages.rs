//! The documentation in the packages: the pages for users, without links to what is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The front page of the packages: `README.md` in the repository is for readers who build from source.
const FRONT: (&str, &str) = ("README.md", "packaging/README.md");

/// The other pages outside of `docs`.
const PAGES: [&str; 5] = [
    "SECURITY.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "cli/README.md",
    "apps/nvme/README.md",
];

/// The folders all of whose pages are packed.
const FOLDERS: [&str; 3] = ["docs", "docs/design", "docs/generated"];

/// The pages by their paths in the repository, which is `root`.
pub(crate) fn all(root: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut names: BTreeSet<String> = PAGES.map(str::to_owned).into();
    names.insert(FRONT.0.to_owned());
    for folder in FOLDERS {
        for entry in fs::read_dir(root.join(folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                names.insert(format!("{folder}/{name}"));
            }
        }
    }
    let page = |name: &String| {
        let text = match name == FRONT.0 {
            // Its links are one folder nearer to their targets.
            true => fs::read_to_string(root.join(FRONT.1))?.replace("](../", "]("),
            false => fs::read_to_string(root.join(name))?,
        };
        Ok((name.clone(), without_dead_links(name, &text, &names)))
    };
    names.iter().map(page).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    /// The link as a whole: `[label](target)`, with `!` in front if it is an image.
    whole: &'a str,
    label: &'a str,
    pub(crate) target: &'a str,
}

/// The links of a page that lead to files, in order. Blocks of code have none.
pub(crate) fn links(text: &str) -> Vec<Link<'_>> {
    let blocks = text.split("```").step_by(2);
    blocks.flat_map(links_of_block).collect()
}

fn links_of_block(text: &str) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    for (middle, _) in text.match_indices("](") {
        let Some(length) = text[middle..].find(')') else {
            continue;
        };
        let target = &text[middle + 2..middle + length];
        if target.contains("://") || target.starts_with('#') {
            continue;
        }
        let Some(begin) = label_begin(&text[..middle]) else {
            continue;
        };
        let image = usize::from(text[..begin].ends_with('!'));
        found.push(Link {
            whole: &text[begin - image..=middle + length],
            label: &text[begin + 1..middle],
            target,
        });
    }
    found
}

/// The bracket that opens the label at the end of `before`, which may contain brackets.
fn label_begin(before: &str) -> Option<usize> {
    let mut open = 1;
    before.rmatch_indices(['[', ']']).find_map(|(at, bracket)| {
        open = if bracket == "]" { open + 1 } else { open - 1 };
        (open == 0).then_some(at)
    })
}

/// The path in the repository that a link on the page `name` leads to.
pub(crate) fn resolved(name: &str, target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path.to_string_lossy().into_owned()
}

/// Replaces links to what is not among `names` by their labels, and removes rows of tables about such a page.
fn without_dead_links(name: &str, text: &str, names: &BTreeSet<String>) -> String {
    let is_about_dead = |line: &str| {
        let row = line.strip_prefix("| ").unwrap_or_default();
        let first = links(row).into_iter().next();
        first.is_some_and(|link| {
            let page = resolved(name, link.target);
            row.starts_with(link.whole) && page.ends_with(".md") && !names.contains(&page)
        })
    };
    let kept = text
        .split_inclusive('\n')
        .filter(|line| !is_about_dead(line));
    let mut text: String = kept.collect();
    loop {
        let links = links(&text);
        let is_dead = |link: &&Link| !names.contains(&resolved(name, link.target));
        let Some(dead) = links.iter().find(is_dead) else {
            return text;
        };
        text = text.replace(dead.whole, dead.label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_become_text() {
        let names = ["docs/a.md", "docs/design/b.md", "README.md"].map(str::to_owned);
        let text = "[a](../a.md#x), [front](../../../README.md), [web](https://x.y/z), [here](#there), \
                    ![a picture](p.svg), [`c[1]`](../../src/c.rs) and [b][1](b.md)\n\
                    ```\nx[0](y.md)\n```\n";
        assert_eq!(
            without_dead_links("docs/design/b.md", text, &names.into()),
            "[a](../a.md#x), [front](../../../README.md), [web](https://x.y/z), [here](#there), \
             a picture, `c[1]` and [b][1](b.md)\n\
             ```\nx[0](y.md)\n```\n"
        );
        let names = ["docs/a.md", "docs/b.md"].map(str::to_owned).into();
        let table = "| [a.md](a.md) | see [c.md](c.md) |\n| [c.md](c.md) | or [a.md](a.md) |\n| [x](x.c) | y |\n";
        assert_eq!(
            without_dead_links("docs/b.md", table, &names),
            "| [a.md](a.md) | see c.md |\n| x | y |\n"
        );
    }
}
