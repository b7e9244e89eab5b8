//! Programs that know nothing of RDMA, whose TCP sockets `roce run --sockets` puts on it.

use crate::all_or_left_out;
use roce_tests::scene::Scene;

#[test]
fn memcached_keeps_values() {
    let scene = Scene::of(include_str!("scripts/memcached.sh"))
        .with("CLIENT", include_str!("scripts/memcached.py"));
    if let Some(played) = scene.with_sockets().play_or_skip(&["memcached", "python3"]) {
        played.says("28 values are the same").moved(8_000_000);
    }
}

#[test]
fn nginx_serves_curl_over_tls() {
    let scene = Scene::of(include_str!("scripts/https.sh")).with_sockets();
    if let Some(played) = scene.play_or_skip(&["nginx", "curl", "openssl"]) {
        played
            .says("the same by --http1.1")
            .says("the same by --http2")
            .moved(10_000_000);
    }
}

/// An HTTP server and its client, both run by `runtime`, exchange 20 bodies of up to 1 MB.
fn serves_itself(runtime: &str, script: &'static str, program: &str) {
    let scene = Scene::of(script).with("PROGRAM", program).with_sockets();
    if all_or_left_out()
        && let Some(played) = scene.play_or_skip(&[runtime])
    {
        played
            .says("20 of 20 bodies are the same")
            .moved(10_000_000);
    }
}

#[test]
fn node_serves_itself() {
    let program = include_str!("scripts/node.js");
    serves_itself("node", include_str!("scripts/node.sh"), program);
}

#[test]
fn java_serves_itself() {
    let program = include_str!("scripts/Echo.java");
    serves_itself("java", include_str!("scripts/java.sh"), program);
}

/// A database of `programs`, in which 50,000 rows come back as they went, and a program of its own makes queries.
fn keeps_rows(script: &'static str, programs: &[&str], says: &str) {
    let scene = Scene::of(script).with_sockets();
    if all_or_left_out()
        && let Some(played) = scene.play_or_skip(programs)
    {
        played.says("rows are the same").says(says).moved(4_000_000);
    }
}

/// A server with a process for each connection, which the first process relays.
#[test]
fn postgres_keeps_rows() {
    let script = include_str!("scripts/postgres.sh");
    keeps_rows(script, &["pgbench", "psql"], "balances agree: true");
}

/// A server with a thread for each connection.
#[test]
fn mariadb_keeps_rows() {
    let script = include_str!("scripts/mariadb.sh");
    let programs = ["mariadb", "mariadb-install-db", "mariadb-slap", "mariadbd"];
    keeps_rows(
        script,
        &programs,
        "Average number of queries per client: 1000",
    );
}
