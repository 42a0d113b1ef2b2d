//! Division: which part of one budget each engine of a process has, by what it does with it.
//!
//! ```text
//!   an engine at work is short of room, or one is made:
//!     1. each of the others has what it holds, twice that if it works; those that are short
//!        have equal parts of the rest
//!     2. the one that has rested longest gives back what it holds; a look later, the next
//! ```
//!
//! A store that was opened and is not read takes nothing from the others, nor does one whose
//! credentials have expired and that was opened again with new ones. An engine that needs it has
//! an equal part at least. One that another process has takes no part here, and is told an equal
//! one.
//!
//! *Invariant:* the parts above the least and what is held within the least are within the budget,
//! but for what an engine takes between two looks; the least of each engine may be more.
//!
//! This file does not know what an engine holds. Source: docs/decisions/0107.

use alloc::vec;
use alloc::vec::Vec;

use crate::units::Nanos;

/// The budget of a process, and the parts of its engines. An engine is identified by its place in
/// the order in which they were added, from 0 on.
#[derive(Debug)]
pub struct Division {
    budget_bytes: u64,
    /// What an engine is limited to at least.
    least_bytes: u64,
    members: Vec<Member>,
}

/// What an engine of this process does.
#[derive(Debug, Clone, Copy)]
pub struct EngineUse {
    /// The least budget that has room for what it holds, in bytes.
    pub held_bytes: u64,
    /// The budget that it has, which may be more than its part if other processes were told more.
    pub budget_bytes: u64,
    /// A number that changes when it works.
    pub work: u64,
}

/// What to do with an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartChange {
    /// Which one.
    pub engine: usize,
    /// First, it gives back what it holds.
    pub gives_back: bool,
    /// Its part from now on, in bytes, if that changes.
    pub bytes: Option<u64>,
}

#[derive(Debug)]
struct Member {
    work: u64,
    /// When it was last seen to have worked, or was made.
    worked: Nanos,
    /// The work that it had done when it gave back what it held.
    gave: Option<u64>,
    part_bytes: u64,
    /// Its part was not given by a division of this budget.
    is_new: bool,
}

impl Division {
    /// No engine yet. An engine is never limited to less than `least_bytes`.
    pub fn new(budget_bytes: u64, least_bytes: u64) -> Self {
        Self { budget_bytes, least_bytes, members: Vec::new() }
    }

    /// The program sets the budget. Followed by [`Division::divide`].
    pub fn set_budget(&mut self, bytes: u64) {
        self.budget_bytes = bytes;
        self.members.iter_mut().for_each(|member| member.is_new = true);
    }

    /// What the next engine is made with, in bytes.
    pub fn part_of_next(&self) -> u64 {
        equal_part(self.budget_bytes, self.least_bytes, self.members.len() + 1)
    }

    /// An equal part of all engines, in bytes.
    pub fn equal_part(&self) -> u64 {
        equal_part(self.budget_bytes, self.least_bytes, self.members.len())
    }

    /// There is one engine more. Followed by [`Division::divide`].
    pub fn add(&mut self, now: Nanos) {
        self.members.push(Member { work: 0, worked: now, gave: None, part_bytes: 0, is_new: true });
    }

    /// An engine has ended: those that were added later have lower numbers from now on. Followed
    /// by [`Division::divide`].
    pub fn remove(&mut self, engine: usize) {
        self.members.remove(engine);
    }

    /// Divides the budget by what each engine does, which is `None` for one that another process
    /// has. Returns what changes, in the order in which it is to be done: those that have less now
    /// come first, so that together they are never above the budget for long.
    pub fn divide(&mut self, now: Nanos, uses: &[Option<EngineUse>]) -> Vec<PartChange> {
        let equal = self.equal_part();
        let (mut here, mut changes) = (Vec::new(), Vec::new());
        for (engine, (member, does)) in self.members.iter_mut().zip(uses).enumerate() {
            match does {
                Some(does) => here.push((engine, member.looked_at(now, *does))),
                None => changes.push(PartChange { engine, gives_back: false, bytes: member.set(equal) }),
            }
        }
        let uses: Vec<_> = here.iter().map(|(_, used)| *used).collect();
        let parts = divide(self.budget_bytes, self.least_bytes, &uses);
        let mut order: Vec<_> = here.into_iter().zip(parts).collect();
        order.sort_by_key(|((_, used), part)| part.bytes >= used.part_bytes);
        for ((engine, _), part) in order {
            let member = &mut self.members[engine];
            if part.gives_back {
                member.gave = Some(member.work);
            }
            changes.push(PartChange { engine, gives_back: part.gives_back, bytes: member.set(part.bytes) });
        }
        changes.retain(|change| change.gives_back || change.bytes.is_some());
        changes
    }
}

impl Member {
    fn looked_at(&mut self, now: Nanos, used: EngineUse) -> Use {
        if used.work != self.work {
            (self.work, self.worked) = (used.work, now);
        }
        Use {
            rests: Some(now.since(self.worked)).filter(|rests| *rests >= RESTS_AFTER),
            held_bytes: used.held_bytes,
            room_bytes: used.budget_bytes.max(self.part_bytes),
            part_bytes: self.part_bytes,
            is_new: self.is_new,
            has_given: self.gave == Some(self.work),
        }
    }

    /// Gives it this part, unless it would grow by too little. Returns it if it is another one.
    fn set(&mut self, part_bytes: u64) -> Option<u64> {
        let changes = self.is_new || part_bytes < self.part_bytes || is_growth(self.part_bytes, part_bytes);
        if !changes {
            return None;
        }
        (self.part_bytes, self.is_new) = (part_bytes, false);
        Some(part_bytes)
    }
}

/// Whether a part that would grow does.
fn is_growth(from: u64, to: u64) -> bool {
    to.saturating_sub(from) > to / GROWS_BY
}

/// What an engine does with its part.
#[derive(Debug, Clone, Copy)]
struct Use {
    /// How long it has not worked, if it rests.
    rests: Option<Nanos>,
    held_bytes: u64,
    /// What it may hold: its part, or more that other processes were told.
    room_bytes: u64,
    part_bytes: u64,
    /// The part was not given by a division of this budget.
    is_new: bool,
    /// It has given back what it held, and has not worked since: what is left, it cannot give.
    has_given: bool,
}

impl Use {
    /// Whether it works, and may need more than it has: less than an eighth is free.
    fn is_short(&self) -> bool {
        self.rests.is_none() && self.held_bytes >= self.room_bytes - self.room_bytes / FREE_SHARE
    }

    /// What it takes of the budget before it is looked at again: all that it can get, what it
    /// holds if it rests, twice that else. What it holds beyond its part, other processes have
    /// asked for.
    fn needs_bytes(&self, works: bool) -> u64 {
        let held_bytes = self.held_bytes.next_multiple_of(STEP_BYTES).min(self.part_bytes);
        match self.rests {
            None if self.is_short() => u64::MAX,
            _ if works && self.is_new => u64::MAX,
            None => held_bytes.saturating_mul(2),
            Some(_) => held_bytes,
        }
    }

    /// What is taken of the budget already. The least of each engine counts as far as it is used.
    fn takes_bytes(&self, least_bytes: u64) -> u64 {
        if self.part_bytes > least_bytes { self.part_bytes } else { self.needs_bytes(false).min(self.part_bytes) }
    }
}

/// What an engine is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    bytes: u64,
    /// Before that, it gives back what it holds.
    gives_back: bool,
}

fn equal_part(budget_bytes: u64, least_bytes: u64, engines: usize) -> u64 {
    (budget_bytes / engines.max(1) as u64).max(least_bytes)
}

/// Divides a budget. Parts stay as they are while each engine at work has room.
fn divide(budget_bytes: u64, least_bytes: u64, uses: &[Use]) -> Vec<Part> {
    let works = at_work(uses);
    let is_new = uses.iter().zip(&works).any(|(engine, works)| *works && engine.is_new);
    let taken = uses.iter().fold(0_u64, |taken, engine| taken.saturating_add(engine.takes_bytes(least_bytes)));
    if !is_new && taken <= budget_bytes && !uses.iter().any(Use::is_short) {
        return uses.iter().map(|engine| Part { bytes: engine.part_bytes, gives_back: false }).collect();
    }
    let mut needs: Vec<u64> = uses.iter().zip(&works).map(|(engine, works)| engine.needs_bytes(*works)).collect();
    let equal = equal_part(budget_bytes, least_bytes, uses.len());
    let can_give = |nth: &usize| !works[*nth] && needs[*nth] > 0 && !uses[*nth].has_given;
    let mut resting: Vec<usize> = (0..uses.len()).filter(can_give).collect();
    resting.sort_by_key(|nth| uses[*nth].rests);
    let mut back = Vec::new();
    // Room that no engine uses comes first. Then the one that has rested longest gives back what
    // it holds where an engine is short, and as many do as are in the way of an equal part.
    let given = loop {
        let given = shares(budget_bytes, &needs);
        let wants = |nth: &usize| needs[*nth] == u64::MAX;
        let has_less = (0..uses.len()).filter(wants).any(|nth| given[nth] < equal);
        let grows =
            (0..uses.len()).filter(wants).all(|nth| uses[nth].is_new || is_growth(uses[nth].part_bytes, given[nth]));
        if !has_less && (grows || !back.is_empty()) {
            break given;
        }
        let Some(longest) = resting.pop() else { break given };
        needs[longest] = 0;
        back.push(longest);
    };
    let part = |(nth, given): (usize, u64)| Part { bytes: given.max(least_bytes), gives_back: back.contains(&nth) };
    given.into_iter().enumerate().map(part).collect()
}

/// The most that each can have so that none has more than it needs, and none that has less than it
/// needs has less than another.
fn shares(bytes: u64, needs: &[u64]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by_key(|nth| needs[*nth]);
    let (mut left, mut given) = (bytes, vec![0; needs.len()]);
    for (before, nth) in order.into_iter().enumerate() {
        let share = left / (needs.len() - before) as u64;
        given[nth] = needs[nth].min(share);
        left -= given[nth];
    }
    given
}

/// Which engines count as at work: if none is, the one that was last.
fn at_work(uses: &[Use]) -> Vec<bool> {
    let all_rest = uses.iter().all(|engine| engine.rests.is_some());
    let last = (0..uses.len()).rev().min_by_key(|nth| uses[*nth].rests);
    (0..uses.len()).map(|nth| uses[nth].rests.is_none() || all_rest && Some(nth) == last).collect()
}

/// How long an engine does nothing until others may have its part: 30 s. Lower: stores that a
/// program reads in turn lose what was read. Higher: one that is read no more holds memory so much
/// longer. Source: chosen here; steps of training between two looks at another store take seconds.
const RESTS_AFTER: Nanos = Nanos::from_millis(30_000);

/// What is held is counted in steps of so many bytes: 64 KiB. Lower: names that come and go change
/// parts more often. Higher: many engines that hold next to nothing take a part of the budget.
/// Source: docs/decisions/0107; with 1 MiB 128 of them took 256 MiB.
const STEP_BYTES: u64 = 64 << 10;

/// A part that grows by less than one in so many stays as it is: 8. Lower: room is not used.
/// Higher: engines are told to grow more often. Source: a guess, not measured.
const GROWS_BY: u64 = 8;

/// An engine is short of room when less than one in so many bytes is free: 8. Lower: engines that
/// have room take from others. Higher: one that streams is not seen to be short, as speculation
/// leaves up to an eighth of a small budget free. Source: docs/decisions/0107.
const FREE_SHARE: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: u64 = 16 << 20;
    const BUDGET: u64 = 256 << 20;

    fn works(held_mib: u64, part_mib: u64) -> Use {
        let (held_bytes, part_bytes) = (held_mib << 20, part_mib << 20);
        Use { rests: None, held_bytes, room_bytes: part_bytes, part_bytes, is_new: false, has_given: false }
    }

    fn rests(seconds: u64, held_mib: u64, part_mib: u64) -> Use {
        Use { rests: Some(Nanos::from_millis(1_000 * seconds)), ..works(held_mib, part_mib) }
    }

    fn new(engine: Use) -> Use {
        Use { is_new: true, ..engine }
    }

    /// Parts in MiB, and which give back what they hold.
    fn divided(uses: &[Use]) -> (Vec<u64>, Vec<usize>) {
        let parts = divide(BUDGET, LEAST, uses);
        let back = parts.iter().enumerate().filter(|(_, part)| part.gives_back);
        (parts.iter().map(|part| part.bytes >> 20).collect(), back.map(|(nth, _)| nth).collect())
    }

    #[test]
    fn engines_that_need_all_they_can_get_have_equal_parts() {
        assert_eq!(divided(&[new(works(0, 0))]), (vec![256], vec![]));
        assert_eq!(divided(&[works(256, 256), new(works(0, 0))]), (vec![128, 128], vec![]));
        assert_eq!(divided(&[works(16, 16); 100]), (vec![16; 100], vec![]), "each has the least");
    }

    #[test]
    fn what_an_engine_had_that_has_ended_is_for_the_others() {
        let mut division = Division::new(BUDGET, LEAST);
        (0..2).for_each(|_| division.add(Nanos(0)));
        let does = |held_mib: u64, work| Some(EngineUse { held_bytes: held_mib << 20, budget_bytes: 128 << 20, work });
        division.divide(Nanos(0), &[does(0, 1), does(0, 1)]);
        assert_eq!(division.part_of_next(), BUDGET / 3);
        division.remove(0);
        assert_eq!((division.part_of_next(), division.equal_part()), (BUDGET / 2, BUDGET));
        let changes = division.divide(Nanos(1), &[does(120, 2)]);
        assert_eq!(changes, [PartChange { engine: 0, gives_back: false, bytes: Some(BUDGET) }]);
    }

    #[test]
    fn one_that_has_room_takes_none() {
        assert_eq!(divided(&[works(100, 128), rests(60, 0, 128)]), (vec![128, 128], vec![]));
        assert_eq!(divided(&[rests(31, 100, 128), rests(60, 0, 128)]), (vec![128, 128], vec![]), "none works");
    }

    #[test]
    fn an_engine_that_uses_little_lends_its_part() {
        let mut uses = [works(0, 16); 100];
        uses[7] = works(15, 16);
        let (parts, back) = divided(&uses);
        assert_eq!((parts[7], parts[8], back), (256, 16, vec![]));
        let uses = [works(240, 240), works(20, 80), works(15, 16)];
        assert_eq!(divided(&uses), (vec![108, 40, 108], vec![]), "it has twice what it holds");
        let uses = [works(200, 230), works(8, 16), works(9, 16)];
        assert_eq!(divided(&uses), (vec![222, 16, 18], vec![]), "more is taken than there is");
        let mut uses = vec![Use { held_bytes: 37_000, ..works(0, 16) }; 1000];
        uses[7] = works(15, 16);
        assert_eq!(divided(&uses).0[7], 131, "a thousand of them take next to nothing");
    }

    #[test]
    fn what_rests_is_kept_while_there_is_room() {
        assert_eq!(divided(&[rests(31, 100, 128), works(120, 128)]), (vec![100, 156], vec![]));
        assert_eq!(divided(&[rests(31, 100, 100), works(150, 156)]), (vec![16, 256], vec![0]), "it is short");
    }

    #[test]
    fn the_one_that_has_rested_longest_gives_back_first() {
        let uses = [rests(40, 60, 60), rests(90, 50, 50), works(140, 146)];
        assert_eq!(divided(&uses), (vec![60, 16, 196], vec![1]));
        let uses = [rests(40, 60, 60), rests(90, 0, 16), works(190, 196)];
        assert_eq!(divided(&uses), (vec![16, 16, 256], vec![0]), "the other has nothing to give");
    }

    #[test]
    fn a_new_engine_and_one_that_works_again_have_an_equal_part() {
        assert_eq!(divided(&[rests(31, 256, 256), new(works(0, 0))]), (vec![128, 128], vec![]));
        assert_eq!(divided(&[works(240, 240), works(14, 16)]), (vec![128, 128], vec![]));
        assert_eq!(divided(&[works(240, 240), works(1, 16)]), (vec![254, 16], vec![]), "it needs none yet");
    }

    #[test]
    fn the_one_that_worked_last_has_the_budget_where_none_works() {
        let all = [rests(32, 0, 0), rests(31, 0, 0), rests(33, 0, 0)].map(new);
        assert_eq!(divided(&all), (vec![16, 256, 16], vec![]));
        assert_eq!(divided(&[new(rests(60, 0, 0)); 2]), (vec![16, 256], vec![]), "or was made last");
    }

    #[test]
    fn what_other_processes_have_asked_for_takes_no_more_than_the_part() {
        let asked = |engine: Use| Use { room_bytes: 8 << 30, ..engine };
        assert_eq!(divided(&[asked(rests(31, 4096, 100)), new(works(0, 0))]), (vec![100, 156], vec![]));
        assert_eq!(divided(&[asked(works(4096, 128)), works(8, 128)]), (vec![128, 128], vec![]), "it has room");
    }

    #[test]
    fn what_cannot_be_given_back_is_asked_for_once() {
        let residue = Use { has_given: true, ..rests(90, 1, 16) };
        let uses = [residue, rests(40, 100, 100), works(150, 155)];
        assert_eq!(divided(&uses), (vec![16, 16, 255], vec![1]), "the next one gives");
        assert_eq!(divided(&[residue, works(250, 255)]), (vec![16, 255], vec![]));
    }

    #[test]
    fn room_that_is_too_little_to_grow_is_none() {
        let uses = [rests(31, 100, 106), works(148, 150)];
        assert_eq!(divided(&uses), (vec![16, 256], vec![0]), "6 MiB are free, and are not given");
    }

    /// Divides again and again, as engines use what they are given, until nothing changes.
    #[test]
    fn divisions_come_to_rest() {
        let fills = [works(0, 16), works(3, 16), rests(40, 90, 90), rests(31, 70, 70), works(2, 16)];
        let mut uses = fills.to_vec();
        let mut looks = 0;
        loop {
            let parts = divide(BUDGET, LEAST, &uses);
            let before: Vec<_> = uses.iter().map(|engine| (engine.part_bytes, engine.held_bytes)).collect();
            for (nth, (engine, part)) in uses.iter_mut().zip(&parts).enumerate() {
                if part.gives_back {
                    (engine.held_bytes, engine.has_given) = (1 << 20, true);
                }
                if part.bytes < engine.part_bytes || is_growth(engine.part_bytes, part.bytes) {
                    (engine.part_bytes, engine.room_bytes) = (part.bytes, part.bytes);
                }
                // The first streams.
                engine.held_bytes = if nth == 0 { engine.part_bytes } else { engine.held_bytes.min(engine.part_bytes) };
            }
            looks += 1;
            if uses.iter().map(|engine| (engine.part_bytes, engine.held_bytes)).eq(before) {
                break;
            }
            assert!(looks < 10, "{uses:?}");
        }
        let parts: Vec<_> = uses.iter().map(|engine| engine.part_bytes >> 20).collect();
        assert!(parts[0] >= 240 && parts[1..] == [16; 4], "{parts:?}");
    }

    #[test]
    fn parts_at_work_and_what_others_hold_are_within_the_budget() {
        let mut next = 1_u64;
        let mut random = move |below: u64| {
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (next >> 33) % below
        };
        for _ in 0..2_000 {
            let mut left = 256;
            let mut uses = Vec::new();
            while left >= 16 && random(8) > 0 {
                let part = 16 + random(left - 15);
                left -= part;
                let held = random(part + 1);
                uses.push(if random(2) == 0 { rests(30 + random(100), held, part) } else { works(held, part) });
            }
            uses.extend((0..random(3)).map(|_| new(works(0, 0))));
            let parts = divide(BUDGET, LEAST, &uses);
            let takes = uses.iter().zip(&parts).map(|(engine, part)| {
                let held_bytes = if part.gives_back { 0 } else { engine.held_bytes };
                if part.bytes > LEAST { part.bytes } else { held_bytes.min(part.bytes) }
            });
            let takes: u64 = takes.sum();
            assert!(takes <= BUDGET.max(uses.len() as u64 * LEAST), "{uses:?}: {parts:?}");
            // An engine that is short has an equal part at least.
            let equal = equal_part(BUDGET, LEAST, uses.len());
            for (engine, part) in uses.iter().zip(&parts).filter(|(engine, _)| engine.is_short() || engine.is_new) {
                assert!(part.bytes >= equal, "{engine:?} has {part:?}: {uses:?}");
            }
        }
    }
}
