// The request spins in user space on a lock whose holder, "warmer", sleeps with it.
#include "zoo.h"
static volatile int lock;
static void *warmer(void *a) {
    name("warmer");
    lock = 1;
    msleep(450);
    lock = 0;
    return 0;
}
__attribute__((noinline)) void spin_lock(void) {
    while (lock)
        __builtin_ia32_pause();
}
int main(void) {
    zoo_init("45-user-spin");
    name("cachesrv");
    pthread_t t;
    pthread_create(&t, 0, warmer, 0);
    while (!lock)
        msleep(1);
    truth("\"spinner_tid\":%d", (int)tid());
    req_begin();
    spin_lock();
    req_end();
    pthread_join(t, 0);
    zoo_done();
}
