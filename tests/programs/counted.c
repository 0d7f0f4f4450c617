/*
 * Calls of known kinds and numbers: `counted RENAMES DIR RATE SECONDS CPU` makes RATE calls of
 * rename(2) a second, of files in DIR that are not there, on one CPU (-1: any). With `all` as its
 * first argument it makes rounds, RATE a second: DIR/own (there) opened, read by a byte and closed,
 * DIR/none (missing) opened, getpgrp; and each 50th sleeps 3 ms. Renames itself to `counted-PID`
 * first. Prints its id, how many rounds it made, how many sleeps, and when it began and ended (ns
 * since 1970).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static char own[256], none[256], name[32];

static void all(long round, long *slept)
{
	char byte;
	int fd = syscall(SYS_openat, AT_FDCWD, own, O_RDONLY);

	if (fd < 0 || syscall(SYS_read, fd, &byte, 1) != 1)
		exit(1);
	syscall(SYS_close, fd);
	syscall(SYS_openat, AT_FDCWD, none, O_RDONLY);
	syscall(SYS_getpgrp);
	if (round % 50 == 49) {
		struct timespec t = { 0, 3000000 };

		syscall(SYS_nanosleep, &t, NULL);
		++*slept;
	}
}

int main(int argc, char **argv)
{
	long rate, cpu, made = 0, slept = 0;
	int renames;
	cpu_set_t set;

	if (argc < 6)
		return 2;
	renames = !strcmp(argv[1], "renames");
	snprintf(own, sizeof(own), "%s/own", argv[2]);
	snprintf(none, sizeof(none), "%s/none", argv[2]);
	rate = atol(argv[3]);
	cpu = atol(argv[5]);
	if (cpu >= 0) {
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (sched_setaffinity(0, sizeof(set), &set))
			return 1;
	}
	snprintf(name, sizeof(name), "counted-%d", getpid());
	prctl(PR_SET_NAME, name);
	long long begun = now(CLOCK_REALTIME), began = now(CLOCK_MONOTONIC);
	for (long long at = began; at < began + (long long)(atof(argv[4]) * 1e9); at += 1000000) {
		struct timespec t = { at / 1000000000LL, at % 1000000000LL };
		/* Behind the rate that was asked for after a wait: then as many as are due. */
		long due = (at - began) / 1e9 * rate;

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		for (; made < due; made++)
			if (renames)
				syscall(SYS_rename, none, own);
			else
				all(made, &slept);
	}
	printf("pid=%d\ncomm=%s\nrounds=%ld\nslept=%ld\nbegan=%lld\nended=%lld\n", getpid(), name, made,
	       slept, begun, now(CLOCK_REALTIME));
	return 0;
}
