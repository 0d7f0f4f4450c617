/*
 * Pairs of threads that wake each other through two pipes.
 * `pingpong ROUNDS [PAIRS [PING_CPU PONG_CPU]]`: without CPUs the threads are not pinned.
 * Prints pid, pingI and pongI (thread ids of pair I) before the first round, `done` at the end.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pin.h"

struct player {
	pthread_t thread;
	int pair, is_pong, cpu, in, out;
	long tid;
};

static long rounds;
static pthread_barrier_t start;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *play(void *arg)
{
	struct player *me = arg;
	char byte = 'x', name[16];

	snprintf(name, sizeof(name), "%s%d", me->is_pong ? "pong" : "ping", me->pair);
	pthread_setname_np(pthread_self(), name);
	pin(me->cpu);
	me->tid = syscall(SYS_gettid);
	pthread_barrier_wait(&start); /* all ids are known */
	pthread_barrier_wait(&start); /* and printed */
	for (long i = 0; i < rounds; i++) {
		if (!me->is_pong && write(me->out, &byte, 1) != 1)
			die("write");
		if (read(me->in, &byte, 1) != 1)
			die("read");
		if (me->is_pong && write(me->out, &byte, 1) != 1)
			die("write");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	rounds = argc > 1 ? atol(argv[1]) : 1000;
	int pairs = argc > 2 ? atoi(argv[2]) : 1;
	int cpus[2] = { argc > 4 ? atoi(argv[3]) : -1, argc > 4 ? atoi(argv[4]) : -1 };

	if (rounds < 1 || pairs < 1 || pairs > 4096) {
		fprintf(stderr, "usage: pingpong ROUNDS [PAIRS [PING_CPU PONG_CPU]]\n");
		return 2;
	}
	struct player *players = calloc((size_t)pairs * 2, sizeof(*players));

	if (!players || pthread_barrier_init(&start, NULL, (unsigned int)pairs * 2 + 1))
		die("set-up");
	for (int i = 0; i < pairs; i++) {
		int to_pong[2], to_ping[2];

		if (pipe(to_pong) || pipe(to_ping))
			die("pipe");
		players[2 * i] = (struct player){ .pair = i, .cpu = cpus[0], .in = to_ping[0], .out = to_pong[1] };
		players[2 * i + 1] = (struct player){
			.pair = i, .is_pong = 1, .cpu = cpus[1], .in = to_pong[0], .out = to_ping[1]
		};
		for (int j = 2 * i; j < 2 * i + 2; j++)
			if (pthread_create(&players[j].thread, NULL, play, &players[j]))
				die("pthread_create");
	}
	pthread_barrier_wait(&start);
	printf("pid=%d\n", getpid());
	for (int i = 0; i < pairs; i++)
		printf("ping%d=%ld\npong%d=%ld\n", i, players[2 * i].tid, i, players[2 * i + 1].tid);
	fflush(stdout);
	pthread_barrier_wait(&start);
	for (int i = 0; i < 2 * pairs; i++)
		pthread_join(players[i].thread, NULL);
	printf("done=%ld\n", rounds);
	return 0;
}
