use std::{
    future::pending,
    pin::pin,
    sync::{Mutex, atomic::AtomicUsize, atomic::Ordering},
};

use futures_util::future::join_all;
use idempotency_core::{IdempotencyKey, Namespace, Timestamp};
use tokio::sync::watch;

use super::*;
use crate::{PostgresStore, wire::Verdict};

/// What the statements of a test do, and what they were.
struct Script {
    does: Does,
    batches: Mutex<Vec<usize>>,
}

#[derive(Clone, Copy)]
enum Does {
    Answer,
    AnswerNobody(Effect),
    Fail(Effect),
    Hang,
}

struct Fake {
    place: StorageKey,
    weight: usize,
    script: Arc<Script>,
}

impl Member for Fake {
    const OPERATION: Operation = Operation::Complete;

    fn place(&self) -> &StorageKey {
        &self.place
    }

    fn weight(&self) -> usize {
        self.weight
    }

    async fn send(_inner: &Inner, members: &[&Self]) -> Result<Sent, StoreError> {
        let script = &members[0].script;
        script.batches.lock().unwrap().push(members.len());
        match script.does {
            Does::Answer => {
                let replies = members
                    .iter()
                    .map(|fake| (fake.place.as_str().to_owned(), written()))
                    .collect();
                Ok(Sent { replies, unanswered: Effect::None })
            }
            Does::AnswerNobody(unanswered) => Ok(Sent { replies: HashMap::new(), unanswered }),
            Does::Fail(effect) => Err(failure(effect)),
            Does::Hang => pending().await,
        }
    }

    fn after(&self, _reply: &Reply) -> Option<Reply> {
        None
    }
}

fn written() -> Reply {
    let at = Timestamp::from_unix_millis(1);
    Reply { verdict: Verdict::Written, at, record: None, lease_until: None }
}

fn failure(effect: Effect) -> StoreError {
    let error = StoreError::new(Operation::Complete, ErrorKind::Unavailable, "it failed");
    match effect {
        Effect::None => error.without_effect(),
        Effect::Unknown => error,
    }
}

/// A group whose lanes are taken until `free` is told.
struct Scene {
    inner: Arc<Inner>,
    group: Arc<Group<Fake>>,
    script: Arc<Script>,
    free: watch::Sender<bool>,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    WithOthers,
    Alone,
}

const PATIENCE: Duration = Duration::from_secs(1);

impl Scene {
    fn new(does: Does) -> Self {
        let store = PostgresStore::builder().timeout(PATIENCE);
        let store = store.build_lazy("postgres://nobody@127.0.0.1:1/none").unwrap();
        let script = Arc::new(Script { does, batches: Mutex::default() });
        let (free, _) = watch::channel(false);
        Self { inner: store.inner, group: Arc::default(), script, free }
    }

    /// Takes both lanes.
    async fn busy(does: Does) -> Self {
        let scene = Self::new(does);
        for _ in 0..2 {
            scene.take_lane(scene.free.subscribe());
        }
        tokio::task::yield_now().await;
        scene
    }

    /// Takes a lane until `free` is told.
    fn take_lane(&self, mut free: watch::Receiver<bool>) {
        let (inner, group) = (Arc::clone(&self.inner), Arc::clone(&self.group));
        let member = self.fake("busy", 0);
        tokio::spawn(async move {
            let alone = async {
                free.wait_for(|free| *free).await.unwrap();
                Ok(Ended::Alone)
            };
            group.share(&inner, || member, |_| panic!("it has a lane"), pin!(alone)).await
        });
    }

    fn fake(&self, name: impl AsRef<str>, weight: usize) -> Fake {
        let key = IdempotencyKey::new("shop", name).unwrap();
        let place = Namespace::default().storage_key(&key);
        Fake { place, weight, script: Arc::clone(&self.script) }
    }

    async fn share(
        &self,
        member: Fake,
        alone: Result<Ended, StoreError>,
    ) -> Result<Ended, StoreError> {
        let read = |_: &Reply| Ok(Some(Ended::WithOthers));
        self.group.share(&self.inner, || member, read, pin!(async { alone })).await
    }

    /// Frees the lanes, once the members wait.
    async fn free(&self) {
        tokio::task::yield_now().await;
        self.free.send_replace(true);
    }

    fn batches(&self) -> Vec<usize> {
        self.script.batches.lock().unwrap().clone()
    }
}

fn run(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(test);
}

#[test]
fn a_lone_operation_goes_alone_and_at_once() {
    run(async {
        let scene = Scene::new(Does::Answer);
        let shared = scene.share(scene.fake("a", 0), Ok(Ended::Alone));
        // no timer is waited for: the first look finds the answer
        assert!(matches!(futures_util::FutureExt::now_or_never(shared), Some(Ok(Ended::Alone))));
        assert!(scene.batches().is_empty());
    });
}

#[test]
fn what_comes_meanwhile_shares_statements_that_are_bounded_in_number() {
    run(async {
        let scene = Scene::busy(Does::Answer).await;
        let members = (0..300).map(|n| scene.share(scene.fake(n.to_string(), 1), Ok(Ended::Alone)));
        let (all, ()) = futures_util::future::join(join_all(members), scene.free()).await;
        assert!(all.iter().all(|ended| matches!(ended, Ok(Ended::WithOthers))), "{all:?}");
        assert_eq!(scene.batches().iter().sum::<usize>(), 300);
        assert!(scene.batches().iter().all(|batch| *batch <= 128), "{:?}", scene.batches());
    });
}

/// Kind of fault: who comes first after a shared statement goes alone, and all others wait for that one.
#[test]
fn whoever_was_told_shares_the_next_statement_with_the_others_who_were() {
    run(async {
        let scene = Scene::new(Does::Answer);
        let (_held, never) = watch::channel(false);
        scene.take_lane(never);
        scene.take_lane(scene.free.subscribe());
        tokio::task::yield_now().await;
        let (scene, tasks) = (&scene, 0..10);
        let tasks = tasks.map(|n| async move {
            for round in 0..3 {
                let fake = scene.fake(format!("{n} {round}"), 0);
                assert_eq!(scene.share(fake, Ok(Ended::Alone)).await.unwrap(), Ended::WithOthers);
            }
        });
        futures_util::future::join(join_all(tasks), scene.free()).await;
        assert_eq!(scene.batches(), [10, 10, 10]);
    });
}

#[test]
fn statements_are_bounded_in_bytes() {
    run(async {
        let scene = Scene::busy(Does::Answer).await;
        let weights = [HEAVIEST / 2, HEAVIEST / 2, HEAVIEST, 1, HEAVIEST];
        let members = weights
            .iter()
            .enumerate()
            .map(|(n, weight)| scene.share(scene.fake(n.to_string(), *weight), Ok(Ended::Alone)));
        let (all, ()) = futures_util::future::join(join_all(members), scene.free()).await;
        assert!(all.iter().all(|ended| matches!(ended, Ok(Ended::WithOthers))), "{all:?}");
        assert_eq!(scene.batches(), [2, 1, 1, 1]);
    });
}

/// Kind of fault: an operation that may have happened fails with the promise that it has not.
#[test]
fn what_a_failed_group_may_have_done_is_told_by_the_error_of_whoever_goes_alone() {
    run(async {
        let cases = [
            (Does::Fail(Effect::Unknown), Effect::None, Effect::Unknown),
            (Does::AnswerNobody(Effect::Unknown), Effect::None, Effect::Unknown),
            (Does::Fail(Effect::None), Effect::None, Effect::None),
            (Does::AnswerNobody(Effect::None), Effect::None, Effect::None),
            (Does::Fail(Effect::None), Effect::Unknown, Effect::Unknown),
        ];
        for (does, alone, wanted) in cases {
            let scene = Scene::busy(does).await;
            let shared = scene.share(scene.fake("a", 0), Err(failure(alone)));
            let (ended, ()) = futures_util::future::join(shared, scene.free()).await;
            assert_eq!(ended.unwrap_err().effect(), wanted);
            assert_eq!(scene.batches(), [1]);
        }
    });
}

/// Kind of fault: an operation takes as long as its group and itself together (C51).
#[test]
fn a_group_without_an_answer_ends_with_the_time_of_one_operation() {
    run(async {
        let scene = Scene::busy(Does::Hang).await;
        let shared = time::timeout(
            PATIENCE + Duration::from_millis(5),
            scene.share(scene.fake("a", 0), Ok(Ended::Alone)),
        );
        let (ended, ()) = futures_util::future::join(shared, scene.free()).await;
        let error = ended.expect("in time").unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));
    });
}

/// Kind of fault: on a slow server everybody gives up sharing at the same moment, and it gets slower.
#[test]
fn whoever_waits_too_long_for_a_lane_opens_one_for_all_who_wait() {
    run(async {
        let scene = Scene::busy(Does::Answer).await;
        let members = (0..200).map(|n| scene.share(scene.fake(n.to_string(), 1), Ok(Ended::Alone)));
        let all = time::timeout(LONGEST_WAIT * 2, join_all(members)).await.expect("in time");
        assert!(all.iter().all(|ended| matches!(ended, Ok(Ended::WithOthers))), "{all:?}");
        assert_eq!(scene.batches(), [128, 72]);
        // they are gone: the next one has to wait again
        let late =
            time::timeout(LONGEST_WAIT / 2, scene.share(scene.fake("late", 0), Ok(Ended::Alone)));
        assert!(late.await.is_err());
    });
}

#[test]
fn whoever_does_not_wait_any_more_is_not_sent() {
    run(async {
        let scene = Scene::busy(Does::Answer).await;
        let dropped = scene.share(scene.fake("dropped", 0), Ok(Ended::Alone));
        assert!(time::timeout(Duration::from_millis(1), dropped).await.is_err());
        let shared = scene.share(scene.fake("stays", 0), Ok(Ended::Alone));
        let (ended, ()) = futures_util::future::join(shared, scene.free()).await;
        assert_eq!((ended.unwrap(), scene.batches()), (Ended::WithOthers, vec![1]));
    });
}

/// A statement holds a place once. Another completion of it is no copy of the first: its own answer
/// has to be found.
#[test]
fn the_second_of_one_place_goes_alone_after_the_first() {
    run(async {
        let scene = Scene::busy(Does::Answer).await;
        let first_is_sent = AtomicUsize::new(0);
        let first = scene.share(scene.fake("same", 0), Ok(Ended::Alone));
        let alone = pin!(async {
            first_is_sent.store(scene.batches().len(), Ordering::SeqCst);
            Ok(Ended::Alone)
        });
        let second = scene.group.share(
            &scene.inner,
            || scene.fake("same", 0),
            |_| panic!("there is no reply for it"),
            alone,
        );
        let (first, second, ()) = futures_util::future::join3(first, second, scene.free()).await;
        assert_eq!((first.unwrap(), second.unwrap()), (Ended::WithOthers, Ended::Alone));
        assert_eq!((scene.batches(), first_is_sent.into_inner()), (vec![1], 1));
    });
}
