/*
 * Memory that is larger than its budget: pages that do not fit are in a file, and come back when
 * they are touched.
 *
 *   size_t GiB = (size_t)1 << 30;
 *   foreread_region *region = foreread_region_create(8 * GiB, 1 * GiB, "/var/tmp", 0);
 *   if (!region) { fprintf(stderr, "%s\n", foreread_last_error()); exit(1); }
 *   double *numbers = foreread_region_data(region);  // zeroes; any thread reads and writes them
 *   ...
 *   foreread_region_destroy(region);
 *
 * Link with the library that `cargo build --release -p foreread-memory` makes: -lforeread_memory.
 *
 * A thread that touches a page that the file cannot give back is sent SIGBUS (before Linux 6.6
 * SIGSEGV); a tenth of a second later a touch tries again. After a fork the child has no region: a
 * touch there is SIGSEGV. A system call that is given memory of a region fails with EFAULT where a
 * page is not in memory, unless the region was made with FOREREAD_KERNEL_FAULTS. An error in the
 * library's own thread (a panic) ends the process with SIGABRT and says so. Linux 5.11 or
 * later, 64 bits, pages of 4096 bytes.
 *
 * What a program must not do with the memory of a region:
 *
 *   - pin it (O_DIRECT reads into it, io_uring fixed buffers, RDMA) before Linux 6.8, or by
 *     drivers that hold pages without pinning them (vmsplice, O_DIRECT on some network file
 *     systems): what the device writes may be lost. From Linux 6.8 on pinned pages stay in
 *     memory; when all of the budget is pinned, what needs room waits a second and fails.
 *   - rely on mlock or mlockall: the calls are allowed, and the budget still decides.
 *   - use MADV_DONTNEED, MADV_FREE or MADV_PAGEOUT on it: the bytes are zero or what they were.
 *     Use FOREREAD_DONT_NEED.
 *   - switch on same-page merging (PR_SET_MEMORY_MERGE, MADV_MERGEABLE) or huge pages
 *     (MADV_HUGEPAGE, MADV_COLLAPSE) for it.
 *   - munmap or mremap it, map over it, or register it with another userfaultfd.
 *
 * mprotect, mbind and MADV_DONTDUMP of parts are allowed; a part that may not be written stays in
 * memory while it is so.
 */
#ifndef FOREREAD_H
#define FOREREAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct foreread_region foreread_region;

/* Flags of foreread_region_create. */
enum {
    FOREREAD_ENCRYPTED = 1,     /* encrypts the file with a key that only this process has */
    FOREREAD_KERNEL_FAULTS = 2, /* system calls may use absent pages; needs a privilege */
    FOREREAD_NO_IO_URING = 4    /* threads read and write the file */
};

/* How memory is going to be used: advice of foreread_region_advise. */
enum {
    FOREREAD_NORMAL = 0,
    FOREREAD_SEQUENTIAL = 1, /* in order, once */
    FOREREAD_RANDOM = 2,     /* in no order */
    FOREREAD_WILL_NEED = 3,  /* soon */
    FOREREAD_DONT_NEED = 4   /* never again: zeroes from now on; no thread may use it meanwhile */
};

/* Counts of a region, as of when it last had work. All but the first three only grow. */
typedef struct foreread_stats {
    uint64_t budget_pages;  /* pages of 4096 bytes that may be in memory */
    uint64_t mapped_pages;  /* pages in the mapping */
    uint64_t staged_pages;  /* read ahead, not yet touched */
    uint64_t faults_major;  /* touches that waited for the file */
    uint64_t faults_minor;  /* touches of pages that were read ahead, or being read */
    uint64_t faults_zero;   /* touches of pages never written to */
    uint64_t reads;         /* requests to the file */
    uint64_t pages_read;
    uint64_t pages_written;
    uint64_t pages_wasted;  /* read ahead and dropped before a use of them was seen */
    uint64_t pages_failed;  /* pages whose touch was answered by a signal */
} foreread_stats;

/* Makes a region of len bytes, all zero, of which at most budget (512 KiB or more) are in memory.
 * Tables of pages that were ever used are within it: 21 bytes a page, at most half of the budget.
 * The process has up to a twentieth beside it, and what tables take beyond that half: nothing,
 * where less than a hundred times the budget was used.
 * spill_dir: a directory on the file system that holds the rest; NULL for the directory of
 * temporary files, or /var/tmp where that is in memory. len is less than 16 TiB. Returns NULL
 * where the region cannot be made; foreread_last_error says why. */
foreread_region *foreread_region_create(size_t len, size_t budget, const char *spill_dir,
                                        uint32_t flags);

/* The address of the first byte, valid until the region is destroyed. */
void *foreread_region_data(const foreread_region *region);

/* The length in bytes. */
size_t foreread_region_len(const foreread_region *region);

/* Says how [offset, offset + len) is going to be used. 0, or -1 for a range or advice that is not
 * valid. */
int foreread_region_advise(const foreread_region *region, size_t offset, size_t len, int advice);

/* Changes the budget. 0, or -1 for one that is too small. */
int foreread_region_resize(const foreread_region *region, size_t budget);

/* Fills stats. */
void foreread_region_stats(const foreread_region *region, foreread_stats *stats);

/* Frees the memory and the file; nothing for NULL. No thread may use the memory any more. */
void foreread_region_destroy(foreread_region *region);

/* The last error in this thread, as text; valid until the next call in this thread. */
const char *foreread_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
