//! A target that answers as none should. The host returns an error that says what was wrong, and
//! neither panics nor waits for longer than its timeout.

use roce_nvme::host::{Host, HostOptions};
use roce_nvme::wire::{AcceptPrivate, Response};
use roce_verbs::prelude::*;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const NQN: &str = "nqn.2014-08.org.nvmexpress:hostile";

/// The target's reaction to the first command.
type Answer = fn(&Connection, &MemoryRegion);

/// The error of a host that connects to a target with this private data and this answer.
fn error_of_host(private: &'static [u8], answer: Answer) -> String {
    let context = Device::with_address(LOOPBACK).expect("it is there").open();
    let context = context.expect("it opens");
    let listener = Listener::bind(&context, (LOOPBACK, 0).into()).expect("a port");
    let address = format!("nvme://{LOOPBACK}:{}/{NQN}", listener.port());
    let target = std::thread::spawn(move || {
        let incoming = listener.accept();
        let (pd, cq) = (context.alloc_pd(), context.create_cq(64));
        let qp = pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP");
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let memory = pd.allocate(4096, access).expect("memory");
        qp.to_init(access).expect("INIT");
        let sges = [memory.all().expect("a piece")];
        let receive = RecvRequest {
            wr_id: 0,
            sges: &sges,
        };
        qp.post_recv(&receive).expect("posted");
        let options = ConnectOptions::default();
        let Ok(connection) = incoming.accept(qp, &options, private) else {
            return;
        };
        // The host may have left already.
        if let Ok(Some(_)) = cq.poll_for(Duration::from_secs(20)) {
            answer(&connection, &memory);
        }
        connection.wait_for_end(Duration::from_secs(20));
    });
    let options = HostOptions {
        timeout: Duration::from_millis(500),
        ..HostOptions::default()
    };
    let host = Host::connect(&address.parse().expect("an address"), &options);
    let error = host.expect_err("such a target is of no use").to_string();
    target.join().expect("the target does not panic");
    println!("{error}");
    error
}

fn send(connection: &Connection, memory: &MemoryRegion, bytes: &[u8]) {
    memory.write(0, bytes).expect("it fits");
    let piece = memory.slice(0, bytes.len()).expect("it fits");
    // The host may have left already.
    let _ = connection.post_send(&SendRequest::send(piece));
}

fn response(command_id: u16) -> Vec<u8> {
    let response = Response {
        command_id,
        ..Response::default()
    };
    response.encode().to_vec()
}

fn private() -> &'static [u8] {
    let accept = AcceptPrivate {
        controller_receive_len: 32,
    };
    Vec::leak(accept.encode().to_vec())
}

#[test]
fn private_data_of_another_protocol() {
    let error = error_of_host(b"\x01\x00hello", |_, _| {});
    assert!(error.contains("not as an NVMe target does"), "{error}");
}

#[test]
fn a_response_that_is_too_short() {
    let error = error_of_host(private(), |c, m| send(c, m, &response(0)[..15]));
    assert!(error.contains("queue 0 has failed"), "{error}");
    assert!(
        error.contains("a response of 15 bytes: a response has 16"),
        "{error}"
    );
}

#[test]
fn a_response_that_is_too_long() {
    let error = error_of_host(private(), |c, m| send(c, m, &[0; 17]));
    assert!(error.contains("queue 0 has failed"), "{error}");
}

#[test]
fn a_response_to_no_command() {
    for id in [1, 31, 0xffff] {
        // A closure cannot have the number, so each has its own.
        let answer: Answer = match id {
            1 => |c, m| send(c, m, &response(1)),
            31 => |c, m| send(c, m, &response(31)),
            _ => |c, m| send(c, m, &response(0xffff)),
        };
        let error = error_of_host(private(), answer);
        let expected = format!("answered command {id:#x}, which is not outstanding");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn no_response() {
    let error = error_of_host(private(), |_, _| {});
    assert!(error.contains("was not answered within 500ms"), "{error}");
}

#[test]
fn a_second_response_to_the_first_command() {
    let error = error_of_host(private(), |c, m| {
        send(c, m, &response(0));
        send(c, m, &response(0));
    });
    // The second one arrives before or after the host has posted the next command with the same
    // identifier: it then is an answer without the capabilities that the host asked for.
    assert!(
        error.contains("queue 0 has failed") || error.contains("controller"),
        "{error}"
    );
}
