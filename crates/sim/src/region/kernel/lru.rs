//! Two lists of pages in the order of arrival, as a kernel has them.

/// One of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Inactive,
    Active,
}

/// The lists of all pages. A page is on one of them or on none.
#[derive(Debug)]
pub(crate) struct Lists {
    /// Each page: its neighbours, and its list.
    links: Vec<(u32, u32, Option<Of>)>,
    ends: [(u32, u32, u64); 2],
}

impl Lists {
    pub(crate) fn new(pages: u64) -> Self {
        Self { links: vec![(NONE, NONE, None); pages as usize], ends: [(NONE, NONE, 0); 2] }
    }

    /// Pages on a list.
    pub(crate) fn len(&self, of: Of) -> u64 {
        self.ends[of as usize].2
    }

    /// The oldest page of a list.
    pub(crate) fn oldest(&self, of: Of) -> Option<u64> {
        Some(self.ends[of as usize].0).filter(|&page| page != NONE).map(u64::from)
    }

    /// Makes a page the newest of a list.
    pub(crate) fn put(&mut self, page: u64, of: Of) {
        self.take(page);
        let newest = self.ends[of as usize].1;
        self.links[page as usize] = (newest, NONE, Some(of));
        match self.links.get_mut(newest as usize) {
            Some(link) => link.1 = page as u32,
            None => self.ends[of as usize].0 = page as u32,
        }
        self.ends[of as usize].1 = page as u32;
        self.ends[of as usize].2 += 1;
    }

    /// Takes a page off its list.
    pub(crate) fn take(&mut self, page: u64) {
        let (before, after, of) = self.links[page as usize];
        let Some(of) = of else { return };
        match self.links.get_mut(before as usize) {
            Some(link) => link.1 = after,
            None => self.ends[of as usize].0 = after,
        }
        match self.links.get_mut(after as usize) {
            Some(link) => link.0 = before,
            None => self.ends[of as usize].1 = before,
        }
        self.ends[of as usize].2 -= 1;
        self.links[page as usize] = (NONE, NONE, None);
    }
}

const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_page_is_the_one_that_came_first() {
        let mut lists = Lists::new(4);
        for page in [2, 0, 3] {
            lists.put(page, Of::Inactive);
        }
        lists.put(0, Of::Active);
        lists.take(2);
        assert_eq!((lists.oldest(Of::Inactive), lists.oldest(Of::Active)), (Some(3), Some(0)));
        lists.put(0, Of::Inactive);
        assert_eq!((lists.len(Of::Inactive), lists.len(Of::Active), lists.oldest(Of::Inactive)), (2, 0, Some(3)));
    }
}
