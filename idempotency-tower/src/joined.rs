//! The answer to a request that its handler has joined to a transaction of its own.

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::Body;
use idempotency_core::{Answer, AnswerBody, Attempt, Joined, Recorded};

use crate::{
    HttpBody,
    config::Config,
    refusal::{Asking, Refusal},
    replay::{self, Committed},
};

/// Who asked, and reads the answer.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    version: Version,
    asking: Asking,
}

impl Client {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        Self { version: request.version(), asking: Asking::of(request.headers()) }
    }
}

/// Marks the response that goes with an answer, whatever inner layers make of its head. An extension.
#[derive(Clone)]
pub(crate) struct Prepared(pub(crate) Answer);

impl Prepared {
    /// Whether this is the answer that the work has joined its attempt with. One that is too large for the
    /// store was joined as the fact that it is done.
    pub(crate) fn is(&self, joined: &Answer) -> bool {
        self.0 == *joined || matches!(joined.body(), AnswerBody::NotKept(_))
    }
}

/// The handler's own answer, where it is final.
pub(crate) struct Own {
    /// As it is stored.
    pub(crate) answer: Answer,
    /// Whether it is the response that was joined, perhaps changed by inner layers.
    pub(crate) is_prepared: bool,
}

/// What the client gets.
pub(crate) enum Given<R: Body> {
    /// The handler's own answer. True: it is on record.
    Own(bool),
    /// What is on record, or a refusal.
    Instead(Response<HttpBody<R>>),
}

/// `own`: none when the handler's answer is not final.
pub(crate) fn given<R>(
    config: &Config,
    (client, attempt): (Client, &Attempt),
    joined: Joined,
    own: Option<&Own>,
) -> Given<R>
where
    R: Body<Data = Bytes>,
{
    let refused =
        |refusal: Refusal| Given::Instead(refusal.answer_to(client.asking, &config.profile));
    match joined {
        Joined::Committed(answer) => match answer.body() {
            _ if own.is_some_and(|own| own.answer == answer) => Given::Own(true),
            // the first caller gets all of an answer that is not kept
            AnswerBody::NotKept(_) if own.is_some_and(|own| own.is_prepared) => Given::Own(true),
            _ => {
                let (key, retention) = (attempt.key(), config.idempotency.retention());
                let retention = attempt.joined_retention().unwrap_or(retention);
                match replay::committed(
                    config,
                    Committed { answer: &answer, key, version: client.version, retention },
                ) {
                    Ok(response) => Given::Instead(response),
                    Err(refusal) => refused(refusal),
                }
            }
        },
        // an answer of what is not there
        Joined::Released(_) | Joined::Lost if own.is_some() => {
            tracing::error!(
                "idempotency: the handler returned the answer of a transaction that it has not \
                 committed"
            );
            refused(Refusal::RolledBack)
        }
        Joined::Completed(Recorded::Stored | Recorded::NotKept | Recorded::Restored) => {
            Given::Own(true)
        }
        Joined::Completed(_) | Joined::Released(_) | Joined::Lost | Joined::Unknown(_) => {
            Given::Own(false)
        }
    }
}
