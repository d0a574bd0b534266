//! Formats and parses the end of a lease: a UTC time in whole seconds, as `2026-11-26T05:44:00`.
//!
//! Pure: no I/O and no clock.

/// Formats a time, in seconds since 1970; `None` if it is after the year 9999, which has no such form.
pub(super) fn format(seconds: u64) -> Option<String> {
    let (days, second) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = civil(i64::try_from(days).ok()?);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let is_valid = year <= 9999;
    is_valid.then(|| format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"))
}

/// Parses a time into seconds since 1970; `None` if it is not one from 1970 on, with all its digits.
pub(super) fn parse(text: &str) -> Option<u64> {
    let (date, time) = text.split_once('T')?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    if hour > 23 || minute > 59 || second > 59 || month == 0 || month > 12 {
        return None;
    }
    let date = (i64::from(year), i64::from(month), i64::from(day));
    let days = days_from_civil(date);
    let days = u64::try_from(days).ok().filter(|_| civil(days) == date)?;
    Some(days * DAY + u64::from(hour * 3600 + minute * 60 + second))
}

/// Parses three numbers with these separators and numbers of digits.
fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<[u32; 3]> {
    let mut fields = text.split(separator);
    let mut numbers = [0; 3];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let field = fields.next()?;
        let is_number = field.len() == digits && field.bytes().all(|byte| byte.is_ascii_digit());
        *number = is_number.then(|| field.parse().ok())??;
    }
    fields.next().is_none().then_some(numbers)
}

/// Returns the year, month and day of a day counted from 1970-01-01.
///
/// Years begin in March here, so that the leap day is their last one; 400 of them have 146,097 days.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE_1970;
    let (era, day) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let is_next_year = month >= 10;
    let month = if is_next_year { month - 9 } else { month + 3 };
    (era * 400 + year + i64::from(is_next_year), month, day)
}

/// Returns the number of a day, counted from 1970-01-01.
fn days_from_civil((year, month, day): (i64, i64, i64)) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let in_year = (153 * month + 2) / 5 + day - 1;
    era * ERA + 365 * year + year / 4 - year / 100 + in_year - DAYS_BEFORE_1970
}

const DAY: u64 = 24 * 60 * 60;
/// The days of 400 years.
const ERA: i64 = 146_097;
/// The days from 1 March of the year 0 to 1 January 1970.
const DAYS_BEFORE_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values of Python's `datetime`.
    #[test]
    fn times_are_those_of_kazoo() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_078_012_800, "2004-02-29T00:00:00"),
            (1_795_671_840, "2026-11-26T05:44:00"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (253_402_300_799, "9999-12-31T23:59:59"),
        ] {
            assert_eq!(format(seconds).as_deref(), Some(text));
            assert_eq!(parse(text), Some(seconds));
        }
        for seconds in [253_402_300_800, u64::MAX] {
            assert_eq!(format(seconds), None);
        }
    }

    #[test]
    fn other_texts_are_not_times() {
        for text in [
            "",
            "2026-11-26",
            "2026-11-26 05:44:00",
            "2026-11-26T05:44",
            "2026-11-26T05:44:00Z",
            "2026-11-26T05:44:00.5",
            "2026-02-29T00:00:00",
            "2100-02-29T00:00:00",
            "2026-13-01T00:00:00",
            "2026-00-01T00:00:00",
            "2026-01-00T00:00:00",
            "2026-01-32T00:00:00",
            "2026-01-01T24:00:00",
            "2026-01-01T00:60:00",
            "2026-01-01T00:00:60",
            "+026-01-01T00:00:00",
            "1969-12-31T23:59:59",
            "0000-01-01T00:00:00",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_formatted_time_is_parsed_back(seconds in 0_u64..253_402_300_800) {
            let text = format(seconds).unwrap();
            prop_assert_eq!(parse(&text), Some(seconds));
        }

        #[test]
        fn garbage_never_panics(text: String) {
            let _ = parse(&text);
        }
    }
}
