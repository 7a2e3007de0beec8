//! What became of a notice that was passed on: which targets have got it, and which kept an earlier notice of its dedupe key instead.

use crate::clean::clean_text;

/// The longest end reason of a notice, in bytes.
pub const REASON_LIMIT: usize = 4096;
/// The longest list of names in one. What targets kept stands behind it, and is worth more to people.
const NAMES_LIMIT: usize = 2048;

/// A target to which a notice is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTarget {
    /// Its id.
    pub id: i64,
    /// Its name within its definition.
    pub name: String,
}

impl NamedTarget {
    /// Creates a target with its name within its definition.
    pub fn new(id: i64, name: impl Into<String>) -> Self {
        Self { id, name: name.into() }
    }
}

/// A target that did not get a notice, because it still has an earlier one of the same dedupe key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The id of the target.
    pub target: i64,
    /// The id of the notice that it has.
    pub notice: i64,
}

/// Returns what people read of a notice that was passed on to these targets, except to those that kept an earlier one.
pub fn passed_on(targets: &[NamedTarget], kept: &[Kept]) -> String {
    let kept_by = |target: &NamedTarget| kept.iter().find(|kept| kept.target == target.id);
    let got: Vec<&str> =
        targets.iter().filter(|target| kept_by(target).is_none()).map(|target| target.name.as_str()).collect();
    let names = clean_text(&got.join(", "), NAMES_LIMIT);
    let mut text = match got.len() {
        0 if targets.is_empty() => "no target accepted it".to_owned(),
        0 => "passed on to no target".to_owned(),
        1 => format!("passed on to the target {names}"),
        count => format!("passed on to {count} targets: {names}"),
    };
    for (target, kept) in targets.iter().filter_map(|target| Some((target, kept_by(target)?))) {
        text.push_str(&format!("; `{}` still has notice {} of this dedupe key", target.name, kept.notice));
    }
    clean_text(&text, REASON_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_names_who_got_a_notice_and_who_kept_an_earlier_one() {
        let all: Vec<NamedTarget> =
            [(4, "erp"), (5, "mail"), (6, "b")].map(|(id, name)| NamedTarget::new(id, name)).into();
        let kept = |target, notice| Kept { target, notice };
        assert_eq!(passed_on(&[], &[]), "no target accepted it");
        assert_eq!(passed_on(&all[..1], &[]), "passed on to the target erp");
        assert_eq!(passed_on(&all, &[]), "passed on to 3 targets: erp, mail, b");
        assert_eq!(
            passed_on(&all, &[kept(6, 17)]),
            "passed on to 2 targets: erp, mail; `b` still has notice 17 of this dedupe key"
        );
        assert_eq!(
            passed_on(&all[1..], &[kept(6, 17), kept(5, 9)]),
            "passed on to no target; `mail` still has notice 9 of this dedupe key; `b` still has notice 17 of this dedupe key"
        );
    }

    #[test]
    fn long_list_of_names_leaves_room_for_what_targets_kept() {
        let all: Vec<NamedTarget> = (0..1000).map(|id| NamedTarget::new(id, format!("target number {id}"))).collect();
        let text = passed_on(&all, &[Kept { target: 999, notice: 17 }]);
        assert!(text.len() <= REASON_LIMIT && text.starts_with("passed on to 999 targets: "), "{text}");
        assert!(text.ends_with(" […]; `target number 999` still has notice 17 of this dedupe key"), "{text}");
    }
}
