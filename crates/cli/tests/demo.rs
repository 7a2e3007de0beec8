//! `solid-notify demo` tells its story to the end. It checks each of its steps itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

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

#[cfg(unix)]
#[test]
fn interrupted_demo_removes_its_folder() {
    let place = tempfile::tempdir().unwrap();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_solid-notify"))
        .arg("demo")
        .env("TMPDIR", place.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut story = BufReader::new(demo.stdout.take().unwrap()).lines();
    let served = story.find(|line| line.as_ref().is_ok_and(|line| line.contains("is ready after")));
    assert!(served.is_some(), "serve never started");
    let files = || std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(files(), 1);
    let killed = Command::new("kill").args(["-INT", &demo.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = demo.wait_with_output().unwrap();
    assert_eq!((output.status.code(), files()), (Some(1), 0), "{}", String::from_utf8_lossy(&output.stderr));
}
