/// Makes a `#[test]` of every case, against the harness that the expression gives.
///
/// The tests are named after the cases, in modules named after their subject: `cargo test takeover`
/// runs those about take-over. The expression is evaluated once a test.
///
/// ```
/// # mod example {
/// # use idempotency_conformance::{Fixture, Harness, HarnessError, unique_namespace};
/// # use idempotency_core::*;
/// # #[derive(Debug, Clone)] struct MyStore;
/// # #[async_trait::async_trait]
/// # impl RecordStore for MyStore {
/// #     async fn get(&self, _: &StorageKey) -> Result<Option<Versioned>, StoreError> { Ok(None) }
/// #     async fn put_if(&self, _: &StorageKey, _: Option<Version>, _: bytes::Bytes, _: Timestamp)
/// #         -> Result<bool, StoreError> { Ok(true) }
/// #     async fn now(&self) -> Result<Timestamp, StoreError> { Ok(Timestamp::default()) }
/// #     fn profile(&self) -> &StoreProfile { unimplemented!() }
/// # }
/// struct MyHarness;
///
/// impl Harness for MyHarness {
///     type Store = CasStore<MyStore>;
///
///     async fn fresh(&self) -> Result<Fixture<Self::Store>, HarnessError> {
///         let namespace = unique_namespace();
///         Ok(Fixture::new(CasStore::new(MyStore).namespace(namespace.clone()), namespace))
///     }
///
///     fn profile(&self) -> StoreProfile {
///         StoreProfile::new("mine")
///     }
/// }
///
/// idempotency_conformance::conformance_tests!(MyHarness);
/// # }
/// ```
#[macro_export]
macro_rules! conformance_tests {
    ($harness:expr) => {
        $crate::__for_each_case! { $crate::__tests { $harness } }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ({ $harness:expr } $($module:ident { $($case:ident: $clause:ident,)* })*) => {
        $crate::__tests_of! { { $harness } $($module { $($case)* })* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests_of {
    ({ $harness:expr }) => {};
    ({ $harness:expr } $module:ident { $($case:ident)* } $($rest:tt)*) => {
        mod $module {
            #[allow(unused_imports, reason = "the harness may be named with or without a path")]
            use super::*;
            $(
                #[test]
                fn $case() {
                    let name = concat!(stringify!($module), "::", stringify!($case));
                    $crate::__run_test(name, $harness);
                }
            )*
        }
        $crate::__tests_of! { { $harness } $($rest)* }
    };
}
