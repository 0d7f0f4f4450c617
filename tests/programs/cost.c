// What a system call and a switch cost, and some more: loops on one CPU, pinned.
// usage: cost CPU [AGE]    prints NAME_ns=<ns per operation> of the least disturbed of many short
//                          repetitions, which begin AGE seconds after its start; NAME_ns=none of
//                          what this machine does not have
// With -DPUBLISH its threads publish for which span of a trace they work (OTEP 4947); with
// -DPUBLISH=2 the first one works for another one in each round of `pipe`.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
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

#ifdef PUBLISH
struct record {
    unsigned char trace[16];
    unsigned long span;
    unsigned char valid, flags;
    unsigned short attributes;
};

__thread struct record *volatile otel_thread_ctx_v1;

static __thread struct record record = {.trace = {1}, .span = 1, .valid = 1};

static void publish(void) { otel_thread_ctx_v1 = &record; }
#else
static void publish(void) {}
#endif

static void pipe_once(void) {
    char c = 0;
#if defined PUBLISH && PUBLISH == 2
    record.span++;
#endif
    if (write(ping[1], &c, 1) != 1 || read(pong[0], &c, 1) != 1) exit(1);
}

static void *echo(void *unused) {
    char c;
    publish();
    while (read(ping[0], &c, 1) == 1 && write(pong[1], &c, 1) == 1) {}
    return unused;
}

static void handle(int unused) { (void)unused; }

static void signal_once(void) { raise(SIGUSR1); }

static int listener;
static struct sockaddr_in address;

// 0: connections can be made here.
static int listen_here(void) {
    socklen_t length = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return listener < 0 || bind(listener, (struct sockaddr *)&address, length) ||
           listen(listener, 16) || getsockname(listener, (struct sockaddr *)&address, &length);
}

static void connection_once(void) {
    // Reset, so that no state of it lasts.
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) exit(1);
    int other = accept(listener, NULL, NULL);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
    close(other);
}

static int ring;
static unsigned *sq_tail, *sq_array, sq_mask, *cq_head;
static struct io_uring_sqe *sqes;

// 0: rings can be made here.
static int make_ring(void) {
    struct io_uring_params p = {0};
    ring = syscall(SYS_io_uring_setup, 4, &p);
    if (ring < 0) return 1;
    int prot = PROT_READ | PROT_WRITE, how = MAP_SHARED | MAP_POPULATE;
    char *sq = mmap(NULL, 4096, prot, how, ring, IORING_OFF_SQ_RING);
    char *cq = mmap(NULL, 4096, prot, how, ring, IORING_OFF_CQ_RING);
    sqes = mmap(NULL, 4096, prot, how, ring, IORING_OFF_SQES);
    if (sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED) return 1;
    sq_tail = (unsigned *)(sq + p.sq_off.tail);
    sq_mask = *(unsigned *)(sq + p.sq_off.ring_mask);
    sq_array = (unsigned *)(sq + p.sq_off.array);
    cq_head = (unsigned *)(cq + p.cq_off.head);
    return 0;
}

static void ring_once(void) {
    unsigned tail = *sq_tail, at = tail & sq_mask;
    memset(&sqes[at], 0, sizeof sqes[at]);
    sqes[at].opcode = IORING_OP_NOP;
    sq_array[at] = at;
    __atomic_store_n(sq_tail, tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1) exit(1);
    __atomic_store_n(cq_head, *cq_head + 1, __ATOMIC_RELEASE);
}

static int synced;

static int open_synced(void) {
    char path[] = "cost-XXXXXX";
    synced = mkstemp(path);
    return synced < 0 || unlink(path);
}

static void sync_once(void) {
    if (pwrite(synced, "0123456789abcdef", 16, 0) != 16 || fdatasync(synced)) exit(1);
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

// If it can be prepared.
static void measure_if(const char *name, int (*prepare)(void), void (*once)(void), int count) {
    if (prepare())
        printf("%s_ns=none\n", name);
    else
        measure(name, once, count);
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
    publish();
    pthread_t thread;
    if (pthread_create(&thread, NULL, echo, NULL)) return 1;
    measure("getppid", getppid_once, 20000);
    measure("open", open_once, 4000);
    measure("pipe", pipe_once, 1200);
    signal(SIGUSR1, handle);
    measure("signal", signal_once, 4000);
    measure_if("connection", listen_here, connection_once, 100);
    measure_if("ring", make_ring, ring_once, 4000);
    measure_if("sync", open_synced, sync_once, 5);
    return 0;
}
