//! What an observer sees of connections that are not established.

use crate::world::{Host, SERVICE, at, connect_request};
use roce_cm::PendingStep;

fn steps(host: &Host) -> Vec<PendingStep> {
    let pending = host.agent.pending();
    let ours = pending.inspect(|one| assert_eq!(one.service, SERVICE));
    ours.map(|one| one.waits_for).collect()
}

fn answer(to: &'static str, times: u8) -> Vec<PendingStep> {
    vec![PendingStep::Answer { to, times }]
}

#[test]
fn each_step_until_a_connection_is_established_is_shown() {
    let (mut client, mut server, _) = Host::pair();
    let path = client.path_to(&server);
    assert_eq!(steps(&client), []);
    let active = client.agent.connect(at(0), path, &connect_request());
    let active = active.expect("the request is valid");
    assert_eq!(steps(&client), answer("REQ", 1));
    let again = client.agent.next_timeout().expect("it is sent again");
    client.agent.handle_timeouts(again);
    assert_eq!(steps(&client), answer("REQ", 2));
    let requests = client.sent();
    server.receive(again, &requests[1]);
    assert_eq!(steps(&server), [PendingStep::Acceptance]);
    let passive = server.event().connection();
    server.accept(again, passive);
    assert_eq!(steps(&server), answer("REP", 1));
    server.deliver(again, &mut client, "REP");
    assert_eq!(steps(&client), [PendingStep::Readiness]);
    client.ready(again, active, b"");
    assert_eq!(steps(&client), []);
    client.deliver(again, &mut server, "RTU");
    assert_eq!(steps(&server), []);
}
