use custom_backend::RedbRecords;
use idempotency::{
    Begun, CasStore, Fingerprint, Idempotency, IdempotencyKey, Never, Outcome, Recorded, Release,
};

async fn executed(path: &std::path::Path, key: &IdempotencyKey) -> Outcome<u32, Never> {
    let store = CasStore::new(RedbRecords::open(path).unwrap());
    let idempotency = Idempotency::new(store);
    let fingerprint = Fingerprint::of_bytes("charge 500");
    let work = async |attempt: idempotency::Attempt| Ok(attempt.number().get());
    idempotency.run(key, fingerprint, work).await.unwrap()
}

/// Each call opens the file anew, as a process does that was restarted.
#[tokio::test]
async fn an_answer_outlives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("records.redb");
    let key = IdempotencyKey::new("merchant_42", "order-7").unwrap();
    let first = executed(&path, &key).await;
    assert!(matches!(first, Outcome::Executed(Ok(1))), "{first:?}");
    let second = executed(&path, &key).await;
    assert!(matches!(second, Outcome::Replayed(Ok(1))), "{second:?}");
}

/// A process ends in the middle of its work: the next one is told that it is not the first, and the
/// answer of the one after that is the answer of the second.
#[tokio::test]
async fn an_attempt_outlives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("records.redb");
    let key = IdempotencyKey::new("merchant_42", "order-8").unwrap();
    let fingerprint = Fingerprint::of_bytes("charge 500");
    {
        let store = CasStore::new(RedbRecords::open(&path).unwrap());
        let begun = Idempotency::new(store).begin(&key, fingerprint).await.unwrap();
        let Begun::Acquired(guard) = begun else { panic!("{begun:?}") };
        guard.attempt().save_checkpoint("card charged").await.unwrap();
        // as a process that is told to end says when it cannot know
        let _told = guard.release(Release::Unknown).await.unwrap();
    }
    let store = CasStore::new(RedbRecords::open(&path).unwrap());
    let begun = Idempotency::new(store).begin(&key, fingerprint).await.unwrap();
    let Begun::Acquired(guard) = begun else { panic!("{begun:?}") };
    assert_eq!(guard.attempt().number().get(), 2);
    assert_eq!(guard.attempt().checkpoint().map(|bytes| &bytes[..]), Some(&b"card charged"[..]));
    let recorded = guard.complete(idempotency::Answer::bytes("done")).await;
    assert!(matches!(recorded, Recorded::Stored), "{recorded:?}");
}
