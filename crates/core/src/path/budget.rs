//! [`Budget`]: the steps that one evaluation may take. [`Unjudged`]: the limit that it exceeds.

/// The most steps of one evaluation. A value that is read, a child that is looked at and a node that is selected cost a step each, and so do
/// sixteen bytes of the parameter, of a text or a number; a regular expression costs by its size and that of the text.
pub(crate) const STEPS: u64 = 4_000_000;
/// The most steps of work that holds up no thread: some milliseconds.
pub(crate) const QUICK: u64 = 50_000;
/// The longest parameter that is read, in bytes. Places in it fit into 32 bits.
pub(crate) const LONGEST_PARAM: usize = 16 << 20;
/// The deepest nesting of a parameter that is read. Parameters that the library adds are less deep.
pub(crate) const DEEPEST_PARAM: usize = 100;
/// The most values of a parameter that is read. They take 28 bytes each.
pub(crate) const MOST_VALUES: usize = 1_000_000;

/// Why an expression cannot be judged for a parameter: which limit is exceeded, and where. It contains no value of the parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unjudged {
    /// The parameter is not JSON.
    #[error("the parameter is not JSON (at its byte {at})")]
    NotJson {
        /// The byte of the parameter.
        at: usize,
    },
    /// The parameter is too long.
    #[error("the parameter has {bytes} bytes; at most {limit} are read")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest that is read.
        limit: usize,
    },
    /// The parameter nests too deep.
    #[error("the parameter has more than {limit} arrays and objects in one another (at its byte {at})")]
    TooDeep {
        /// The deepest that is read.
        limit: usize,
        /// The byte of the parameter.
        at: usize,
    },
    /// The parameter has too many values.
    #[error("the parameter has more than {limit} values (at its byte {at})")]
    TooManyValues {
        /// The most that are read.
        limit: usize,
        /// The byte of the parameter.
        at: usize,
    },
    /// The evaluation takes too long.
    #[error("it takes more than {limit} steps (at byte {at} of the expression)")]
    TooManySteps {
        /// The most steps.
        limit: u64,
        /// The byte of the expression.
        at: usize,
    },
    /// A regular expression of the parameter is too long.
    #[error("a pattern has {bytes} bytes; at most {limit} are read (at byte {at} of the expression)")]
    PatternTooLong {
        /// Its length.
        bytes: usize,
        /// The longest that is read.
        limit: usize,
        /// The byte of the expression.
        at: usize,
    },
    /// A regular expression of the parameter is too large.
    #[error("a pattern compiles to more than {limit} bytes (at byte {at} of the expression)")]
    PatternTooLarge {
        /// The largest that is compiled.
        limit: usize,
        /// The byte of the expression.
        at: usize,
    },
}

impl Unjudged {
    /// Returns it with the byte of the expression at which a pattern is.
    pub(super) fn of_expression(mut self, byte: usize) -> Self {
        if let Self::PatternTooLong { at, .. } | Self::PatternTooLarge { at, .. } = &mut self {
            *at = byte;
        }
        self
    }
}

/// The steps that are left.
#[derive(Debug)]
pub struct Budget {
    left: u64,
    /// The byte of the expression that is being evaluated.
    pub(crate) at: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(STEPS)
    }
}

impl Budget {
    /// Returns one of this many steps.
    pub(crate) fn of(steps: u64) -> Self {
        Self { left: steps, at: 0 }
    }

    /// Returns how many steps are left; none are once one could not be paid.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Takes steps.
    pub(crate) fn spend(&mut self, steps: u64) -> Result<(), Unjudged> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Unjudged::TooManySteps { limit: STEPS, at: self.at })
            }
        }
    }

    /// Takes the steps of reading or comparing that many bytes.
    pub(crate) fn spend_bytes(&mut self, bytes: usize) -> Result<(), Unjudged> {
        self.spend(1 + bytes as u64 / 16)
    }

    /// Returns how many steps were taken.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        STEPS - self.left
    }
}

/// Returns what `work` does within the steps that hold up no thread. `None`: it takes more, and belongs on a thread that may block.
pub fn quickly<T>(work: impl FnOnce(&mut Budget) -> T) -> Option<T> {
    let mut budget = Budget::of(QUICK);
    let done = work(&mut budget);
    (budget.left > 0).then_some(done)
}
