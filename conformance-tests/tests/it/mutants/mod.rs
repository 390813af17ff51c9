#[test]
fn tmp_lab_is_green() {
    use idempotency_conformance::Suite;
    let rt = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let report = rt.block_on(
        Suite::new(crate::lab::LabHarness::new(crate::lab::Rules::default()))
            .seed(1)
            .run(),
    );
    println!("{report}");
    println!("{}", report.to_junit());
    assert!(report.is_green());
}
