//! All objects below a prefix, one after the other.
//!
//! ```text
//!   stack of open directories:  photos/ at place 7   ─>  photos/2024/ at place 0   ─> ...
//!     entry is an object     ─> given to the caller, the place advances
//!     entry is a directory   ─> opened, on top of the stack
//!     no entry at the place  ─> the directory leaves the stack
//! ```
//!
//! The engine recognises the walk and lists directories ahead of it. The walk itself decides
//! nothing.

use foreread_engine::{Directory, Engine, Error, Node, Object};

/// A walk over the objects below a prefix, depth first, in the storage's order. See
/// [`crate::Storage::walk`].
///
/// An object whose name no directory can have (empty, `.`, `..`, longer than
/// [`crate::NAME_BYTES_MAX`]) is left out, as it is in a mount. An empty object with others below
/// its name is taken for the mark of a directory.
#[derive(Debug)]
pub struct Walk {
    engine: Engine,
    /// The open directories from the top down, each with the place of its next entry.
    open: Vec<(Directory, u32)>,
}

impl Walk {
    pub(crate) fn new(engine: Engine, prefix: &str) -> Self {
        let top = engine.open_directory(prefix);
        Self { engine, open: vec![(top, 0)] }
    }

    /// The next object, or nothing at the end. A prefix with nothing below it has no objects and
    /// is no error.
    ///
    /// After an error the walk goes on behind the directory that could not be listed.
    pub async fn next(&mut self) -> Option<Result<Object, Error>> {
        while let Some((directory, place)) = self.open.last_mut() {
            match directory.wait(*place).await {
                Ok(true) => {}
                Ok(false) => {
                    self.open.pop();
                    continue;
                }
                Err(error) => {
                    self.open.pop();
                    return Some(Err(error));
                }
            }
            let mut found = None;
            let visited = directory.visit(*place, |place, _, node, _| {
                found = Some((place, node));
                false
            });
            if !visited {
                // Memory is so short that the entry is gone again.
                continue;
            }
            // An entry that has come is visited; a gap is passed over rather than waited for
            // again.
            let Some((at, node)) = found else {
                *place += 1;
                continue;
            };
            *place = at + 1;
            match node {
                Node::File(object) => return Some(Ok(object)),
                Node::Directory(prefix) => self.open.push((self.engine.open_directory(&prefix), 0)),
            }
        }
        None
    }
}
