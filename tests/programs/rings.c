/* Opens, writes, syncs, stats, renames, closes and removes a file through io_uring alone, by raw
 * system calls. Prints what it did.
 *
 * rings DIRECTORY [sqpoll|direct|many N]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRIES 8

static struct {
	int fd, sqpoll;
	unsigned *sq_head, *sq_tail, *sq_mask, *sq_flags, *array;
	unsigned *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
} ring;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void *map(size_t bytes, off_t at)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, at);
	if (p == MAP_FAILED)
		fail("mmap");
	return p;
}

static void set_up(int sqpoll)
{
	struct io_uring_params p = {0};
	if (sqpoll) {
		p.flags = IORING_SETUP_SQPOLL;
		p.sq_thread_idle = 2000;
	}
	ring.sqpoll = sqpoll;
	ring.fd = syscall(SYS_io_uring_setup, ENTRIES, &p);
	if (ring.fd < 0)
		fail("io_uring_setup");
	char *sq = map(p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
	char *cq = map(p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
		       IORING_OFF_CQ_RING);
	ring.sqes = map(p.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	ring.sq_head = (unsigned *)(sq + p.sq_off.head);
	ring.sq_tail = (unsigned *)(sq + p.sq_off.tail);
	ring.sq_mask = (unsigned *)(sq + p.sq_off.ring_mask);
	ring.sq_flags = (unsigned *)(sq + p.sq_off.flags);
	ring.array = (unsigned *)(sq + p.sq_off.array);
	ring.cq_head = (unsigned *)(cq + p.cq_off.head);
	ring.cq_tail = (unsigned *)(cq + p.cq_off.tail);
	ring.cq_mask = (unsigned *)(cq + p.cq_off.ring_mask);
	ring.cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
}

/* Hands one operation over and waits for its result. */
static int one(struct io_uring_sqe sqe)
{
	static unsigned long long data = 0x1000;
	sqe.user_data = data++;
	unsigned tail = *ring.sq_tail, at = tail & *ring.sq_mask;
	ring.sqes[at] = sqe;
	ring.array[at] = at;
	__atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
	unsigned flags = IORING_ENTER_GETEVENTS;
	unsigned count = 1;
	if (ring.sqpoll) {
		count = 0;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (__atomic_load_n(ring.sq_flags, __ATOMIC_RELAXED) & IORING_SQ_NEED_WAKEUP)
			flags |= IORING_ENTER_SQ_WAKEUP;
	}
	if (syscall(SYS_io_uring_enter, ring.fd, count, 1, flags, NULL, 0) < 0)
		fail("io_uring_enter");
	unsigned head = *ring.cq_head;
	while (__atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE) == head)
		;
	struct io_uring_cqe cqe = ring.cqes[head & *ring.cq_mask];
	__atomic_store_n(ring.cq_head, head + 1, __ATOMIC_RELEASE);
	if (cqe.user_data != sqe.user_data) {
		fprintf(stderr, "another operation's result\n");
		exit(1);
	}
	return cqe.res;
}

static int good(const char *what, int res)
{
	if (res < 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(-res));
		exit(1);
	}
	return res;
}

static unsigned long long of(const void *p)
{
	return (unsigned long)p;
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "";
	char path[4096], to[4096];
	struct statx stat;
	if (argc < 2)
		return 2;
	snprintf(path, sizeof(path), "%s/by-ring", argv[1]);
	snprintf(to, sizeof(to), "%s/renamed-by-ring", argv[1]);
	set_up(!strcmp(how, "sqpoll"));
	printf("pid=%d\n", getpid());
	fflush(stdout);
	if (!strcmp(how, "many")) {
		for (int i = atoi(argv[3]); i > 0; i--)
			good("nop", one((struct io_uring_sqe){.opcode = IORING_OP_NOP}));
		return 0;
	}
	int direct = !strcmp(how, "direct");
	if (direct) {
		int none = -1;
		if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES, &none, 1))
			fail("io_uring_register");
	}
	int fd = good("openat", one((struct io_uring_sqe){
		.opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = of(path), .len = 0600,
		.open_flags = O_RDWR | O_CREAT, .file_index = direct}));
	__u8 flags = direct ? IOSQE_FIXED_FILE : 0;
	good("write", one((struct io_uring_sqe){
		.opcode = IORING_OP_WRITE, .flags = flags, .fd = fd, .addr = of("hello"), .len = 5}));
	good("fsync", one((struct io_uring_sqe){
		.opcode = IORING_OP_FSYNC, .flags = flags, .fd = fd}));
	/* Of what was opened through the ring by a call. */
	if (!direct && pwrite(fd, "!", 1, 5) != 1)
		fail("pwrite");
	good("statx", one((struct io_uring_sqe){
		.opcode = IORING_OP_STATX, .fd = AT_FDCWD, .addr = of(path),
		.len = STATX_SIZE, .off = of(&stat)}));
	int missing = one((struct io_uring_sqe){
		.opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = of("no/such/file")});
	if (missing != -ENOENT)
		return 1;
	good("renameat", one((struct io_uring_sqe){
		.opcode = IORING_OP_RENAMEAT, .fd = AT_FDCWD, .len = AT_FDCWD, .addr = of(path),
		.addr2 = of(to)}));
	good("close", one((struct io_uring_sqe){
		.opcode = IORING_OP_CLOSE, .fd = direct ? 0 : fd, .file_index = direct}));
	good("unlinkat", one((struct io_uring_sqe){
		.opcode = IORING_OP_UNLINKAT, .fd = AT_FDCWD, .addr = of(to)}));
	printf("fd=%d\n", fd);
	return 0;
}
