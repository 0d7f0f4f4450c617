/*
 * One system call of each shape, with values that the caller knows. `calls FOLDER`.
 * In order: getppid; mmap with six arguments, one negative; madvise with values of 64 bits; close
 * of a negative descriptor; three numbers that no table has, and one of the x32 table; openat of a
 * path of 300 bytes; rename of FOLDER/from to FOLDER/to; mkdir of a hostile name; a sleep of 30 ms;
 * a signal and the return from its handler; exit_group(7).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void on_signal(int signal)
{
	(void)signal;
}

int main(int argc, char **argv)
{
	struct timespec sleep = { 0, 30000000 }, nap = { 0, 500000 };
	char from[200], to[200], path[301];

	if (argc < 2)
		return 2;
	snprintf(from, sizeof(from), "%.100s/from", argv[1]);
	snprintf(to, sizeof(to), "%.100s/to", argv[1]);
	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	path[300] = 0;
	signal(SIGUSR1, on_signal);

	syscall(SYS_getppid);
	long address = syscall(SYS_mmap, 0L, 12345L, (long)(PROT_READ | PROT_WRITE),
			       (long)(MAP_PRIVATE | MAP_ANONYMOUS), -1L, 0L);
	syscall(SYS_madvise, 0x8123456789abcdefUL, 0xfedcba9876543210UL, -2L);
	syscall(SYS_close, -7L);
	syscall(400L, 1L, 2L, 3L, 4L, 5L, 6L);
	syscall(9999L, 1L, 2L, 3L, 4L, 5L, 6L);
	syscall(-1L);
	syscall(0x40000000L | SYS_getpid);
	syscall(SYS_openat, (long)AT_FDCWD, path, (long)O_RDONLY);
	close(open(from, O_CREAT | O_WRONLY, 0600));
	long renamed = syscall(SYS_rename, from, to);
	syscall(SYS_mkdir, "/nonexistent/a\n\x1b[2J\xff\"", 0700L);
	syscall(SYS_clock_nanosleep, (long)CLOCK_MONOTONIC, 0L, &sleep, NULL);
	for (int i = 0; i < 20; i++)
		syscall(SYS_nanosleep, &nap, NULL);
	raise(SIGUSR1);
	printf("pid=%d\nppid=%d\nmmap=%ld\nrename=%ld\n", getpid(), getppid(), address, renamed);
	fflush(stdout);
	_exit(7);
}
