//! Companions: files that programs open in turn, and whose names tell that.
//!
//! Names that are equal up to the first dot:
//!
//! ```text
//!   images/ 7.jpg   labels/ 7.txt   images/ 2.jpg   labels/ 2.txt  images/ 9.jpg
//!             └────────── a pair      └────────── a pair: a rule     ^ opened: labels/9.txt comes
//!
//!   a rule   .jpg -> .txt, in the 2nd directory beside this one
//!   score    2 ──(a file that has a companion is opened)──> -1: at 0 it is forgotten
//!            └───(the companion is opened soon after)─────> +2, 16 at most; from 2 on: followed
//! ```
//!
//! A picture and its label, a source and what was compiled of it, the parts of a shape file: a
//! program that has opened one opens the other next. Rules say of which kinds the two are, and
//! where the second lies as seen from the first. They hold for all directories.
//!
//! Names that come back in other directories:
//!
//! ```text
//!   a/ package.json  a/ index.js   b/ package.json  b/ index.js   c/ package.json
//!       └────────────────┘ a pair      └────────────────┘ a rule      ^ opened: c/index.js comes
//! ```
//!
//! A package has a manifest and a first module, a sample its picture and what is known of it: a
//! program that opens the one in a directory opens the other there next. The first file of a pair
//! is the one with which a program came to the directory, the second one of the next few.
//!
//! A companion of a file that is opened comes at once: the score bounds what comes in vain. Those
//! of files that are only guessed themselves are bought with credit.
//!
//! *Invariants:* at most [`RULES_MAX`] and [`NAMED_MAX`] rules are kept. After a program has
//! stopped opening companions, no more than the highest score come by each rule of files that it
//! opens.
//!
//! This file does not know files, and fetches none: that is `path/companions`. Source:
//! docs/decisions/0088 and 0110.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::credit::Credit;
use crate::directories::directory::Fetched;
use crate::directories::event::Name;
use crate::directories::strays::cost_across;
use crate::units::{DirId, Nanos};

/// A file as it is paired with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) dir: DirId,
    pub(crate) kind: u8,
    pub(crate) stem: u32,
}

/// Where a companion lies, as seen from the directory of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Toward {
    Here,
    /// In the directory above.
    Above,
    /// In this one of its subdirectories.
    Below(usize),
    /// In this one of the subdirectories of the one above.
    Beside(usize),
}

impl Member {
    pub(crate) fn name(self) -> Name {
        (self.kind, self.stem)
    }
}

/// Which files are opened in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Files of two kinds whose names begin alike.
    Alike { from: u8, to: u8, toward: Toward },
    /// Files of these names, in any one directory.
    Named { from: Name, to: Name },
}

impl Rule {
    /// Whether it says something of the companions of this file.
    fn is_for(self, file: Member) -> bool {
        match self {
            Self::Alike { from, .. } => from == file.kind,
            Self::Named { from, .. } => from == file.name(),
        }
    }

    pub(crate) fn is_named(self) -> bool {
        matches!(self, Self::Named { .. })
    }
}

/// What programs opened in turn lately.
#[derive(Debug)]
pub(crate) struct Companions {
    /// The last opens, the latest first.
    last: VecDeque<(Member, Nanos)>,
    /// The files with which programs came to the last directories, when that was, and how many
    /// pairs were made of each since; the directory of the last open first.
    firsts: VecDeque<(Member, Nanos, usize)>,
    /// By which rule the file of the last open was expected.
    expected: Option<Rule>,
    /// Each with its score, the one that held last first.
    rules: Vec<(Rule, u32)>,
    /// What companions of files that are not opened yet may be fetched with, and companions that
    /// are not small.
    credit: Credit,
    credit_long: Credit,
}

impl Default for Companions {
    fn default() -> Self {
        Self {
            last: VecDeque::new(),
            firsts: VecDeque::new(),
            expected: None,
            rules: Vec::new(),
            credit: Credit::growing(CREDIT_FIRST),
            credit_long: Credit::growing(CREDIT_LONG_FIRST),
        }
    }
}

impl Companions {
    /// A file is opened. Returns those of the last ones that it may be a companion of by its stem,
    /// and the first one in its directory that it may be one of by its name; `None` if it was the
    /// last one itself.
    pub(crate) fn opened(&mut self, file: Member, now: Nanos) -> Option<(Vec<Member>, Option<Member>)> {
        if self.last.front().is_some_and(|&(last, _)| last == file) {
            return None;
        }
        let near = self.last.iter().filter(|&&(last, opened)| last.stem == file.stem && now.since(opened) < RECENT);
        let pairs: Vec<_> = near.map(|&(last, _)| last).filter(|&last| last != file).collect();
        self.last.truncate(LAST_MAX - 1);
        self.last.push_front((file, now));
        Some((pairs, self.first(file, now)))
    }

    /// The file with which a program came to the directory of this one, if it is one of the next
    /// few.
    fn first(&mut self, file: Member, now: Nanos) -> Option<Member> {
        let found = self.firsts.iter().position(|(first, ..)| first.dir == file.dir);
        let before = found.and_then(|at| self.firsts.remove(at));
        let Some((first, opened, pairs)) = before.filter(|&(_, opened, _)| now.since(opened) < RECENT) else {
            self.firsts.truncate(DIRS_MAX - 1);
            self.firsts.push_front((file, now, 0));
            return None;
        };
        let makes = first.name() != file.name() && pairs < PAIRS_MAX;
        self.firsts.push_front((first, opened, pairs + usize::from(makes)));
        makes.then_some(first)
    }

    /// A rule held once more. Returns whether it was followed.
    pub(crate) fn held(&mut self, rule: Rule) -> bool {
        let found = self.rules.iter().position(|&(other, _)| other == rule);
        let score = found.map_or(0, |at| self.rules.remove(at).1);
        self.rules.insert(0, (rule, (score + HELD).min(SCORE_MAX)));
        let mut left = if rule.is_named() { NAMED_MAX } else { RULES_MAX };
        self.rules.retain(|(other, _)| {
            let is_like = other.is_named() == rule.is_named();
            let is_kept = !is_like || left > 0;
            left -= usize::from(is_like && is_kept);
            is_kept
        });
        score >= FOLLOWED_MIN
    }

    /// By which rule the file of the last open was expected.
    pub(crate) fn expected(&self) -> Option<Rule> {
        self.expected
    }

    pub(crate) fn set_expected(&mut self, rule: Option<Rule>) {
        self.expected = rule;
    }

    /// All rules for the companions of a file.
    pub(crate) fn rules(&self, file: Member) -> impl Iterator<Item = Rule> + '_ {
        self.rules.iter().map(|&(rule, _)| rule).filter(move |rule| rule.is_for(file))
    }

    /// A file is opened that has a companion by this rule. Returns whether it is followed.
    pub(crate) fn tried(&mut self, rule: Rule) -> bool {
        if let Some((_, score)) = self.rules.iter_mut().find(|(other, _)| *other == rule) {
            *score -= 1;
        }
        self.rules.retain(|&(_, score)| score > 0);
        self.is_followed(rule)
    }

    pub(crate) fn is_followed(&self, rule: Rule) -> bool {
        self.rules.iter().any(|&(other, score)| other == rule && score >= FOLLOWED_MIN)
    }

    /// Buys a companion of so many bytes. Returns `false` if the credit does not suffice.
    pub(crate) fn buys(&mut self, bytes: u64, is_small: bool, fetched: Fetched) -> bool {
        match (fetched, is_small) {
            (Fetched::Along, true) => self.credit.spend(cost_across(bytes)),
            (Fetched::Companion, false) => self.credit_long.spend(bytes),
            (Fetched::Companion, true) => true,
            _ => false,
        }
    }

    /// A companion that was bought is opened, or did not come.
    pub(crate) fn paid(&mut self, bytes: u64, is_small: bool, fetched: Fetched, is_opened: bool) {
        let (credit, cost) = match (fetched, is_small) {
            (Fetched::Along, _) => (&mut self.credit, cost_across(bytes)),
            (Fetched::Companion, false) => (&mut self.credit_long, bytes),
            _ => return,
        };
        if is_opened { credit.hit(cost) } else { credit.refused(cost) }
    }
}

/// How long after a file its companion is opened at most, a second. Lower: slow programs wait for
/// companions. Higher: files that were opened by chance count as pairs. Source: as for siblings,
/// docs/decisions/0057.
const RECENT: Nanos = Nanos::from_millis(1_000);

/// Opens after which a companion is one of a pair. Lower: readers side by side make no pairs.
/// Higher: files that were opened by chance count as pairs, and each open takes longer. Source: a
/// guess, not measured; twice the workers of a usual loader.
const LAST_MAX: usize = 16;

/// Rules of stems that are kept. Lower: programs that open several kinds of pairs wait for
/// companions. Higher: each open takes longer. Source: a guess, not measured; an import has two.
const RULES_MAX: usize = 8;

/// Directories that a program opens files of in turn, at most. Lower: readers side by side make no
/// pairs of names. Higher: one that comes back to a directory does not begin anew there. Source:
/// as for siblings, docs/decisions/0086.
const DIRS_MAX: usize = 4;

/// Opens in a directory that make pairs with the first one. Lower: the later ones are waited for
/// in each directory. Higher: rules are forgotten for pairs that do not come back. Source:
/// docs/decisions/0110.
const PAIRS_MAX: usize = 4;

/// Rules of whole names that are kept. Lower: those of a program are forgotten while it opens
/// other files. Higher: the first open in a directory takes longer. Source: docs/decisions/0110.
const NAMED_MAX: usize = 16;

/// What a pair adds to the score of its rule, and what that begins with. Lower: a program that
/// opens some files without companions waits for all. Higher: more comes in vain where every third
/// file has its companion opened. Source: docs/decisions/0088; followed where more than half of
/// the companions are opened.
const HELD: u32 = 2;

/// The score from which a rule is followed: two pairs in turn. Lower: two files that were opened
/// by chance have companions fetched. Higher: more are waited for at first. Source:
/// docs/decisions/0088.
const FOLLOWED_MIN: u32 = 2;

/// The score at most. Lower: readers side by side, which open several files before the first
/// companion, wait. Higher: more comes in vain once a program opens no companions any more.
/// Source: docs/decisions/0088.
const SCORE_MAX: u32 = 16;

/// Credit of a mount at its start for companions of files that are only guessed, in bytes. Lower:
/// the first directories cost more round trips. Higher: more is fetched in vain for programs that
/// open few of those files. Source: docs/decisions/0088; as much as for siblings.
const CREDIT_FIRST: u64 = 2 << 20;

/// Credit of a mount at its start for companions that are not small, in bytes. Lower: pictures of
/// labels are waited for. Higher: more is fetched in vain. Source: docs/decisions/0088; as much as
/// for siblings.
const CREDIT_LONG_FIRST: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule::Alike { from: 1, to: 2, toward: Toward::Here };

    fn file(kind: u8, stem: u32) -> Member {
        Member { dir: DirId(0), kind, stem }
    }

    /// Opens a file at a time. Returns whether the rule is followed then.
    fn open(companions: &mut Companions, file: Member, at: u64) -> bool {
        let (pairs, _) = companions.opened(file, Nanos::from_millis(at)).unwrap_or_default();
        for pair in pairs {
            companions.held(Rule::Alike { from: pair.kind, to: file.kind, toward: Toward::Here });
        }
        RULE.is_for(file) && companions.tried(RULE)
    }

    #[test]
    fn two_pairs_in_turn_make_a_rule_until_no_companion_is_opened() {
        let mut companions = Companions::default();
        let followed: Vec<_> = (1..5)
            .map(|stem| open(&mut companions, file(1, stem), 0) | open(&mut companions, file(2, stem), 0))
            .collect();
        assert_eq!(followed, [false, false, true, true]);
        (5..99).for_each(|stem| _ = open(&mut companions, file(1, stem), 0) | open(&mut companions, file(2, stem), 0));
        let vain = (100..200).filter(|&stem| open(&mut companions, file(1, stem), 0)).count();
        assert!(vain <= SCORE_MAX as usize, "{vain} followed in vain");
    }

    #[test]
    fn the_first_file_of_a_directory_makes_pairs_with_those_that_are_opened_after_it() {
        let mut companions = Companions::default();
        let mut first = |dir: u64, stem: u32| {
            let file = Member { dir: DirId(dir), kind: 0, stem };
            let (_, first) = companions.opened(file, Nanos::from_millis(0)).expect("another one than before");
            first.map(|first| first.stem)
        };
        assert_eq!([(1, 1), (1, 2), (1, 3)].map(|(dir, stem)| first(dir, stem)), [None, Some(1), Some(1)]);
        assert_eq!([(2, 7), (1, 4), (2, 8)].map(|(dir, stem)| first(dir, stem)), [None, Some(1), Some(7)]);
        assert_eq!([(1, 5), (1, 6)].map(|(dir, stem)| first(dir, stem)), [Some(1), None], "four are enough");
    }

    #[test]
    fn as_many_rules_are_kept_of_each_form_as_it_may_have() {
        let mut companions = Companions::default();
        companions.held(RULE);
        for stem in 0..99 {
            companions.held(Rule::Named { from: (1, 0), to: (1, stem) });
        }
        assert_eq!(companions.rules(file(1, 0)).count(), NAMED_MAX + 1);
        for to in 0..99 {
            companions.held(Rule::Alike { from: 1, to, toward: Toward::Here });
        }
        assert_eq!(companions.rules(file(1, 0)).count(), NAMED_MAX + RULES_MAX);
    }

    #[test]
    fn what_was_opened_long_before_makes_no_pair() {
        let mut companions = Companions::default();
        for stem in 1..9 {
            assert!(!open(&mut companions, file(1, stem), u64::from(stem) * 3_000));
            assert!(!open(&mut companions, file(2, stem), u64::from(stem) * 3_000 + 1_500));
        }
    }
}
