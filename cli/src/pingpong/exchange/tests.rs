use super::*;
use socket2::{Domain, Socket, Type};
use std::thread;

const PEER_TIMEOUT: Duration = Duration::from_secs(30);

/// What ibv_rc_pingpong sends for the address below.
const WIRE: &[u8; 52] = b"0000:000012:a1b2c3:00000000000000000000ffff0a4d0002\0";

fn address() -> Address {
    Address {
        lid: 0,
        qpn: Qpn::from_bits(0x12),
        psn: Psn::new(0x00a1_b2c3),
        gid: "10.77.0.2".parse().expect("a GID"),
    }
}

fn listener() -> (Listener, SocketAddr) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::bind(Some(any), 0).expect("listening");
    let at = listener.0.local_addr().expect("bound");
    (listener, at)
}

#[test]
fn an_address_goes_over_the_wire_as_the_original_has_it() {
    assert_eq!(&address().to_wire(), WIRE);
    assert_eq!(Address::from_wire(WIRE), Some(address()));
}

#[test]
fn an_address_is_printed_as_the_original_prints_it() {
    assert_eq!(
        address().to_string(),
        "LID 0x0000, QPN 0x000012, PSN 0xa1b2c3, GID ::ffff:10.77.0.2"
    );
}

#[test]
fn what_is_no_address_is_refused() {
    for at in 0..WIRE.len() {
        for byte in [b'x', b'+', 0xff] {
            let mut wire = *WIRE;
            wire[at] = byte;
            assert_eq!(Address::from_wire(&wire), None, "{byte:#x} at {at}");
        }
    }
    assert_eq!(Address::from_wire(&[0; 52]), None);
}

#[test]
fn both_ends_learn_the_others_address() {
    let (listener, at) = listener();
    let theirs = Address {
        qpn: Qpn::from_bits(0xff_fffe),
        ..address()
    };
    let client = thread::spawn(move || exchange_with_server(&[at], "here", PEER_TIMEOUT, &theirs));
    let mut peer = listener.accept(None, PEER_TIMEOUT).expect("a client");
    assert_eq!(peer.receive().expect("an address"), theirs);
    peer.answer(&address()).expect("answered");
    assert_eq!(
        client.join().expect("no panic").expect("an address"),
        address()
    );
}

#[test]
fn a_message_may_come_in_pieces() {
    let (listener, at) = listener();
    let client = thread::spawn(move || {
        let mut stream = TcpStream::connect(at).expect("connected");
        for piece in WIRE.chunks(10) {
            stream.write_all(piece).expect("sent");
        }
        stream
    });
    let mut peer = listener.accept(None, PEER_TIMEOUT).expect("a client");
    assert_eq!(peer.receive().expect("an address"), address());
    drop(client.join());
}

#[test]
fn other_protocols_are_rejected() {
    let (listener, at) = listener();
    let mut stream = TcpStream::connect(at).expect("connected");
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: somewhere.example.org:18515\r\n\r\n")
        .expect("sent");
    let mut peer = listener.accept(None, PEER_TIMEOUT).expect("a client");
    let error = peer.receive().expect_err("no address").to_string();
    assert!(error.contains("GET / HTTP"), "{error}");
}

#[test]
fn a_peer_that_hangs_up_is_reported() {
    let (listener, at) = listener();
    drop(TcpStream::connect(at).expect("connected"));
    let mut peer = listener.accept(None, PEER_TIMEOUT).expect("a client");
    let error = peer.receive().expect_err("no address").to_string();
    assert!(error.contains("closed the connection"), "{error}");
}

#[test]
fn a_silent_peer_is_given_up() {
    let (listener, at) = listener();
    let _silent = TcpStream::connect(at).expect("connected");
    let mut peer = listener
        .accept(None, Duration::from_millis(20))
        .expect("a client");
    let error = peer.receive().expect_err("no address").to_string();
    assert!(error.contains("nothing came within 20ms"), "{error}");
}

#[test]
fn no_client_and_no_server_are_reported() {
    let (listener, _) = listener();
    let error = listener
        .accept(Some(Duration::from_millis(20)), PEER_TIMEOUT)
        .expect_err("no client");
    assert_eq!(
        error.to_string(),
        "no client came within 0.02 s (--timeout)"
    );
    // A port that is bound, so that nobody else takes it, and at which nobody listens.
    let deaf = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    deaf.bind(&any.into()).expect("a free port");
    let at = deaf.local_addr().expect("bound").as_socket();
    let at = at.expect("an IP address");
    let error =
        exchange_with_server(&[at], "somewhere", PEER_TIMEOUT, &address()).expect_err("no server");
    assert!(
        error.to_string().starts_with("no server at somewhere ("),
        "{error}"
    );
}
