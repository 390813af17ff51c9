//! What is not built in says so, and by which feature it would be. CI builds this without any feature too.

#[cfg(not(all(
    feature = "dynamodb",
    feature = "memory",
    feature = "postgres",
    feature = "redis",
    feature = "redis-tokio-rustls-comp",
    feature = "tls-rustls-ring-webpki"
)))]
mod off {
    async fn names_the_feature(url: &str, feature: &str) {
        let error = idempotency::connect(url).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(&format!("`{feature}`")), "{url}: {shown}");
        assert!(!shown.contains("hunter2"), "{url}: {shown}");
    }

    #[cfg(not(feature = "dynamodb"))]
    #[tokio::test]
    async fn dynamodb() {
        names_the_feature("dynamodb://table?endpoint=http://127.0.0.1:8000", "dynamodb").await;
    }

    #[cfg(not(feature = "memory"))]
    #[tokio::test]
    async fn memory() {
        names_the_feature("memory:", "memory").await;
    }

    #[cfg(not(feature = "redis"))]
    #[tokio::test]
    async fn redis() {
        for scheme in ["redis", "rediss", "redis+cluster", "redis+sentinel", "rediss+cluster"] {
            names_the_feature(&format!("{scheme}://u:hunter2@h/s"), "redis").await;
        }
        names_the_feature("redis+unix:///s?pass=hunter2", "redis").await;
    }

    #[cfg(all(feature = "redis", not(feature = "redis-tokio-rustls-comp")))]
    #[tokio::test]
    async fn redis_over_tls() {
        names_the_feature("rediss://u:hunter2@h", "redis-tokio-rustls-comp").await;
    }

    #[cfg(not(feature = "postgres"))]
    #[tokio::test]
    async fn postgres() {
        names_the_feature("postgres://u:hunter2@h/db", "postgres").await;
        names_the_feature("postgresql://u:hunter2@h/db", "postgres").await;
    }

    #[cfg(all(feature = "postgres", not(feature = "tls-rustls-ring-webpki")))]
    #[tokio::test]
    async fn postgres_over_tls() {
        let url = "postgres://u:hunter2@h/db?sslmode=verify-full";
        names_the_feature(url, "tls-rustls-ring-webpki").await;
    }
}
