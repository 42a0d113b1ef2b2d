//! A world with a tier: tells policy what the tier has, and asks the device that a request names.

use foreread_policy::{Cached, Event, Extent, FileId, RequestId, Source};

use super::World;
use super::tier::Tier;
use crate::outcome::violation::Violation;
use crate::policy::Reading;
use crate::storage::Storage;

impl World<'_> {
    /// Adds a tier.
    pub(crate) fn with_tier(self, tier: Tier) -> Self {
        Self { tier: Some(tier), ..self }
    }

    /// The device that `source` names.
    pub(super) fn device(&mut self, source: Source) -> &mut Storage {
        match (source, &mut self.tier) {
            (Source::Tier, Some(tier)) => &mut tier.storage,
            _ => &mut self.storage,
        }
    }

    /// Cancels attempts at `source`.
    pub(super) fn give_up(&mut self, source: Source, attempts: Vec<RequestId>) {
        let now_ns = self.now_ns;
        for attempt in attempts {
            self.device(source).cancel(now_ns, attempt);
        }
    }

    /// Policy was told that `file`, the one at place `index`, is open: it is told what the tier
    /// has of it.
    pub(super) fn tell_cached(&mut self, file: FileId, index: usize) -> Result<(), Violation> {
        let Some(tier) = &mut self.tier else { return Ok(()) };
        let is_first_version = file.0 == index as u64;
        let has = tier.has.entry(file).or_insert_with(|| {
            let mut has = Cached::default();
            let warm = tier.warm.get(index).filter(|_| is_first_version);
            warm.into_iter().flatten().for_each(|&extent| has.insert(extent));
            has
        });
        let ranges: Vec<Extent> = has.ranges().collect();
        for extent in ranges {
            self.tell(Reading::default(), Event::Cached { file, extent })?;
        }
        Ok(())
    }

    /// The tier takes a folio that it is offered.
    pub(super) fn take_offer(&mut self, file: FileId, folio: Extent) {
        if let Some(tier) = &mut self.tier {
            tier.has.entry(file).or_default().insert(folio);
            self.answered.push(Event::Cached { file, extent: folio });
        }
    }

    /// Draws whether what `request` asks the tier for is gone. If so, the storage is asked for it.
    pub(super) fn may_be_gone(&mut self, request: RequestId) {
        let Some(tier) = &mut self.tier else { return };
        let Some(this) = self.requests.get_mut(&request).filter(|this| this.source == Source::Tier) else { return };
        if tier.random.chance(tier.gone) {
            this.source = Source::Storage;
            let (file, extent) = (this.file, this.extent);
            tier.has.entry(file).or_default().remove(extent);
            self.answered.push(Event::Uncached { file, extent });
        }
    }
}
