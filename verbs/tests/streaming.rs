//! Programs that post one request after the other. Posts wait for those that follow:
//! docs/adr/0059-posts-that-wait.md.

#[allow(dead_code)]
mod support;

use roce_verbs::completion::Notify;
use roce_verbs::qp::{QpAttributes, QpState};
use roce_verbs::{
    Access, Completion, ConnectOptions, MemoryRegion, QpOptions, QueuePair, RemoteAddr,
    SendRequest, WcStatus,
};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::End;

const TIMEOUT: Duration = Duration::from_secs(60);

/// What a process is, and how it gets at its parent's memory.
const ROLE: &str = "STREAMING_TEST_ROLE";

/// The posts of a row.
const ROW: usize = 14;

/// The offset of the byte that is watched, in the peer's memory.
const WATCHED: usize = 8;

fn counter(end: &End, name: &str) -> u64 {
    let counters = end.context.port_counters();
    counters.iter().find(|(n, _)| *n == name).expect(name).1
}

/// Writes the bytes 1 to [`ROW`] to `to`, one post for each.
fn post_row(from: &End, to: RemoteAddr) {
    for n in 1..=ROW {
        let byte = [u8::try_from(n).expect("a byte")];
        let write = SendRequest::write((), to).inline(&byte).id(n as u64);
        from.qp.post_send(&write).expect("posted");
    }
}

fn completion(end: &End) -> Completion {
    let done = end.cq.poll_for(TIMEOUT).expect("no overrun");
    let done = done.expect("completed");
    assert_eq!(done.status, WcStatus::Success);
    done
}

fn complete_row(from: &End) {
    for n in 1..=ROW {
        assert_eq!(completion(from).wr_id, n as u64);
    }
}

/// Two connected ends.
fn ends(first: u8) -> [End; 2] {
    let ends = [first, first + 1].map(|last| End::open(last, &support::sockets_only()));
    ends[0].connect(&ends[1]);
    ends[1].connect(&ends[0]);
    ends
}

/// Posts a row of which at least one post waits. Returns the number of packets that have left when
/// none waits any more.
fn post_row_that_waits(a: &End, to: RemoteAddr) -> u64 {
    let until = Instant::now() + TIMEOUT;
    loop {
        let all = counter(a, "tx_packets") + ROW as u64;
        post_row(a, to);
        if counter(a, "tx_packets") < all {
            return all;
        }
        complete_row(a);
        assert!(Instant::now() < until, "no post waits");
    }
}

/// The byte that is watched.
fn watched(end: &End) -> RemoteAddr {
    end.region.remote(WATCHED as u64)
}

/// The longest time for which a test watches its memory. It computes meanwhile, and roce-mutations takes
/// a program for hung that has computed for 25 s.
const MAX_WATCH: Duration = Duration::from_secs(15);

/// Waits until the last byte of a row has arrived, without a call.
fn watch(to: &End) {
    let until = Instant::now() + MAX_WATCH;
    while to.region.load_u8(WATCHED).expect("in range") != ROW as u8 {
        assert!(Instant::now() < until, "the byte does not come");
        std::hint::spin_loop();
    }
}

/// On a busy machine, the background thread or another program may end each row. It is enough if a
/// hundred rows in succession need less than half as many datagrams as messages, and as few
/// acknowledgements.
#[test]
fn messages_that_are_posted_one_at_a_time_share_datagrams() {
    const ROWS: u64 = 100;
    let [a, b] = &ends(121);
    let until = Instant::now() + TIMEOUT;
    loop {
        let sent = ["tx_packets", "tx_datagrams"].map(|name| counter(a, name));
        let answers = counter(b, "tx_datagrams");
        for _ in 0..ROWS {
            post_row(a, watched(b));
            complete_row(a);
        }
        let messages = ROWS * ROW as u64;
        assert!(counter(a, "tx_packets") - sent[0] >= messages);
        let datagrams = counter(a, "tx_datagrams") - sent[1];
        let answers = counter(b, "tx_datagrams") - answers;
        if datagrams < messages / 2 && answers < messages / 2 {
            break;
        }
        assert!(
            Instant::now() < until,
            "{datagrams} datagrams, {answers} answers"
        );
    }
}

/// The program makes no call after its last post.
#[test]
fn posts_that_wait_leave_though_the_program_makes_no_call() {
    let [a, b] = &ends(123);
    for _ in 0..5 {
        post_row_that_waits(a, watched(b));
        watch(b);
        complete_row(a);
    }
}

/// A program that waits for events, or requests one, may sleep from then on.
#[test]
fn posts_that_wait_leave_before_the_program_sleeps() {
    let [a, b] = &ends(125);
    let sleeps: [fn(&End); 2] = [
        |end| end.context.hand_over(),
        |end| end.cq.request_notify(Notify::Next),
    ];
    for sleep in sleeps {
        for _ in 0..5 {
            let all = post_row_that_waits(a, watched(b));
            sleep(a);
            assert!(counter(a, "tx_packets") >= all);
            complete_row(a);
        }
    }
}

/// A program may end without taking its last completions.
#[test]
fn posts_that_wait_leave_before_the_qp_ends() {
    let [a, b] = &ends(127);
    post_row_that_waits(a, watched(b));
    let to_error = QpAttributes {
        state: Some(QpState::Err),
        ..QpAttributes::default()
    };
    a.qp.modify(&to_error).expect("from any state");
    watch(b);

    let [a, b] = &ends(129);
    post_row_that_waits(a, watched(b));
    a.qp.destroy();
    watch(b);
}

/// Posts a row of which some posts wait, and exits, if the environment asks for it. Does nothing
/// when run as a test.
#[test]
fn is_a_program_that_exits() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let [last, peer, to] = [0, 1, 2].map(|word| role.split(' ').nth(word).expect("a word"));
    let end = End::open_at(last.parse().expect("an address"), &support::sockets_only());
    end.connect_to(&peer.parse().expect("an endpoint"), None);
    println!("ENDPOINT: {}", end.endpoint());
    std::io::stdin()
        .read_line(&mut String::new())
        .expect("a line");
    post_row_that_waits(&end, to.parse().expect("an address"));
    std::process::exit(0);
}

/// The program ends without destroying its QP.
#[test]
fn posts_that_wait_leave_when_the_program_exits() {
    let here = End::open(131, &support::sockets_only());
    let (there, to) = (support::address(132), watched(&here));
    let mut child = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "is_a_program_that_exits", "--nocapture"])
        .env(ROLE, format!("{there} {} {to}", here.endpoint()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut lines = output.lines().map_while(Result::ok);
    let endpoint = lines.find_map(|line| Some(line.split_once("ENDPOINT: ")?.1.to_owned()));
    let endpoint = endpoint.expect("it says so").parse();
    here.connect_to(&endpoint.expect("an endpoint"), None);
    let mut input = child.stdin.take().expect("piped");
    input.write_all(b"go\n").expect("it reads");
    assert!(child.wait().expect("it ends").success());
    watch(&here);
}

/// A QP of an end, besides its own, and memory that the peer of the QP can write.
fn another_qp(end: &End) -> (QueuePair, MemoryRegion) {
    let pd = end.context.alloc_pd();
    let qp = pd.create_qp(&end.cq, &end.cq, &QpOptions::default());
    let region = pd.allocate(64, Access::ANY_MEMORY).expect("allocated");
    (qp.expect("a QP"), region)
}

/// The peer of a QP that has nothing in flight may wait for the message. What waits leaves with it.
#[test]
fn a_post_to_an_idle_qp_leaves_at_once() {
    let [a, b] = &ends(133);
    let [(a_qp, _), (b_qp, target)] = [a, b].map(another_qp);
    let endpoint = |end: &End, qp: &QueuePair| qp.endpoint(end.gid_index()).expect("an endpoint");
    let options = ConnectOptions::default();
    for (end, qp, peer) in [
        (b, &b_qp, endpoint(a, &a_qp)),
        (a, &a_qp, endpoint(b, &b_qp)),
    ] {
        qp.connect(end.gid_index(), &peer, &options)
            .expect("connected");
    }
    for _ in 0..5 {
        let all = post_row_that_waits(a, watched(b)) + 1;
        let write = SendRequest::write((), target.remote(0)).inline(&[1]);
        a_qp.post_send(&write).expect("posted");
        assert!(counter(a, "tx_packets") >= all);
        for _ in 0..=ROW {
            completion(a);
        }
    }
}
