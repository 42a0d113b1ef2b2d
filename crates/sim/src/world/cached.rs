//! What a world tells policy of a file that it opens: what a tier has of it, and where its chunks
//! lie. And the device that a request names.

use foreread_policy::{Event, Extent, FileId, RequestId, Source};

use super::World;
use super::tier::Tier;
use crate::outcome::violation::Violation;
use crate::policy::Reading;
use crate::scenario::chunk::Chunk;
use crate::storage::Storage;

impl World<'_> {
    /// Adds a tier.
    pub(crate) fn with_tier(self, tier: Tier) -> Self {
        Self { tier: Some(tier), ..self }
    }

    /// With files that say where their chunks lie.
    pub(crate) fn with_chunks(self, chunks: Vec<Chunk>) -> Self {
        Self { chunks, ..self }
    }

    /// Policy is told what a file that is opened says of its chunks.
    pub(super) fn tell_chunks(&mut self, file: FileId) -> Result<(), Violation> {
        for Chunk { extent, group, column } in self.chunks.clone() {
            self.tell(Reading::default(), Event::Chunk { file, extent, group, column })?;
        }
        Ok(())
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
        for extent in tier.ranges(file, index) {
            self.tell(Reading::default(), Event::Cached { file, extent })?;
        }
        Ok(())
    }

    /// The tier is offered a folio.
    pub(super) fn take_offer(&mut self, file: FileId, folio: Extent) {
        if self.tier.as_mut().is_some_and(|tier| tier.offer(file, folio)) {
            self.answered.push(Event::Cached { file, extent: folio });
        }
    }

    /// Asks the tier for what `request` wants of it. If that is not there any more, the storage is
    /// asked for all of it.
    pub(super) fn ask_tier(&mut self, request: RequestId) {
        let Some(tier) = &mut self.tier else { return };
        let Some(this) = self.requests.get_mut(&request).filter(|this| this.source == Source::Tier) else { return };
        let (file, extent) = (this.file, this.extent);
        if tier.read(file, extent) {
            self.tally.asked_tier(self.now_ns, extent.pages());
        } else {
            this.source = Source::Storage;
            self.tally.submitted(self.now_ns, extent.pages());
            self.answered.push(Event::Uncached { file, extent });
        }
    }
}
