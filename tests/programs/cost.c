// What a system call and a switch cost: three loops on one CPU, pinned.
// usage: cost CPU [AGE]    prints NAME_ns=<ns per operation> of the least disturbed of many short
//                          repetitions, which begin AGE seconds after its start
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { REPETITIONS = 45 };
static int ping[2], pong[2];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void getppid_once(void) { syscall(SYS_getppid); }

// A path of 40 characters that does not exist.
static void open_once(void) { open("/flightrec/no/such/path/of/40/characters", O_RDONLY); }

static void pipe_once(void) {
    char c = 0;
    if (write(ping[1], &c, 1) != 1 || read(pong[0], &c, 1) != 1) exit(1);
}

static void *echo(void *unused) {
    char c;
    while (read(ping[0], &c, 1) == 1 && write(pong[1], &c, 1) == 1) {}
    return unused;
}

static void measure(const char *name, void (*once)(void), int count) {
    double least = 1e18;
    for (int r = 0; r < REPETITIONS; r++) {
        double start = now();
        for (int i = 0; i < count; i++) once();
        double ns = (now() - start) / count;
        if (ns < least) least = ns;
    }
    printf("%s_ns=%.2f\n", name, least);
}

int main(int argc, char **argv) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(argc > 1 ? atoi(argv[1]) : 0, &set);
    if (sched_setaffinity(0, sizeof set, &set) || pipe(ping) || pipe(pong)) return 1;
    // Both threads, so that the machine's other work does not come between; without the right to
    // it, it does.
    struct sched_param first = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_FIFO, &first);
    if (argc > 2) usleep(atof(argv[2]) * 1e6);
    pthread_t thread;
    if (pthread_create(&thread, NULL, echo, NULL)) return 1;
    measure("getppid", getppid_once, 20000);
    measure("open", open_once, 4000);
    measure("pipe", pipe_once, 1200);
    return 0;
}
