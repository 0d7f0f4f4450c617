/*
 * Wakeups out of every context, by five loads one after the other, each for so many ms: `wakeups MS
 * FILE`. Sleeps and interval timers beside a spinning thread on each CPU (hard interrupts), fsync
 * of FILE (a block device's interrupts, and threads), one byte to and fro over TCP on the loopback
 * (softirqs), and through pipes (threads). Prints `LOAD=rounds` for each.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pin.h"

static long ms;
static const char *path;
static atomic_int spins;

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *hog(void *cpu)
{
	pin((int)(long)cpu);
	while (atomic_load(&spins))
		;
	return NULL;
}

/* With a thread on each CPU that never sleeps. */
static long beside_hogs(long (*load)(void))
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), rounds;
	pthread_t threads[cpus];

	atomic_store(&spins, 1);
	for (long i = 0; i < cpus; i++)
		pthread_create(&threads[i], NULL, hog, (void *)i);
	rounds = load();
	atomic_store(&spins, 0);
	for (long i = 0; i < cpus; i++)
		pthread_join(threads[i], NULL);
	return rounds;
}

static long sleeps(void)
{
	struct timespec t = { 0, 500000 };
	long n = 0, end = now_ms() + ms;

	for (; now_ms() < end; n++)
		nanosleep(&t, NULL);
	return n;
}

static void nothing(int signal)
{
	(void)signal;
}

static long timers(void)
{
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
	long n = 0, end = now_ms() + ms;

	signal(SIGALRM, nothing);
	setitimer(ITIMER_REAL, &often, NULL);
	for (; now_ms() < end; n++)
		pause();
	setitimer(ITIMER_REAL, &never, NULL);
	return n;
}

static long syncs(void)
{
	static char block[4096];
	long n = 0, end = now_ms() + ms;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0)
		die(path);
	for (; now_ms() < end; n++)
		if (pwrite(fd, block, sizeof block, 0) < 0 || fsync(fd))
			die(path);
	close(fd);
	unlink(path);
	return n;
}

/* One byte to and fro between two processes: `out` and `in` are this one's ends, the others the
 * child's. */
static long to_and_fro(int out, int in, int child_in, int child_out)
{
	long n = 0, end = now_ms() + ms;
	char byte = 'x';
	pid_t child = fork();

	if (child == 0) {
		close(out);
		if (in != out)
			close(in);
		while (read(child_in, &byte, 1) == 1 && write(child_out, &byte, 1) == 1)
			;
		_exit(0);
	}
	close(child_in);
	if (child_out != child_in)
		close(child_out);
	for (; now_ms() < end; n++)
		if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1)
			die("to and fro");
	close(out);
	if (in != out)
		close(in);
	waitpid(child, NULL, 0);
	return n;
}

static long tcp(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, here, there;

	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		die("listen");
	here = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(here, (struct sockaddr *)&address, length))
		die("connect");
	there = accept(listener, NULL, NULL);
	close(listener);
	setsockopt(here, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(there, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return to_and_fro(here, here, there, there);
}

static long pipes(void)
{
	int there[2], back[2];

	if (pipe(there) || pipe(back))
		die("pipe");
	return to_and_fro(there[1], back[0], there[0], back[1]);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	ms = atol(argv[1]);
	path = argv[2];
	printf("sleeps=%ld\n", beside_hogs(sleeps));
	printf("timers=%ld\n", beside_hogs(timers));
	printf("syncs=%ld\n", syncs());
	printf("tcp=%ld\n", tcp());
	printf("pipes=%ld\n", pipes());
	return 0;
}
