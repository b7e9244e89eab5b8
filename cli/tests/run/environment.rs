//! `roce env`.

use super::*;
use serde_json::Value;

fn env(library: &Library, arguments: &[&str]) -> Output {
    let mut command = Who::Myself.command(ROCE);
    command.arg("env").arg("--library").arg(&library.folder);
    command.args(arguments).output().expect("it starts")
}

#[test]
fn a_shell_has_the_environment_and_a_folder_has_the_files() {
    let library = Library::new();
    let target = library.folder.join("it's new");
    let target = target.to_str().expect("text");
    let script = format!(
        "eval \"$('{ROCE}' env --library '{}' --faults 'loss=1%' --write \"$1\")\"; \
         echo \"$LD_LIBRARY_PATH|$ROCE_FAULTS\"; readlink \"$1/lib/libibverbs.so.1\"; \
         cd \"$SYSFS_PATH/class\"; cat infiniband/roce_lo/node_type net/lo/ifindex; \
         ls \"$1\" \"$1/dev/infiniband\"",
        library.folder.display()
    );
    // The second run replaces what the first one made.
    for _ in 0..2 {
        let mut shell = Who::Myself.command("sh");
        shell.env("LD_LIBRARY_PATH", "/x");
        let output = shell.args(["-c", &script, "sh", target]).output();
        let lines = said(&output.expect("it starts"));
        let index = fs::read_to_string("/sys/class/net/lo/ifindex").expect("there");
        let file = library.folder.join("libroce_verbs_shim.so");
        let expected = format!(
            "{target}/lib:/x|loss=1%\n{}\n1: CA\n{index}{target}:\ndev\nlib\nsys\n\n\
             {target}/dev/infiniband:\nrdma_cm\nuverbs",
            file.display()
        );
        assert!(lines.starts_with(&expected), "{lines}\n{expected}");
    }
}

#[test]
fn nothing_of_others_is_overwritten() {
    let library = Library::new();
    let precious = library.folder.join("libroce_verbs_shim.so");
    let output = env(
        &library,
        &["--write", library.folder.to_str().expect("text")],
    );
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        text(&output.stderr).contains("holds something else"),
        "{output:?}"
    );
    assert!(exists(precious));
    let output = env(&library, &["--write", "/proc/nonexistent"]);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
}

#[test]
fn an_installed_library_needs_no_folder() {
    let library = Library::new();
    fs::rename(
        library.folder.join("libroce_verbs_shim.so"),
        library.folder.join("libibverbs.so.1"),
    )
    .expect("renamed");
    let json: Value =
        serde_json::from_str(&said(&env(&library, &["--json", "--devices", "lo"]))).expect("JSON");
    let folder = library.folder.to_str().expect("text");
    assert_eq!(json["variables"]["LD_LIBRARY_PATH"], folder);
    assert_eq!(json["variables"]["ROCE_DEVICES"], "lo");
    assert_eq!(json["devices"], serde_json::json!(["roce_lo"]));
    assert_eq!(json["library"], format!("{folder}/libibverbs.so.1"));
    let arguments = ["--format", "github", "--datapath", "udp", "--devices", "lo"];
    let lines = said(&env(&library, &arguments));
    let nccl = "NCCL_GIN_TYPE=2\nNCCL_NET_GDR_LEVEL=LOC\n";
    let open_mpi = "OMPI_MCA_opal_common_ucx_devices=any\n";
    // The machine's UCX may know it, or not.
    let lines = lines.replace("UCX_FENCE_MODE=weak\n", "");
    assert_eq!(
        lines,
        format!("LD_LIBRARY_PATH={folder}\nROCE_DATAPATH=udp\nROCE_DEVICES=lo\n{nccl}{open_mpi}")
    );
}

/// An image does not have the folders of the machine on which its Dockerfile is written.
#[test]
fn a_dockerfile_gets_the_folder_of_the_image() {
    let library = Library::new();
    let arguments = ["--format", "dockerfile", "--devices", "lo"];
    let image = "ENV LD_LIBRARY_PATH=\"/usr/local/lib/roce${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"\n\
                 ENV ROCE_DEVICES=\"lo\"\n";
    // In a build tree.
    let lines = said(&env(&library, &arguments));
    let (note, variables) = lines.split_once('\n').expect("lines");
    assert_eq!(
        note,
        "# Copy libroce_verbs_shim.so to /usr/local/lib/roce/libibverbs.so.1, and roce to /usr/local/bin"
    );
    assert!(variables.starts_with(image), "{lines}");
    assert!(!exists(library.folder.join("roce-links")));
    // With the one beside the command, or none.
    let output = Who::Myself
        .command(ROCE)
        .arg("env")
        .args(arguments)
        .output();
    assert_eq!(said(&output.expect("it starts")), lines);
    // Installed.
    let library = Library::new();
    fs::rename(
        library.folder.join("libroce_verbs_shim.so"),
        library.folder.join("libibverbs.so.1"),
    )
    .expect("renamed");
    let lines = said(&env(&library, &arguments));
    let first = format!("ENV LD_LIBRARY_PATH=\"{}$", library.folder.display());
    assert!(lines.starts_with(&first), "{lines}");
}

/// As in a build tree: the first example of `roce env --help` works there, too.
#[test]
fn a_library_under_another_name_gets_links_beside_it() {
    let library = Library::new();
    let folder = library.folder.to_str().expect("text");
    let links = library.folder.join("roce-links");
    fs::write(&links, "in the way").expect("written");
    let output = env(&library, &[]);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(
        text(&output.stderr).contains("roce env --write"),
        "{output:?}"
    );
    fs::remove_file(&links).expect("removed");
    for _ in 0..2 {
        let lines = said(&env(&library, &["--format", "github"]));
        let first = lines.lines().next();
        assert_eq!(
            first,
            Some(&*format!("LD_LIBRARY_PATH={folder}/roce-links"))
        );
        let link = fs::read_link(links.join("libibverbs.so.1")).expect("a link");
        assert_eq!(link, library.folder.join("libroce_verbs_shim.so"));
    }
}
