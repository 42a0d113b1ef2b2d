//! Listings that fail.

use super::*;

#[test]
fn a_listing_that_fails_ahead_of_readers_is_not_asked_for_again_at_once() {
    let mut driver = Driver::new(tree(1, 30, 3, 2), OPTIONS);
    driver.read(0);
    (1..5).for_each(|dir| driver.read(dir));
    let mut before = driver.requests;
    assert!(!driver.listing.is_empty(), "some are listed ahead");
    // The directories have been removed meanwhile.
    let mut fail_all = |driver: &mut Driver| {
        for _ in 0..100 {
            for dir in std::mem::take(&mut driver.listing).into_keys() {
                driver.tell(DirEvent::Failed { dir: DirId(dir) });
            }
        }
        driver.requests - std::mem::replace(&mut before, driver.requests)
    };
    let asked = fail_all(&mut driver);
    assert!(asked <= 30, "each once at most: {asked}");
    assert!(driver.listing.is_empty());
    // A reader that comes to one has it asked for.
    driver.tell(DirEvent::Read { dir: DirId(20), entry: 0, found: Found::Absent });
    assert!(driver.listing.contains_key(&20));
}
