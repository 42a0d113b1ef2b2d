//! The plan of a tree: its directories, and what each holds.

use foreread_device::Random;

/// A directory to be made, with files of `file_bytes` each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    pub(crate) directories: Vec<Plan>,
    pub(crate) files: u32,
    pub(crate) file_bytes: u64,
}

impl Plan {
    /// Directories side by side, each with the same number of files.
    pub(crate) fn flat(directories: usize, files: u32, file_bytes: u64) -> Self {
        let below = Self { directories: Vec::new(), files, file_bytes };
        Self { directories: vec![below; directories], files: 0, file_bytes: 0 }
    }

    /// An installed system with `entries` entries: many small directories, some nested, and a few
    /// large ones.
    pub(crate) fn system(entries: u32, directories: u32, file_bytes: u64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let large = LARGE.map(|files| files.min(entries / 8));
        let small = entries.saturating_sub(directories + large.iter().sum::<u32>());
        let mut files = vec![0; directories as usize];
        for (number, files) in files.iter_mut().rev().zip(large) {
            *number = files;
        }
        let few = directories as usize - large.len();
        // Two thirds of the files lie in a third of the directories.
        for _ in 0..small {
            let among = if random.chance(666_667) { few / 3 } else { few };
            files[random.below(among as u64) as usize * if among == few { 1 } else { 3 }] += 1;
        }
        // Each lies in one of those before it, at a bounded depth.
        let mut parents = vec![0; directories as usize];
        let mut depths = vec![1_u32; directories as usize];
        for number in TOP..directories as usize {
            let parent = loop {
                let parent = random.below(number as u64) as usize;
                if depths[parent] < DEPTH_MAX {
                    break parent;
                }
            };
            (parents[number], depths[number]) = (parent + 1, depths[parent] + 1);
        }
        let mut plans: Vec<Self> =
            files.iter().map(|&files| Self { directories: Vec::new(), files, file_bytes }).collect();
        let mut root = Self { directories: Vec::new(), files: 0, file_bytes };
        for number in (0..directories as usize).rev() {
            let mut plan = std::mem::take(&mut plans[number]);
            plan.directories.reverse();
            match parents[number] {
                0 => root.directories.push(plan),
                parent => plans[parent - 1].directories.push(plan),
            }
        }
        root.directories.reverse();
        root
    }
}

/// Files of the largest directories: a package manager's notes (four files for each of 225
/// packages), commands, manuals, libraries.
const LARGE: [u32; 4] = [900, 500, 400, 300];

/// Directories at the top.
const TOP: usize = 20;

/// Deepest nesting.
const DEPTH_MAX: u32 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(plan: &Plan) -> u32 {
        plan.files + plan.directories.iter().map(|below| 1 + entries(below)).sum::<u32>()
    }

    #[test]
    fn a_system_has_the_requested_number_of_entries() {
        let plan = Plan::system(13_641, 1_100, 16_384, 1);
        assert_eq!(entries(&plan), 13_641);
        assert_eq!(entries(&Plan::flat(100, 1000, 8192)), 100_100);
    }
}
