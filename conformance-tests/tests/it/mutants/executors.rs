//! Faults of executors: C47, C61 to C63. A mutant is the real executor over a store that tampers
//! with what it sends and with what it is told, so that the two together behave like an executor
//! with that fault.

use std::{
    fmt,
    num::NonZeroU64,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use idempotency_conformance::{
    Clause::{self, C47, C61, C62, C63},
    Fixture, Harness, HarnessError, Suite,
};
use idempotency_core::{
    AttemptNumber, ClaimOutcome, ClaimRequest, ClaimToken, CompleteRequest, Connected,
    FinishOutcome, Idempotency, IdempotencyBuilder, IdempotencyKey, IdempotencyStore, Record,
    ReleaseOutcome, ReleaseRequest, RenewOutcome, RenewRequest, StoreError, StoreProfile, Takeover,
};

use super::Mutant;
use crate::lab::{LabHarness, Rules};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    OneTokenForAll,
    TokenOfTheKey,
    TokenOfTheTry,
    RenewsAfterRelease,
    StartsAfterTheDeadline,
    StartsWhenLost,
    CountsFromTheReply,
    RenewsTwice,
    RenewsBesideTheCompletion,
    RenewsBesideTheRelease,
    CompletesAfterLost,
    CompletesForEver,
    VerdictForALaterAttempt,
    NeverAsks,
    RunsWhenUnknown,
}

pub(crate) fn mutants() -> Vec<Mutant> {
    vec![
        of("one token for all attempts", C47, Fault::OneTokenForAll),
        of("a token is made of the key", C47, Fault::TokenOfTheKey),
        of("every try has another token", C47, Fault::TokenOfTheTry),
        of("a token is used after its release", C47, Fault::RenewsAfterRelease),
        of("work starts after its deadline", C61, Fault::StartsAfterTheDeadline),
        of("work starts although the claim is lost", C61, Fault::StartsWhenLost),
        of("the lease counts from the reply", C61, Fault::CountsFromTheReply),
        of("two renewals are on their way at once", C62, Fault::RenewsTwice),
        of("a heartbeat is alive during the completion", C62, Fault::RenewsBesideTheCompletion),
        of("a heartbeat is alive during the release", C62, Fault::RenewsBesideTheRelease),
        of("a completion is sent after lost", C62, Fault::CompletesAfterLost),
        of("a completion is tried for ever", C62, Fault::CompletesForEver),
        of("a verdict is used for a later attempt", C63, Fault::VerdictForALaterAttempt),
        of("the recovery hook is never asked", C63, Fault::NeverAsks),
        of("an attempt runs while nobody can tell", C63, Fault::RunsWhenUnknown),
    ]
}

fn of(name: &'static str, breaks: Clause, fault: Fault) -> Mutant {
    let module = if breaks == C63 { "recovery" } else { "executor" };
    Mutant {
        name,
        breaks,
        over_a_network: false,
        suite: Box::new(move || Suite::new(Tampering(fault)).filter(module)),
    }
}

/// A laboratory whose executors are tampered with.
struct Tampering(Fault);

impl Harness for Tampering {
    type Store = Connected;

    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError> {
        LabHarness::new(Rules::default()).fresh().await
    }

    fn profile(&self) -> StoreProfile {
        StoreProfile::new("tampered")
    }

    fn executor(&self, store: Connected) -> IdempotencyBuilder {
        Idempotency::builder(Tampered { store: store.store(), fault: self.0, last: Arc::default() })
    }
}

#[derive(Clone)]
struct Tampered {
    store: Arc<dyn IdempotencyStore>,
    fault: Fault,
    /// The last token that was put in the place of the executor's.
    last: Arc<Mutex<Option<ClaimToken>>>,
}

impl fmt::Debug for Tampered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tampered")
    }
}

impl Tampered {
    /// The token to send instead of `token`.
    fn token(&self, token: ClaimToken, key: &IdempotencyKey) -> ClaimToken {
        match self.fault {
            Fault::OneTokenForAll => ClaimToken::from_stored_bytes([1; 16]),
            Fault::TokenOfTheKey => {
                let digest = idempotency_core::Fingerprint::of_bytes(key.key()).to_stored_bytes();
                ClaimToken::from_stored_bytes(*digest.last_chunk().unwrap())
            }
            Fault::TokenOfTheTry => self.last.lock().unwrap().unwrap_or(token),
            _ => token,
        }
    }

    fn told(&self, outcome: ClaimOutcome, request: &ClaimRequest<'_>) -> ClaimOutcome {
        let ClaimOutcome::Acquired(mut acquired) = outcome else {
            return outcome;
        };
        match self.fault {
            Fault::StartsAfterTheDeadline => acquired.lease_remaining = request.lease.get(),
            Fault::CountsFromTheReply => acquired.lease_remaining += Duration::from_secs(10),
            Fault::VerdictForALaterAttempt if acquired.attempt.get() > 2 => {
                acquired.attempt = AttemptNumber::FIRST.next();
            }
            _ => {}
        }
        ClaimOutcome::Acquired(acquired)
    }

    /// A renewal that nobody waits for.
    fn renew_beside(&self, key: &IdempotencyKey, token: ClaimToken, attempt: AttemptNumber) {
        let (store, key) = (Arc::clone(&self.store), key.clone());
        tokio::spawn(async move {
            let request = RenewRequest {
                key: &key,
                token,
                attempt,
                sequence: NonZeroU64::MAX,
                lease: idempotency_core::Lease::DEFAULT,
                checkpoint: None,
            };
            let _told = store.renew(request).await;
        });
    }
}

#[async_trait]
impl IdempotencyStore for Tampered {
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<ClaimOutcome, StoreError> {
        let mut sent = request;
        if self.fault == Fault::TokenOfTheTry {
            *self.last.lock().unwrap() = Some(ClaimToken::random().unwrap());
        }
        sent.token = self.token(request.token, request.key);
        if self.fault == Fault::NeverAsks {
            sent.takeover = Takeover::Allow;
        }
        let outcome = self.store.claim(sent).await?;
        if let (Fault::RunsWhenUnknown, ClaimOutcome::Abandoned(_)) = (self.fault, &outcome) {
            // the hook is asked as it should be, and its answer is not waited for
            let taken =
                self.store.claim(ClaimRequest { takeover: Takeover::Allow, ..sent }).await?;
            drop(taken);
        }
        Ok(self.told(outcome, &request))
    }

    async fn complete(&self, request: CompleteRequest<'_>) -> Result<FinishOutcome, StoreError> {
        let token = self.token(request.token, request.key);
        let request = CompleteRequest { token, ..request };
        if self.fault == Fault::RenewsBesideTheCompletion {
            self.renew_beside(request.key, token, request.attempt);
        }
        let mut answer = self.store.complete(request.clone()).await;
        if self.fault == Fault::CompletesForEver && answer.is_err() {
            let (store, key) = (Arc::clone(&self.store), request.key.clone());
            let (token, attempt, fingerprint) = (token, request.attempt, request.fingerprint);
            let (response, retention) = (request.response.clone(), request.retention);
            tokio::spawn(async move {
                loop {
                    let key = &key;
                    let response = response.clone();
                    let again =
                        CompleteRequest { key, token, attempt, fingerprint, response, retention };
                    let _told = store.complete(again).await;
                    for _ in 0..1_000 {
                        tokio::task::yield_now().await;
                    }
                }
            });
        }
        if self.fault == Fault::VerdictForALaterAttempt {
            answer = Ok(FinishOutcome::Done);
        }
        answer
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<RenewOutcome, StoreError> {
        let token = self.token(request.token, request.key);
        let request = RenewRequest { token, ..request };
        if self.fault == Fault::RenewsTwice {
            self.renew_beside(request.key, token, request.attempt);
        }
        let lease_remaining = request.lease.get();
        match self.store.renew(request).await? {
            RenewOutcome::Lost
                if [Fault::CompletesAfterLost, Fault::StartsWhenLost].contains(&self.fault) =>
            {
                Ok(RenewOutcome::Held { lease_remaining })
            }
            outcome => Ok(outcome),
        }
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<ReleaseOutcome, StoreError> {
        let token = self.token(request.token, request.key);
        let request = ReleaseRequest { token, ..request };
        if self.fault == Fault::RenewsBesideTheRelease {
            self.renew_beside(request.key, token, request.attempt);
        }
        let answer = self.store.release(request).await;
        if self.fault == Fault::RenewsAfterRelease {
            let claim = ClaimRequest {
                key: request.key,
                fingerprint: idempotency_core::Fingerprint::of_bytes("the request"),
                token,
                lease: idempotency_core::Lease::DEFAULT,
                retention: idempotency_core::Retention::DEFAULT,
                takeover: Takeover::Allow,
            };
            *self.last.lock().unwrap() = Some(token);
            drop(self.store.claim(claim).await);
        }
        answer
    }

    async fn lookup(&self, key: &IdempotencyKey) -> Result<Option<Record>, StoreError> {
        self.store.lookup(key).await
    }

    fn profile(&self) -> &StoreProfile {
        self.store.profile()
    }
}
