//! Unix sockets: the same store over another way to the server.

use idempotency_core::{FinishOutcome, IdempotencyStore};
use idempotency_redis::RedisStore;

use crate::support::{Caller, fresh, key, replayed, server};

pub(crate) async fn works(store: &RedisStore) {
    let caller = Caller::new(&key("k"));
    caller.acquire(store).await;
    assert_eq!(caller.complete(store, "over it").await.unwrap(), FinishOutcome::Done);
    assert_eq!(replayed(store, &caller.key).await, "over it");
    assert!(store.lookup(&caller.key).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_works_over_a_unix_socket() {
    let store = fresh(&format!("redis+unix://{}", server().socket())).await;
    works(&store).await;
    // in a database of its own, as the URL says
    let other = fresh(&format!("redis+unix://{}?db=3", server().socket())).await;
    works(&other).await;
    assert!(server().ask(&["INFO", "keyspace"]).unwrap().contains("db3:"));
}
