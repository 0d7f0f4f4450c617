// The request waits for a condition that was signalled before it waited: only its timeout of 600 ms
// ends the wait.
#include "zoo.h"
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static volatile int signalled;
static void *producer(void *a) {
    name("producer");
    pthread_cond_signal(&c);
    signalled = 1;
    msleep(700);
    return 0;
}
int main(void) {
    zoo_init("21-lost-wakeup");
    name("consumer");
    pthread_t t;
    pthread_create(&t, 0, producer, 0);
    while (!signalled)
        msleep(1);
    msleep(20);
    truth("\"timeout_ms\":600");
    req_begin();
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += 600000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    pthread_mutex_lock(&m);
    pthread_cond_timedwait(&c, &m, &at);
    pthread_mutex_unlock(&m);
    req_end();
    pthread_join(t, 0);
    zoo_done();
}
