//! Programs that know nothing of RDMA, under `roce run --sockets`, over loopback: the clients may
//! use nothing but RDMA, and fail if no data went by it.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Instant;

use roce_tests::programs::{built, is_installed_or_skip, roce, search_path};
use tempfile::TempDir;

use super::{INTERVAL, TIMEOUT};
use roce_tests::random;

/// The words with which servers say that they listen over RDMA.
const LISTENS: &str = "over RDMA and TCP";

/// A folder for files, and a port that nobody has.
struct Scene {
    folder: TempDir,
    port: u16,
}

/// A server that ends with the test.
struct Server {
    child: Child,
    log: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            port: listener.local_addr().expect("an address").port(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("written");
        path
    }

    /// Starts a server, and waits until it says `ready`.
    fn serve(&self, ready: &str, words: &[&str]) -> Server {
        let log = self.path("server.log");
        let file = File::create(&log).expect("a file");
        let child = Command::new(roce())
            .args(["run", "--quiet", "--sockets=loopback,log", "--library"])
            .arg(built("libroce_verbs_shim.so"))
            .arg("--")
            .args(words)
            .env("PATH", search_path())
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a descriptor"))
            .stderr(file)
            .spawn()
            .expect("roce starts");
        let mut server = Server { child, log };
        let began = Instant::now();
        while !server.said().contains(ready) {
            let ended = server.child.try_wait().expect("a child");
            let late = began.elapsed() > TIMEOUT;
            assert!(ended.is_none() && !late, "{ended:?}: {}", server.said());
            thread::sleep(INTERVAL);
        }
        server
    }
}

impl Server {
    fn said(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: only numbers are passed. The child was not waited for, so the ID is its own.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

/// Runs a client that must succeed, with traffic over RDMA, and returns its output.
fn run(words: &[&str]) -> Output {
    let output = Command::new("timeout")
        .arg(TIMEOUT.as_secs().to_string())
        .arg(roce())
        .args([
            "run",
            "--quiet",
            "--require-traffic",
            "--sockets=loopback,only",
        ])
        .arg("--library")
        .arg(built("libroce_verbs_shim.so"))
        .arg("--")
        .args(words)
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .output()
        .expect("timeout starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{words:?}: {}: {said}",
        output.status
    );
    output
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// The name of this user.
fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id starts");
    let name = String::from_utf8(output.stdout).expect("a name");
    name.trim().to_owned()
}

/// Whether sshd lets a user in.
fn may_log_in(name: &str) -> bool {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut users = users.lines().map(|line| line.split(':'));
    let shell =
        users.find_map(|mut fields| (fields.next() == Some(name)).then(|| fields.next_back()));
    !shell
        .flatten()
        .is_some_and(|shell| shell.ends_with("nologin") || shell.ends_with("false"))
}

fn all_installed(programs: &[&str]) -> bool {
    programs.iter().all(|program| is_installed_or_skip(program))
}

/// A file of random bytes in `folder`.
fn content(scene: &Scene, folder: &str) -> PathBuf {
    fs::create_dir_all(scene.path(folder)).expect("a folder");
    let path = scene.path(folder).join("content");
    fs::write(&path, random::bytes(5_000_001)).expect("written");
    path
}

#[test]
fn python_serves_a_file_to_curl() {
    if !all_installed(&["python3", "curl"]) {
        return;
    }
    let scene = Scene::new();
    let file = content(&scene, "www");
    let port = scene.port.to_string();
    let folder = scene.path("www");
    let words = ["python3", "-m", "http.server", "-b", "127.0.0.1", "-d"];
    let words = [&words[..], &[text(&folder), &port]].concat();
    let server = scene.serve(LISTENS, &words);
    let url = format!("http://127.0.0.1:{port}/content");
    let got = run(&["curl", "-sS", &url]).stdout;
    assert!(got == fs::read(&file).expect("there"), "{}", server.said());
}

#[test]
fn iperf3_sends_both_ways() {
    if !all_installed(&["iperf3"]) {
        return;
    }
    let scene = Scene::new();
    let port = scene.port.to_string();
    let server = scene.serve(
        "Server listening",
        &["iperf3", "-s", "-1", "--forceflush", "-p", &port],
    );
    run(&[
        "iperf3",
        "-c",
        "127.0.0.1",
        "-p",
        &port,
        "-n",
        "20M",
        "-P",
        "2",
        "--bidir",
    ]);
    // One connection for control, and two for each way.
    let accepted = server.said().matches("over RDMA\n").count();
    assert_eq!(accepted, 5, "{}", server.said());
}

#[test]
fn redis_serves_its_benchmark() {
    if !all_installed(&["redis-server", "redis-benchmark", "redis-cli"]) {
        return;
    }
    let scene = Scene::new();
    let port = scene.port.to_string();
    let folder = scene.path("");
    let words = [
        "redis-server",
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--port",
        &port,
        "--dir",
        text(&folder),
    ];
    let server = scene.serve(LISTENS, &words);
    let words = [
        "redis-benchmark",
        "-p",
        &port,
        "-n",
        "2000",
        "-c",
        "20",
        "-t",
        "set,get,lrange",
        "-q",
    ];
    run(&words);
    let cli = |words: &[&str]| {
        let words = [&["redis-cli", "-p", port.as_str()], words].concat();
        String::from_utf8(run(&words).stdout).expect("text")
    };
    assert_eq!(cli(&["set", "key", "value"]), "OK\n");
    // Its connections go on while a child of it writes a file.
    assert_eq!(cli(&["bgsave"]), "Background saving started\n");
    let began = Instant::now();
    while !cli(&["info", "persistence"]).contains("rdb_bgsave_in_progress:0") {
        assert!(began.elapsed() < TIMEOUT, "{}", server.said());
    }
    assert_eq!(cli(&["get", "key"]), "value\n");
}

#[test]
fn nginx_serves_curl_and_wrk() {
    if !all_installed(&["nginx", "curl", "wrk"]) {
        return;
    }
    let scene = Scene::new();
    let file = content(&scene, "www");
    fs::write(scene.path("www").join("small"), random::bytes(2000)).expect("written");
    let folder = scene.path("");
    let folder = text(&folder).trim_end_matches('/');
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|what| format!("{what}_temp_path {folder}/{what}; "))
        .collect();
    let port = scene.port;
    // Processes of different users don't share an address, so the worker stays what its master is.
    let stays = match user().as_str() {
        "root" => "user root;",
        _ => "",
    };
    // A master that forks a worker, which takes over the listener.
    let configuration = format!(
        "daemon off; {stays} pid {folder}/pid; error_log stderr; worker_processes 1;\n\
         env LD_PRELOAD; env LD_LIBRARY_PATH; env ROCE_SOCKETS;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; sendfile on; {temporary}\n\
         server {{ listen 127.0.0.1:{port}; root {folder}/www; }} }}\n"
    );
    let configuration = scene.write("nginx.conf", &configuration);
    let words = ["nginx", "-e", "stderr", "-c", text(&configuration)];
    let server = scene.serve("after the parent process", &words);
    let url = format!("http://127.0.0.1:{port}");
    let got = run(&["curl", "-sS", &format!("{url}/content")]).stdout;
    assert!(got == fs::read(&file).expect("there"), "{}", server.said());
    let said = run(&[
        "wrk",
        "-t",
        "1",
        "-c",
        "10",
        "-d",
        "1",
        &format!("{url}/small"),
    ]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(
        said.contains("Requests/sec") && !said.contains("Socket errors"),
        "{said}"
    );
}

#[test]
fn scp_copies_a_file_to_sshd() {
    const SSHD: &str = "/usr/sbin/sshd";
    if !all_installed(&["ssh", "scp", "ssh-keygen", "sshd"]) {
        return;
    }
    let scene = Scene::new();
    let file = content(&scene, "files");
    for key in ["host", "user"] {
        let path = scene.path(key);
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", text(&path)])
            .status();
        assert!(made.expect("ssh-keygen starts").success());
    }
    let me = user();
    if !may_log_in(&me) {
        return testkit::skip("a user who may log in", "");
    }
    if me == "root" {
        // sshd demands this folder, which a service would make.
        fs::create_dir_all("/run/sshd").expect("a folder");
    }
    let [host, key, copy] = ["host", "user", "files/copy"].map(|name| scene.path(name));
    let port = scene.port.to_string();
    let configuration = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}.pub\n\
         StrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\nPermitRootLogin yes\n\
         Subsystem sftp internal-sftp\n",
        text(&host),
        text(&key)
    );
    let configuration = scene.write("sshd_config", &configuration);
    // It forks for a connection, and executes itself again.
    let server = scene.serve(LISTENS, &[SSHD, "-D", "-e", "-f", text(&configuration)]);
    let target = format!("{me}@127.0.0.1:{}", text(&copy));
    let words = [
        "scp",
        "-q",
        "-F",
        "/dev/null",
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
    ];
    let words = [
        &words[..],
        &[
            "UserKnownHostsFile=/dev/null",
            "-i",
            text(&key),
            "-P",
            &port,
        ],
    ];
    let words = [&words.concat()[..], &[text(&file), &target]].concat();
    run(&words);
    assert_eq!(
        random::sha256(&file),
        random::sha256(&copy),
        "{}",
        server.said()
    );
}
