//! Claiming: which notices this node claims, and when. A claim begins in one of three places: the sweep ([`sweep`]) finds
//! due notices of all definitions and claims them ([`slices`]); the dispatch ([`first_send`]) claims the notices that this
//! process committed; the successor loop ([`successor`]) claims the next notice of an ordering key.
//!
//! All of them ask [`admission`] for slots and then go through [`claim`], which starts the attempts (`running`).

mod admission;
pub(crate) mod claim;
pub(crate) mod first_send;
mod limited;
mod recovery;
mod slices;
mod store_clock;
pub(crate) mod successor;
pub(crate) mod sweep;

pub(crate) use admission::Admission;
