//! Every page of the documentation can be found from its front page, and no link there is broken.

use roce_source::project_root;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The files of the project that `page` links to.
fn links(page: &Path) -> BTreeSet<PathBuf> {
    let text = fs::read_to_string(page).expect("a page");
    let folder = page.parent().expect("a folder");
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split([')', '#']).next());
    let local = targets.filter(|target| !target.is_empty() && !target.contains("://"));
    local.map(|target| folder.join(target)).collect()
}

/// The Markdown files of `folder`, without its front page.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of pages");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let markdown = paths.filter(|path| path.extension().is_some_and(|end| end == "md"));
    markdown
        .filter(|path| !path.ends_with("README.md"))
        .collect()
}

#[test]
fn every_page_is_linked_from_its_front_page() {
    let docs = project_root().join("docs");
    let front = docs.join("README.md");
    let decisions = docs.join("adr/README.md");
    let index = [
        (docs.clone(), &front),
        (docs.join("for"), &front),
        (docs.join("adr"), &decisions),
    ];
    for (folder, front) in index {
        let linked = links(front);
        let pages = pages(&folder);
        assert!(pages.len() >= 5, "no pages in {}", folder.display());
        for page in pages {
            assert!(
                linked.contains(&page),
                "{} should link to {}",
                front.display(),
                page.display()
            );
        }
    }
    assert!(links(&front).contains(&decisions));
    assert!(links(&project_root().join("README.md")).contains(&front));
}

#[test]
fn links_name_files_that_are_there() {
    let root = project_root();
    let docs = root.join("docs");
    let mut all = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    all.extend([docs.join("README.md"), docs.join("adr/README.md")]);
    for folder in [docs.clone(), docs.join("for"), docs.join("adr")] {
        all.extend(pages(&folder));
    }
    let mut broken = Vec::new();
    for page in all {
        let links = links(&page).into_iter();
        let missing = links.filter(|target| !target.exists());
        broken.extend(missing.map(|target| format!("{}: {}", page.display(), target.display())));
    }
    assert!(
        broken.is_empty(),
        "these do not exist:\n{}",
        broken.join("\n")
    );
}
