//! Every page of the documentation can be reached from its front page, there are few of them, and
//! no link is dead.

use roce_source::{crate_folders, project_root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The most pages in `docs` itself. A new subject is a section of a page, or replaces one.
const MOST_PAGES: usize = 22;

/// A link to a file of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    /// The file, or the page itself.
    target: PathBuf,
    /// The heading, as it is written behind `#`.
    anchor: Option<String>,
}

fn read(page: &Path) -> String {
    fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// `path` without `..`, so that paths can be compared.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

/// The text without its blocks of code.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// The links of a page to files of the project.
fn links(page: &Path, text: &str) -> Vec<Link> {
    let folder = page.parent().expect("a folder");
    let text = prose(text);
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.is_empty() && !target.contains("://"));
    local
        .map(|target| {
            let (file, anchor) = match target.split_once('#') {
                Some((file, anchor)) => (file, Some(anchor.to_owned())),
                None => (target, None),
            };
            let target = match file {
                "" => page.to_owned(),
                file => normal(&folder.join(file)),
            };
            Link { target, anchor }
        })
        .collect()
}

/// The anchors that GitHub gives to the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let text = prose(text);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(anchor).collect()
}

/// The anchor of a heading: lower case, hyphens for spaces, without punctuation and without the
/// targets of links.
fn anchor(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim();
    let mut parts = title.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once(')').map_or(part, |(_, after)| after));
    }
    let kept = plain.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// The Markdown files of `folder`.
fn pages_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of pages");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect()
}

/// The Markdown files of `folder` and of the folders in it.
fn pages_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = pages_in(folder);
    for entry in fs::read_dir(folder).expect("a folder of pages") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(pages_below(&path));
        }
    }
    found
}

#[test]
fn every_page_can_be_reached_from_the_front_page() {
    let root = project_root();
    let docs = root.join("docs");
    let front = docs.join("README.md");
    let from_root = links(&root.join("README.md"), &read(&root.join("README.md")));
    assert!(from_root.iter().any(|link| link.target == front));

    let mut reached = BTreeSet::from([front.clone()]);
    let mut open = vec![front];
    while let Some(page) = open.pop() {
        for Link { target, .. } in links(&page, &read(&page)) {
            let is_page =
                target.starts_with(&docs) && target.extension().is_some_and(|e| e == "md");
            if is_page && target.exists() && reached.insert(target.clone()) {
                open.push(target);
            }
        }
    }
    let all = pages_below(&docs);
    assert!(all.len() >= 80, "only {} pages", all.len());
    let lost: Vec<_> = all.iter().filter(|page| !reached.contains(*page)).collect();
    assert!(lost.is_empty(), "docs/README.md leads to none of {lost:?}");
}

/// A reader finds a page by reading a short list.
#[test]
fn there_are_few_pages() {
    let docs = project_root().join("docs");
    let pages = pages_in(&docs);
    assert!(
        pages.len() <= MOST_PAGES,
        "docs has {} pages, more than {MOST_PAGES}: make it a section of a page, or a page of docs/design \
         or docs/generated",
        pages.len()
    );
    let front = docs.join("README.md");
    let listed = links(&front, &read(&front));
    for page in pages.iter().filter(|page| **page != front) {
        assert!(
            listed.iter().any(|link| link.target == *page),
            "docs/README.md should list {}",
            page.display()
        );
    }
}

#[test]
fn links_lead_to_files_and_headings_that_are_there() {
    let root = project_root();
    let mut all = pages_below(&root.join("docs"));
    all.extend(pages_in(&root));
    for folder in crate_folders(&root).unwrap_or_else(|error| panic!("{error}")) {
        all.extend(pages_in(&folder));
    }
    let mut dead = Vec::new();
    let mut checked = 0;
    for page in &all {
        for Link { target, anchor } in links(page, &read(page)) {
            checked += 1;
            let name = page.strip_prefix(&root).unwrap_or(page).display();
            if !target.exists() {
                dead.push(format!("{name}: {}", target.display()));
            } else if let Some(anchor) = anchor
                && target.extension().is_some_and(|end| end == "md")
                && !anchors(&read(&target)).contains(&anchor)
            {
                dead.push(format!("{name}: {}#{anchor}", target.display()));
            }
        }
    }
    assert!(checked >= 500, "only {checked} links");
    assert!(dead.is_empty(), "these do not exist:\n{}", dead.join("\n"));
}

#[test]
fn headings_have_the_anchors_of_github() {
    for (heading, expected) in [
        ("## Half round trips", "half-round-trips"),
        ("## librdmacm.so.1", "librdmacmso1"),
        ("### rdma-core's `own` tests", "rdma-cores-own-tests"),
        ("# See [ADR 5](adr/0005.md), too", "see-adr-5-too"),
        ("## A_b – c", "a_b--c"),
    ] {
        assert_eq!(anchor(heading), expected);
    }
}
