//! How long finding credentials may take.

use std::time::Duration;

/// All sources together. The mount command has to fail within 10 s. Lower: a slow token service is
/// given up. Higher: the command reports missing credentials too late.
pub(super) const CREDENTIALS: Duration = Duration::from_secs(8);

/// One answer of a metadata service on the local link: it takes milliseconds, or there is no
/// service. Lower: a loaded service is taken for none. Higher: other sources get less of
/// [`CREDENTIALS`].
pub(super) const METADATA: Duration = Duration::from_secs(1);
