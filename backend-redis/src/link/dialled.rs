use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use redis::{RedisError, RedisResult, aio::MultiplexedConnection};

use super::Dial;

/// A connection that is made when it is needed, and made anew after it was given up.
pub(crate) struct Dialled {
    dial: Dial,
    connection: Mutex<Option<MultiplexedConnection>>,
    /// Held by the one task that dials.
    dialling: tokio::sync::Mutex<Option<RedisError>>,
    rounds: AtomicU64,
}

impl Dialled {
    pub(crate) fn new(dial: Dial) -> Self {
        Self {
            dial,
            connection: Mutex::default(),
            dialling: tokio::sync::Mutex::default(),
            rounds: AtomicU64::new(0),
        }
    }

    pub(crate) async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        if let Some(connection) = &*self.current() {
            return Ok(connection.clone());
        }
        let before = self.rounds.load(Ordering::Acquire);
        let mut failed = self.dialling.lock().await;
        if let Some(connection) = &*self.current() {
            return Ok(connection.clone());
        }
        // somebody else dialled meanwhile and failed: what is true for one is true for all who waited
        if self.rounds.load(Ordering::Acquire) != before
            && let Some(error) = &*failed
        {
            return Err(error.clone());
        }
        let dialled = self.dial.connect().await;
        self.rounds.fetch_add(1, Ordering::Release);
        *failed = dialled.as_ref().err().cloned();
        let connection = dialled?;
        *self.current() = Some(connection.clone());
        Ok(connection)
    }

    pub(crate) fn give_up(&self) {
        *self.current() = None;
    }

    fn current(&self) -> MutexGuard<'_, Option<MultiplexedConnection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
