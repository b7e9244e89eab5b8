//! Processes that take the names by which the members of a group find each other, and do not do
//! what a member does. Any user can take any name, but no user can keep one from another.

use super::management::open_agent;
use super::processes::{self, OtherProcess, ROLE, may_change_user};
use super::*;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::mpsc;

use roce_port::Steering;
use roce_stack::Addresses;
use roce_udp::{PartClaim, PeerWatch};
use socket2::{Domain, SockAddr, Socket, Type};

/// The users of the processes that take names, and of one that meets them without privilege.
const SQUATTER: u32 = 65_534;
const NEWCOMER: u32 = 12_345;

fn lock_of(address: IpAddr) -> String {
    format!("roce-share-2/{address}%0/lock")
}

fn member_of(address: IpAddr, part: u8) -> String {
    format!("roce-share-2/{address}%0/part/{part}")
}

fn unix_socket() -> Socket {
    Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket")
}

fn named(name: &str) -> SockAddr {
    SockAddr::unix(format!("\0{name}")).expect("a name")
}

/// What a process does with a name that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    /// It does not listen.
    Holds,
    /// It listens, accepts no connection, and has room for more.
    Ignores,
    /// It listens, accepts no connection, and has no room for more.
    IsFull,
}

impl Conduct {
    const ALL: [Self; 3] = [Self::Holds, Self::Ignores, Self::IsFull];

    /// Takes the name, until the sockets are closed.
    fn take(self, name: &str) -> Vec<Socket> {
        let socket = unix_socket();
        socket.bind(&named(name)).expect("a free name");
        match self {
            Self::Holds => vec![socket],
            Self::Ignores => {
                socket.listen(100).expect("bound");
                vec![socket]
            }
            Self::IsFull => {
                socket.listen(0).expect("bound");
                let mut sockets = fill_backlog(name);
                sockets.push(socket);
                sockets
            }
        }
    }
}

/// Connects to the name until it has no room for another connection.
fn fill_backlog(name: &str) -> Vec<Socket> {
    let mut connected = Vec::new();
    loop {
        let socket = unix_socket();
        socket.set_nonblocking(true).expect("an open socket");
        match socket.connect(&named(name)) {
            Ok(()) => connected.push(socket),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return connected,
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

/// A process of another user that takes names.
fn squatter(conduct: Conduct, names: &[String]) -> OtherProcess {
    let role = format!("{conduct:?} {}", names.join(" "));
    let squatter = OtherProcess::start_as("squatters::squatter_process", &role, Some(SQUATTER));
    assert_eq!(squatter.status, "taken");
    squatter
}

/// The main function of a squatter, if [`ROLE`] is set. Otherwise, as a test, it does nothing.
#[test]
fn squatter_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let mut words = role.split(' ');
    let conduct = words.next().expect("a conduct");
    let mut all = Conduct::ALL.into_iter();
    let conduct = all.find(|one| format!("{one:?}") == conduct);
    let conduct = conduct.expect("one of them");
    let _taken: Vec<_> = words.map(|name| conduct.take(name)).collect();
    processes::report_and_wait("taken");
}

/// The result of `work`. Fails if the work takes longer than [`TIMEOUT`].
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    let result = result.recv_timeout(TIMEOUT);
    result.unwrap_or_else(|_| panic!("{what}: not after {TIMEOUT:?}"))
}

fn assert_contains(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "{part:?} is missing: {error}");
    }
}

/// The error of a process that opens a port at the address.
fn error_at(address: IpAddr) -> String {
    let opened = in_time("an error", move || try_open(address, 1).map(drop));
    opened.expect_err("the name is taken").to_string()
}

/// The error does not depend on the squatter's user. This test needs no privilege.
#[test]
fn a_lock_with_a_full_backlog_is_an_error_and_no_hang() {
    let address = fresh_address();
    let _squatted = Conduct::IsFull.take(&lock_of(address));
    let process = format!("this process ({})", std::process::id());
    assert_contains(
        &error_at(address),
        &[
            "4791",
            &process,
            "lock",
            "end that process",
            "another address",
        ],
    );
}

/// Whatever another user does with the lock's name, processes of this user share the address.
#[test]
fn a_lock_that_another_user_keeps_does_not_matter() {
    if !may_change_user("a_lock_that_another_user_keeps_does_not_matter") {
        return;
    }
    for conduct in Conduct::ALL {
        let address = fresh_address();
        let _squatter = squatter(conduct, &[lock_of(address)]);
        assert_members_share(address);
    }
}

/// Another user has taken every name by which processes share an address: the lock's, and each
/// part's. Processes of this user share it, also a process without privilege with one that began
/// before.
#[test]
fn another_user_that_has_every_name_does_not_matter() {
    if !may_change_user("another_user_that_has_every_name_does_not_matter") {
        return;
    }
    let address = fresh_address();
    let mut names: Vec<String> = (0..QpnRange::COUNT)
        .map(|part| member_of(address, part))
        .collect();
    names.push(lock_of(address));
    let squatter = squatter(Conduct::Ignores, &names);
    let newcomers = [1, 4].map(|part| {
        in_time("a newcomer", move || {
            OtherProcess::start(address, part, Some(NEWCOMER))
        })
    });
    assert_eq!(newcomers.each_ref().map(|one| &*one.status), ["open"; 2]);
    // When the squatter is gone, its names are free, and those of this user are not.
    drop(squatter);
    let third = in_time("a newcomer", move || {
        OtherProcess::start(address, 7, Some(NEWCOMER))
    });
    assert_eq!(third.status, "open");
    let same = in_time("an error", move || {
        OtherProcess::start(address, 4, Some(NEWCOMER))
    });
    assert_contains(&same.status, &["part 4", &format!("of user {NEWCOMER}")]);
}

/// Another user has the names of all parts of an interface's QPNs. Many threads claim parts at the
/// same time, and each gets one of its own.
#[test]
fn another_user_that_has_all_parts_does_not_matter() {
    const INTERFACE: u32 = 0x7fff_0003;
    if !may_change_user("another_user_that_has_all_parts_does_not_matter") {
        return;
    }
    let name = |part| format!("roce-share-2/interface/{INTERFACE}/part/{part}");
    let names: Vec<String> = (0..QpnRange::COUNT).map(name).collect();
    let squatter = squatter(Conduct::Holds, &names);
    let claims: Vec<PartClaim> = std::thread::scope(|scope| {
        let claims: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| PartClaim::take(INTERFACE)))
            .collect();
        claims
            .into_iter()
            .map(|claim| claim.join().expect("no panic").expect("a free part"))
            .collect()
    });
    let part_of = |claim: &PartClaim| claim.part().number();
    let parts: BTreeSet<u8> = claims.iter().map(part_of).collect();
    assert_eq!(parts.len(), claims.len(), "{parts:?}");
    drop(squatter);
    let another = PartClaim::take(INTERFACE).expect("a free part");
    assert!(!parts.contains(&part_of(&another)), "{parts:?}");
}

/// Another user has announced many services at the address. A steering program with all of them
/// would be too long for the kernel. It also has the name of the service that this process serves.
#[test]
fn services_that_another_user_announces_do_not_matter() {
    if !may_change_user("services_that_another_user_announces_do_not_matter") {
        return;
    }
    const SERVICE: u32 = 0x0106_4000;
    let address = fresh_address();
    let name =
        |service: u32, part: u8| format!("roce-share-2/{address}%0/service/{service:08x}/{part}");
    let squatters = (0..3).map(|n| {
        let services = SERVICE + 800 * n..SERVICE + 800 * (n + 1);
        let mut names: Vec<String> = services.map(|service| name(service, 2)).collect();
        names.push(name(SERVICE + n, 1));
        squatter(Conduct::Holds, &names)
    });
    let squatters: Vec<OtherProcess> = squatters.collect();
    let mut port = open_agent(address, 1);
    let _other = open(address, 2);
    port.serve(Addresses::from(None), SERVICE).expect("steered");
    assert!(roce_udp::is_served(address, 1, SERVICE));
    assert!(!roce_udp::is_served(address, 1, SERVICE + 5));
    drop(squatters);
}

#[test]
fn a_part_whose_name_is_taken_is_an_error_that_names_the_process() {
    let address = fresh_address();
    let _squatted = Conduct::IsFull.take(&member_of(address, 1));
    let process = format!("this process ({})", std::process::id());
    assert_contains(
        &error_at(address),
        &["4791", &process, "part 1", "another address"],
    );
}

/// Checks that the members of parts 1 and 4 share the address while others have taken the names of
/// the other parts.
fn assert_members_share(address: IpAddr) {
    let open_both = move || [1, 4].map(|part| (part, open(address, part)));
    let mut ports = in_time("two ports", open_both);
    assert_steering(address, &mut ports, &[0, 2, 3, 5]);
}

#[test]
fn members_names_with_full_backlogs_do_not_matter() {
    let address = fresh_address();
    let names = [0, 2, 3, 5].map(|part| member_of(address, part));
    let _squatted: Vec<_> = names
        .iter()
        .map(|name| Conduct::IsFull.take(name))
        .collect();
    assert_members_share(address);
}

#[test]
fn members_names_that_another_user_has_taken_do_not_matter() {
    if !may_change_user("members_names_that_another_user_has_taken_do_not_matter") {
        return;
    }
    for conduct in Conduct::ALL {
        let address = fresh_address();
        let names = [0, 2, 3, 5].map(|part| member_of(address, part));
        let _squatter = squatter(conduct, &names);
        assert_members_share(address);
    }
}

#[test]
fn a_process_that_accepts_no_connections_is_not_watched() {
    let address = fresh_address();
    let _squatted = Conduct::IsFull.take(&member_of(address, 7));
    let watch = in_time("a result", move || PeerWatch::start(address, 1, part(7)));
    let error = watch.expect_err("no connection");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_process_of_another_user_is_not_watched() {
    if !may_change_user("a_process_of_another_user_is_not_watched") {
        return;
    }
    let address = fresh_address();
    let _squatter = squatter(Conduct::Ignores, &[member_of(address, 7)]);
    let watch = PeerWatch::start(address, 1, part(7)).expect("connected");
    assert!(watch.is_none(), "{watch:?}");
}

/// The main function of a process that asks a member for the sockets, if [`ROLE`] is set.
/// Otherwise, as a test, it does nothing.
#[test]
fn asking_process() {
    let Ok(name) = std::env::var(ROLE) else {
        return;
    };
    let member = SocketAddr::from_abstract_name(&name).expect("a name");
    let mut stream = UnixStream::connect_addr(&member).expect("a member");
    // A request for sockets, from part 9. The member may have closed the connection already.
    let _ = stream.write_all(&[1, 9]);
    let answer = stream.read(&mut [0; 2]).unwrap_or(0);
    processes::report_and_wait(&format!("{answer} bytes"));
}

#[test]
fn a_member_answers_no_process_of_another_user() {
    if !may_change_user("a_member_answers_no_process_of_another_user") {
        return;
    }
    let address = fresh_address();
    let _port = open(address, 0);
    let ask = |uid| {
        OtherProcess::start_as("squatters::asking_process", &member_of(address, 0), uid)
            .status
            .clone()
    };
    assert_eq!(ask(None), "2 bytes");
    assert_eq!(ask(Some(SQUATTER)), "0 bytes");
}
