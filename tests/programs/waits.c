/*
 * Threads that wait in calls of few, many and wide arguments, until standard input is closed.
 * Prints their ids, NAME=ID, once all are about to.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static sem_t ready;
static int word, ends[2];

static void say(const char *name)
{
	printf("%s=%ld\n", name, syscall(SYS_gettid));
	sem_post(&ready);
}

static void *waits_in_pause(void *unused)
{
	say("pause");
	syscall(SYS_pause);
	return unused;
}

static void *waits_in_read(void *unused)
{
	static char buffer[4096];

	say("read");
	syscall(SYS_read, (long)ends[0], buffer, 4000L);
	return unused;
}

/* Of a wait the kernel looks at the first four arguments only. */
static void *waits_in_futex(void *unused)
{
	say("futex");
	syscall(SYS_futex, &word, (long)FUTEX_WAIT_PRIVATE, 0L, NULL, 0xfedcba9876543210UL, 0x8123456789abcdefUL);
	return unused;
}

int main(void)
{
	void *(*threads[])(void *) = { waits_in_pause, waits_in_read, waits_in_futex };
	pthread_t thread;
	char byte;

	if (pipe(ends) || sem_init(&ready, 0, 0))
		return 1;
	for (int i = 0; i < 3; i++) {
		if (pthread_create(&thread, NULL, threads[i], NULL))
			return 1;
		sem_wait(&ready);
	}
	printf("word=%lu\n", (unsigned long)&word);
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	_exit(0);
}
