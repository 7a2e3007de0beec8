//! `Debug` of all types with a parameter: it prints the length and never the text, which may contain data that must not be
//! logged.

use std::fmt;

use crate::add::NewNotice;
use crate::notice::{ClaimedNotice, NoticeRecord};

struct Length<'a>(&'a str);

impl fmt::Debug for Length<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

macro_rules! without_the_parameter {
    ($ty:ty: $($field:ident),+) => {
        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut fields = f.debug_struct(stringify!($ty));
                $(fields.field(stringify!($field), &self.$field);)+
                fields.field("param", &Length(&self.param)).finish_non_exhaustive()
            }
        }
    };
}

without_the_parameter!(NewNotice: name, send);
without_the_parameter!(ClaimedNotice: id, def_id, status, fence, failures, crashes, worker, last_call_time, create_time);
without_the_parameter!(
    NoticeRecord: id, def_id, status, fence, failures, crashes, worker, last_class, last_call_time, next_call_time,
    create_time, finish_time, end_reason
);

#[cfg(test)]
mod tests {

    use chrono::DateTime;

    use super::*;
    use crate::notice::Status;

    #[test]
    fn no_debug_output_shows_a_parameter() {
        let new = NewNotice::new("sync", "secret").unwrap();
        let record = NoticeRecord::new(7, 1, Status::NotSent, "\"secret\"".to_owned(), DateTime::UNIX_EPOCH);
        let claimed = ClaimedNotice::new(7, 1, Status::Sending, "\"secret\"".to_owned(), DateTime::UNIX_EPOCH);
        for text in [format!("{new:?}"), format!("{record:?}"), format!("{claimed:?}")] {
            assert!(!text.contains("secret") && text.contains("param: 8 bytes"), "{text}");
        }
    }
}
