/*
 * Many short-lived threads. `threads COUNT ROUNDS`: in each round COUNT threads are alive at the
 * same time, make two system calls each, and end. Prints pid and done, the threads made.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT_MAX 8192

static pthread_t threads[COUNT_MAX];
static pthread_barrier_t all_alive;

static void *live(void *unused)
{
	syscall(SYS_getppid);
	pthread_barrier_wait(&all_alive);
	syscall(SYS_sched_yield);
	return unused;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 0, rounds = argc > 2 ? atoi(argv[2]) : 1;
	pthread_attr_t small;
	long done = 0;

	if (count < 1 || count > COUNT_MAX || rounds < 1) {
		fprintf(stderr, "usage: threads COUNT ROUNDS, COUNT at most %d\n", COUNT_MAX);
		return 2;
	}
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	printf("pid=%d\n", getpid());
	for (int round = 0; round < rounds; round++) {
		pthread_barrier_init(&all_alive, NULL, (unsigned int)count);
		for (int i = 0; i < count; i++) {
			if (pthread_create(&threads[i], &small, live, NULL)) {
				perror("pthread_create");
				return 1;
			}
		}
		for (int i = 0; i < count; i++)
			pthread_join(threads[i], NULL);
		pthread_barrier_destroy(&all_alive);
		done += count;
	}
	printf("done=%ld\n", done);
	return 0;
}
