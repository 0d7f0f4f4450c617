/*
 * Calls of known kinds and numbers: `counted RENAMES DIR RATE SECONDS CPU` makes RATE calls of
 * rename(2) a second, of files in DIR that are not there, on one CPU (-1: any). With `all` as its
 * first argument it makes rounds, RATE a second: DIR/own (there) opened, read by a byte and closed,
 * DIR/none (missing) opened, getpgrp; and each 50th sleeps 3 ms. Renames itself to `counted-PID`
 * first. Prints its id; and at its beginning, nine times between and at its end, when it is (ns
 * since 1970), how many rounds it has made and how many sleeps: `mark0=NS:ROUNDS:SLEEPS`. There
 * are 2 ms without any of these calls before and after each.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pin.h"

static long long now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static char own[256], none[256], name[32];

/* What was made so far. */
static void mark(int number, long made, long slept)
{
	usleep(2000);
	printf("mark%d=%lld:%ld:%ld\n", number, now(CLOCK_REALTIME), made, slept);
	usleep(2000);
}

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
	long rate, made = 0, slept = 0;
	double seconds;
	int renames, marks = 0;

	if (argc < 6)
		return 2;
	renames = !strcmp(argv[1], "renames");
	snprintf(own, sizeof(own), "%s/own", argv[2]);
	snprintf(none, sizeof(none), "%s/none", argv[2]);
	rate = atol(argv[3]);
	seconds = atof(argv[4]);
	pin(atoi(argv[5]));
	snprintf(name, sizeof(name), "counted-%d", getpid());
	prctl(PR_SET_NAME, name);
	printf("pid=%d\n", getpid());
	mark(marks++, made, slept);
	long long began = now(CLOCK_MONOTONIC);
	for (long long at = began; at < began + (long long)(seconds * 1e9); at += 1000000) {
		struct timespec t = { at / 1000000000LL, at % 1000000000LL };
		/* After the rate that was asked for after a wait: then as many as are due. */
		long due = (at - began) / 1e9 * rate;

		if (marks < 10 && at - began >= marks * seconds * 1e8)
			mark(marks++, made, slept);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		for (; made < due; made++)
			if (renames)
				syscall(SYS_rename, none, own);
			else
				all(made, &slept);
	}
	mark(marks, made, slept);
	printf("rounds=%ld\n", made);
	return 0;
}
