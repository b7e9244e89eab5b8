//! Third-party programs, unchanged, at both ends of connections.

use crate::run::{Run, succeeded, text};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;
use testkit::is_installed_or_skip;

/// Whether sshd lets this user in. If not, reports on stderr that the test is skipped.
fn may_log_in() -> bool {
    let name = Command::new("id").arg("-un").output().expect("id starts");
    let name = text(&name.stdout);
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut users = users.lines().map(|line| line.split(':'));
    let shell = users.find_map(|mut fields| {
        let is_it = fields.next() == Some(name.trim());
        is_it.then(|| fields.next_back().unwrap_or_default().to_owned())
    });
    let may = shell.is_none_or(|shell| !shell.ends_with("nologin") && !shell.ends_with("false"));
    if !may {
        testkit::skip("a user who may log in", name.trim());
    }
    may
}

/// A port that nobody has.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// A server, which ends with the test.
struct Server(Child);

impl Server {
    /// Starts it, and waits until it accepts connections. These are over TCP, from this process.
    fn start(command: &mut Command, log: &Path, port: u16) -> Self {
        let log = File::create(log).expect("a file");
        let both = log.try_clone().expect("a descriptor");
        let child = command.stdout(log).stderr(both).spawn();
        let mut server = Self(child.expect("the server starts"));
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.0.try_wait().expect("a child");
            assert!(ended.is_none(), "the server ended: {ended:?}");
            thread::sleep(Duration::from_millis(10));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = self.0.id().cast_signed();
        // `timeout` passes the signal on.
        // SAFETY: only numbers are passed. The child was not waited for yet.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let _ = self.0.wait();
    }
}

/// A file of bytes that are no text.
fn content(run: &Run) -> Vec<u8> {
    let bytes: Vec<u8> = (0..3_000_000_u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    fs::write(run.files().join("content"), &bytes).expect("a file");
    bytes
}

/// Gets the file from an HTTP server, by curl.
fn get(run: &Run, url: &str) -> Vec<u8> {
    let output = run.command("curl").args(["-sS", url]).output();
    let output = output.expect("curl starts");
    succeeded_quietly(&output);
    output.stdout
}

fn succeeded_quietly(output: &std::process::Output) {
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        text(&output.stderr)
    );
}

#[test]
fn python_serves_files_to_curl() {
    if !is_installed_or_skip("python3") || !is_installed_or_skip("curl") {
        return;
    }
    let run = Run::new();
    let expected = content(&run);
    let port = port();
    let mut command = run.command("python3");
    command.args([
        "-m",
        "http.server",
        "--bind",
        "127.0.0.1",
        &port.to_string(),
        "-d",
    ]);
    command.arg(run.files());
    let _server = Server::start(&mut command, &run.files().join("log"), port);
    let got = get(&run, &format!("http://127.0.0.1:{port}/content"));
    assert!(got == expected, "{} bytes", got.len());
    let counts = run.counts();
    assert_eq!((counts.connects, counts.accepts), (1, 1));
    assert!(counts.received >= expected.len() as u64, "{counts:?}");
}

/// The answer of an HTTP server to a plain TCP client.
fn get_by_tcp(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("received");
    answer
}

/// libuv closes descriptors by `syscall`.
#[test]
fn node_serves_clients_of_both_kinds_in_turn() {
    if !is_installed_or_skip("node") || !is_installed_or_skip("curl") {
        return;
    }
    const SCRIPT: &str = "require('http').createServer((_, answer) => answer.end('served'))\
                          .listen(process.argv[1], '127.0.0.1')";
    let run = Run::new();
    let port = port();
    let mut command = run.command("node");
    command.args(["-e", SCRIPT, &port.to_string()]);
    let _server = Server::start(&mut command, &run.files().join("log"), port);
    for _ in 0..3 {
        assert_eq!(get(&run, &format!("http://127.0.0.1:{port}/")), b"served");
        for _ in 0..2 {
            let answer = get_by_tcp(port);
            assert!(answer.contains("served"), "{answer:?}");
        }
    }
    let counts = run.counts();
    assert_eq!((counts.connects, counts.accepts), (3, 3));
}

#[test]
fn iperf3_measures_both_ways() {
    if !is_installed_or_skip("iperf3") {
        return;
    }
    let run = Run::new();
    let port = port().to_string();
    let log = File::create(run.files().join("log")).expect("a file");
    let mut command = run.command("iperf3");
    command
        .args(["-s", "-1", "-p", &port, "--forceflush"])
        .stdout(log);
    let mut server = command.spawn().expect("iperf3 starts");
    // Its first connection would be its only one.
    while !fs::read_to_string(run.files().join("log"))
        .expect("a log")
        .contains("listening")
    {
        thread::sleep(Duration::from_millis(10));
    }
    let mut command = run.command("iperf3");
    command.args([
        "-c",
        "127.0.0.1",
        "-p",
        &port,
        "-n",
        "50M",
        "-P",
        "2",
        "--bidir",
    ]);
    succeeded(&command.output().expect("iperf3 starts"));
    assert!(server.wait().expect("a child").success());
    let counts = run.counts();
    // One for control, and two for each way.
    assert_eq!((counts.connects, counts.accepts), (5, 5));
    assert!(counts.sent >= 50 << 20, "{counts:?}");
}

#[test]
fn redis_serves_many_clients_and_saves_in_a_child() {
    if !is_installed_or_skip("redis-server") {
        return;
    }
    let run = Run::new();
    let port = port();
    let mut command = run.command("redis-server");
    command
        .args(["--port", &port.to_string(), "--save", "", "--dir"])
        .arg(run.files());
    let log = run.files().join("log");
    let server = Server::start(&mut command, &log, port);
    let port = port.to_string();
    let mut benchmark = run.command("redis-benchmark");
    benchmark.args(["-p", &port, "-n", "2000", "-c", "20", "-t", "set,get", "-q"]);
    succeeded(&benchmark.output().expect("redis-benchmark starts"));
    let cli = |arguments: &[&str]| {
        let mut command = run.command("redis-cli");
        let output = command.args(["-p", &port]).args(arguments).output();
        let output = output.expect("redis-cli starts");
        succeeded(&output);
        text(&output.stdout)
    };
    assert_eq!(cli(&["set", "key", "value"]), "OK\n");
    assert_eq!(cli(&["bgsave"]), "Background saving started\n");
    while !cli(&["info", "persistence"]).contains("rdb_bgsave_in_progress:0") {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(cli(&["info", "persistence"]).contains("rdb_last_bgsave_status:ok"));
    assert_eq!(cli(&["get", "key"]), "value\n");
    drop(server);
    let counts = run.counts();
    assert!(
        counts.connects >= 40 && counts.connects == counts.accepts,
        "{counts:?}"
    );
}

const NGINX: &str = "\
worker_processes 2; daemon off; pid FOLDER/pid; error_log stderr; USER
env LD_PRELOAD; env LD_LIBRARY_PATH; env ROCE_SOCKETS; env DOUBLE_COUNTS;
events { worker_connections 256; }
http {
    access_log off; sendfile on;
    client_body_temp_path FOLDER/a; proxy_temp_path FOLDER/b; fastcgi_temp_path FOLDER/c;
    uwsgi_temp_path FOLDER/d; scgi_temp_path FOLDER/e;
    server {
        listen 127.0.0.1:PORT; root FOLDER;
        location /again/ { proxy_pass http://127.0.0.1:PORT/; }
    }
}
";

#[test]
fn nginx_serves_and_passes_on_from_its_workers() {
    if !is_installed_or_skip("nginx") || !is_installed_or_skip("curl") {
        return;
    }
    let run = Run::new();
    let expected = content(&run);
    let port = port();
    // SAFETY: nothing is passed.
    let user = if unsafe { libc::geteuid() } == 0 {
        "user root;"
    } else {
        ""
    };
    let folder = run.files().display().to_string();
    let configuration = NGINX.replace("FOLDER", &folder).replace("USER", user);
    let configuration = configuration.replace("PORT", &port.to_string());
    let file = run.files().join("configuration");
    fs::write(&file, configuration).expect("a file");
    let mut command = run.command("/usr/sbin/nginx");
    command.arg("-c").arg(&file).arg("-p").arg(run.files());
    let server = Server::start(&mut command, &run.files().join("log"), port);
    // One worker listens over RDMA, when it has started.
    while run.counts().listens < 2 {
        thread::sleep(Duration::from_millis(10));
    }
    let before = run.counts();
    for path in ["content", "again/content"] {
        let got = get(&run, &format!("http://127.0.0.1:{port}/{path}"));
        assert!(got == expected, "{path}: {} bytes", got.len());
    }
    drop(server);
    let counts = run.counts();
    // Of the second file, curl's and nginx's.
    assert_eq!(counts.connects - before.connects, 3);
    assert!(counts.received >= 3 * expected.len() as u64, "{counts:?}");
}

const SSHD: &str = "\
Port PORT
ListenAddress 127.0.0.1
HostKey FOLDER/host
AuthorizedKeysFile FOLDER/id.pub
StrictModes no
UsePAM no
PidFile none
";

#[test]
fn sshd_executes_itself_for_each_connection() {
    if !is_installed_or_skip("sshd") || !is_installed_or_skip("ssh") || !may_log_in() {
        return;
    }
    let run = Run::new();
    let expected = content(&run);
    let port = port();
    let folder = run.files().display().to_string();
    for key in ["host", "id"] {
        let mut command = Command::new("ssh-keygen");
        command
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(run.files().join(key));
        succeeded(&command.output().expect("ssh-keygen starts"));
    }
    let configuration = SSHD
        .replace("FOLDER", &folder)
        .replace("PORT", &port.to_string());
    let file = run.files().join("configuration");
    fs::write(&file, configuration).expect("a file");
    // SAFETY: nothing is passed.
    if unsafe { libc::geteuid() } == 0 {
        // Where the child without privileges lives.
        fs::create_dir_all("/run/sshd").expect("a folder");
    }
    let mut command = run.command("/usr/sbin/sshd");
    command.args(["-D", "-e", "-f"]).arg(&file);
    let server = Server::start(&mut command, &run.files().join("log"), port);
    let mut command = run.command("ssh");
    command
        .args([
            "-F",
            "none",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
        ])
        .args(["-p", &port.to_string(), "-i"])
        .arg(run.files().join("id"))
        .args(["127.0.0.1", "echo $SSH_CONNECTION; cat"])
        .stdin(File::open(run.files().join("content")).expect("a file"));
    let output = command.output().expect("ssh starts");
    succeeded_quietly(&output);
    let end = output
        .stdout
        .iter()
        .position(|byte| *byte == b'\n')
        .expect("a line");
    let (addresses, rest) = output.stdout.split_at(end + 1);
    let addresses = text(addresses);
    let words: Vec<&str> = addresses.split_whitespace().collect();
    assert!(
        matches!(words[..], ["127.0.0.1", _, "127.0.0.1", at] if at == port.to_string()),
        "{addresses}"
    );
    assert!(rest == expected, "{} bytes", rest.len());
    drop(server);
    let counts = run.counts();
    assert_eq!((counts.connects, counts.accepts), (1, 1));
    assert!(counts.sent >= 2 * expected.len() as u64, "{counts:?}");
}
