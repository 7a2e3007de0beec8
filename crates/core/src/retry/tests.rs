//! Tests of whole retry intervals: the delays shown in the documentation, and properties of all intervals.
//!
//! Which texts each part of the language accepts is tested beside its code.

use std::time::Duration;

use proptest::prelude::*;

use super::duration::Written;
use super::*;

const DOCUMENTATION: &str = include_str!("interval.md");

fn read(text: &str) -> RetryInterval {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// The strategy in the documentation.
fn linear(n: u32) -> Duration {
    Duration::from_secs(10).saturating_mul(n)
}

fn never(_: u32) -> Duration {
    panic!("only `strategy:name` has a strategy")
}

/// Returns the cells of the documentation's tables that have `heading` above their second column.
fn rows(heading: &str) -> Vec<[&str; 3]> {
    let cells = |line: &'static str| -> Option<[&str; 3]> {
        let cells: Vec<_> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        cells.try_into().ok()
    };
    DOCUMENTATION
        .lines()
        .skip_while(|line| cells(line).is_none_or(|[_, second, _]| second != heading))
        .skip(2)
        .map_while(cells)
        .map(|[interval, second, third]| [interval.trim_matches('`'), second, third])
        .collect()
}

fn ten_delays(interval: &RetryInterval, unit: f64) -> String {
    let delays = (1..=10).map(|n| Written(interval.delay(n, None, unit, &linear)).to_string());
    delays.collect::<Vec<_>>().join(", ")
}

#[test]
fn the_delays_in_the_documentation_are_true() {
    let rows = rows("delays before retries 1 to 10");
    assert_eq!(rows.len(), 7);
    for [text, delays, retries] in rows {
        let interval = read(text);
        assert_eq!(ten_delays(&interval, 0.0), delays, "{text}");
        assert_eq!(interval.default_retries().to_string(), retries, "{text}");
    }
}

#[test]
fn the_jitters_in_the_documentation_are_true() {
    let rows = rows("random number");
    assert_eq!(rows.len(), 4);
    for [text, unit, delays] in rows {
        assert_eq!(ten_delays(&read(text), unit.parse().unwrap()), delays, "{text} {unit}");
    }
}

#[test]
fn the_error_in_the_documentation_is_true() {
    let error = "[5s,5x]".parse::<RetryInterval>().unwrap_err();
    assert!(DOCUMENTATION.contains(&format!("```text\n{error}\n```")), "{error}");
}

#[test]
fn the_cap_applies_to_every_form_before_the_jitter() {
    let cap = Some(Duration::from_secs(40));
    for (form, uncapped) in
        [("5m", 300), ("[1m]", 60), ("exp(1h, x2, max 5h)", 14_400), ("= 20*n", 60), ("strategy:linear", 30)]
    {
        let interval = read(&format!("{form} ~50%"));
        let uncapped = Duration::from_secs(uncapped);
        assert_eq!(interval.delay(3, None, 0.0, &linear), uncapped, "{form}");
        let capped = uncapped.min(Duration::from_secs(40));
        assert_eq!(interval.delay(3, cap, 0.0, &linear), capped, "{form}");
        assert_eq!(interval.delay(3, cap, 0.8, &linear), capped * 7 / 5, "{form}");
    }
}

#[test]
fn retry_0_is_taken_for_retry_1() {
    for text in ["[1s,2s]", "exp(1s, x2)", "= n", "strategy:ten-times-n"] {
        let interval = read(text);
        assert_eq!(interval.delay(0, None, 0.0, &linear), interval.delay(1, None, 0.0, &linear));
    }
}

#[test]
fn a_strategy_is_named_and_kept_within_the_bounds() {
    let interval = read("strategy:nightly ~10%");
    assert_eq!(interval.strategy(), Some("nightly"));
    assert_eq!(interval.delay(1, None, 0.0, &|_| Duration::ZERO), MIN_DELAY);
    assert_eq!(interval.delay(1, None, 0.0, &|_| Duration::MAX), MAX_DELAY);
    assert_eq!(read("5m").strategy(), None);
}

#[test]
fn a_random_number_out_of_range_does_no_harm() {
    let interval = read("10s ~10%");
    for (unit, millis) in [(f64::NAN, 10_000), (-1.0, 10_000), (2.0, 11_000), (f64::INFINITY, 11_000)] {
        assert_eq!(interval.delay(1, None, unit, &never), Duration::from_millis(millis));
    }
}

/// Durations over the whole range, short ones more often.
fn durations() -> impl Strategy<Value = Duration> {
    let longest = u64::try_from(MAX_DELAY.as_millis()).unwrap();
    prop_oneof![1..=100_000_u64, 1..=longest].prop_map(Duration::from_millis)
}

/// Expressions that are positive for every `n`, with all operators and most functions.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![Just("n".to_owned()), (1..1000_u32).prop_map(|n| format!("{n}.5"))];
    let inner = leaf.prop_recursive(3, 16, 2, |inner| {
        prop_oneof![
            (inner.clone(), "[-+*/^]", inner.clone())
                .prop_map(|(left, operator, right)| format!("({left} {operator} {right})")),
            (inner.clone(), "min|max", inner.clone())
                .prop_map(|(left, function, right)| format!("{function}({left},{right})")),
            ("sqrt|floor|ceil|round|ln|abs", inner).prop_map(|(name, x)| format!("{name}({x})")),
        ]
    });
    inner.prop_map(|inner| format!("min(3600, max(1, {inner}))"))
}

fn texts() -> impl Strategy<Value = String> {
    let decimal = "[1-9][0-9]{0,3}(\\.[0-9]{1,6})?";
    let written = || durations().prop_map(|duration| Written(duration).to_string());
    let form = prop_oneof![
        written(),
        prop::collection::vec(written(), 1..=32).prop_map(|list| format!("[{}]", list.join(" , "))),
        (durations(), decimal, durations()).prop_map(|(one, factor, other)| {
            let (base, max) = (Written(one.min(other)), Written(one.max(other)));
            format!("exp({base},x{factor},max {max})")
        }),
        expressions().prop_map(|expression| format!("= {expression}")),
        "[A-Za-z0-9_.-]{1,40}".prop_map(|name| format!("strategy:{name}")),
    ];
    let jitter = prop_oneof![Just(String::new()), "~[1-9][0-9]?(\\.[0-9]{1,6})?%", "~0\\.0{0,5}[1-9]%"];
    (form, jitter).prop_map(|(form, jitter)| form + &jitter)
}

/// Texts that nearly follow the language, to reach deep into the parsers.
fn scraps() -> impl Strategy<Value = String> {
    const TOKENS: &[&str] = &[
        "[",
        "]",
        "(",
        ")",
        ",",
        "~",
        "%",
        "=",
        ":",
        "exp",
        "max",
        "min",
        "strategy",
        "n",
        "x",
        "x2",
        "5",
        "0",
        "1.5",
        "5s",
        "1h",
        "30 m",
        "ms",
        "µs",
        "ns",
        "y",
        "18446744073709551615",
        "+",
        "-",
        "*",
        "/",
        "^",
        "sqrt",
        "e",
        ".",
        " ",
        "\n",
        "é",
        "🦀",
        "\u{a0}",
    ];
    prop::collection::vec(prop::sample::select(TOKENS), 0..40).prop_map(|tokens| tokens.concat())
}

fn units() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..1.0, Just(1.0_f64.next_down())]
}

/// Parses any text: an error must be printable, and a success must keep its guarantees.
fn check_any_text(text: &str) -> Result<(), TestCaseError> {
    match text.parse::<RetryInterval>() {
        Ok(interval) => {
            prop_assert_eq!(&read(&interval.to_string()), &interval);
            prop_assert!(interval.delay(u32::MAX, None, 0.0, &linear) <= MAX_DELAY);
        }
        Err(IntervalError::Malformed { text: kept, offset, expected }) => {
            prop_assert_eq!(&kept, text);
            prop_assert!(text.is_char_boundary(offset), "{} in {:?}", offset, text);
            let error = IntervalError::Malformed { text: kept, offset, expected };
            prop_assert!(error.to_string().contains("expected"));
        }
        Err(IntervalError::TooLong { length, limit }) => prop_assert!(length > limit),
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_canonical_text_is_read_as_an_equal_interval(text in texts()) {
        // An expression that has no value for some retry is rejected, which `random_expressions_are_read_or_refused` covers.
        if let Ok(interval) = text.parse::<RetryInterval>() {
            let canonical = interval.to_string();
            prop_assert_eq!(&read(&canonical), &interval);
            prop_assert_eq!(read(&canonical).to_string(), canonical);
        } else {
            prop_assert!(text.starts_with('='), "{}", text);
        }
    }

    #[test]
    fn a_delay_is_at_most_the_cap_and_its_jitter(
        text in texts(),
        n in prop_oneof![0..200_u32, any::<u32>(), Just(u32::MAX)],
        cap in prop::option::of(durations()),
        unit in units(),
    ) {
        let Ok(interval) = text.parse::<RetryInterval>() else { return Ok(()) };
        let delay = interval.delay(n, cap, unit, &linear);
        let plain = interval.delay(n, cap, 0.0, &linear);
        prop_assert!(plain >= MIN_DELAY);
        prop_assert!(plain <= cap.unwrap_or(MAX_DELAY));
        prop_assert!(delay >= plain);
        // Floats keep 53 bits, and a delay of years in nanoseconds has a few more.
        let jitter = interval.jitter.unwrap_or(0.0) / 100.0;
        prop_assert!(delay.as_secs_f64() <= plain.as_secs_f64() * (1.0 + jitter) * (1.0 + 1e-12));
    }

    #[test]
    fn an_exponential_interval_never_gets_shorter(
        (one, other) in (durations(), durations()),
        factor in 100..300_u32,
        n in 1..u32::MAX,
    ) {
        let factor = f64::from(factor) / 100.0;
        let (base, max) = (Written(one.min(other)), Written(one.max(other)));
        let interval = read(&format!("exp({base}, x{factor}, max {max})"));
        let delay = |n| interval.delay(n, None, 0.0, &never);
        prop_assert_eq!(delay(1), one.min(other));
        prop_assert!(delay(n) <= delay(n + 1));
        prop_assert!(delay(u32::MAX) <= one.max(other));
    }

    #[test]
    fn random_expressions_are_read_or_refused(text in scraps()) {
        check_any_text(&text)?;
    }

    #[test]
    fn any_expression_of_scraps_is_read_or_refused(text in scraps()) {
        check_any_text(&format!("={text}"))?;
    }

    #[test]
    fn any_characters_are_read_or_refused(text in any::<String>()) {
        check_any_text(&text)?;
    }
}
