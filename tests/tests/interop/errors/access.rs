//! Memory that the initiator may not access.

use roce_tests::ends::{End, Options, Ours, Theirs, connect};
use roce_tests::lab::{Lab, SharedLab};
use roce_tests::peer::{Access, Operation};
use roce_tests::wire::{Frames, Sender, assert_tshark_content};
use roce_verbs::Access as OurAccess;
use roce_wire::{NakCode, Qpn, Syndrome};

use super::{LENGTH, RECEIVE, assert_receive, impatient, run};

/// A faulty request.
struct Case {
    name: &'static str,
    /// The rights to both ends' regions.
    rights: (OurAccess, Access),
    /// The request, given address and key of the target's region.
    operation: fn(u64, u32) -> Operation,
    /// The target's answer, and the initiator's status.
    nak: NakCode,
    status: &'static str,
    /// The status of the target's receive: of this stack, of rxe.
    receive: [&'static str; 2],
    /// Whether rxe can be the initiator.
    can_rxe: bool,
}

fn write(addr: u64, rkey: u32) -> Operation {
    Operation::Write { addr, rkey }
}

fn write_imm(addr: u64, rkey: u32) -> Operation {
    Operation::WriteImm { addr, rkey, imm: 1 }
}

fn read(addr: u64, rkey: u32) -> Operation {
    Operation::Read { addr, rkey }
}

fn fetch_add(addr: u64, rkey: u32) -> Operation {
    Operation::FetchAdd { addr, rkey, add: 1 }
}

/// Length of either region.
const REGION: u32 = 1 << 16;

/// An address for which the last accessed byte is the first beyond the region.
fn beyond(addr: u64) -> u64 {
    addr + u64::from(REGION - LENGTH + 1)
}

/// A case with all rights to the region, which is refused with a remote access error.
fn denied(name: &'static str, operation: fn(u64, u32) -> Operation) -> Case {
    Case {
        name,
        rights: (OurAccess::ANY_MEMORY, Access::ALL_REMOTE),
        operation,
        nak: NakCode::RemoteAccessError,
        status: "REM_ACCESS_ERR",
        receive: ["WR_FLUSH_ERR"; 2],
        can_rxe: true,
    }
}

/// A case that is refused because one right is missing, given the remaining rights.
fn without(
    right: OurAccess,
    left: Access,
    name: &'static str,
    operation: fn(u64, u32) -> Operation,
) -> Case {
    Case {
        rights: (OurAccess::ANY_MEMORY - right, Access::LOCAL_WRITE | left),
        ..denied(name, operation)
    }
}

fn cases() -> Vec<Case> {
    let (w, r, a) = (
        Access::REMOTE_WRITE,
        Access::REMOTE_READ,
        Access::REMOTE_ATOMIC,
    );
    vec![
        denied("WRITE, wrong rkey", |a, k| write(a, k ^ 0x100)),
        denied("WRITE, odd rkey", |a, k| write(a, k ^ 1)),
        denied("READ, wrong rkey", |a, k| read(a, k ^ 0x100)),
        denied("atomic, wrong rkey", |a, k| fetch_add(a, k ^ 0x100)),
        denied("WRITE beyond the end", |a, k| write(beyond(a), k)),
        denied("WRITE before the start", |a, k| write(a - 1, k)),
        denied("READ beyond the end", |a, k| read(beyond(a), k)),
        denied("atomic beyond the end", |a, k| {
            fetch_add(a + u64::from(REGION), k)
        }),
        without(OurAccess::REMOTE_WRITE, r | a, "no right to write", write),
        without(OurAccess::REMOTE_READ, w | a, "no right to read", read),
        without(OurAccess::REMOTE_ATOMIC, w | r, "no atomics", fetch_add),
        Case {
            // rxe has a different status here.
            receive: ["LOC_ACCESS_ERR", "REM_ACCESS_ERR"],
            ..denied("WRITE with immediate, wrong rkey", |a, k| {
                write_imm(a, k ^ 0x100)
            })
        },
        Case {
            nak: NakCode::InvalidRequest,
            status: "REM_INV_REQ_ERR",
            // rxe refuses to post it.
            can_rxe: false,
            ..denied("misaligned atomic", |a, k| fetch_add(a + 4, k))
        },
    ]
}

#[test]
fn rxe_refuses_what_we_may_not_do() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    refusals(&lab, Sender::Theirs);
}

#[test]
fn we_refuse_what_rxe_may_not_do() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    refusals(&lab, Sender::Ours);
}

/// Runs the cases with this target, and checks the NAKs on the wire.
fn refusals(lab: &SharedLab, target: Sender) {
    let capture = lab.capture_start().unwrap();
    let mut expected: Vec<(Case, Qpn)> = Vec::new();
    for case in cases() {
        if target == Sender::Ours && !case.can_rxe {
            continue;
        }
        let (our_region, their_region) = case.rights;
        let options = Options {
            length: REGION,
            our_region,
            their_region,
            ..impatient()
        };
        let (mut ours, mut theirs) = connect(lab, &options);
        let initiator = match target {
            Sender::Theirs => refused(&case, &mut ours, &mut theirs, Ours::endpoint).qpn,
            Sender::Ours => refused(&case, &mut theirs, &mut ours, Theirs::endpoint).qpn,
        };
        expected.push((case, initiator));
    }
    let files = capture.stop().unwrap();
    let frames = Frames::read(&files.outside);
    frames.assert_icrcs();
    assert_tshark_content(lab, &files.outside);
    for (case, initiator) in expected {
        let answers = frames.syndromes(target, initiator);
        // Refused once, without retries.
        assert_eq!(answers, [Syndrome::Nak(case.nak)], "{}", case.name);
    }
}

/// Runs one case: both ends go to the error state and flush, and no byte has moved.
fn refused<I: End, T>(case: &Case, from: &mut I, to: &mut dyn End, endpoint: fn(&I) -> T) -> T {
    let name = case.name;
    from.write_memory(0, &[0xff; LENGTH as usize]);
    for end in [&mut *from as &mut dyn End, &mut *to] {
        end.receive(RECEIVE, &[(0, LENGTH)]);
    }
    let (addr, rkey) = to.remote(0);
    let done = run(from, (case.operation)(addr, rkey));
    assert_eq!(done.status, case.status, "{name}: {}", from.name());
    let [of_ours, of_rxe] = case.receive;
    let of_target = if to.name() == "rxe" { of_rxe } else { of_ours };
    assert_receive(from, "WR_FLUSH_ERR");
    assert_receive(to, of_target);
    for end in [&mut *from as &mut dyn End, &mut *to] {
        assert_eq!(end.state(), "ERR", "{name}: {}", end.name());
    }
    assert_eq!(
        to.read_memory(0, REGION),
        vec![0; REGION as usize],
        "{name}"
    );
    let untouched = [0xff; LENGTH as usize];
    assert_eq!(from.read_memory(0, LENGTH), untouched, "{name}");
    endpoint(from)
}
