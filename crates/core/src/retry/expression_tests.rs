//! The values of expressions, the rejected ones, and that no text can break the evaluator.

use super::*;

fn parse(text: &str) -> Result<Expression, IntervalError> {
    Expression::parse(Piece::new(text))
}

#[test]
fn expressions_follow_the_rules_of_mathematics() {
    for (text, expected) in [
        ("n", 5.0),
        ("min(60, 2^(n-1))", 16.0),
        ("min(60, max(1, n))", 5.0),
        ("max(1, min(n, 3), min(n, 4))", 4.0),
        ("sqrt(n+1+3)", 3.0),
        ("-(n+1+2) + 10", 2.0),
        ("-n^2 + 100", 75.0),
        ("2^3^2", 512.0),
        ("2^-1", 0.5),
        ("100 - n - 1", 94.0),
        ("60 / n / 2", 6.0),
        ("60 - -n", 65.0),
        ("2*(n+1)*3", 36.0),
        ("floor(n/2) + ceil(n/2) + round(2.4)", 7.0),
        ("abs(-n) + exp(0)", 6.0),
        ("ln(exp(2)) + log2(8) + log10(100)", 7.0),
        ("1.5e1 + .5", 15.5),
        ("\tn\n+ 1", 6.0),
        ("60 / (1/0) + n", 5.0),
    ] {
        assert_eq!(seconds(text, 5), Ok(expected), "{text}");
    }
}

#[test]
fn refused_expressions_say_where_and_why() {
    const CHARACTERS: &str = "only numbers, `n`, functions, parentheses and + - * / ^";
    for (text, at, expected) in [
        (" ", 1, "an expression such as `min(60, 2^(n-1))`"),
        ("2^(n-", 5, OPERAND),
        ("2^(n-1", 2, "a `)` for this `(`"),
        ("n)", 1, PLACE),
        ("2 n", 2, PLACE),
        ("n + * 2", 4, PLACE),
        ("60 + retry", 5, "`n`, the number of the retry and only variable"),
        ("N", 0, "`n`, the number of the retry and only variable"),
        ("60 + sin(n)", 5, FUNCTIONS),
        ("1 + sqrt(n, 2)", 4, "another number of arguments for this function"),
        ("min()", 0, "another number of arguments for this function"),
        ("max(1,2,3,4,5,6,7,8,9)", 20, "at most 8 arguments"),
        ("1e999", 0, "a smaller number"),
        ("n mod 2", 0, "one of the operators + - * / ^"),
        ("n < 3", 2, CHARACTERS),
        ("é", 0, CHARACTERS),
        ("n**2", 1, "`^` for a power"),
        ("60 10%", 5, "no `%` here (a jitter is written ` ~10%`)"),
        ("60 + sqrt(2-n)", 5, "a number, but for n = 3 this is none"),
        ("1 + 0/(n-7)", 4, "a number, but for n = 7 this is none"),
        ("3 - n", 0, "at least 0.001 seconds, but for n = 3 the result is 0.0"),
        ("2.5 - n", 0, "at least 0.001 seconds, but for n = 3 the result is -0.5"),
        ("-(10^300)", 0, "at least 0.001 seconds, but for n = 1 the result is -1e300"),
        ("10^(n*4)", 0, "a finite result, but for n = 78 it is infinite (`min(3600, ...)` would limit it)"),
        ("1/(n-9) + 1", 0, "at least 0.001 seconds, but for n = 8 the result is 0.0"),
    ] {
        assert_eq!(parse(text), Err(Piece::new(text).error(at, expected)), "{text}");
    }
}

#[test]
fn a_late_overflow_is_cut_to_the_longest_delay() {
    let expression = parse("2^(n-1)").unwrap();
    assert_eq!(expression.delay(10), Duration::from_secs(512));
    assert_eq!(expression.delay(100), MAX_DELAY);
    assert_eq!(expression.delay(u32::MAX), MAX_DELAY);
}

#[test]
fn an_infinite_intermediate_result_does_no_harm() {
    let expression = parse("min(60, 2^(n-1))").unwrap();
    assert_eq!(expression.delay(u32::MAX), Duration::from_secs(60));
}

#[test]
fn a_late_result_that_is_no_delay_is_replaced_by_that_of_retry_100() {
    let hundredth = Duration::from_millis(20_500);
    for text in ["120.5 - n", "sqrt(120-n) * 0 + 20.5"] {
        let expression = parse(text).unwrap();
        assert_eq!(expression.delay(200), hundredth, "{text}");
        assert_eq!(expression.delay(u32::MAX), hundredth, "{text}");
    }
}

#[test]
fn an_expression_of_200_bytes_is_the_longest() {
    let longest = format!("n{}", "+1".repeat(99)) + " ";
    assert!(parse(&longest).is_ok());
    let longer = format!("n{}", "+1".repeat(100));
    let error = Piece::new(&longer).error(0, "an expression of at most 200 bytes");
    assert_eq!(parse(&longer), Err(error));
}

#[test]
fn deep_nesting_cannot_overflow_a_small_stack() {
    let deep = [
        "(".repeat(MAX_LENGTH),
        "-".repeat(MAX_LENGTH - 1) + "n",
        "2^".repeat(99) + "n",
        "(".repeat(99) + "n" + &")".repeat(99),
        "abs(".repeat(39) + "n" + &")".repeat(39),
        "1+(".repeat(49) + "n" + &")".repeat(49),
    ];
    let deepest = "(".repeat(31) + "n" + &")".repeat(31);
    // A sixteenth of the default stack of threads, even in an unoptimised build.
    let thread = std::thread::Builder::new().stack_size(128 * 1024);
    let run = thread.spawn(move || {
        for text in deep {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains("at most 32 levels of nesting"), "{error}");
        }
        parse(&deepest).unwrap().delay(7)
    });
    assert_eq!(run.unwrap().join().unwrap(), Duration::from_secs(7));
}
