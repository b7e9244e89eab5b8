//! The lives of controllers and sessions.

use super::*;

#[test]
fn a_silent_host_loses_its_controller_and_all_its_queues() {
    let mut rig = Rig::new();
    let (mut queue, mut admin) = rig.io();
    let limit = KEEP_ALIVE + Limits::default().grace;
    rig.now += limit;
    assert_eq!(queue.check(rig.now), Ok(()));
    // A command on any queue is a sign of life.
    rig.act(&mut queue, io::flush(1), &[]);
    rig.now += limit;
    succeeded(rig.answer(&mut admin, admin::keep_alive(), &[]));
    rig.now += limit + Duration::from_millis(1);
    assert_eq!(queue.check(rig.now), Err(Over::Silent(limit)));
    assert_eq!(admin.check(rig.now), Err(Over::Silent(limit)));
    assert_eq!(rig.controllers.count(), (1, 1));
    drop(admin);
    assert_eq!(queue.check(rig.now), Err(Over::NoController));
    let flush = io::flush(1);
    assert_eq!(
        queue.handle(flush.bytes(), rig.now),
        Err(Over::NoController)
    );
    drop(queue);
    assert_eq!(rig.controllers.count(), (0, 0));
}

#[test]
fn a_host_that_asked_for_no_keep_alive_may_be_silent() {
    let rig = Rig::new();
    let (mut admin, _) = rig.admin(SUBSYSTEM);
    let none = admin::set_feature(admin::KEEP_ALIVE_TIMER, 0);
    succeeded(rig.answer(&mut admin, none, &[]));
    assert_eq!(admin.check(rig.now + Duration::from_secs(1 << 30)), Ok(()));
}

#[test]
fn a_shutdown_is_complete_at_once() {
    let rig = Rig::new();
    let (mut admin, _) = rig.admin(SUBSYSTEM);
    let status = |admin: &mut Session| {
        let get = fabrics::property_get(Property::Status);
        ControllerStatus(succeeded(rig.answer(admin, get, &[])) as u32)
    };
    let set = |admin: &mut Session, value: u32| {
        let set = fabrics::property_set(Property::Configuration, value.into());
        succeeded(rig.answer(admin, set, &[]));
    };
    set(&mut admin, Configuration::SHUTDOWN.0);
    assert!(status(&mut admin).is_shut_down());
    // Pages of 8192 bytes, which it cannot do.
    set(&mut admin, Configuration::ENABLED.0 | 1 << 7);
    assert!(status(&mut admin).is_fatal());
    set(&mut admin, 0);
    assert_eq!(status(&mut admin), ControllerStatus(0));
    set(&mut admin, Configuration::ENABLED.0);
    assert!(status(&mut admin).is_ready());
}

#[test]
fn one_command_may_wait_for_an_event() {
    let rig = Rig::new();
    let (mut admin, _) = rig.admin(SUBSYSTEM);
    let mut bytes = *admin::keep_alive().bytes();
    bytes[0] = 0x0c;
    let wait = Command::from_bytes(bytes);
    assert_eq!(rig.act(&mut admin, wait, &[]), Action::Hold);
    rig.refuses(&mut admin, wait, Status::new(1, 0x05));
}

#[test]
fn a_capsule_that_holds_no_command_ends_the_connection() {
    let rig = Rig::new();
    let mut session = rig.session(0);
    for len in [0, 1, 63] {
        let over = session.handle(&vec![0; len], rig.now);
        assert_eq!(over, Err(Over::ShortCapsule(len)));
    }
}

#[test]
fn responses_tell_the_head_of_the_queue() {
    let rig = Rig::new();
    let (mut admin, _) = rig.admin(SUBSYSTEM);
    let heads = (0..33).map(|_| admin.respond(3, Answer::default()).sq_head);
    let expected = (1..32).chain([0, 1]);
    assert!(heads.eq(expected), "there are 32 entries");
}
