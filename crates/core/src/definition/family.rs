//! A definition and its targets: what an edit of one row would break in the others.
//!
//! What a row means as it is stored is left to `in_force.rs`.

use super::{NotifyDef, Problem};

/// Rows before and after edits, as sweepers would follow them.
pub(crate) struct Edits<'a> {
    pub(crate) before: &'a [NotifyDef],
    pub(crate) after: &'a [NotifyDef],
}

impl Edits<'_> {
    /// Returns what the edit of this row breaks: targets that become invalid, and encrypted notices that a target could no longer read.
    /// `problems` checks a row as it is followed.
    pub(crate) fn breaks(&self, id: i64, problems: impl Fn(&NotifyDef) -> Vec<Problem>) -> Vec<String> {
        let of = |rows: &[NotifyDef], row: &NotifyDef| {
            let followed = row.among(rows);
            followed.problem.into_iter().chain(problems(&followed.row)).collect::<Vec<_>>()
        };
        let is_target = |row: &&NotifyDef| row.target_of == Some(id) && row.id != id && row.delete_time.is_none();
        let mut broken: Vec<String> = Vec::new();
        for target in self.after.iter().filter(is_target) {
            let Some(stored) = self.before.iter().find(|row| row.id == target.id) else { continue };
            let known = of(self.before, stored);
            let new = of(self.after, target).into_iter().filter(|problem| !known.contains(problem));
            broken.extend(new.map(|problem| format!("its target {:?} would be invalid: {problem}", target.name)));
        }
        broken.extend(self.moved(id));
        broken
    }

    /// Returns what a move of a target breaks: what was passed on to it is encrypted for the definition that it was a target of.
    fn moved(&self, id: i64) -> Option<String> {
        let row = |rows: &[NotifyDef]| rows.iter().find(|row| row.id == id).cloned();
        let (before, after) = (row(self.before)?, row(self.after)?);
        let parent = self.before.iter().find(|row| Some(row.id) == before.target_of)?;
        (before.target_of != after.target_of && parent.encrypt_param).then(|| {
            format!(
                "target_of: the notices that {:?} has are encrypted for the definition {:?}, and could not be decrypted any more; create \
                 another target, and delete this one",
                before.name, parent.name
            )
        })
    }
}

/// Returns the rows with this one in the place of the stored one with its id, or added.
pub(crate) fn with_row(rows: &[NotifyDef], new: &NotifyDef) -> Vec<NotifyDef> {
    let mut all = rows.to_vec();
    match all.iter_mut().find(|row| row.id == new.id) {
        Some(row) => row.clone_from(new),
        None => all.push(new.clone()),
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(id: i64, def: NotifyDef) -> NotifyDef {
        NotifyDef { id, ..def }
    }

    fn breaks(rows: &[NotifyDef], new: &NotifyDef) -> Vec<String> {
        let after = with_row(rows, new);
        Edits { before: rows, after: &after }.breaks(new.id, |row| row.policy().err().unwrap_or_default())
    }

    #[test]
    fn edit_that_makes_a_target_invalid_names_it() {
        let order = stored(3, NotifyDef::new("order").encrypt_param(true));
        let erp = stored(4, NotifyDef::target("order", "erp").target_of(3).encrypt_param(true));
        let sick = stored(5, NotifyDef::target("order", "sick").target_of(3).timeout("soon"));
        let other = stored(6, NotifyDef::new("other"));
        let rows = [order.clone(), erp, sick, other];
        assert!(
            breaks(&rows, &NotifyDef { timeout: "7s".to_owned(), ..order.clone() }).is_empty(),
            "`sick` was invalid before"
        );
        let plain = breaks(&rows, &NotifyDef { encrypt_param: false, ..order.clone() });
        assert_eq!(plain.len(), 1);
        assert!(plain[0].starts_with("its target \"order/erp\" would be invalid: encrypt_param"), "{plain:?}");
        let nested = breaks(&rows, &NotifyDef { target_of: Some(6), ..order });
        assert_eq!(nested.len(), 2, "{nested:?}");
        assert!(nested[0].contains("a definition that is no target itself"), "{nested:?}");
    }

    #[test]
    fn target_with_encrypted_notices_cannot_move() {
        let (order, other) =
            (stored(3, NotifyDef::new("order").encrypt_param(true)), stored(6, NotifyDef::new("other")));
        let erp = stored(4, NotifyDef::target("order", "erp").target_of(3));
        let rows = [order, other, erp.clone()];
        let moved = |of| breaks(&rows, &NotifyDef { target_of: of, ..erp.clone() });
        for of in [Some(6), None] {
            assert!(moved(of)[0].contains("are encrypted for the definition \"order\""), "{:?}", moved(of));
        }
        assert!(moved(Some(3)).is_empty());
        let plain = stored(7, NotifyDef::target("other", "x").target_of(6));
        let rows = [rows.to_vec(), vec![plain.clone()]].concat();
        assert!(breaks(&rows, &NotifyDef { target_of: Some(3), ..plain }).is_empty(), "its notices are plaintext");
    }
}
