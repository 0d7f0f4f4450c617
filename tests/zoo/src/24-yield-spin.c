// The request spins on a flag with sched_yield; "loader", which sets it, reads slowly (it sleeps).
#include "zoo.h"
static volatile int ready;
static void *loader(void *a) {
    name("loader");
    msleep(450);
    ready = 1;
    return 0;
}
__attribute__((noinline)) void wait_ready(void) {
    while (!ready)
        sched_yield();
}
int main(void) {
    zoo_init("24-yield-spin");
    name("engine");
    pthread_t t;
    truth("\"spinner_tid\":%d", (int)tid());
    pthread_create(&t, 0, loader, 0);
    req_begin();
    wait_ready();
    req_end();
    pthread_join(t, 0);
    zoo_done();
}
