//! The listings in docs/api show the public API as it is.

use roce_source::{outdated, project_root};

#[test]
fn the_listings_of_public_items_are_current() {
    let problems = outdated(&project_root()).unwrap_or_else(|error| panic!("{error}"));
    assert!(
        problems.is_empty(),
        "the public API differs from docs/api. If the change is meant, refresh the listings with\n\
         \n    cargo run -p roce-source -- --write\n\n{}",
        problems.join("\n")
    );
}
