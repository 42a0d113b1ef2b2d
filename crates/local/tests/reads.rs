//! Reads through both mechanisms: their bytes, their bounds, and their end when the submitter is
//! dropped.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use foreread_local::{Done, Filled, Frames, IN_FLIGHT_MAX, LocalFile, Mechanism, Queue, Submitter};
use rustix::fs::{Advice, Mode, OFlags};

const PAGE: usize = 4096;

/// Longer than any test here takes.
const LONG: Duration = Duration::from_secs(30);

/// The bytes of a page.
fn content(page: u64) -> Vec<u8> {
    (0..PAGE as u64).map(|at| (page.wrapping_mul(0x9e37_79b9) >> (at % 24)) as u8 ^ at as u8).collect()
}

/// A file of some pages in the build's directory: on a disk, if any is.
struct Site {
    _dir: tempfile::TempDir,
    file: Arc<LocalFile>,
}

impl Site {
    /// With a direct descriptor as well if `direct`; `None` where the file system has none.
    fn new(pages: u64, direct: bool) -> Option<Self> {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let path = dir.path().join("file");
        let mut file = File::create(&path).expect("a file");
        for page in 0..pages {
            file.write_all(&content(page)).expect("room for it");
        }
        file.sync_all().expect("it is written");
        let open = OwnedFd::from(File::open(&path).expect("it was just made"));
        rustix::fs::fadvise(&open, 0, None, Advice::Random).expect("advice is taken");
        let file = if direct {
            let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
            LocalFile::with_direct(open, rustix::fs::open(&path, flags, Mode::empty()).ok()?)
        } else {
            LocalFile::new(open)
        };
        Some(Self { _dir: dir, file: Arc::new(file) })
    }
}

/// Makes the kernel drop its cached pages of the file.
fn forget(file: &LocalFile) {
    rustix::fs::fadvise(file.cached(), 0, None, Advice::DontNeed).expect("advice is taken");
}

/// Runs a test with each mechanism (only threads where there is no `io_uring`) on a file of
/// `pages` pages, read through the page cache and directly.
fn each(pages: u64, test: impl Fn(&dyn Fn() -> Submitter, &Arc<LocalFile>)) {
    let mut mechanisms = vec![Mechanism::Threads];
    if Submitter::new(Mechanism::IoUring).mechanism() == Mechanism::IoUring {
        mechanisms.push(Mechanism::IoUring);
    } else {
        eprintln!("skipped: no io_uring here");
    }
    for direct in [false, true] {
        let Some(site) = Site::new(pages, direct) else {
            eprintln!("skipped: this file system takes no direct reads");
            return;
        };
        for &mechanism in &mechanisms {
            test(&|| Submitter::new(mechanism), &site.file);
        }
    }
}

fn told(send: &Sender<(u64, Filled)>, page: u64) -> Done {
    let send = send.clone();
    Box::new(move |filled| {
        let _ = send.send((page, filled));
    })
}

fn buffer(pages: usize) -> Frames {
    Frames::new(pages * PAGE)
}

fn expect_page((page, filled): (u64, Filled)) {
    assert_eq!(filled.result.expect("it is read"), PAGE);
    assert!(*filled.buffers[0] == content(page)[..], "page {page} has other bytes");
}

#[test]
fn the_mechanism_is_shown() {
    assert_eq!(Submitter::new(Mechanism::Threads).mechanism().to_string(), "threads");
    assert_eq!(Mechanism::IoUring.to_string(), "io_uring");
}

#[test]
fn buffers_are_filled_in_order_and_end_with_the_file() {
    each(64, |submitter, file| {
        let submitter = submitter();
        for cold in [true, false] {
            if cold {
                forget(file);
            }
            let (send, receive) = channel();
            let buffers = vec![buffer(1), buffer(3), Frames::default(), buffer(8)];
            submitter.read(Arc::clone(file), 56 * PAGE as u64, buffers, told(&send, 56));
            let (_, filled) = receive.recv().expect("it completes");
            assert_eq!(filled.result.expect("it is read"), 8 * PAGE, "the file has 64 pages");
            let found: Vec<u8> = filled.buffers.iter().flat_map(|b| b.to_vec()).collect();
            let wanted: Vec<u8> = (56..64).flat_map(content).collect();
            assert!(found[..8 * PAGE] == wanted[..]);
            submitter.read(Arc::clone(file), 64 * PAGE as u64, vec![buffer(1)], told(&send, 64));
            assert_eq!(receive.recv().expect("it completes").1.result.expect("nothing is there"), 0);
        }
    });
}

#[test]
fn reads_need_not_begin_nor_end_with_a_page() {
    each(64, |submitter, file| {
        let submitter = submitter();
        let all: Vec<u8> = (0..64).flat_map(content).collect();
        let file_bytes = 64 * PAGE;
        for (offset, lens) in [(0, vec![100]), (PAGE, vec![PAGE, 1]), (5, vec![PAGE]), (0, vec![PAGE + 1, PAGE, 7])] {
            forget(file);
            let (send, receive) = channel();
            let len: usize = lens.iter().sum();
            let buffers: Vec<_> = lens.into_iter().map(Frames::new).collect();
            submitter.read(Arc::clone(file), (file_bytes - 8 * PAGE + offset) as u64, buffers, told(&send, 0));
            let (_, filled) = receive.recv().expect("it completes");
            assert_eq!(filled.result.expect("it is read"), len);
            let found: Vec<u8> = filled.buffers.iter().flat_map(|buffer| buffer.to_vec()).collect();
            assert!(found == all[file_bytes - 8 * PAGE + offset..][..len], "{offset}, {len}");
        }
    });
}

#[test]
fn cached_bytes_complete_on_the_calling_thread() {
    each(4, |submitter, file| {
        rustix::io::pread(file.cached(), &mut vec![0; 4 * PAGE], 0).expect("it is read");
        let submitter = submitter();
        let (send, receive) = channel();
        let done: Done = Box::new(move |filled| {
            let _ = send.send((thread::current().id(), filled));
        });
        submitter.read(Arc::clone(file), PAGE as u64, vec![buffer(1)], done);
        let (on, filled) = receive.try_recv().expect("it was told before the call returned");
        assert_eq!(on, thread::current().id());
        expect_page((1, filled));
        assert_eq!(submitter.in_flight(), 0);
    });
}

#[test]
fn an_error_reaches_done() {
    let dir = tempfile::tempdir().expect("a directory");
    let directory = Arc::new(LocalFile::new(File::open(dir.path()).expect("it is there").into()));
    each(1, |submitter, _| {
        let (send, receive) = channel();
        submitter().read(Arc::clone(&directory), 0, vec![buffer(1)], told(&send, 0));
        let error = receive.recv().expect("it completes").1.result.expect_err("a directory has no bytes");
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    });
}

/// Reads further pages until `holders` completions are held up in `done` on other threads;
/// dropping out of the barrier lets them go.
fn hold_up(
    submitter: &Submitter,
    file: &Arc<LocalFile>,
    pages: &mut std::ops::Range<u64>,
    holders: usize,
) -> Option<Arc<Barrier>> {
    let (here, on) = (Arc::new(Barrier::new(holders + 1)), Arc::new(Barrier::new(holders + 1)));
    let own = thread::current().id();
    let mut held = 0;
    for page in pages {
        let (send, receive) = channel();
        let (arrive, go) = (Arc::clone(&here), Arc::clone(&on));
        let done: Done = Box::new(move |_| {
            if thread::current().id() == own {
                let _ = send.send(());
                return;
            }
            arrive.wait();
            go.wait();
        });
        submitter.read(Arc::clone(file), page * PAGE as u64, vec![buffer(1)], done);
        if receive.try_recv().is_err() {
            held += 1;
        }
        if held == holders {
            here.wait();
            return Some(on);
        }
    }
    None
}

#[test]
fn reads_beyond_the_bound_are_refused_until_others_complete() {
    let pages = 4096;
    each(pages, |submitter, file| {
        let submitter = submitter();
        forget(file);
        let holders = if submitter.mechanism() == Mechanism::Threads { 64 } else { 1 };
        let mut rest = 0..pages;
        let Some(on) = hold_up(&submitter, file, &mut rest, holders) else {
            eprintln!("skipped: nothing is cold on this file system");
            return;
        };
        let (send, receive): (_, Receiver<(u64, Filled)>) = channel();
        let (mut asked, mut completed) = (0, 0);
        let refused = loop {
            let page = rest.next().expect("the bound comes first");
            submitter.read(Arc::clone(file), page * PAGE as u64, vec![buffer(1)], told(&send, page));
            asked += 1;
            assert!(submitter.in_flight() <= IN_FLIGHT_MAX);
            match receive.try_recv() {
                Ok((_, Filled { result: Err(error), .. })) => break error,
                Ok(done) => {
                    completed += 1;
                    expect_page(done);
                }
                Err(_) => {}
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(submitter.in_flight(), IN_FLIGHT_MAX);
        on.wait();
        for _ in 0..asked - completed - 1 {
            expect_page(receive.recv().expect("what was taken completes"));
        }
        let page = rest.next().expect("there are more");
        submitter.read(Arc::clone(file), page * PAGE as u64, vec![buffer(1)], told(&send, page));
        expect_page(receive.recv().expect("there is room again"));
    });
}

#[test]
fn plugged_reads_complete_after_the_plug_is_dropped() {
    let pages = 300;
    each(pages, |submitter, file| {
        let submitter = submitter();
        forget(file);
        let (send, receive) = channel();
        let plug = submitter.plug();
        let inner = submitter.plug();
        for page in 0..pages {
            submitter.read(Arc::clone(file), page * PAGE as u64, vec![buffer(1)], told(&send, page));
        }
        drop(inner);
        drop(plug);
        for _ in 0..pages {
            expect_page(receive.recv().expect("each completes"));
        }
        // The plug concerns neither another thread nor another submitter.
        let _plug = submitter.plug();
        thread::scope(|scope| {
            scope.spawn(|| submitter.read(Arc::clone(file), 0, vec![buffer(1)], told(&send, 0)));
            expect_page(receive.recv().expect("it completes"));
        });
        forget(file);
        let other = Submitter::new(submitter.mechanism());
        let _nothing = other.plug();
        other.read(Arc::clone(file), PAGE as u64, vec![buffer(1)], told(&send, 1));
        expect_page(receive.recv().expect("it completes"));
    });
}

#[test]
fn a_read_outlives_the_thread_that_submitted_it() {
    each(512, |submitter, file| {
        let submitter = submitter();
        forget(file);
        let (send, receive) = channel();
        for first in (0..512).step_by(64) {
            thread::scope(|scope| {
                scope.spawn(|| {
                    for page in first..first + 64 {
                        submitter.read(Arc::clone(file), page * PAGE as u64, vec![buffer(1)], told(&send, page));
                    }
                });
            });
        }
        for _ in 0..512 {
            expect_page(receive.recv().expect("each completes"));
        }
    });
}

#[test]
fn reads_in_flight_complete_once_after_the_submitter_is_dropped() {
    each(256, |submitter, file| {
        for _ in 0..20 {
            forget(file);
            let (send, receive) = channel();
            let submitter = submitter();
            for page in 0..256 {
                submitter.read(Arc::clone(file), page * PAGE as u64, vec![buffer(1)], told(&send, page));
            }
            drop((submitter, send));
            let mut pages: Vec<u64> = receive
                .iter()
                .map(|(page, filled)| {
                    expect_page((page, filled));
                    page
                })
                .collect();
            pages.sort_unstable();
            assert_eq!(pages, (0..256).collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_completion_that_panics_harms_no_other() {
    each(2, |submitter, file| {
        let submitter = submitter();
        forget(file);
        submitter.read(Arc::clone(file), 0, vec![buffer(1)], Box::new(|_| panic!("on purpose")));
        let (send, receive) = channel();
        submitter.read(Arc::clone(file), PAGE as u64, vec![buffer(1)], told(&send, 1));
        expect_page(receive.recv().expect("it completes"));
    });
}

/// The same with a queue, where the mechanism has one.
fn each_queue(pages: u64, test: impl Fn(&Submitter, &Queue, &Arc<LocalFile>)) {
    each(pages, |submitter, file| {
        let submitter = submitter();
        match submitter.queue() {
            Some(queue) => {
                forget(file);
                test(&submitter, &queue, file);
            }
            None => assert_eq!(submitter.mechanism(), Mechanism::Threads),
        }
    });
}

#[test]
fn an_owner_takes_its_own_completions() {
    let pages = 256;
    each_queue(pages, |submitter, queue, file| {
        // On a busy machine the owner may come too late in each round, but not in a hundred
        // rounds.
        let own: usize = (0..100)
            .map(|_| {
                forget(file);
                let (send, receive) = channel();
                let plug = queue.plug();
                for page in 0..pages {
                    let send = send.clone();
                    let done: Done = Box::new(move |filled| {
                        let _ = send.send((thread::current().id(), page, filled));
                    });
                    submitter.read(Arc::clone(file), page * PAGE as u64, vec![buffer(1)], done);
                }
                drop((plug, send));
                let (mut own, mut told, mut rests) = (0, 0, Vec::new());
                while told < pages {
                    queue.wait(Duration::from_millis(100));
                    assert!(queue.take(8) <= 8);
                    for (on, page, filled) in receive.try_iter() {
                        told += 1;
                        own += usize::from(on == thread::current().id());
                        rests.extend(filled.batch.map(|batch| (batch.number, batch.rest)));
                        expect_page((page, filled));
                    }
                }
                // The numbers of each batch count down to 0.
                for (at, &(number, rest)) in rests.iter().enumerate() {
                    let next = rests[at + 1..].iter().find(|(other, _)| *other == number);
                    assert_eq!(next.map_or(0, |(_, next)| next + 1), rest, "of batch {number}");
                }
                own
            })
            .find(|own| *own > 0)
            .unwrap_or(0);
        assert!(own > 0, "the owner's thread ran no completion");
    });
}

#[test]
fn completions_that_an_owner_leaves_are_taken_by_another_thread() {
    let pages = 64;
    each_queue(pages, |submitter, queue, file| {
        let (send, receive) = channel();
        for round in 0..2 {
            forget(file);
            let plug = queue.plug();
            for page in 0..pages {
                submitter.read(Arc::clone(file), page * PAGE as u64, vec![buffer(1)], told(&send, page));
            }
            drop(plug);
            for _ in 0..pages {
                expect_page(receive.recv_timeout(LONG).expect("the reaper takes it"));
            }
            assert_eq!(submitter.in_flight(), 0);
            if round == 0 {
                // Long enough that the reaper stops looking.
                thread::sleep(Duration::from_millis(120));
            }
        }
    });
}

#[test]
fn a_completion_may_take_other_completions() {
    let pages = 64;
    each(pages, |submitter, file| {
        let submitter = submitter();
        let Some(queue) = submitter.queue().map(Arc::new) else { return };
        for by_owner in [false, true] {
            forget(file);
            let (send, receive) = channel();
            let plug = queue.plug();
            for page in 0..pages {
                let (send, queue) = (send.clone(), Arc::clone(&queue));
                let done: Done = Box::new(move |filled| {
                    queue.take(8);
                    let _ = send.send((page, filled));
                });
                submitter.read(Arc::clone(file), page * PAGE as u64, vec![buffer(1)], done);
            }
            drop(plug);
            if by_owner {
                queue.wait(Duration::from_millis(100));
                queue.take(8);
            }
            for _ in 0..pages {
                expect_page(receive.recv_timeout(LONG).expect("each completes"));
            }
        }
    });
}

#[test]
fn a_waiting_owner_is_woken() {
    each_queue(1, |_, queue, _| {
        thread::scope(|scope| {
            scope.spawn(|| queue.wake());
            queue.wait(LONG);
        });
        assert_eq!(queue.take(8), 1);
        // A wake before the wait counts as well.
        queue.wake();
        queue.wait(LONG);
        assert_eq!(queue.take(8), 1);
    });
}

#[test]
fn reads_in_flight_complete_after_their_queue_is_dropped() {
    let pages = 256;
    each_queue(pages, |submitter, _, file| {
        for _ in 0..20 {
            forget(file);
            let queue = submitter.queue().expect("there is room for another");
            let (send, receive) = channel();
            let plug = queue.plug();
            for page in 0..pages {
                submitter.read(Arc::clone(file), page * PAGE as u64, vec![buffer(1)], told(&send, page));
            }
            drop((plug, send));
            drop(queue);
            assert_eq!(receive.iter().map(expect_page).count() as u64, pages);
        }
    });
}

#[test]
fn reads_in_flight_complete_after_queue_and_submitter_are_dropped() {
    each(256, |submitter, file| {
        for queue_first in [false, true] {
            forget(file);
            let submitter = submitter();
            let Some(queue) = submitter.queue() else { return };
            let (send, receive) = channel();
            let plug = queue.plug();
            for page in 0..256 {
                submitter.read(Arc::clone(file), page * PAGE as u64, vec![buffer(1)], told(&send, page));
            }
            drop((plug, send));
            if queue_first {
                drop(queue);
                drop(submitter);
            } else {
                drop(submitter);
                drop(queue);
            }
            assert_eq!(receive.iter().map(expect_page).count(), 256);
        }
    });
}
