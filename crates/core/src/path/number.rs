//! [`Decimal`]: a number of JSON, of any size and scale, compared without expanding it: `1e999999999` has one digit.

use std::cmp::Ordering;

/// An exponent with more digits is added up in two parts, of which the lower one has this many digits.
const LOW: usize = 18;
const BASE: i64 = 1_000_000_000_000_000_000;

/// A number: 0.`digits` × 10^`power`. Each number has one form, so equal numbers are equal however they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    /// The digits from the first to the last one that is not 0, as ASCII; none: the number is 0.
    digits: Vec<u8>,
    power: Power,
}

/// A whole number of any size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Power {
    negative: bool,
    /// Without leading zeros, as ASCII; none: 0.
    digits: Vec<u8>,
}

impl Decimal {
    /// Reads a number as JSON and JSONPath write it.
    pub fn read(text: &str) -> Self {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        digits.truncate(digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1));
        if digits.is_empty() {
            return Self { negative: false, digits, power: Power::default() };
        }
        Self { negative, digits, power: Power::sum(exponent, whole.len() as i64 - zeros as i64) }
    }

    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        // Without zeros at the end, the longer one of two numbers that begin with the same digits is the greater one.
        let size = || self.power.cmp(&other.power).then_with(|| self.digits.cmp(&other.digits));
        self.sign().cmp(&other.sign()).then_with(|| if self.negative { size().reverse() } else { size() })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Power {
    /// Returns the sum of an exponent as it is written, and of the place of the first digit, which is much smaller than [`BASE`].
    fn sum(exponent: &str, place: i64) -> Self {
        let negative = exponent.starts_with('-');
        let digits = exponent.trim_start_matches(['+', '-']).trim_start_matches('0');
        let Some(high) = digits.len().checked_sub(LOW).filter(|high| *high > 0) else {
            let size = digits.parse().unwrap_or(0_i64);
            let sum = if negative { place - size } else { place + size };
            let digits = if sum == 0 { Vec::new() } else { sum.unsigned_abs().to_string().into_bytes() };
            return Self { negative: sum < 0, digits };
        };
        let (high, low) = digits.split_at(high);
        let mut high = high.as_bytes().to_vec();
        let mut low = low.parse().unwrap_or(0_i64) + if negative { -place } else { place };
        if low < 0 {
            low += BASE;
            carry(&mut high, b'0', b'9', -1);
        } else if low >= BASE {
            low -= BASE;
            if high.iter().all(|digit| *digit == b'9') {
                high.insert(0, b'0');
            }
            carry(&mut high, b'9', b'0', 1);
        }
        high.extend(format!("{low:018}").bytes());
        let zeros = high.iter().take_while(|digit| **digit == b'0').count();
        high.drain(..zeros);
        Self { negative, digits: high }
    }
}

/// Adds 1 or -1 to digits: those at the end that are `full` become `next`.
fn carry(digits: &mut [u8], full: u8, next: u8, step: i8) {
    for digit in digits.iter_mut().rev() {
        if *digit != full {
            *digit = digit.wrapping_add_signed(step);
            return;
        }
        *digit = next;
    }
}

impl Ord for Power {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = || self.digits.len().cmp(&other.digits.len()).then_with(|| self.digits.cmp(&other.digits));
        match (self.negative, other.negative) {
            (false, false) => size(),
            (true, true) => size().reverse(),
            (mine, others) => others.cmp(&mine),
        }
    }
}

impl PartialOrd for Power {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(left: &str, right: &str) -> Ordering {
        let (left, right) = (Decimal::read(left), Decimal::read(right));
        assert_eq!(left == right, left.cmp(&right) == Ordering::Equal);
        assert_eq!(left.cmp(&right), right.cmp(&left).reverse());
        left.cmp(&right)
    }

    #[test]
    fn same_number_is_equal_however_it_is_written() {
        for same in [
            &["1", "1.0", "10e-1", "0.01E+2", "1e0", "1e-0", "100000e-0005"][..],
            &["0", "-0", "0.000", "0e999999999999999999999999", "-0.0e-7"],
            &["-12.50", "-1250e-2", "-0.00125e4"],
            &["1e1000000000000000000", "10e999999999999999999", "0.1e1000000000000000001"],
            &["1e-1000000000000000000", "0.1e-999999999999999999", "10e-1000000000000000001"],
            &["1e99999999999999999999", "0.1e100000000000000000000", "0.0001e100000000000000000003"],
        ] {
            for (left, right) in same.iter().flat_map(|left| same.iter().map(move |right| (left, right))) {
                assert_eq!(compared(left, right), Ordering::Equal, "{left} {right}");
            }
        }
    }

    #[test]
    fn numbers_of_any_size_are_ordered() {
        let ascending = [
            "-1e99999999999999999999999999999999999999999",
            "-1e999999999",
            "-1e999999998",
            "-9007199254740993",
            "-9007199254740992",
            "-1.5",
            "-1.25",
            "-1e-99999999999999999999",
            "0",
            "1e-99999999999999999999999999",
            "1e-99999999999999999999",
            "1e-400",
            "0.1",
            "0.10000000000000000000000000001",
            "9",
            "9007199254740992",
            "9007199254740993",
            "123456789012345678901234567890.1",
            "123456789012345678901234567890.12",
            "1e400",
            "9.99e400",
            "1e999999998",
            "1e999999999",
            "1e999999999999999999",
            "1e1000000000000000000",
            "1e99999999999999999999",
        ];
        for (n, left) in ascending.iter().enumerate() {
            for (m, right) in ascending.iter().enumerate() {
                assert_eq!(compared(left, right), n.cmp(&m), "{left} {right}");
            }
        }
    }

    proptest::proptest! {
        /// The reference expands the numbers to whole ones of the same unit.
        #[test]
        fn comparison_is_that_of_expanded_numbers(
            numbers in proptest::collection::vec((-99_999_i128..99_999, -12_i32..12, 0_usize..4, proptest::bool::ANY), 2),
        ) {
            let (mut texts, mut sizes) = (Vec::new(), Vec::new());
            for (digits, power, point, capital) in numbers {
                let scale = 10_i128.pow(point as u32);
                let sign = if digits < 0 { "-" } else { "" };
                let (whole, fraction) = (digits.abs() / scale, digits.abs() % scale);
                let fraction = if point == 0 { String::new() } else { format!(".{fraction:0point$}") };
                texts.push(format!("{sign}{whole}{fraction}{}{power:+}", if capital { 'E' } else { 'e' }));
                sizes.push(digits * 10_i128.pow((power + 16 - point as i32) as u32));
            }
            proptest::prop_assert_eq!(compared(&texts[0], &texts[1]), sizes[0].cmp(&sizes[1]), "{:?}", texts);
        }

        /// The sum of a long exponent and a place is that of `i128`.
        #[test]
        fn long_exponent_is_added_up(exponent in -10_i128.pow(30)..10_i128.pow(30), place in -(1_i64 << 24)..(1_i64 << 24)) {
            let sum = exponent + i128::from(place);
            let digits = if sum == 0 { String::new() } else { sum.unsigned_abs().to_string() };
            let expected = Power { negative: sum < 0, digits: digits.into_bytes() };
            proptest::prop_assert_eq!(Power::sum(&exponent.to_string(), place), expected);
        }

        #[test]
        fn carries_and_borrows_are_added_up(high in 1_i128..1000, low in -5_i128..5, place in -9_i64..9, negative in proptest::bool::ANY) {
            let exponent = (high * i128::from(BASE) + low) * if negative { -1 } else { 1 };
            let sum = exponent + i128::from(place);
            let expected = Power { negative: sum < 0, digits: sum.unsigned_abs().to_string().into_bytes() };
            proptest::prop_assert_eq!(Power::sum(&exponent.to_string(), place), expected);
        }
    }
}
