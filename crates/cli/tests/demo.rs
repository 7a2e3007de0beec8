//! `solid-notify demo` tells its story to the end. It checks each of its steps itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

#[test]
fn demo_shows_retries_an_ack_an_alert_and_a_redrive_and_ends() {
    let run = || {
        let program = env!("CARGO_BIN_EXE_solid-notify");
        let output = Command::new(program).arg("demo").env("NO_COLOR", "1").output().unwrap();
        (String::from_utf8(output.stdout.clone()).unwrap(), output)
    };
    let (mut story, mut output) = run();
    for _ in 0..2 {
        // Another program may listen on the port that was free when the demo chose it.
        if story.contains("cannot listen on ") {
            (story, output) = run();
        }
    }
    assert!(output.status.success(), "{story}{}", String::from_utf8_lossy(&output.stderr));
    for line in [
        "$ solid-notify serve --config serve.toml",
        "order 7, a mistake: rolled back",
        "order 3, request 1: 503 no time at the moment",
        "order 3, request 2: 200 taken",
        "order 8 is on its way: POST /ack: {\"result\":\"applied\"",
        "chat  order_placed: finally failed",
        "order 13, request 2: 200 taken",
        "10 orders were committed, 10 were delivered, none was lost.",
    ] {
        assert!(story.contains(line), "{line:?} is missing:\n{story}");
    }
    assert!(!story.contains("warehouse  order 7"), "{story}");
}
