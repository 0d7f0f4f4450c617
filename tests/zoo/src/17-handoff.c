// The request goes through three threads: handed on by a condition variable, an eventfd and a
// semaphore; the last one, "signer", computes.
#include "zoo.h"
#include <semaphore.h>
#include <sys/eventfd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int ready, done, ev;
static sem_t sem;
__attribute__((noinline)) void sign_document(void) { burn(350); }
static void *router(void *a) {
    name("router");
    pthread_mutex_lock(&m);
    while (!ready)
        pthread_cond_wait(&c, &m);
    pthread_mutex_unlock(&m);
    uint64_t one = 1;
    if (write(ev, &one, 8) != 8)
        die("write");
    return 0;
}
static void *signer(void *a) {
    name("signer");
    truth("\"culprit_tid\":%d", (int)tid());
    uint64_t n;
    if (read(ev, &n, 8) != 8)
        die("read");
    sign_document();
    sem_post(&sem);
    return 0;
}
int main(void) {
    zoo_init("17-handoff");
    name("notary");
    ev = eventfd(0, 0);
    sem_init(&sem, 0, 0);
    pthread_t r, s;
    pthread_create(&r, 0, router, 0);
    pthread_create(&s, 0, signer, 0);
    msleep(50);
    req_begin();
    pthread_mutex_lock(&m);
    ready = 1;
    pthread_cond_signal(&c);
    pthread_mutex_unlock(&m);
    while (sem_wait(&sem))
        ;
    req_end();
    pthread_join(r, 0);
    pthread_join(s, 0);
    zoo_done();
}
