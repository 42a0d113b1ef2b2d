/*
 * Memory that is larger than its budget: what does not fit is in a file, and comes back when it is touched.
 *
 *   foreread_region *region = foreread_region_create((size_t)8 << 30, (size_t)1 << 30, "/var/tmp", 0);
 *   if (!region) { fprintf(stderr, "%s\n", foreread_last_error()); exit(1); }
 *   double *numbers = foreread_region_data(region);     // zeroes; read and write them from any thread
 *   ...
 *   foreread_region_destroy(region);
 *
 * Link with the library that `cargo build --release -p foreread-memory` makes: -lforeread_memory.
 *
 * A page that the file cannot give back is SIGBUS for whoever touches it (before Linux 6.6 SIGSEGV). After a fork the child has no region: a
 * touch there is SIGSEGV. A system call that is handed memory of a region fails with EFAULT where it is not there, unless the region was made
 * with FOREREAD_KERNEL_FAULTS. Linux 5.11 or later, 64 bits.
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
    FOREREAD_ENCRYPTED = 1,     /* the file is of no use to who has not this process's key */
    FOREREAD_KERNEL_FAULTS = 2, /* system calls find what they are handed; needs a privilege */
    FOREREAD_NO_IO_URING = 4    /* threads read and write the file */
};

/* How memory is going to be used. */
enum {
    FOREREAD_NORMAL = 0,
    FOREREAD_SEQUENTIAL = 1, /* in order, once */
    FOREREAD_RANDOM = 2,     /* in no order */
    FOREREAD_WILL_NEED = 3,  /* soon */
    FOREREAD_DONT_NEED = 4   /* not any more: zeroes from now on. No thread may use it meanwhile */
};

/* Counts of a region, as they were when it last had something to do. Those of faults, reads and pages only grow. */
typedef struct foreread_stats {
    uint64_t budget_pages;  /* pages of 4096 bytes that may be in memory */
    uint64_t mapped_pages;  /* that are */
    uint64_t staged_pages;  /* read ahead, not yet touched */
    uint64_t faults_major;  /* touches that waited for the file */
    uint64_t faults_minor;  /* of pages that were read ahead, or on their way */
    uint64_t faults_zero;   /* of pages never written to */
    uint64_t reads;         /* requests to the file */
    uint64_t pages_read;
    uint64_t pages_written;
    uint64_t pages_wasted;  /* read ahead and dropped before anybody was seen to use them */
    uint64_t pages_failed;  /* whose touch was answered by a signal */
} foreread_stats;

/* A region of len bytes, all zero, of which at most budget (512 KiB or more) are in memory. spill_dir: a directory on the file system that holds
 * the rest; NULL for the one of temporary files. NULL where it cannot be made; foreread_last_error says why. */
foreread_region *foreread_region_create(size_t len, size_t budget, const char *spill_dir, uint32_t flags);

/* Where it starts. Valid until it is destroyed. */
void *foreread_region_data(const foreread_region *region);

/* Bytes of it. */
size_t foreread_region_len(const foreread_region *region);

/* Says how [offset, offset + len) is going to be used. 0, or -1 for what makes no sense. */
int foreread_region_advise(const foreread_region *region, size_t offset, size_t len, int advice);

/* Changes the budget. 0, or -1 for one that is too small. */
int foreread_region_resize(const foreread_region *region, size_t budget);

/* Fills stats. */
void foreread_region_stats(const foreread_region *region, foreread_stats *stats);

/* Gives everything back; nothing for NULL. No thread may use its memory any more. */
void foreread_region_destroy(foreread_region *region);

/* What went wrong in this thread last, as text; valid until the next call in this thread. */
const char *foreread_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
