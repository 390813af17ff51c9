//! What the feature `aws-config` brings: TLS, and where the region and the credentials come from.

use std::process::{Command, Output};

use idempotency_conformance::unique_namespace;
use idempotency_core::{ErrorKind, FinishOutcome};
use test_servers::{Authority, TlsProxy, dynamodb::DynamoDbEmulator};

use crate::support::{Caller, builder, key, replayed, runtime};

/// Tells the other process where the service is.
const ENDPOINT: &str = "IDEMPOTENCY_TEST_ENDPOINT";

/// As an application in AWS: it names neither region nor credentials, and believes the system's authorities.
/// What those are is said by the environment, so it is a process of its own.
#[test]
fn the_chain_of_credentials_and_tls_lead_to_the_table() {
    if let Ok(endpoint) = std::env::var(ENDPOINT) {
        return runtime().block_on(application(endpoint));
    }
    let (runtime, emulator) = (runtime(), DynamoDbEmulator::start().unwrap());
    let authority = Authority::generate().unwrap();
    let proxy = runtime.block_on(TlsProxy::start(&authority, emulator.address())).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let known = directory.path().join("authorities.pem");
    std::fs::write(&known, authority.pem()).unwrap();
    let run = |settings: &[(&str, &str)]| -> Output {
        let mut application = Command::new(std::env::current_exe().unwrap());
        application
            .args(["--exact", "encrypted::the_chain_of_credentials_and_tls_lead_to_the_table"])
            .arg("--nocapture")
            .env(ENDPOINT, format!("https://localhost:{}", proxy.address().port()));
        for name in
            ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION"]
        {
            application.env_remove(name);
        }
        // nothing of this machine's, and nothing of the network's
        application.env("HOME", directory.path()).env("AWS_EC2_METADATA_DISABLED", "true");
        application.envs(settings.iter().copied()).output().unwrap()
    };
    let believes = ("SSL_CERT_FILE", known.to_str().unwrap());
    let region = ("AWS_REGION", "eu-west-1");
    let credentials = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let [id, secret] = credentials;
    for (settings, told) in [
        (vec![believes, region, id, secret], "stored and replayed"),
        (vec![region, id, secret], "Unavailable"),
        (vec![believes, id, secret], "no region"),
        (vec![believes, region], "no credentials"),
    ] {
        let output = run(&settings);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{settings:?}: {printed}");
        assert!(printed.contains(&format!("told: {told}")), "{settings:?}: {printed}");
    }
}

/// Works with a store, and tells what came of it.
async fn application(endpoint: String) {
    let store = builder(&unique_namespace()).endpoint(endpoint).create(true).connect().await;
    let told = match store {
        Ok(store) => {
            let caller = Caller::new(&key("k"));
            caller.acquire(&store).await;
            assert_eq!(caller.complete(&store, "x").await.unwrap(), FinishOutcome::Done);
            assert_eq!(replayed(&store, &caller.key).await, "x");
            "stored and replayed".to_owned()
        }
        Err(error) if error.kind() == ErrorKind::Unavailable => "Unavailable".to_owned(),
        Err(error) if error.kind() == ErrorKind::Denied => {
            assert!(error.to_string().contains("no credentials"), "{error}");
            "no credentials".to_owned()
        }
        Err(error) => {
            assert!(error.to_string().contains("no region"), "{error}");
            "no region".to_owned()
        }
    };
    println!("told: {told}");
}
