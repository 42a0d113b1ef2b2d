//! Next files: the small files that a walk comes to next, in the order of the listings.
//!
//! ```text
//!   frames   a/b/ 8    its files from the place 8 on
//!            a/   2    the rest of a/, each directory with its subtree, if that is listed
//!            .    1    the rest of .
//! ```
//!
//! A walk by name stops at a directory that is not known: its files come before all others. One
//! that reads directories passes over it.
//!
//! *Invariant:* no more entries are examined than the caller says.
//!
//! This file does not decide how many files are fetched (`path/contents`). Source:
//! docs/decisions/0029 and 0063.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::directories::directory::{Dir, Entry};
use crate::directories::event::Child;
use crate::directories::open_order::FileRef;
use crate::directories::walk::{Frame, Order, Walk};
use crate::units::DirId;

/// Calls `visit` with the small files that `walk` comes to next, in order, until it returns
/// `false`, and whether the walk has opened files in their directory. At most `steps` entries are
/// examined.
pub(crate) fn next_files(
    dirs: &BTreeMap<DirId, Dir>,
    is_fresh: impl Fn(&Dir) -> bool,
    walk: &Walk,
    mut steps: usize,
    mut visit: impl FnMut(FileRef, Entry, bool) -> bool,
) {
    let mut below: Vec<(DirId, u32, bool)> = Vec::new();
    for (at, Frame { dir, next }) in walk.frames().enumerate() {
        if at == 0 && walk.backward {
            let Some(known) = dirs.get(&dir) else { continue };
            let rest = (known.gone..next.min(known.end())).rev().take(steps);
            for (entry, &state) in rest.filter_map(|entry| Some((entry, known.get(entry)?))) {
                if state.is_small_file() && !visit((dir, entry), state, true) {
                    return;
                }
            }
            continue;
        }
        below.push((dir, next, at == 0));
        while let Some((dir, entry, is_entered)) = below.pop() {
            let Some(&state) = dirs.get(&dir).and_then(|dir| dir.get(entry)) else {
                continue;
            };
            below.push((dir, entry + 1, is_entered));
            if steps == 0 {
                return;
            }
            steps -= 1;
            match state.child {
                Child::Directory(id) if walk.order == Order::Depth => match dirs.get(&id) {
                    Some(known) if is_fresh(known) && !(walk.by_name && known.pages.is_empty()) => {
                        below.push((id, 0, false));
                    }
                    // Its files come before all others.
                    _ if walk.by_name => return,
                    _ => {}
                },
                Child::File { .. } if state.is_small_file() => {
                    if !visit((dir, entry), state, is_entered) {
                        return;
                    }
                }
                Child::Directory(_) | Child::File { .. } => {}
            }
        }
    }
}
