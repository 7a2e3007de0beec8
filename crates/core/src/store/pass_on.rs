//! [`PassOn`]: a part of passing a notice on to its targets, where all of them are too much for the settle of its outcome, or some cannot get
//! it yet.

use super::{Kept, SeenTarget};

/// A part of passing a notice on.
///
/// The first part freezes the list of the targets. The progress is stored with each part, so each target gets the notice once, whichever
/// node makes the next part, and also where the target's notice has ended by then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassOn {
    /// The notice.
    pub id: i64,
    /// Its definition.
    pub def_id: i64,
    /// The fence of the claim under which it is passed on.
    pub fence: i64,
    /// The targets that get it, which the first part stores. Later parts go by what is stored.
    pub targets: Vec<i64>,
    /// All targets of the definition that are not deleted, as the caller knows them.
    pub known: Vec<SeenTarget>,
    /// Those that cannot get it now. They come last, and the notice waits for them.
    pub owed: Vec<i64>,
    /// How many targets get it in this part, at most.
    pub most: usize,
}

impl PassOn {
    /// Returns the list of the targets with those last to which the notice is owed, and how many of them have it after this part. `done`:
    /// how many have it now.
    pub fn step(&self, targets: &[i64], done: usize) -> (Vec<i64>, usize) {
        let (have, left) = targets.split_at(done.min(targets.len()));
        let (owed, free): (Vec<i64>, Vec<i64>) = left.iter().partition(|target| self.owed.contains(target));
        let next = have.len() + free.len().min(self.most);
        ([have, &free, &owed].concat(), next)
    }
}

/// Result of a [`PassOn`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassedOn {
    /// The part is stored.
    Part {
        /// The targets, as the first part stored them; those last to which it is owed.
        targets: Vec<i64>,
        /// How many of them have the notice, or kept an earlier one.
        done: usize,
        /// Those that kept an earlier notice of the dedupe key. Complete where all have been reached.
        kept: Vec<Kept>,
    },
    /// Nothing was changed, because the definition has other targets, or other filters, than the caller knows.
    Changed,
    /// Nothing was changed, because the claim was lost, or another session has locked the notice or a dedupe key that a target would get. Or
    /// all targets are reached, and the store does not know yet which of them kept an earlier notice.
    Busy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_leaves_owed_targets_for_the_end() {
        let part = |owed: &[i64], most| PassOn {
            id: 1,
            def_id: 3,
            fence: 1,
            targets: Vec::new(),
            known: Vec::new(),
            owed: owed.to_vec(),
            most,
        };
        assert_eq!(part(&[], 2).step(&[4, 5, 6], 0), (vec![4, 5, 6], 2));
        assert_eq!(part(&[4], 9).step(&[4, 5, 6], 0), (vec![5, 6, 4], 2));
        assert_eq!(part(&[4], 9).step(&[5, 6, 4], 2), (vec![5, 6, 4], 2), "it is still owed");
        assert_eq!(part(&[], 9).step(&[5, 6, 4], 2), (vec![5, 6, 4], 3));
        assert_eq!(part(&[5], 9).step(&[5, 4], 1), (vec![5, 4], 2), "what has arrived stays");
        assert_eq!(part(&[], 9).step(&[5], 7), (vec![5], 1));
    }
}
