//! The bytes that each reader got over time. These curves show how fairly a policy shares.
//!
//! ```text
//!  bytes |      /            bytes |      /
//!        |    //                   |    /    .
//!        |  //                     |  /  .
//!        |//______ time            |/.______ time
//!         equal shares              one reader gets more than the other
//! ```
//!
//! A curve is kept in spans of equal length, at most [`SPANS_MAX`] of them: when a run takes
//! longer, each two spans become one. Origin: the service curves by which fair queueing is judged.

/// Bytes given to each reader in each span.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    span_ns: u64,
    readers: Vec<Vec<u64>>,
}

/// One reader's curve: times in ns, and the bytes that it had got by then. Begins at 0; ends with
/// its last byte.
pub type Curve = Vec<(u64, u64)>;

impl Service {
    /// Empty curves.
    pub(crate) fn new(readers: usize) -> Self {
        Self { span_ns: SPAN_NS_MIN, readers: vec![Vec::new(); readers] }
    }

    /// `reader` gets `bytes`.
    pub(crate) fn give(&mut self, reader: usize, at_ns: u64, bytes: u64) {
        while at_ns / self.span_ns >= SPANS_MAX {
            self.span_ns *= 2;
            for spans in &mut self.readers {
                *spans = spans.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
        let (at, spans) = ((at_ns / self.span_ns) as usize, &mut self.readers[reader]);
        if spans.len() <= at {
            spans.resize(at + 1, 0);
        }
        spans[at] += bytes;
    }

    /// The curve of `reader`; its last span ends at `end_ns`.
    pub(crate) fn curve(&self, reader: usize, end_ns: u64) -> Curve {
        let sums = self.readers[reader].iter().scan(0, |sum, bytes| {
            *sum += bytes;
            Some(*sum)
        });
        let ends = (1..).map(|span: u64| (span * self.span_ns).min(end_ns));
        std::iter::once((0, 0)).chain(ends.zip(sums)).collect()
    }
}

/// Most spans of a curve. Lower: coarser curves; higher: less than three pixels of a picture for
/// each.
const SPANS_MAX: u64 = 128;

/// Length of a span at first, in ns. Lower: more merging; higher: the shortest runs have few
/// points.
const SPAN_NS_MIN: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_of_runs_of_any_length_are_as_exact_as_can_be_drawn() {
        for seconds in [1, 100, 10_000u64] {
            let mut service = Service::new(2);
            let end_ns = seconds * 1_000_000_000;
            for at in 0..10_000 {
                service.give(0, end_ns / 10_000 * at, 3);
                service.give(1, end_ns / 10_000 * at / 2, 5);
            }
            let curves = [service.curve(0, end_ns), service.curve(1, end_ns / 2)];
            for (curve, bytes) in curves.iter().zip([3, 5]) {
                assert_eq!(curve[0], (0, 0));
                let &(last_ns, all) = curve.last().unwrap();
                assert_eq!(all, 10_000 * bytes, "nothing is lost");
                assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{curve:?}");
                for &(at_ns, given) in curve {
                    let wanted = u128::from(all) * u128::from(at_ns) / u128::from(last_ns);
                    assert!(
                        wanted.abs_diff(u128::from(given)) <= u128::from(bytes),
                        "{given} at {at_ns}, not {wanted}"
                    );
                }
            }
            assert!((65..=129).contains(&curves[0].len()), "{} points", curves[0].len());
            assert_eq!((curves[0].last().unwrap().0, curves[1].last().unwrap().0), (end_ns, end_ns / 2));
        }
    }

    #[test]
    fn a_reader_without_bytes_has_only_the_first_point() {
        let mut service = Service::new(2);
        service.give(0, 5, 1);
        assert_eq!(service.curve(1, 0), [(0, 0)]);
    }
}
