//! Tests of [`Definitions::from_toml`]: what a file may say, and where its problems are.

use proptest::prelude::*;

use super::*;

fn problems(text: &str) -> Vec<String> {
    match Definitions::from_toml(text) {
        Err(Error::InvalidFile { problems }) => problems.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn columns_that_are_left_out_have_the_values_of_a_new_definition() {
    let text = "
        [sync]

        [payment] # a comment
        timeout = \"10s\"
        max_retry_times = -1
        enabled = false
        retry_rules = '{ \"busy\": 20 }'

        [\"notify.purge\"]
        timeout = '20m'
    ";
    let rows = [
        NotifyDef::new("sync"),
        NotifyDef::new("payment").timeout("10s").max_retry_times(-1).enabled(false).retry_rules("{ \"busy\": 20 }"),
        NotifyDef::new("notify.purge").timeout("20m"),
    ];
    assert_eq!(Definitions::from_toml(text).unwrap(), Definitions::of(rows).unwrap(), "in the order of the file");
    assert!(Definitions::from_toml("# no definition\n").unwrap().rows().is_empty());
}

#[test]
fn numbers_of_older_conventions_are_read_as_those_of_a_row() {
    let read = |lines: &str| {
        let row = Definitions::from_toml(&format!("[a]\n{lines}")).unwrap().rows()[0].clone();
        (row.alert_trigger_type, row.max_confirm_delay, row.max_retry_interval)
    };
    let words = |trigger: &str, ack: &str, cap: Option<&str>| (trigger.to_owned(), ack.to_owned(), cap.map(Into::into));
    for quote in ["", "\""] {
        for (number, trigger) in ["final_failure", "each_failure", "never", "after_failures"].iter().enumerate() {
            let lines = format!(
                "alert_trigger_type = {quote}{number}{quote}
                 max_confirm_delay = {quote}3600{quote}
                 max_retry_interval = {quote}30{quote}"
            );
            assert_eq!(read(&lines), words(trigger, "3600s", Some("30m")));
        }
        let lines = format!("max_confirm_delay = {quote}0{quote}\nmax_retry_interval = {quote}-1{quote}");
        assert_eq!(read(&lines), words("final_failure", "0", None));
    }
    let wrong = problems("[a]\nalert_trigger_type = 4\ntimeout = 30\n");
    assert!(wrong[0].contains("alert_trigger_type = \"4\": expected one of final_failure"), "{wrong:?}");
    assert!(wrong[0].starts_with("line 2, ") && wrong[1].contains("timeout: expected a text in quotes"), "{wrong:?}");
}

#[test]
fn every_column_can_be_in_a_file() {
    let other = NotifyDef::new("a")
        .handler("h")
        .description("line 1\nline \"2\"")
        .enabled(false)
        .schedule("0 0 3 * * *")
        .schedule_missed("all")
        .send_window("01:00-06:00")
        .retry_interval("5m")
        .max_retry_times(7)
        .max_retry_interval("1h")
        .retry_rules("{}")
        .timeout("1s")
        .alert_trigger_type("after_failures")
        .alert_trigger_fail_times(9)
        .alert_cooldown("1m")
        .email("a@b.c")
        .alert_to("ops")
        .backlog_alert_age("1h")
        .dead_alert_count(2)
        .need_confirm(true)
        .max_confirm_delay("1d")
        .max_concurrency(3)
        .rate_limit("100/1m")
        .max_concurrency_total(8)
        .breaker_failures(5)
        .breaker_pause("2m")
        .keep_history("none")
        .handler_config("{}")
        .owner("team orders")
        .runbook("https://wiki.example.org/orders")
        .mask(r#"["$.card.number"]"#)
        .encrypt_param(true);
    let differing = NotifyDef::new("a").differences(&other).len();
    assert_eq!(differing, NotifyDef::COLUMNS.len() - 3, "each column but the name and those of targets");
    let given = NotifyDef::COLUMNS.iter().zip(other.values()).filter(|(column, _)| !column.starts_with("target_"));
    let lines = given.skip(1).map(|(column, value)| match value {
        ColumnValue::Text(text) => format!("{column} = {:?}\n", text.unwrap()),
        ColumnValue::Int(number) => format!("{column} = {}\n", number.unwrap()),
        ColumnValue::Bool(flag) => format!("{column} = {flag}\n"),
    });
    let text = format!("[a]\n{}", lines.collect::<String>());
    assert_eq!(Definitions::from_toml(&text).unwrap().rows(), [other]);
}

#[test]
fn all_problems_are_reported_with_their_places() {
    let text = "[payment]\n\
                timeout = \"soon\"\n\
                max_concurency = 5\n\
                \n\
                ['ü']   # its name is one letter\n\
                  need_confirm = 'yes'; \n";
    assert_eq!(problems(text).len(), 1, "a mistake in the syntax hides the others: {:?}", problems(text));
    let text = text.replace("; \n", "\nmax_retry_times = 2.5\n'é' = 1\nretry_interval = \"[5s,5x]\"\n");
    let expected = [
        "line 2, column 11: definition \"payment\": timeout = \"soon\": expected a duration such as `30s` or `1h 30m`",
        "line 3, column 1: definition \"payment\": there is no column \"max_concurency\"; did you mean \"max_concurrency\"?",
        "line 6, column 16: definition \"ü\": need_confirm: expected true or false, found: string",
        "line 7, column 19: definition \"ü\": max_retry_times: expected a whole number, found: float",
        "line 8, column 1: definition \"ü\": there is no column \"é\"",
        "line 9, column 18: definition \"ü\": retry_interval = \"[5s,5x]\": expected ",
    ];
    let found = problems(&text);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    let error = Definitions::from_toml(&text).unwrap_err().to_string();
    assert!(error.starts_with("the definitions have 6 problems:\n  line 2, column 11: "), "{error}");
}

#[test]
fn a_value_of_the_wrong_type_fails_with_what_to_write() {
    for (line, expected) in [
        ("timeout = 30", "timeout: expected a text in quotes, such as \"30s\", found: integer"),
        ("keep_history = 0", "keep_history: expected a text in quotes, such as \"30d\", found: integer"),
        ("max_confirm_delay = 0.5", "max_confirm_delay: expected a text in quotes, such as \"0\", found: float"),
        ("schedule = 03:00:00", "schedule: expected a text in quotes, found: datetime"),
        ("retry_rules = { busy = 20 }", "retry_rules: expected a text in quotes, found: table"),
        ("max_concurrency = \"5\"", "max_concurrency: expected a whole number, found: string"),
        ("max_concurrency = 99999999999999999999", "max_concurrency: expected a whole number, found: integer"),
        ("enabled = 1", "enabled: expected true or false, found: integer"),
        ("name = \"b\"", "the name of a definition is the one of its table"),
        ("zzzzzzzzzzzz = 1", "there is no column \"zzzzzzzzzzzz\""),
    ] {
        let found = problems(&format!("[a]\n{line}"));
        let column = if expected.contains("expected") { line.find('=').unwrap() + 3 } else { 1 };
        assert_eq!(found, [format!("line 2, column {column}: definition \"a\": {expected}")]);
    }
}

#[test]
fn entry_that_is_no_table_is_refused_with_how_one_begins() {
    for (text, expected) in [
        ("timeout = '5s'", "line 1, column 1: a definition is a table: expected [timeout], found: string"),
        ("\n[[a]]\n", "line 2, column 3: a definition is a table: expected [a], found: array"),
        (
            "[notify.alert]\ntimeout = '5s'",
            "line 1, column 9: definition \"notify\": there is no column \"alert\"; a name with a dot is written in quotes: \
             [\"notify.alert\"]",
        ),
        ("['']", "line 1, column 2: definition \"\": name = \"\": expected a name of 1 to 200 characters without NUL"),
    ] {
        assert_eq!(problems(text), [expected]);
    }
    // Both are the same TOML as a table with a head.
    for text in ["a = { timeout = '5s' }", "a.timeout = '5s'"] {
        assert_eq!(Definitions::from_toml(text).unwrap().rows(), [NotifyDef::new("a").timeout("5s")]);
    }
}

#[test]
fn every_mistake_in_the_syntax_is_reported_once() {
    let found = problems("[a]\ntimeout = 30s\nemail =\n\n[a]\n");
    let places: Vec<&str> = found.iter().filter_map(|problem| problem.split(',').next()).collect();
    assert_eq!(places, ["line 2", "line 3", "line 5"], "{found:#?}");
}

#[test]
fn numbers_of_older_conventions_are_words_as_in_a_row() {
    let rows = Definitions::from_toml("[a]\nalert_trigger_type = '1'\nmax_confirm_delay = '60'\n").unwrap();
    assert_eq!(rows.rows(), [NotifyDef::new("a").alert_trigger_type("each_failure").max_confirm_delay("60s")]);
}

/// Pieces of TOML in any order.
const PIECES: &str =
    "(\\[+|\\]+|\n|\r\n|=|\"+|'+|\\.|,|\\{|\\}|#| |a|b|timeout|name|email|enabled|true|[0-9:-]{1,5}|ü|\\\\){0,40}";

proptest! {
    #[test]
    fn every_text_is_definitions_or_has_problems_within_it(text in prop_oneof![".*", PIECES]) {
        match Definitions::from_toml(&text) {
            Ok(definitions) => {
                prop_assert!(Definitions::of(definitions.rows().to_vec()).is_ok(), "{definitions:?}");
            }
            Err(Error::InvalidFile { problems }) => {
                prop_assert!(!problems.is_empty());
                for problem in problems {
                    let line = text.split('\n').nth(problem.line - 1).map(|line| line.chars().count());
                    prop_assert!(line.is_some_and(|length| problem.column <= length + 1), "{problem} in {text:?}");
                }
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

#[test]
fn tables_in_targets_are_targets_of_their_definition() {
    let read = Definitions::from_toml(
        "[order]\ntimeout = \"7s\"\n[order.targets.erp]\ntarget_filter = \"@.amount > 1\"\n[order.targets.mail]\nhandler = \"mail\"\n",
    );
    let erp = NotifyDef::target("order", "erp").target_filter("@.amount > 1");
    let rows = [NotifyDef::new("order").timeout("7s"), erp, NotifyDef::target("order", "mail").handler("mail")];
    assert_eq!(read.unwrap().rows(), rows);
    let wrong = |text: &str| Definitions::from_toml(text).unwrap_err().to_string();
    let filter = wrong("[order.targets.erp]\ntarget_filter = \"amount\"\n");
    assert!(
        filter.contains("line 2, column 17: definition \"order/erp\": target_filter = \"amount\": expected"),
        "{filter}"
    );
    let number = wrong("[order]\ntargets = 7\n");
    assert!(
        number.contains("definition \"order\": targets are tables: expected [order.targets.…], found: integer"),
        "{number}"
    );
    let target = wrong("[order.targets]\nerp = 7\n");
    assert!(
        target.contains("line 2, column 1: definition \"order/erp\": a target is a table, found: integer"),
        "{target}"
    );
    let deeper = wrong("[order.targets.erp.targets.x]\ntimeout = \"1s\"\n");
    assert!(deeper.contains("there is no column \"targets\""), "{deeper}");
}
