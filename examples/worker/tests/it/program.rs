//! The program as a user runs it.

use std::process::{Command, Output};

fn worker(arguments: &[&str]) -> (Output, String) {
    let program = Command::new(env!("CARGO_BIN_EXE_worker")).args(arguments).output().unwrap();
    let text = String::from_utf8(program.stdout.clone()).unwrap();
    (program, text)
}

/// All that is promised: no mail twice, no message left, and the same report each time.
#[test]
fn the_sample_sends_each_mail_once() {
    let (output, text) = worker(&[]);
    assert!(output.status.success(), "{text}");
    let expected = "
 message  runs  mails  acknowledged  end
 1        1     1      1             sent by attempt 1
 2        1     1      1             sent by attempt 1
 3        1     1      3             sent by attempt 1
 4        2     1      1             sent by attempt 2
 5        1     1      1             sent by attempt 1
 6        2     1      1             sent by attempt 1
 7        1     0      1             no such address
 8        1     0      1             no such address
 9        3     0      0             dead letter: 3 deliveries in vain
 10       1     1      0             dead letter: its id stands for another job
 11       0     0      0             dead letter: not a message: expected ident at line 1 column 2

11 messages, 5 jobs with a mail, 5 mails
";
    assert_eq!(format!("\n{text}"), expected);
}

#[test]
fn wrong_arguments_say_what_is_wrong() {
    for (arguments, named) in [
        (&["no-such-file.jsonl"][..], "no-such-file.jsonl"),
        (&["--store", "mongodb:"], "mongodb"),
        (&["--lease", "0s"], "--lease"),
        (&["--consumers", "0"], "--consumers"),
        (&["--queue", ""], "--queue"),
        (&["/dev/null"], "no messages"),
    ] {
        let (output, _) = worker(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(named), "{arguments:?}: {error}");
    }
}
