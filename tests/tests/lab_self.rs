//! The lab tests itself.

use std::time::Duration;

use roce_tests::lab::Lab;

const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn the_guest_has_an_rxe_device_with_both_gids() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let output = lab
        .guest(["ibv_devinfo", "-v"])
        .output(TIMEOUT)
        .unwrap()
        .success()
        .unwrap();
    let text = output.stdout_text();
    for expected in [
        "rxe0",
        "PORT_ACTIVE",
        "fe80::5054:ff:fe4d:2",
        "::ffff:10.77.0.2",
    ] {
        assert!(text.contains(expected), "no {expected} in {text}");
    }
}
