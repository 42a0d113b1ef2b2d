//! What each reader has been given over time: how fairly a policy shares is seen in these curves.
//!
//! ```text
//!  bytes |      /            bytes |      /
//!        |    //                   |    /    .
//!        |  //                     |  /  .
//!        |//______ time            |/.______ time
//!         all alike                 one is given more than the other
//! ```
//!
//! A curve is kept in spans of equal length, of which there are never more than [`SPANS_MAX`]: when a run takes longer, each two become
//! one. Origin: the service curves by which fair queueing is judged.

/// Bytes given to each reader in each span.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    span_ns: u64,
    readers: Vec<Vec<u64>>,
}

/// One reader's curve: times in ns, and the bytes that it had been given by then. Begins at nothing; ends when it had all that it was given.
pub type Curve = Vec<(u64, u64)>;

impl Service {
    /// Nothing has been given to anybody.
    pub(crate) fn new(readers: usize) -> Self {
        Self { span_ns: SPAN_NS_MIN, readers: vec![Vec::new(); readers] }
    }

    /// `reader` is given `bytes`.
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

    /// The curve of `reader`; what ended in the middle of a span ends there at `end_ns`.
    pub(crate) fn curve(&self, reader: usize, end_ns: u64) -> Curve {
        let sums = self.readers[reader].iter().scan(0, |sum, bytes| {
            *sum += bytes;
            Some(*sum)
        });
        let ends = (1..).map(|span: u64| (span * self.span_ns).min(end_ns));
        std::iter::once((0, 0)).chain(ends.zip(sums)).collect()
    }
}

/// Spans at most: a picture is about three pixels wide for each.
const SPANS_MAX: u64 = 128;

/// The length of a span at first, a millisecond: as long as the shortest run is worth a picture.
const SPAN_NS_MIN: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_length_of_a_run_its_curves_are_as_exact_as_can_be_drawn() {
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
    fn who_is_given_nothing_has_no_curve_but_its_beginning() {
        let mut service = Service::new(2);
        service.give(0, 5, 1);
        assert_eq!(service.curve(1, 0), [(0, 0)]);
    }
}
