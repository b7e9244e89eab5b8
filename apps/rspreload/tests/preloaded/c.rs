//! C programs written for these tests: each case is a process of its own.

use crate::run::{Counts, Run};

/// Cases whose bytes all take rsockets, with the fewest connections and bytes.
macro_rules! cases {
    ($($program:literal: $($case:ident, $connections:literal, $bytes:literal;)*)*) => {
        $($(
            #[test]
            fn $case() {
                let run = Run::new();
                let said = run.case($program, stringify!($case));
                let counts = run.counts();
                let least: [u64; 2] = [$connections, $bytes];
                // A process that is killed may not have counted what it sent.
                let found = [counts.accepts, counts.sent.max(counts.received)];
                let enough = found.iter().zip(least).all(|(found, least)| *found >= least);
                assert!(enough, "{counts:?}\n{said}");
                assert_eq!(said, "", "nothing went over TCP");
            }
        )*)*
    };
}

cases! {
    "bytes":
    moves_bytes_by_every_call, 1, 34;
    closes_each_way, 1, 9;
    writing_to_a_closed_peer_is_a_broken_pipe, 1, 0;
    copies_of_a_descriptor_share_the_connection, 2, 15;
    descriptors_are_as_low_as_without, 1, 0;
    closing_everything_leaves_the_library, 2, 10;
    options_and_names_are_those_of_a_tcp_socket, 1, 0;
    sends_files, 1, 9;
    limits_of_time_are_kept, 1, 1;
    calls_that_may_not_wait_do_not, 1, 1;
    a_signal_interrupts_unless_the_program_restarts_calls, 1, 0;
    "connects":
    connects_while_the_program_goes_on, 2, 18;
    epoll_and_select_see_the_end_of_an_attempt, 2, 18;
    a_blocking_connection, 2, 18;
    "waits":
    poll_and_select_mix_descriptors, 2, 1;
    select_looks_at_no_more_than_there_is, 1, 1;
    a_mask_lets_a_pending_signal_through, 1, 1;
    level_triggered, 1, 3;
    edge_triggered, 1, 4096;
    one_shot, 1, 1;
    listeners_are_ready_both_ways, 1, 0;
    a_thread_that_waits_sees_changes, 2, 2;
    edges_are_seen_while_another_thread_works, 2, 4096;
    a_thread_that_waits_for_the_kernel_can_be_cancelled, 0, 0;
    a_thread_is_cancelled_after_its_wait_for_rdma, 1, 2;
    a_handler_sends_while_its_thread_waits, 1, 1;
    "forks":
    a_child_serves_what_its_parent_accepted, 1, 18;
    a_program_gets_the_connection, 1, 14;
    a_child_that_uses_nothing_changes_nothing, 1, 9;
    an_unused_connection_lasts_as_long_as_the_child, 1, 0;
    much_is_relayed_in_order, 1, 41_943_040;
    a_worker_listens_instead_of_its_parent, 5, 5;
    a_child_may_look_at_a_listener, 2, 0;
    a_program_waits_at_the_listener_that_it_inherits, 1, 0;
    a_worker_that_ended_is_followed_by_another, 3, 3;
    a_daemon_listens_after_its_parent, 1, 1;
    threads_may_fork, 1, 50;
    what_a_parent_relays_outlasts_it, 1, 12;
    what_a_parent_relays_outlasts_an_exit_at_once, 1, 12;
    last_words, 3, 30;
    a_handler_forks_while_its_thread_waits, 1, 1;
    "numbers":
    a_close_by_number_is_a_close, 2, 4;
    calls_by_number_are_those_by_name, 1, 15;
    a_number_that_is_given_out_again_is_the_kernels, 21, 0;
    a_server_closes_by_number, 2, 18;
}

const NOTHING: Counts = Counts {
    connects: 0,
    accepts: 0,
    received: 0,
    sent: 0,
    closes: 0,
    listens: 0,
};

/// The lines about connections that went over TCP.
fn fallen_back(said: &str, why: &str) -> usize {
    let end = format!(" over RDMA ({why}): falling back to TCP");
    let lines = said.lines().inspect(|line| {
        assert!(
            line.starts_with("roce sockets: no connection to 127.0.0.1:"),
            "{said}"
        );
        assert!(line.ends_with(&end), "{said}");
    });
    lines.count()
}

/// Cases that connect, to listeners of both kinds.
const CONNECT: [&str; 3] = [
    "connects_while_the_program_goes_on",
    "epoll_and_select_see_the_end_of_an_attempt",
    "a_blocking_connection",
];

#[test]
fn connections_that_are_refused_over_rdma_take_tcp() {
    for case in CONNECT {
        let run = Run::new().with("DOUBLE_REFUSE", "111");
        let said = run.case("connects", case);
        // Once for each destination, of which there are two connections each.
        assert_eq!(fallen_back(&said, "Connection refused"), 1);
        let counts = run.counts();
        assert_eq!((counts.listens, counts.connects, counts.sent), (1, 0, 0));
    }
}

#[test]
fn a_host_that_is_silent_over_rdma_is_tried_once() {
    for case in CONNECT {
        let run = Run::new()
            .with("DOUBLE_SILENT", "1")
            .with("ROCE_SOCKETS", "loopback,wait=20");
        let said = run.case("connects", case);
        assert_eq!(fallen_back(&said, "Connection timed out"), 1);
        // The listener's rsocket, and that of the one attempt.
        let counts = run.counts();
        assert_eq!((counts.connects, counts.closes), (0, 2));
    }
}

#[test]
fn a_listener_that_leaves_connections_to_tcp_is_asked_once() {
    for case in CONNECT {
        let run = Run::new().with("DOUBLE_REFUSE", libc::EPROTONOSUPPORT.to_string());
        let said = run.case("connects", case);
        let why = "the program there passes connections to forked children";
        assert_eq!(fallen_back(&said, why), 1);
        // The listener's rsocket, and that of the one attempt.
        let counts = run.counts();
        assert_eq!((counts.connects, counts.closes), (0, 2));
    }
}

/// A connection that a child uses is relayed, which takes several times as long as TCP does.
#[test]
fn a_server_that_forks_for_each_connection_is_left_to_tcp() {
    let case = "a_server_forks_for_each_connection";
    let run = Run::new().with("ROCE_SOCKETS", "loopback,log");
    let said = run.case("forks", case);
    let counts = run.counts();
    assert_eq!((counts.connects, counts.accepts), (1, 1), "{said}");
    let has = |part: &str| said.lines().filter(|line| line.contains(part)).count();
    let left = "roce sockets: a forked child uses a connection that was accepted at 127.0.0.1:";
    assert_eq!(
        (has(left), has(": further connections use TCP")),
        (1, 1),
        "{said}"
    );
    for way in ["->", "<-"] {
        let over = |what: &str| {
            let of_way = said.lines().filter(|line| line.contains(way));
            of_way.filter(|line| line.ends_with(what)).count()
        };
        assert_eq!((over(" over RDMA"), over(" over TCP")), (1, 2), "{said}");
    }
    // Where the program's user wants no TCP, all of them are relayed.
    let run = Run::new().with("ROCE_SOCKETS", "loopback,only");
    assert_eq!(run.case("forks", case), "");
    assert_eq!(run.counts().accepts, 3);
}

#[test]
fn nobody_listens() {
    for settings in ["loopback", "loopback,only"] {
        let run = Run::new().with("ROCE_SOCKETS", settings);
        let said = run.case("connects", "nobody_listens");
        let lines = if settings == "loopback" { 1 } else { 0 };
        assert_eq!(fallen_back(&said, "Connection refused"), lines);
    }
}

#[test]
fn only_rdma() {
    for case in ["only_rdma", "epoll_sees_that_only_rdma_failed"] {
        let run = Run::new()
            .with("ROCE_SOCKETS", "loopback,only")
            .with("DOUBLE_REFUSE", "113");
        assert_eq!(run.case("connects", case), "");
    }
}

#[test]
fn a_thread_that_waits_for_tcp_can_be_cancelled() {
    let run = Run::new().with("ROCE_SOCKETS", "");
    let case = "a_thread_that_accepts_by_tcp_can_be_cancelled";
    assert_eq!(run.case("waits", case), "");
    assert_eq!(run.counts(), NOTHING);
}

#[test]
fn a_message_that_was_sent_in_part_is_the_last() {
    let run = Run::new().with("DOUBLE_SHORT", "1000");
    let case = "a_message_that_was_sent_in_part_is_the_last";
    assert_eq!(run.case("bytes", case), "");
    assert_eq!(run.counts().sent, 1500);
}

#[test]
fn a_signal_interrupts_a_connection_unless_the_program_restarts_calls() {
    let run = Run::new()
        .with("DOUBLE_SILENT", "1")
        .with("ROCE_SOCKETS", "loopback,quiet,wait=500");
    let case = "a_signal_interrupts_a_connection_unless_the_program_restarts_calls";
    assert_eq!(run.case("connects", case), "");
    assert_eq!(run.counts().connects, 0);
}

/// A user can bind a socket to any name, and pass it to another user's program.
#[test]
fn a_name_that_another_user_made_up_is_no_peer() {
    if !testkit::root_or_skip() {
        return;
    }
    let run = Run::new();
    let case = "a_name_that_another_user_made_up_is_no_peer";
    assert_eq!(run.case("numbers", case), "");
}

#[test]
fn options_reach_the_connection() {
    let run = Run::new();
    let file = run.files().join("options");
    let run = run.with("DOUBLE_OPTIONS", file.display().to_string());
    assert_eq!(run.case("bytes", "options_reach_the_connection"), "");
    let set = std::fs::read_to_string(file).expect("options were set");
    let all = |name| {
        let start = format!("{} {name} ", libc::IPPROTO_TCP);
        let values = set.lines().filter_map(|line| line.strip_prefix(&start));
        values.map(str::to_owned).collect::<Vec<_>>()
    };
    // The client's, and the accepted one's from the listener and from the program.
    assert_eq!(all(libc::TCP_KEEPIDLE), ["12", "11", "13"], "{set}");
    let on = format!("{} {} 1", libc::SOL_SOCKET, libc::SO_KEEPALIVE);
    assert_eq!(set.lines().filter(|line| **line == on).count(), 3, "{set}");
}

#[test]
fn a_close_lingers_where_it_would_leave_the_rest_to_a_thread() {
    let run = Run::new().with("DOUBLE_LATE", "1");
    assert_eq!(run.case("bytes", "a_close_lingers"), "");
}

/// Where a close leaves the rest to a thread.
#[test]
fn what_was_sent_before_an_exit_arrives_although_it_takes_time() {
    let run = Run::new().with("DOUBLE_LATE", "1");
    assert_eq!(run.case("forks", "last_words"), "");
    assert_eq!(run.counts().received, 30);
}

#[test]
fn tcp_and_rdma_at_one_port() {
    let run = Run::new();
    assert_eq!(run.case("connects", "tcp_and_rdma_at_one_port"), "");
    let counts = run.counts();
    assert_eq!((counts.connects, counts.accepts), (1, 1));
}

#[test]
fn without_a_device_both_ends_use_tcp() {
    let run = Run::new().with("DOUBLE_NO_DEVICE", "1");
    let said = run.case("connects", "a_blocking_connection");
    let (first, rest) = said.split_once('\n').expect("two lines");
    assert!(
        first.starts_with("roce sockets: cannot listen at 127.0.0.1:"),
        "{said}"
    );
    assert!(
        first.ends_with(" over RDMA (No such device): listening over TCP only"),
        "{said}"
    );
    assert_eq!(fallen_back(rest, "Connection refused"), 1);
}

#[test]
fn settings_say_what_uses_rsockets() {
    for settings in ["", "off", "off,loopback"] {
        let run = Run::new().with("ROCE_SOCKETS", settings);
        assert_eq!(run.case("connects", "a_blocking_connection"), "");
        assert_eq!(run.counts(), NOTHING, "{settings:?}");
    }
    let run = Run::new()
        .with("ROCE_SOCKETS", "loopback,quiet")
        .with("DOUBLE_REFUSE", "111");
    assert_eq!(run.case("connects", "a_blocking_connection"), "");
}

#[test]
fn the_log_has_both_ends_of_connections() {
    let run = Run::new().with("ROCE_SOCKETS", "loopback,log");
    let said = run.case("connects", "a_blocking_connection");
    let has = |part: &str| said.lines().filter(|line| line.contains(part)).count();
    assert_eq!(has("roce sockets: listening at 127.0.0.1:"), 1, "{said}");
    assert_eq!(
        (has(" -> "), has(" <- "), has(" over RDMA")),
        (2, 2, 5),
        "{said}"
    );
}

/// Its connections work all the same, over TCP.
#[test]
fn a_go_program_says_that_its_sockets_use_tcp() {
    let said = Run::new().case("go", "");
    assert_eq!(
        said,
        "roce sockets: this is a Go program: Go's network package makes system calls itself, so its sockets use TCP\n"
    );
    for settings in ["off", "loopback,quiet"] {
        let run = Run::new().with("ROCE_SOCKETS", settings);
        assert_eq!(run.case("go", ""), "", "{settings}");
    }
}

#[test]
fn a_word_that_means_nothing_is_reported() {
    let run = Run::new().with("ROCE_SOCKETS", "loopback,olny");
    let said = run.case("connects", "a_blocking_connection");
    assert_eq!(
        said,
        "roce sockets: ROCE_SOCKETS: unknown word \"olny\"; expected off, only, loopback, quiet, log or \
         wait=MILLISECONDS\n"
    );
}
