//! Gives the library its name, and its symbols their versions: one node for each version
//! that `symbols.txt` names. Which symbol has which is said where it is defined.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=symbols.txt");
    let symbols = fs::read_to_string("symbols.txt")?;
    let versions: BTreeSet<&str> = symbols
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split('@').next_back())
        .filter(|version| !version.is_empty())
        .collect();
    let nodes: String = versions.iter().map(|v| format!("{v} {{ }};\n")).collect();
    let map = PathBuf::from(env::var("OUT_DIR")?).join("versions.map");
    fs::write(&map, nodes)?;
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libibverbs.so.1");
    // Its threads run in it, and forks call it: `dlclose` leaves it where it is.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!(
        "cargo::rustc-cdylib-link-arg=-Wl,--version-script={}",
        map.display()
    );
    Ok(())
}
