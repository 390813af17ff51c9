//! The servers that the tests of others rely on.

use std::time::Duration;

use test_servers::{
    redis::{RedisCluster, RedisSentinel, RedisServer},
    until,
};

#[test]
fn a_server_answers_and_comes_back_on_its_port_after_a_kill() {
    let server = RedisServer::options().set("maxmemory", "20mb").start().unwrap();
    assert_eq!(server.ask(&["CONFIG", "GET", "maxmemory"]).unwrap(), "maxmemory\n20971520");
    let before = server.process().pid();
    server.kill_and_restart().unwrap();
    assert_ne!(server.process().pid(), before);
    assert_eq!(server.ask(&["PING"]).unwrap(), "PONG");
}

#[test]
fn a_frozen_server_answers_nothing_until_it_is_thawed() {
    let server = RedisServer::start().unwrap();
    server.process().freeze().unwrap();
    let silent = server.ask(&["PING"]).unwrap_err().to_string();
    server.process().thaw().unwrap();
    assert!(silent.contains("asking the Redis server"), "{silent}");
    assert_eq!(server.ask(&["PING"]).unwrap(), "PONG");
}

#[test]
fn a_server_ends_with_its_value_and_takes_its_directory_with_it() {
    let server = RedisServer::start().unwrap();
    let (pid, directory) = (server.process().pid(), server.process().directory().to_owned());
    assert!(directory.exists() && is_alive(pid));
    drop(server);
    assert!(!directory.exists() && !is_alive(pid));
}

/// Kind of fault: a test run that is killed leaves its servers behind. This test starts itself as
/// another process, which starts a server and then hangs, and kills that.
#[test]
fn a_server_ends_with_the_process_that_started_it() {
    const INNER: &str = "TEST_SERVERS_INNER";
    if let Ok(file) = std::env::var(INNER) {
        let server = RedisServer::start().unwrap();
        std::fs::write(file, server.process().pid().to_string()).unwrap();
        loop {
            std::thread::park();
        }
    }
    let name = format!("test-servers-inner-{}", std::process::id());
    let file = std::env::temp_dir().join(name);
    let mut inner = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_server_ends_with_the_process_that_started_it"])
        .env(INNER, &file)
        .spawn()
        .unwrap();
    let patience = Duration::from_secs(20);
    let read = || std::fs::read_to_string(&file).ok()?.parse().ok();
    let pid = until(patience, read).expect("a server in the inner process");
    assert!(is_alive(pid));
    inner.kill().unwrap();
    inner.wait().unwrap();
    std::fs::remove_file(&file).unwrap();
    until(patience, || (!is_alive(pid)).then_some(())).expect("no server without its process");
}

#[test]
fn a_replica_gets_what_its_primary_is_told() {
    let primary = RedisServer::start().unwrap();
    let replica = RedisServer::options().replica_of(&primary).start().unwrap();
    replica.wait_until_replicating().unwrap();
    primary.tell(&["SET", "k", "v"]).unwrap();
    replica.wait_for(&["GET", "k"], |value| value == "v").unwrap();
}

#[test]
fn a_cluster_has_three_primaries_and_three_replicas() {
    let cluster = RedisCluster::start().unwrap();
    assert_eq!(cluster.nodes().len(), 6);
    let roles = |role: &str| {
        let has_role = |node: &&RedisServer| node.ask(&["ROLE"]).unwrap().starts_with(role);
        cluster.nodes().iter().filter(has_role).count()
    };
    assert_eq!((roles("master"), roles("slave")), (3, 3));
}

#[test]
fn sentinels_know_the_primary() {
    let sentinel = RedisSentinel::start().unwrap();
    assert!(sentinel.url().ends_with("/idempotency"));
    assert!(sentinel.primary().ask(&["ROLE"]).unwrap().starts_with("master"));
    assert!(sentinel.replica().ask(&["ROLE"]).unwrap().starts_with("slave"));
}

#[test]
fn a_missing_program_names_the_command_that_installs_it() {
    let launch = test_servers::Launch {
        program: "no-such-server".into(),
        arguments: Vec::new(),
        install: "apt-get install no-such-package".to_owned(),
    };
    let error = test_servers::Process::start(&launch, std::env::temp_dir()).unwrap_err();
    assert!(error.to_string().ends_with("install it with: apt-get install no-such-package"));
}

fn is_alive(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}
