//! What is resident or in flight of each file: passive state, changed by the holder of the shard.
//!
//! ```text
//!   Files ──> Opened ──> PageTable ──> Folio ──> Request   its demand, its grant, its course
//!    by identity  one version  by block     │ Frames      its bytes, once they have come
//!                                           └ Waits       reads to answer then
//!
//!   a read:  look up ── all resident ──> Pages, which pin the folios until dropped
//!               └ otherwise Waiting: counts the folios that have no outcome yet
//! ```
//!
//! Nothing here knows policy's actions, the shard or how a request is executed. A folio tells the
//! reads that wait for it through [`folio::Waits`], a waiting read tells its reader through
//! [`waiting::Reader`].

pub(crate) mod course;
pub(crate) mod files;
pub(crate) mod folio;
pub(crate) mod opened;
pub(crate) mod pinned;
pub(crate) mod request;
pub(crate) mod table;
pub(crate) mod uses;
pub(crate) mod waiting;
