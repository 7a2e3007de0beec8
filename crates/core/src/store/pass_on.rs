//! [`PassOn`]: a part of passing a notice on to its targets, where all of them are too much for the settle of its outcome.

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
    /// All targets of the definition that are not deleted, as the caller knows them, in the order of their ids.
    pub known: Vec<i64>,
    /// How many targets get it in this part, at most.
    pub most: usize,
}

/// Result of a [`PassOn`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassedOn {
    /// The part is stored.
    Part {
        /// The targets, as the first part stored them.
        targets: Vec<i64>,
        /// How many of them have the notice.
        done: usize,
    },
    /// Nothing was changed, because the definition has other targets than the caller knows.
    Changed,
    /// Nothing was changed, because the claim was lost, or another session has locked the notice or a dedupe key that a target would get.
    Busy,
}
