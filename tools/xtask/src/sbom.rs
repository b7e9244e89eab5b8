//! The bill of materials: all crates that the packages are built from, as CycloneDX 1.5.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::process::{Command, Stdio};

/// The packages whose dependencies count.
const ROOTS: [&str; 5] = [
    "roce",
    "roce-nvme",
    "roce-verbs-shim",
    "roce-preload",
    "roce-rspreload",
];

/// The bill of materials of the workspace as it is now, for a target, without a time or a random number.
pub(crate) fn of_workspace(version: &str, target: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", target])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("cargo metadata ended with {}", output.status).into());
    }
    let bill = bill(&serde_json::from_slice(&output.stdout)?, version)?;
    let mut text = serde_json::to_vec_pretty(&bill)?;
    text.push(b'\n');
    Ok(text)
}

/// The crates that the roots need to run or to be built, except for this workspace's.
fn bill(metadata: &Value, version: &str) -> Result<Value, Box<dyn Error>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .map(|package| (text(&package["id"]), package))
        .collect();
    let nodes: BTreeMap<String, Vec<Value>> = list(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|node| (text(&node["id"]), list(&node["deps"])))
        .collect();
    let is_root = |id: &&String| ROOTS.contains(&&*text(&packages[*id]["name"]));
    let mut waiting: Vec<String> = packages.keys().filter(is_root).cloned().collect();
    if waiting.len() < ROOTS.len() {
        return Err(format!("of {ROOTS:?}, cargo knows only {waiting:?}").into());
    }
    let mut needed = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        let is_used = |dep: &&Value| list(&dep["dep_kinds"]).iter().any(|k| k["kind"] != "dev");
        let deps = nodes.get(&id).into_iter().flatten().filter(is_used);
        let deps: Vec<String> = deps.map(|dep| text(&dep["pkg"])).collect();
        if needed.insert(id) {
            waiting.extend(deps);
        }
    }
    let foreign = needed.iter().map(|id| &packages[id]);
    let foreign = foreign.filter(|package| !package["source"].is_null());
    let mut components: Vec<Value> = foreign
        .map(|package| {
            let (name, version) = (text(&package["name"]), text(&package["version"]));
            json!({
                "type": "library",
                "name": name,
                "version": version,
                "purl": format!("pkg:cargo/{name}@{version}"),
                "licenses": [{ "expression": text(&package["license"]).replace('/', " OR ") }],
            })
        })
        .collect();
    components.sort_by_key(|component| text(&component["purl"]));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "name": "roce",
            "version": version,
            "licenses": [{ "expression": "MIT OR Apache-2.0" }],
        } },
        "components": components,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_lists_what_is_built_in_and_nothing_else() {
        // An ordinary user can't run root's cargo.
        let version = Command::new(env!("CARGO")).arg("--version").output();
        if let Err(error) = version {
            testkit::skip("cargo", &error.to_string());
            return;
        }
        let made = || of_workspace("1.2.3", "x86_64-unknown-linux-gnu").expect("made");
        let text = made();
        assert!(text == made(), "reproducible");
        let bill: Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(bill["metadata"]["component"]["version"], "1.2.3");
        let components = bill["components"].as_array().expect("a list");
        let has = |name: &str| components.iter().any(|it| it["name"] == name);
        for name in ["crc32fast", "crossbeam-queue", "smoltcp", "clap", "libc"] {
            assert!(has(name), "{name}");
        }
        // Of tests, of this workspace, and of other platforms.
        for name in ["proptest", "tempfile", "roce-wire", "windows-sys"] {
            assert!(!has(name), "{name}");
        }
        for component in components {
            let licence = component["licenses"][0]["expression"].as_str();
            assert!(licence.is_some_and(|it| !it.is_empty()), "{component}");
        }
    }
}
