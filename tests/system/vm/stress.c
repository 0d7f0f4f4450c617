// stress CALLS: on each CPU a thread makes numbered calls, getpriority(0x5717, 1 … CALLS), while
// two of real-time priority preempt it, in the middle of whatever it is: one is woken by a timer
// (which a virtual machine may have only at its ticks), one by the calling thread of another CPU.
// The callers keep near one another, so that each is preempted all the time.
// Prints "cpu C tid T calls N" for each.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CPUS_MAX 64
#define CALL_TAG 0x5717 // no `which` of getpriority: the call fails at once
#define WAKE_EVERY 20
#define PAUSE_NS 50000
#define AHEAD 500 // calls that a caller may be ahead of the one that has it preempted

static long calls;
static int cpus;
static atomic_int done;
static int wake[CPUS_MAX]; // eventfds of the threads that preempt
static atomic_long made[CPUS_MAX];

struct thread {
    pthread_t id;
    int cpu;
    long tid;
};

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void run_on(int cpu) {
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set))
        die("sched_setaffinity");
}

static void *call(void *argument) {
    struct thread *self = argument;
    int before = (self->cpu + cpus - 1) % cpus;

    run_on(self->cpu);
    self->tid = syscall(SYS_gettid);
    for (long i = 1; i <= calls; i++) {
        // Without a call: a yield would look as if it were preempted.
        while (i > atomic_load(&made[before]) + AHEAD)
            ;
        syscall(SYS_getpriority, CALL_TAG, i);
        atomic_store(&made[self->cpu], i);
        if (i % WAKE_EVERY == 0 && eventfd_write(wake[(self->cpu + 1) % cpus], 1))
            die("eventfd_write");
    }
    return NULL;
}

static void run_first(int cpu) {
    struct sched_param priority = { .sched_priority = 50 };

    run_on(cpu);
    if (sched_setscheduler(0, SCHED_FIFO, &priority))
        die("sched_setscheduler");
}

static void *preempt_by_timer(void *argument) {
    struct thread *self = argument;
    struct timespec pause = { .tv_nsec = PAUSE_NS };

    run_first(self->cpu);
    while (!atomic_load(&done))
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    return NULL;
}

static void *preempt(void *argument) {
    struct thread *self = argument;
    eventfd_t wakes;

    run_first(self->cpu);
    while (!atomic_load(&done))
        if (eventfd_read(wake[self->cpu], &wakes))
            die("eventfd_read");
    return NULL;
}

int main(int argc, char **argv) {
    static struct thread callers[CPUS_MAX], others[CPUS_MAX], timers[CPUS_MAX];

    cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    calls = argc == 2 ? atol(argv[1]) : 0;
    if (calls < 1 || cpus < 1 || cpus > CPUS_MAX) {
        fprintf(stderr, "usage: stress CALLS, on at most %d CPUs\n", CPUS_MAX);
        return 2;
    }
    for (int cpu = 0; cpu < cpus; cpu++) {
        wake[cpu] = eventfd(0, 0);
        callers[cpu].cpu = others[cpu].cpu = timers[cpu].cpu = cpu;
        if (wake[cpu] < 0 || pthread_create(&others[cpu].id, NULL, preempt, &others[cpu]) ||
            pthread_create(&timers[cpu].id, NULL, preempt_by_timer, &timers[cpu]))
            die("eventfd, pthread_create");
    }
    for (int cpu = 0; cpu < cpus; cpu++)
        if (pthread_create(&callers[cpu].id, NULL, call, &callers[cpu]))
            die("pthread_create");
    for (int cpu = 0; cpu < cpus; cpu++) {
        pthread_join(callers[cpu].id, NULL);
        printf("cpu %d tid %ld calls %ld\n", cpu, callers[cpu].tid, calls);
    }
    atomic_store(&done, 1);
    for (int cpu = 0; cpu < cpus; cpu++) {
        eventfd_write(wake[cpu], 1);
        pthread_join(others[cpu].id, NULL);
        pthread_join(timers[cpu].id, NULL);
    }
    return 0;
}
