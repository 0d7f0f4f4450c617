// Calls functions in a known way, so that a test can compare the calls that are recorded:
//   functions graph          two threads, each twice: top(n, 2, 3, 4, 5, 6) -> middle(n) -> leaf(n, 1),
//                            leaf(n, 2); n is 7 in the first thread, 100 in the second
//   functions calls N        N calls of leaf
//   functions jump N         N calls of jumps, which leaves by longjmp; then one of top
//   functions wait           a call of leaf for each byte of standard input, up to its end
//   functions mark N         N passes of a mark, with arguments 42, -7 and i; prints how often
//                            somebody listened
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

NOINLINE long leaf(long a, long b) {
    __asm__ volatile("");
    return a * 10 + b;
}

NOINLINE long middle(long a) {
    long sum = leaf(a, 1);
    sum += leaf(a, 2);
    __asm__ volatile("");
    return sum;
}

NOINLINE long top(long a, long b, long c, long d, long e, long f) {
    __asm__ volatile("");
    getppid();
    return middle(a) + b + c + d + e + f;
}

static jmp_buf back;

NOINLINE void jumps(long a) {
    __asm__ volatile("" : : "r"(a));
    longjmp(back, 1);
}

static void *twice(void *n) {
    for (int i = 0; i < 2; i++)
        top((long)n, 2, 3, 4, 5, 6);
    return NULL;
}

static void graph(void) {
    pthread_t thread;
    twice((void *)7);
    if (pthread_create(&thread, NULL, twice, (void *)100) != 0)
        exit(1);
    pthread_join(thread, NULL);
}

// Where the mark's arguments are, as the machine's assembler writes it.
#ifdef __aarch64__
#define PLACES "-4@42 -4@%w0 8@%1 -4@%2"
#else
#define PLACES "-4@$42 -4@%k0 8@%1 -4@%2"
#endif

// The counter of listeners, and the mark, as <sys/sdt.h> makes them (version 3 of the note:
// address, base, semaphore; provider, name, arguments).
__attribute__((section(".probes"), used)) volatile unsigned short mark_semaphore;

NOINLINE void mark(long i) {
    int minus = -7;
    __asm__ volatile("990: nop\n"
                     ".pushsection .note.stapsdt,\"\",\"note\"\n"
                     ".balign 4\n"
                     ".4byte 992f-991f, 994f-993f, 3\n"
                     "991: .asciz \"stapsdt\"\n"
                     "992: .balign 4\n"
                     "993: .8byte 990b\n"
                     ".8byte 0\n"
                     ".8byte mark_semaphore\n"
                     ".asciz \"tests\"\n"
                     ".asciz \"passed\"\n"
                     ".asciz \"" PLACES "\"\n"
                     "994: .balign 4\n"
                     ".popsection\n"
                     :
                     : "r"(minus), "r"(i), "m"(minus));
}

static void waits(void) {
    char byte;
    puts("ready=1");
    fflush(stdout);
    while (read(0, &byte, 1) == 1)
        leaf(byte, 1);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    long n = argc > 2 ? atol(argv[2]) : 0;
    if (strcmp(what, "graph") == 0) {
        graph();
    } else if (strcmp(what, "calls") == 0) {
        for (long i = 0; i < n; i++)
            leaf(i, 1);
    } else if (strcmp(what, "jump") == 0) {
        for (volatile long i = 0; i < n; i++)
            if (setjmp(back) == 0)
                jumps(i);
        top(1, 2, 3, 4, 5, 6);
    } else if (strcmp(what, "wait") == 0) {
        waits();
    } else if (strcmp(what, "mark") == 0) {
        long listened = 0;
        for (long i = 0; i < n; i++) {
            listened += mark_semaphore != 0;
            mark(i);
        }
        printf("listened=%ld\n", listened);
    } else {
        fprintf(stderr, "usage: functions wait|graph|calls N|jump N|mark N\n");
        return 1;
    }
    return 0;
}
