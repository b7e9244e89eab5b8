//! The manifests in packaging/kubernetes have no field that Kubernetes' API does not know.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A manifest as the API reads and writes it. Fields that it does not know get lost.
fn through_the_api(manifest: &Value) -> Value {
    fn through<T: DeserializeOwned + Serialize>(manifest: &Value) -> Value {
        let read: T = serde_json::from_value(manifest.clone()).expect("the API reads it");
        serde_json::to_value(read).expect("the API writes it")
    }
    match manifest["kind"].as_str() {
        Some("Pod") => through::<Pod>(manifest),
        Some("DaemonSet") => through::<DaemonSet>(manifest),
        kind => panic!("add {kind:?} here"),
    }
}

#[test]
fn the_api_knows_every_field_of_the_manifests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes");
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("text");
        let manifest: Value = serde_yaml_ng::from_str(&text).expect("one document of YAML");
        assert_eq!(through_the_api(&manifest), manifest, "{}", path.display());
        names.push(manifest["metadata"]["name"].to_string());
        // The comparison notices a name that is wrong.
        let wrong = text
            .replace("mountPath:", "mountpath:")
            .replace("annotations:", "annotation:");
        let wrong: Value = serde_yaml_ng::from_str(&wrong).expect("YAML");
        let same = std::panic::catch_unwind(|| through_the_api(&wrong) == wrong);
        assert!(!same.unwrap_or(false), "{}", path.display());
    }
    assert_eq!(names.len(), 3, "{names:?}");
}
