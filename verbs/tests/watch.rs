//! The snapshots that a process gives to watchers, over its Unix socket and over HTTP.

mod support;

use roce_verbs::SendOp;
use roce_verbs::observation::{Snapshot, watch_processes};
use roce_verbs::settings::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use support::End;

const TIMEOUT: Duration = Duration::from_secs(60);

/// This process's snapshot, once `enough` accepts it.
fn snapshot_where(enough: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let until = Instant::now() + TIMEOUT;
    loop {
        // Another process may be stopped, and never answer.
        let found = watch_processes(Duration::from_secs(1)).expect("the list of sockets");
        let own = |snapshot: &Snapshot| snapshot.pid == std::process::id() && enough(snapshot);
        if let Some(own) = found.snapshots.into_iter().find(own) {
            return own;
        }
        assert!(Instant::now() < until, "this process is not found");
    }
}

/// An end in a process that serves metrics, and their address.
/// One end at a time: those of a process share a server, where many clients of one evict another's.
fn end_with_metrics(last: u8) -> (MutexGuard<'static, ()>, End, SocketAddr) {
    static ONE: Mutex<()> = Mutex::new(());
    let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    let end = End::open(last, &OpenOptions::new().metrics(free));
    let at = end.context.metrics_address().expect("an address");
    assert_ne!(at.port(), 0);
    (alone, end, at)
}

fn get(at: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(at).expect("connected");
    stream.set_read_timeout(Some(TIMEOUT)).expect("set");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The snapshots of two QPs show what they did. Once the QPs are destroyed, they are not in the
/// snapshot.
#[test]
fn snapshots_show_devices_and_qps() {
    let options = OpenOptions::new();
    let (a, b) = (End::open(91, &options), End::open(92, &options));
    let stays = End::open(90, &options);
    a.connect(&b);
    b.connect(&a);
    a.run(SendOp::Write(b.region.remote(0)));
    let traffic = a.qp.status().expect("a QP").traffic;
    assert!(traffic.tx_bytes >= support::LEN as u64, "{traffic:?}");
    let number = a.qp.qpn().get();
    let enough = |own: &Snapshot| {
        let mut qps = own.devices.iter().flat_map(|device| &device.qps);
        qps.any(|qp| qp.qpn == number && qp.tx_packets == traffic.tx_packets)
    };
    let own = snapshot_where(enough);
    let (device, qp) = own
        .devices
        .iter()
        .flat_map(|device| device.qps.iter().map(move |qp| (device, qp)))
        .find(|(_, qp)| qp.qpn == number)
        .expect("the QP");
    assert_eq!(
        (device.interface.as_str(), device.datapath.as_str()),
        ("lo", "udp")
    );
    assert_eq!(device.counters["tx_bytes"], traffic.tx_bytes);
    assert_eq!(device.drops["bad_icrc"], 0);
    assert!(device.port["tx_packets"] >= qp.tx_packets);
    assert_eq!((qp.state.as_str(), qp.service.as_str()), ("RTS", "RC"));
    assert_eq!(qp.peer_qpn, Some(b.qp.qpn().get()));
    assert!(qp.rtt_seconds.is_some_and(|rtt| rtt > 0.0), "{qp:?}");
    assert!(!own.command.is_empty());
    drop((a, b));
    let gone = |own: &Snapshot| {
        let mut qps = own.devices.iter().flat_map(|device| &device.qps);
        qps.all(|qp| qp.qpn != number)
    };
    snapshot_where(gone);
    drop(stays);
}

/// A client that sends nothing, or one that never stops sending, is cut off. Other clients get
/// their answers meanwhile.
#[test]
fn hostile_connections_do_not_block_other_clients() {
    let (_alone, end, at) = end_with_metrics(93);
    let request = "GET /metrics HTTP/1.0\r\n\r\n";
    assert!(get(at, request).starts_with("HTTP/1.0 200 OK\r\n"));
    // More clients than the limit: some that send nothing, and one that never stops.
    let silent: Vec<_> = (0..20)
        .map(|_| TcpStream::connect(at).expect("connected"))
        .collect();
    let mut endless = TcpStream::connect(at).expect("connected");
    // The kernel may take it or not.
    let _ = endless.write_all(&[b'a'; 64 << 10]);
    // `roce top` has its own limit.
    snapshot_where(|_| true);
    // The silent clients are disconnected after their timeout. Then this client gets an answer.
    let answer = get(at, request);
    assert!(
        answer.contains("\r\nContent-Type: text/plain; version=0.0.4"),
        "{answer}"
    );
    assert!(
        answer.contains("\nroce_device_info{device=\"roce_lo\""),
        "{answer}"
    );
    let mut rest = Vec::new();
    endless.set_read_timeout(Some(TIMEOUT)).expect("set");
    match endless.read_to_end(&mut rest) {
        Ok(_) => assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.0 431 ")),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    drop((silent, end));
}

#[test]
fn other_requests_get_an_error_status() {
    let (_alone, _end, at) = end_with_metrics(94);
    for (request, status) in [
        ("GET /secrets HTTP/1.0\r\n\r\n", "404 Not Found"),
        ("DELETE /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        ("hello\r\n\r\n", "400 Bad Request"),
    ] {
        let answer = get(at, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.0 {status}\r\n")),
            "{answer}"
        );
    }
    let head = get(at, "HEAD / HTTP/1.0\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.0 200 OK\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    let mut half = TcpStream::connect(at).expect("connected");
    half.write_all(b"GET /metrics").expect("sent");
    half.shutdown(Shutdown::Write).expect("shut down");
    let mut answer = String::new();
    half.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.0 400 "), "{answer}");
}

/// If the port is taken, the device works without metrics.
#[test]
fn a_device_opens_without_its_metrics() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = taken.local_addr().expect("an address");
    let end = End::open(95, &OpenOptions::new().metrics(at));
    assert!(end.context.failure().is_none());
    assert_eq!(end.context.metrics_address(), None);
    snapshot_where(|_| true);
}

/// A client that connects and does not read delays no other client.
#[test]
fn a_watcher_that_does_not_read_does_not_block_others() {
    let _end = End::open(96, &OpenOptions::new());
    let table = std::fs::read_to_string("/proc/thread-self/net/unix").expect("the table");
    let own = format!("@roce-watch-1/{}/", std::process::id());
    let name = table.split_whitespace().find(|word| word.starts_with(&own));
    let name = name.expect("this process's").trim_start_matches('@');
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name).expect("a name");
    let lazy: Vec<_> = (0..4)
        .map(|_| UnixStream::connect_addr(&address).expect("connected"))
        .collect();
    snapshot_where(|_| true);
    drop(lazy);
}
