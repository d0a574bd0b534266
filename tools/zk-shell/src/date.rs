//! Dates as Java prints them: `Thu Jan 01 00:00:00 UTC 1970`.

use std::time::SystemTime;

/// Writes a time, in UTC.
pub(crate) fn java_date(time: SystemTime) -> String {
    let seconds = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        // A fraction of a second before the epoch belongs to the second before it.
        Err(before) => {
            let before = before.duration();
            let whole = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            -whole - i64::from(before.subsec_nanos() > 0)
        }
    };
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_from_days(days);
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
        [usize::try_from(days.rem_euclid(7)).unwrap_or(0)];
    let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!(
        "{weekday} {} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year}",
        months[month]
    )
}

/// Writes the time of the day, in UTC.
pub(crate) fn clock_time(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    let second = since.as_secs() % 86_400;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let millis = since.subsec_millis();
    format!("{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The year, the month from zero and the day of a number of days since 1970-01-01, in the Gregorian calendar.
///
/// It counts in years that begin in March, so that the leap day is the last one: 400 of them have 146,097 days, and
/// five months from March on always have 153.
fn civil_from_days(days: i64) -> (i64, usize, i64) {
    let days = days + DAYS_FROM_MARCH_0000_TO_1970;
    let (cycle, day_of_cycle) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leap_days = day_of_cycle / 1_460 - day_of_cycle / 36_524 + day_of_cycle / 146_096;
    let year_of_cycle = (day_of_cycle - leap_days) / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = cycle * 400 + year_of_cycle + i64::from(month_from_march >= 10);
    (year, usize::try_from(month).unwrap_or(0), day)
}

const DAYS_FROM_MARCH_0000_TO_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> String {
        java_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    }

    #[test]
    fn dates_are_those_java_prints() {
        assert_eq!(at(0), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(at(951_782_400), "Tue Feb 29 00:00:00 UTC 2000");
        assert_eq!(at(1_700_000_000), "Tue Nov 14 22:13:20 UTC 2023");
        assert_eq!(at(4_107_542_399), "Sun Feb 28 23:59:59 UTC 2100");
        assert_eq!(at(4_107_542_400), "Mon Mar 01 00:00:00 UTC 2100");
        assert_eq!(at(253_402_300_799), "Fri Dec 31 23:59:59 UTC 9999");
        let before = SystemTime::UNIX_EPOCH - Duration::from_millis(1);
        assert_eq!(java_date(before), "Wed Dec 31 23:59:59 UTC 1969");
    }

    #[test]
    fn times_of_the_day_have_milliseconds() {
        let at = |millis| clock_time(SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
        assert_eq!(at(0), "00:00:00.000Z");
        assert_eq!(at(1_700_000_000_042), "22:13:20.042Z");
        assert_eq!(at(86_399_999), "23:59:59.999Z");
    }

    #[test]
    fn every_day_of_eight_centuries_follows_the_one_before() {
        let lengths = |year: i64| {
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            [
                31,
                28 + i64::from(is_leap),
                31,
                30,
                31,
                30,
                31,
                31,
                30,
                31,
                30,
                31,
            ]
        };
        let (mut year, mut month, mut day) = (1970, 0, 1);
        for days in 0..292_194 {
            assert_eq!(civil_from_days(days), (year, month, day));
            day += 1;
            if day > lengths(year)[month] {
                (day, month) = (1, month + 1);
            }
            if month == 12 {
                (month, year) = (0, year + 1);
            }
        }
    }
}
