/*
 * Calls whose numbers, flags or structures are others on aarch64 than on x86_64, of this thread
 * alone: `machine`. Prints its thread id.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(1);
}

int main(void)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1122334455667788};
	struct epoll_event events[2];
	int pipes[2];

	printf("%ld\n", (long)syscall(SYS_gettid));
	if (syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0) < 0)
		die("openat");
	syscall(SYS_openat, AT_FDCWD, "/proc/self/comm", O_RDONLY | O_DIRECT, 0);
	if (mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		die("mmap");
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0 || pipe2(pipes, O_CLOEXEC) || epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event))
		die("epoll");
	if (write(pipes[1], "x", 1) != 1 || epoll_wait(epoll, events, 2, 1000) != 1)
		die("epoll_wait");
	/* No such call: on x86_64 it would be one of x32. */
	syscall(0x40000001, 7);
	return 0;
}
