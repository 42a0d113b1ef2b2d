//! Names that a kernel remembers: how much memory they may take, and which of them the kernel is
//! asked to forget.
//!
//! ```text
//!   added ──> Files, Leaves ──(next: too much memory)──> Asked ──(removed)──> gone
//!              │ ^     ^                                   │ 1 to 2 s, and it is still there
//!              v │     └──(looked up, or a trial)── Kept <─┘
//!             Held: open, or with known children
//! ```
//!
//! `Files` and `Leaves` (directories without known children) are in the order of their last
//! look-ups. [`Names::next`] takes the first of `Files`, or of `Leaves` where these take more:
//! files are preferred, since a program may stand in a directory. It begins above the capacity and
//! goes on down to seven eighths of it, so names are asked for in batches.
//!
//! Only the kernel knows what it uses. A name that it keeps is asked for again when it has been
//! looked up, or at a trial: after one second, then two, four, up to 64. What was asked for counts
//! as gone for one to two seconds, and counts again from then on: other names go in its place.
//!
//! *Invariants:* a name that is open or has known children is never asked for. No name is asked
//! for twice between two look-ups or trials, so a kernel that keeps all of them is not asked
//! without end.
//!
//! The rule knows no names, no kernel and no numbers by which a kernel knows names. A driver adds
//! what is looked up, removes what the kernel forgets, and asks for what [`Names::next`] says. Its
//! `now` never goes back, which a debug build asserts. What it keeps for a name lies beside the
//! name.
//!
//! ```text
//!   NameId ── generation, slot ──> slots   in chunks, which go when all of a chunk are free
//!                                    │ place
//!                                    v
//!                                  all, kept   close together: the last one moves where one goes
//! ```
//!
//! An id does not change while the name is known, and so keeps its slot; what a name takes lies in
//! lists that shrink as names go. Source: docs/decisions/0047, 0068 and 0119.

use alloc::vec::Vec;

use crate::names::slots::Slots;

mod slots;

use crate::units::Nanos;

/// A name. No two names have the same id, one after the other included, but for every 2^32nd in
/// the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub u64);

impl NameId {
    /// The name above all others.
    pub const ROOT: Self = Self(1);

    fn new(slot: u32, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | (u64::from(slot) + 1))
    }

    /// A small number that no other known name has, and that stays the same as long as the name is
    /// known.
    pub fn slot(self) -> u32 {
        (self.0 as u32).wrapping_sub(1)
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// What a driver is to do about memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Ask the kernel to forget this name, then ask for the next.
    Forget(NameId),
    /// Nothing before this time, unless names are added, closed or removed.
    At(Nanos),
    /// Nothing, until names are added.
    Idle,
}

/// In which queue a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Held,
    Files,
    Leaves,
    /// Asked for, by the parity of the period.
    Asked0,
    Asked1,
    Kept,
}

const QUEUES: [Place; 6] = [Place::Held, Place::Files, Place::Leaves, Place::Asked0, Place::Asked1, Place::Kept];

#[derive(Debug)]
struct Name {
    previous: u32,
    next: u32,
    /// The slot of its parent.
    parent: u32,
    slot: u32,
    /// Known children and open handles; one more of the root.
    holds: u32,
    bytes: u32,
    place: Place,
    is_directory: bool,
}

/// Names in an order, and what they take.
#[derive(Debug, Clone, Copy)]
struct Queue {
    first: u32,
    last: u32,
    bytes: u64,
}

/// The names of one mount, and what a driver keeps for each.
#[derive(Debug)]
pub struct Names<T> {
    slots: Slots,
    /// By place, in no order.
    all: Vec<Name>,
    /// At the same places, what the driver keeps; nothing of a name that the kernel has forgotten
    /// and that something holds.
    kept: Vec<Option<T>>,
    queues: [Queue; QUEUES.len()],
    /// Bytes of all names and handles.
    bytes: u64,
    capacity_bytes: u64,
    /// Names are asked for until they take seven eighths of the capacity.
    shrinks: bool,
    /// The queue of what is asked for in this period, and when the period ends.
    asked: Place,
    period_ends: Nanos,
    trial_at: Nanos,
    pause: Nanos,
    now: Nanos,
}

impl<T> Names<T> {
    /// With the root alone, a directory, for which the driver keeps `kept`, in a budget of so many
    /// bytes for everything. What is kept takes `bytes`.
    pub fn new(budget_bytes: u64, bytes: u64, kept: T) -> Self {
        let mut names = Self {
            slots: Slots::default(),
            all: Vec::new(),
            kept: Vec::new(),
            queues: [Queue { first: NONE, last: NONE, bytes: 0 }; QUEUES.len()],
            bytes: 0,
            capacity_bytes: 0,
            shrinks: false,
            asked: Place::Asked0,
            period_ends: Nanos(0),
            trial_at: Nanos(0),
            pause: TRIAL_MIN,
            now: Nanos(0),
        };
        names.set_budget(budget_bytes);
        names.add(None, true, bytes, kept);
        names
    }

    /// The budget for everything is so many bytes from now on.
    pub fn set_budget(&mut self, budget_bytes: u64) {
        self.capacity_bytes = budget_bytes / SHARE;
    }

    /// A name has been looked up that was not known, in `parent`. The driver keeps `kept` for it,
    /// which takes `bytes`.
    pub fn add(&mut self, parent: Option<NameId>, is_directory: bool, bytes: u64, kept: T) -> NameId {
        let parent = parent.filter(|parent| self.find(*parent).is_some()).map_or(NONE, NameId::slot);
        let bytes = (bytes + NAME_BYTES).min(u64::from(u32::MAX)) as u32;
        if self.all.len() == self.all.capacity() {
            let more = (self.all.len() / 8).max(PLACES_MIN);
            self.all.reserve_exact(more);
            self.kept.reserve_exact(more);
        }
        let at = self.all.len() as u32;
        let (slot, generation) = self.slots.take(at);
        let holds = u32::from(parent == NONE);
        self.all.push(Name {
            previous: NONE,
            next: NONE,
            parent,
            slot,
            holds,
            bytes,
            place: Place::Held,
            is_directory,
        });
        self.kept.push(Some(kept));
        self.bytes += u64::from(bytes);
        if parent != NONE {
            self.hold(self.place(parent));
        }
        self.enqueue(at, self.queue_of(at));
        NameId::new(slot, generation)
    }

    /// What the driver keeps for a name, if the kernel has not forgotten it.
    pub fn get(&self, name: NameId) -> Option<&T> {
        self.kept[self.find(name)? as usize].as_ref()
    }

    /// The same, to be changed. What it takes stays the same.
    pub fn get_mut(&mut self, name: NameId) -> Option<&mut T> {
        let at = self.find(name)?;
        self.kept[at as usize].as_mut()
    }

    /// The name in a slot, and what the driver keeps for it, if the kernel has not forgotten it.
    pub fn in_slot(&self, slot: u32) -> Option<(NameId, &T)> {
        let (at, generation) = self.slots.get(slot).filter(|(at, _)| self.has(*at, slot))?;
        Some((NameId::new(slot, generation), self.kept[at as usize].as_ref()?))
    }

    /// The directory that a name is in.
    pub fn parent(&self, name: NameId) -> Option<NameId> {
        let parent = self.all[self.find(name)? as usize].parent;
        (parent != NONE).then(|| self.id(parent))
    }

    /// A name that is known has been looked up again.
    pub fn looked_up(&mut self, name: NameId) {
        if let Some(at) = self.find(name) {
            self.requeue(at);
        }
    }

    /// A name has been opened. The handle takes `bytes`.
    pub fn opened(&mut self, name: NameId, bytes: u64) {
        if let Some(at) = self.find(name) {
            self.bytes += bytes;
            self.hold(at);
        }
    }

    /// A handle that took `bytes` has been closed.
    pub fn closed(&mut self, name: NameId, bytes: u64) {
        if let Some(at) = self.find(name) {
            self.bytes -= bytes;
            self.unhold(at);
        }
    }

    /// The kernel has forgotten a name. Returns what the driver kept for it.
    pub fn remove(&mut self, name: NameId) -> Option<T> {
        let at = self.find(name)?;
        let kept = self.kept[at as usize].take()?;
        self.dequeue(at);
        self.free_if_unheld(at);
        Some(kept)
    }

    /// Names that are known, those included that are forgotten and held.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Never: the root is there.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What all names and handles take, in bytes.
    pub fn charged_bytes(&self) -> u64 {
        self.bytes
    }

    /// What they may take, in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Whether [`Names::next`] has something to say.
    pub fn is_over(&self) -> bool {
        self.bytes - self.awaited_bytes() > self.capacity_bytes
    }

    /// The name to be forgotten next, if any. `now` is not before that of the last call.
    pub fn next(&mut self, now: Nanos) -> Next {
        debug_assert!(now >= self.now, "now never goes back: {now:?} after {:?}", self.now);
        self.now = now;
        self.pass(now);
        let least = if self.shrinks { self.capacity_bytes - self.capacity_bytes / SLACK } else { self.capacity_bytes };
        self.shrinks = self.bytes - self.awaited_bytes() > least;
        if self.shrinks {
            if self.queue(Place::Kept).first != NONE && now >= self.trial_at {
                self.trial_at = Nanos(now.0 + self.pause.0);
                self.pause = Nanos(self.pause.0 * 2).min(TRIAL_MAX);
                while self.queue(Place::Kept).first != NONE {
                    self.requeue(self.queue(Place::Kept).first);
                }
            }
            let (files, leaves) = (self.queue(Place::Files), self.queue(Place::Leaves));
            let first = if leaves.bytes > files.bytes { leaves.first } else { files.first };
            if first != NONE {
                self.dequeue(first);
                self.enqueue(first, self.asked);
                return Next::Forget(self.id(self.all[first as usize].slot));
            }
        }
        if self.awaited_bytes() + self.queue(Place::Kept).bytes == 0 {
            self.pause = TRIAL_MIN;
        }
        if self.bytes <= least {
            return Next::Idle;
        }
        let period_ends = (self.awaited_bytes() > 0).then_some(self.period_ends);
        let trial_at = (self.queue(Place::Kept).first != NONE).then_some(self.trial_at);
        period_ends.into_iter().chain(trial_at).min().map_or(Next::Idle, Next::At)
    }

    /// What was asked for in the period before the last is kept.
    fn pass(&mut self, now: Nanos) {
        let periods = if now < self.period_ends { 0 } else { 1 + (now.0 - self.period_ends.0) / SETTLE.0 };
        for _ in 0..periods.min(2) {
            self.asked = if self.asked == Place::Asked0 { Place::Asked1 } else { Place::Asked0 };
            while self.queue(self.asked).first != NONE {
                if self.queue(Place::Kept).first == NONE {
                    self.trial_at = Nanos(now.0 + self.pause.0);
                }
                let at = self.queue(self.asked).first;
                self.dequeue(at);
                self.enqueue(at, Place::Kept);
            }
        }
        if periods > 0 {
            self.period_ends = Nanos(now.0 + SETTLE.0);
        }
    }

    fn awaited_bytes(&self) -> u64 {
        self.queue(Place::Asked0).bytes + self.queue(Place::Asked1).bytes
    }

    /// The place of a name, forgotten but held included.
    fn find(&self, name: NameId) -> Option<u32> {
        let slot = name.slot();
        let (at, generation) = self.slots.get(slot)?;
        (generation == name.generation() && self.has(at, slot)).then_some(at)
    }

    /// Whether the name in this slot is at this place: not so if the slot is free.
    fn has(&self, at: u32, slot: u32) -> bool {
        self.all.get(at as usize).is_some_and(|name| name.slot == slot)
    }

    /// Where the name in a slot that is in use lies.
    fn place(&self, slot: u32) -> u32 {
        self.slots.get(slot).map_or(0, |(at, _)| at)
    }

    /// The name in a slot that is in use.
    fn id(&self, slot: u32) -> NameId {
        NameId::new(slot, self.slots.get(slot).map_or(0, |(_, generation)| generation))
    }

    fn is_gone(&self, at: u32) -> bool {
        self.kept[at as usize].is_none()
    }

    fn hold(&mut self, at: u32) {
        self.all[at as usize].holds += 1;
        self.requeue(at);
    }

    fn unhold(&mut self, at: u32) {
        self.all[at as usize].holds -= 1;
        self.requeue(at);
        self.free_if_unheld(at);
    }

    fn free_if_unheld(&mut self, at: u32) {
        let mut at = at;
        // A parent may be held by nothing but this child.
        while self.is_gone(at) && self.all[at as usize].holds == 0 {
            let parent = self.take_out(at);
            if parent == NONE {
                break;
            }
            at = self.place(parent);
            self.all[at as usize].holds -= 1;
            self.requeue(at);
        }
        let most = self.all.len() + self.all.len() / 4 + PLACES_MIN;
        if self.all.capacity() > most {
            let few = self.all.len() + self.all.len() / 8;
            self.all.shrink_to(few);
            self.kept.shrink_to(few);
        }
    }

    /// Takes out a name that is in no queue. The last one has its place from now on. Returns the
    /// slot of its parent.
    fn take_out(&mut self, at: u32) -> u32 {
        let Name { slot, parent, bytes, .. } = self.all.swap_remove(at as usize);
        self.kept.swap_remove(at as usize);
        self.bytes -= u64::from(bytes);
        self.slots.free(slot);
        let last = self.all.len() as u32;
        if at == last {
            return parent;
        }
        let &Name { previous, next, slot, place, .. } = &self.all[at as usize];
        self.slots.set(slot, at);
        if self.is_gone(at) {
            return parent;
        }
        match previous {
            NONE => self.queues[place as usize].first = at,
            _ => self.all[previous as usize].next = at,
        }
        match next {
            NONE => self.queues[place as usize].last = at,
            _ => self.all[next as usize].previous = at,
        }
        parent
    }

    fn queue_of(&self, at: u32) -> Place {
        match &self.all[at as usize] {
            name if name.holds > 0 => Place::Held,
            name if name.is_directory => Place::Leaves,
            _ => Place::Files,
        }
    }

    /// Puts a name that has been used at the end of its queue.
    fn requeue(&mut self, at: u32) {
        if !self.is_gone(at) {
            self.dequeue(at);
            self.enqueue(at, self.queue_of(at));
        }
    }

    fn queue(&self, place: Place) -> Queue {
        self.queues[place as usize]
    }

    fn enqueue(&mut self, at: u32, place: Place) {
        let queue = &mut self.queues[place as usize];
        let last = core::mem::replace(&mut queue.last, at);
        if last == NONE {
            queue.first = at;
        } else {
            self.all[last as usize].next = at;
        }
        let name = &mut self.all[at as usize];
        (name.previous, name.next, name.place) = (last, NONE, place);
        queue.bytes += u64::from(name.bytes);
    }

    fn dequeue(&mut self, at: u32) {
        let &Name { previous, next, place, bytes, .. } = &self.all[at as usize];
        let queue = &mut self.queues[place as usize];
        queue.bytes -= u64::from(bytes);
        match previous {
            NONE => queue.first = next,
            _ => self.all[previous as usize].next = next,
        }
        let queue = &mut self.queues[place as usize];
        match next {
            NONE => queue.last = previous,
            _ => self.all[next as usize].previous = previous,
        }
    }
}

/// No place and no slot: the largest number. Lower: fewer names are possible. Higher: there
/// is none. Source: the type.
const NONE: u32 = u32::MAX;

/// The part of the budget that names may take, an eighth: 41,000 names of 60 bytes in 64 MiB.
/// Lower: the kernel is asked to forget names that programs use again, and each look-up asks the
/// listing or the storage. Higher: less memory for pages. Source: docs/decisions/0047.
const SHARE: u64 = 8;

/// The part of the capacity that is emptied at a time, an eighth. Lower: more names go at a time,
/// some before they are used again. Higher: smaller batches, more calls of the kernel. Source:
/// docs/decisions/0047.
const SLACK: u64 = 8;

/// How long, at least, a name that was asked for counts as gone: 1 s. The kernel tells at once
/// what it forgets, but the threads that hear of it may be busy. Lower: names go in place of
/// others that are going. Higher: names that the kernel keeps are made up for later. Source:
/// docs/decisions/0047.
const SETTLE: Nanos = Nanos::from_millis(1000);

/// Time before a name that the kernel has kept is asked for again, 1 s; it doubles from then on.
/// Lower: names in use are asked for more often. Higher: names that are no longer in use stay
/// longer. Source: a guess, not measured.
const TRIAL_MIN: Nanos = Nanos::from_millis(1000);

/// The most time between two trials, 64 s. Lower: names in use are asked for more often. Higher:
/// names that are no longer in use stay longer. Source: a guess, not measured.
const TRIAL_MAX: Nanos = Nanos::from_millis(64_000);

/// Memory that this file needs for a name, in bytes, with the room that a growing list leaves, but
/// not for what the driver keeps. Lower: the budget is exceeded. Higher: fewer names than there is
/// memory for. Source: the size of the types, and an eighth.
const NAME_BYTES: u64 = (size_of::<Name>() as u64 + slots::SLOT_BYTES) * 9 / 8;

/// Places that the lists grow by, at least, and may have free before they shrink, beside a
/// fraction of what they hold. Lower: short lists are moved more often. Higher: more memory for a
/// few names. Source: a guess, not measured.
const PLACES_MIN: usize = 64;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const BUDGET: u64 = 16 << 20;
    /// What each name of these tests takes altogether.
    const EACH: u64 = 256;
    const MANY: usize = (BUDGET / SHARE / EACH) as usize * 4;

    fn names() -> Names<()> {
        Names::new(BUDGET, 0, ())
    }

    fn add(names: &mut Names<()>, parent: NameId, is_directory: bool) -> NameId {
        names.add(Some(parent), is_directory, EACH - NAME_BYTES, ())
    }

    fn files(names: &mut Names<()>, parent: NameId, count: usize) -> Vec<NameId> {
        (0..count).map(|_| add(names, parent, false)).collect()
    }

    /// What is asked for at this time.
    fn asked<T>(names: &mut Names<T>, now: Nanos) -> Vec<NameId> {
        core::iter::from_fn(|| match names.next(now) {
            Next::Forget(name) => Some(name),
            Next::At(_) | Next::Idle => None,
        })
        .collect()
    }

    fn seconds(seconds: u64) -> Nanos {
        Nanos::from_millis(seconds * 1000)
    }

    #[test]
    fn nothing_is_asked_for_within_the_share() {
        let mut names = names();
        files(&mut names, NameId::ROOT, MANY / 4 - 1);
        assert!(!names.is_over());
        assert_eq!(names.next(Nanos(0)), Next::Idle);
    }

    #[test]
    fn the_names_that_were_looked_up_least_recently_go_down_to_seven_eighths() {
        let mut names = names();
        let all = files(&mut names, NameId::ROOT, MANY);
        names.looked_up(all[0]);
        assert!(names.is_over());
        let asked = asked(&mut names, Nanos(0));
        assert_eq!(asked, all[1..=asked.len()], "in the order of their last look-ups");
        for name in asked {
            names.remove(name);
        }
        let (bytes, capacity) = (names.charged_bytes(), names.capacity_bytes());
        assert!(bytes <= capacity / 8 * 7 && bytes + EACH > capacity / 8 * 7, "{bytes} of {capacity}");
        assert_eq!(names.next(Nanos(0)), Next::Idle);
        assert!(names.get(all[0]).is_some() && names.get(all[1]).is_none());
    }

    #[test]
    fn what_is_open_or_has_children_stays() {
        let mut names = names();
        let above = add(&mut names, NameId::ROOT, true);
        let below = add(&mut names, above, true);
        let all = files(&mut names, below, MANY);
        for name in &all[..MANY / 2] {
            names.opened(*name, 0);
        }
        assert_eq!(asked(&mut names, Nanos(0)), all[MANY / 2..]);
        for name in &all[..MANY / 2] {
            names.closed(*name, 0);
        }
        for name in &all {
            names.remove(*name);
        }
        files(&mut names, NameId::ROOT, MANY);
        names.remove(below);
        assert_eq!(names.parent(above), Some(NameId::ROOT));
        let rest = asked(&mut names, Nanos(0));
        assert!(!rest.contains(&NameId::ROOT) && !rest.contains(&above), "files first: there are many");
    }

    #[test]
    fn directories_go_where_they_take_more_than_files() {
        let mut names = names();
        let leaves: Vec<NameId> = (0..MANY).map(|_| add(&mut names, NameId::ROOT, true)).collect();
        let few = files(&mut names, NameId::ROOT, 10);
        let asked = asked(&mut names, Nanos(0));
        assert_eq!(asked, leaves[..asked.len()]);
        assert!(asked.len() < leaves.len() && few.iter().all(|name| names.get(*name).is_some()));
    }

    #[test]
    fn a_kernel_that_keeps_names_is_not_asked_without_end() {
        let mut names = names();
        let all = files(&mut names, NameId::ROOT, MANY);
        let first = asked(&mut names, Nanos(0)).len();
        assert!((MANY / 4 * 3..MANY).contains(&first));
        assert_eq!(names.next(Nanos(0)), Next::At(SETTLE), "what was asked for may be going");
        // Nothing goes: the others are asked for in place of these, and then nothing.
        assert_eq!(first + asked(&mut names, seconds(2)).len(), MANY);
        assert_eq!(asked(&mut names, seconds(2)), []);
        let mut asked_for = 0;
        for second in 3..1000 {
            asked_for += asked(&mut names, seconds(second)).len();
            assert!(matches!(names.next(seconds(second)), Next::At(at) if at > seconds(second)), "a time to wait for");
        }
        assert!(asked_for < MANY * 25, "{} a name in 1,000 s", asked_for / MANY);
        // What has been looked up again is asked for again.
        asked(&mut names, seconds(1000));
        names.looked_up(all[7]);
        assert_eq!(asked(&mut names, seconds(1000)), [all[7]]);
    }

    #[test]
    fn an_id_is_not_used_again_and_a_child_outlives_its_parent() {
        let mut names = names();
        let above = add(&mut names, NameId::ROOT, true);
        let file = add(&mut names, above, false);
        names.opened(file, 100);
        names.remove(above);
        assert_eq!(names.get(above), None);
        names.remove(file);
        let bytes = names.charged_bytes();
        names.closed(file, 100);
        assert_eq!(bytes - names.charged_bytes(), 2 * EACH + 100);
        let others = files(&mut names, NameId::ROOT, 2);
        assert!(!others.contains(&above) && !others.contains(&file), "{others:?}");
        assert_eq!(others[0].slot().max(others[1].slot()), 2, "but their slots are");
        names.closed(file, 100);
        names.remove(file);
        assert_eq!(names.charged_bytes(), bytes - 100);
    }

    /// What names take is given back as they go, whichever of them stay.
    #[test]
    fn lists_shrink_as_names_go_whichever_stay() {
        for stays in [|nth: usize| nth < 100, |nth: usize| nth >= 99_900, |nth: usize| nth % 1000 == 7] {
            let mut names = Names::new(BUDGET, 0, usize::MAX);
            let above = names.add(Some(NameId::ROOT), true, 0, usize::MAX);
            let all: Vec<NameId> = (0..100_000).map(|nth| names.add(Some(above), false, 0, nth)).collect();
            for (nth, name) in all.iter().enumerate().filter(|(nth, _)| !stays(*nth)) {
                assert_eq!(names.remove(*name), Some(nth));
            }
            assert_eq!(names.len(), 102);
            assert!(names.all.capacity() <= 256 && names.kept.capacity() <= 256, "{}", names.all.capacity());
            for (nth, name) in all.iter().enumerate() {
                assert_eq!(names.get(*name), stays(nth).then_some(&nth));
                assert_eq!(names.parent(*name), stays(nth).then_some(above));
            }
            let in_order: Vec<NameId> = all.iter().copied().filter(|name| names.get(*name).is_some()).collect();
            names.set_budget(0);
            assert_eq!(asked(&mut names, Nanos(0)), in_order, "the queue is as it was");
        }
    }
}
